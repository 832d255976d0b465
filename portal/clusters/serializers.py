"""Shapes of clusters and hosts in the API."""

from typing import Any

from rest_framework import serializers

from portal.clusters.models import HostState


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
