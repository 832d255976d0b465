"""Passes rewrite reasons and standings of rows in place: room on their pages keeps that off the indexes."""

from django.db import migrations

TABLES = ("workloads_workload", "workloads_attempt", "workloads_gpuclaim", "scheduling_balance")


class Migration(migrations.Migration):
    dependencies = (("scheduling", "0001_initial"), ("workloads", "0001_initial"))
    operations = tuple(
        migrations.RunSQL(
            f"ALTER TABLE {table} SET (fillfactor = 70)",
            f"ALTER TABLE {table} RESET (fillfactor)",
        )
        for table in TABLES
    )
