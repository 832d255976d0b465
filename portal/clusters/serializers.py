"""Shapes of clusters and hosts in the API."""

from typing import Any

from rest_framework import serializers

from portal.clusters.models import HostState
from portal.common.serializers import StrictSerializer, TextField, WholeField

VERSION_MAX = 2**31 - 1


class ClusterSerializer(serializers.Serializer[Any]):
    """A cluster, its GPUs and the policy in force (version 0: the defaults)."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    description = serializers.CharField()
    engine = serializers.CharField()
    created_at = serializers.DateTimeField()
    paused_at = serializers.DateTimeField(allow_null=True)
    hosts = serializers.IntegerField()
    installed_gpus = serializers.IntegerField()
    schedulable_gpus = serializers.IntegerField()
    policy = serializers.DictField()
    policy_version = serializers.IntegerField()
    version = serializers.IntegerField(help_text="Counts changes of its description: what an edit is based on.")


class ClusterCreateSerializer(StrictSerializer):
    """A new cluster, with the default policy."""

    name = TextField(help_text="Letters, digits, - and _.")
    description = TextField(required=False, allow_blank=True, default="")


class ClusterChangeSerializer(StrictSerializer):
    """What is said of it. Its name stays."""

    description = TextField(allow_blank=True)
    base_version = WholeField(low=0, high=VERSION_MAX, required=False, help_text="The version that you looked at.")


class PolicyChangeSerializer(StrictSerializer):
    """What its policy says beside the defaults, all of it: a setting that is left out has its default again."""

    overrides = serializers.DictField(help_text="Settings by name, as `policy` of a cluster lists them.")
    reason = TextField()
    base_version = WholeField(low=0, high=VERSION_MAX, help_text="The `policy_version` that you looked at.")


class HostSerializer(serializers.Serializer[Any]):
    """A host and what its GPUs are at. Free: neither occupied nor held, on a host that takes new attempts.

    `empty_at`: when it would be empty if it took no new attempts from now on, the latest end of protection on it; null
    where nothing runs. `ready_at`: since when a host that was taken out is empty, so that it can be repaired.
    """

    id = serializers.IntegerField()
    name = serializers.CharField()
    cluster = serializers.CharField()
    state = serializers.ChoiceField(choices=HostState.choices)
    state_cause = serializers.CharField()
    gpus = serializers.IntegerField()
    occupied_gpus = serializers.IntegerField()
    held_gpus = serializers.IntegerField()
    free_gpus = serializers.IntegerField()
    gpu_model = serializers.CharField()
    simulated = serializers.BooleanField()
    separates_users = serializers.BooleanField()
    topology_block = serializers.CharField()
    cordoned_at = serializers.DateTimeField(allow_null=True)
    cordon_reason = serializers.CharField()
    empty_at = serializers.DateTimeField(allow_null=True)
    ready_at = serializers.DateTimeField(allow_null=True)
    last_heard_at = serializers.DateTimeField(allow_null=True)
    agent_version = serializers.CharField()
