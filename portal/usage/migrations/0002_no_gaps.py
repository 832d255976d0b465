"""Segments of an attempt leave no gap on a host: checked when the transaction commits."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION usage_segment_no_gap() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE gap timestamptz;
BEGIN
    SELECT start_at INTO gap FROM (
        SELECT start_at, lag(end_at) OVER (ORDER BY start_at) AS before, lag(id) OVER (ORDER BY start_at) AS earlier
        FROM usage_segment WHERE attempt_id = NEW.attempt_id AND host_id = NEW.host_id
    ) AS ordered WHERE earlier IS NOT NULL AND before IS DISTINCT FROM start_at LIMIT 1;
    IF gap IS NOT NULL THEN
        RAISE EXCEPTION 'attempt % has a gap before %', NEW.attempt_id, gap
            USING ERRCODE = 'check_violation', CONSTRAINT = 'segments_leave_no_gap';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER usage_segment_gap AFTER INSERT OR UPDATE ON usage_segment
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION usage_segment_no_gap();
ALTER TABLE usage_segment ADD CONSTRAINT segment_in_whole_seconds CHECK (
    extract(microseconds FROM start_at)::bigint % 1000000 = 0
    AND (end_at IS NULL OR extract(microseconds FROM end_at)::bigint % 1000000 = 0)
);
"""
BACKWARD = """
ALTER TABLE usage_segment DROP CONSTRAINT segment_in_whole_seconds;
DROP TRIGGER usage_segment_gap ON usage_segment;
DROP FUNCTION usage_segment_no_gap();
"""


class Migration(migrations.Migration):
    dependencies = (("usage", "0001_initial"),)
    operations = (migrations.RunSQL(FORWARD, BACKWARD),)
