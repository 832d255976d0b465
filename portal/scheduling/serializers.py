"""Shapes of budgets in the API."""

from typing import Any

from rest_framework import serializers


class BudgetSerializer(serializers.Serializer[Any]):
    """A project's budget on a cluster, in every unit, and its balance at the last pass.

    A balance above 0 means under-served (it used less than its quota), below 0 over-served.
    """

    cluster = serializers.CharField()
    project = serializers.CharField()
    name = serializers.CharField()
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # the base has an attribute so named
    share_ppm = serializers.IntegerField(help_text="Parts per million of the parent's share, as stored.")
    percent_of_parent = serializers.FloatField()
    percent_of_cluster = serializers.FloatField()
    cluster_gpus = serializers.IntegerField(help_text="GPUs installed in the cluster.")
    gpus = serializers.FloatField(help_text="The share of cluster_gpus, rounded down to hundredths.")
    gpu_hours_per_week = serializers.FloatField()
    gpu_seconds_per_week = serializers.IntegerField()
    own_percent_of_cluster = serializers.FloatField(help_text="The part that it gives to no child: its own work's.")
    own_gpus = serializers.FloatField()
    own_gpu_hours_per_week = serializers.FloatField()
    own_gpu_seconds_per_week = serializers.IntegerField()
    burst_gpus = serializers.IntegerField(allow_null=True, help_text="Most GPUs at once; null: no cap.")
    change_version = serializers.IntegerField(help_text="The change of the level that granted it.")
    level_version = serializers.IntegerField(help_text="The newest version of the level: what an edit is based on.")
    effective_at = serializers.DateTimeField()
    quota_gpu_seconds = serializers.IntegerField(allow_null=True, help_text="null: no pass has looked yet.")
    used_gpu_seconds = serializers.IntegerField(allow_null=True)
    balance = serializers.FloatField(allow_null=True, help_text="(quota - used) / quota; null: no quota.")
    balance_at = serializers.DateTimeField(allow_null=True)
    standing = serializers.CharField(allow_null=True, help_text="under-served, over-served, on its share or no budget.")
