"""Packed days, and the triggers that drop a day in the transaction that changes one of its rows."""

import django.db.models.deletion
from django.db import migrations, models

# Writers of a day's rows share its lock to the end of their transaction: who packs the day takes it alone first.
DROP = """
CREATE FUNCTION usage_day_lock(kind text, cluster bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS
    'SELECT hashtext(''usage_ledgerday '' || kind || '' '' || cluster)';
CREATE FUNCTION usage_days_forget(kind_changed text, clusters bigint[], days date[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(usage_day_lock(kind_changed, cluster), day - date '2000-01-01')
        FROM unnest(clusters, days) AS changed(cluster, day);
    DELETE FROM usage_ledgerday d USING unnest(clusters, days) AS changed(cluster, day)
        WHERE d.cluster_id = changed.cluster AND d.kind = kind_changed AND d.day = changed.day;
END $$;
"""
FORGET = """
CREATE FUNCTION usage_{kind}_forget() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE clusters bigint[]; days date[];
BEGIN
    SELECT array_agg(cluster_id), array_agg(day) INTO clusters, days FROM (
        SELECT DISTINCT cluster_id, ({end} AT TIME ZONE 'UTC')::date AS day FROM changed WHERE {end} IS NOT NULL
    ) AS ended;
    IF days IS NOT NULL THEN PERFORM usage_days_forget('{kind}', clusters, days); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_{kind}_inserted AFTER INSERT ON {table} REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION usage_{kind}_forget();
CREATE TRIGGER usage_{kind}_deleted AFTER DELETE ON {table} REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION usage_{kind}_forget();
CREATE TRIGGER usage_{kind}_before AFTER UPDATE ON {table} REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION usage_{kind}_forget();
CREATE TRIGGER usage_{kind}_after AFTER UPDATE ON {table} REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION usage_{kind}_forget();
"""
KEEP = """
DROP TRIGGER usage_{kind}_inserted ON {table};
DROP TRIGGER usage_{kind}_deleted ON {table};
DROP TRIGGER usage_{kind}_before ON {table};
DROP TRIGGER usage_{kind}_after ON {table};
DROP FUNCTION usage_{kind}_forget();
"""
# What an attempt's row does not say stands in its workload's: whose it is, and how large.
GANG = """
CREATE FUNCTION usage_gang_forget() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE clusters bigint[]; days date[];
BEGIN
    SELECT array_agg(cluster_id), array_agg(day) INTO clusters, days FROM (
        SELECT DISTINCT cluster_id, (ended_at AT TIME ZONE 'UTC')::date AS day FROM workloads_attempt
        WHERE workload_id = NEW.id AND ended_at IS NOT NULL
    ) AS ended;
    IF days IS NOT NULL THEN PERFORM usage_days_forget('attempts', clusters, days); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_gang_changed AFTER UPDATE ON workloads_workload FOR EACH ROW
    WHEN (OLD.project_id <> NEW.project_id OR OLD.replicas <> NEW.replicas
          OR OLD.gpus_per_replica <> NEW.gpus_per_replica)
    EXECUTE FUNCTION usage_gang_forget();
"""
NO_GANG = "DROP TRIGGER usage_gang_changed ON workloads_workload; DROP FUNCTION usage_gang_forget();"
NO_DROP = "DROP FUNCTION usage_days_forget(text, bigint[], date[]); DROP FUNCTION usage_day_lock(text, bigint);"
SEGMENTS = {"kind": "segments", "table": "usage_segment", "end": "end_at"}
ATTEMPTS = {"kind": "attempts", "table": "workloads_attempt", "end": "ended_at"}


class Migration(migrations.Migration):
    dependencies = (
        ("clusters", "0003_host_silent_at"),
        ("usage", "0003_fewer_indexes"),
        ("workloads", "0005_name_by_its_start"),
    )
    operations = (
        migrations.CreateModel(
            name="LedgerDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(choices=[("segments", "Segments"), ("attempts", "Attempts")], max_length=10),
                ),
                ("day", models.DateField()),
                ("first_at", models.DateTimeField(null=True)),
                ("rows", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="clusters.cluster",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("cluster", "kind", "day"), name="ledger_day_once")],
            },
        ),
        # The bytes are narrow already: to compress them would cost more time than it saves.
        migrations.RunSQL("ALTER TABLE usage_ledgerday ALTER COLUMN data SET STORAGE EXTERNAL", migrations.RunSQL.noop),
        migrations.RunSQL(DROP, NO_DROP),
        migrations.RunSQL(FORGET.format(**SEGMENTS), KEEP.format(**SEGMENTS)),
        migrations.RunSQL(FORGET.format(**ATTEMPTS), KEEP.format(**ATTEMPTS)),
        migrations.RunSQL(GANG, NO_GANG),
    )
