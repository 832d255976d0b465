"""Shapes of workloads in the API."""

from typing import Any

from rest_framework import serializers

from portal.common.serializers import StrictSerializer, TextField, WholeField, YesNoField
from portal.common.units import DURATION_MAX_SECONDS
from portal.workloads.models import AttemptState, Outcome, Standing, WorkloadState
from portal.workloads.validation import (
    GPUS_PER_REPLICA_MAX,
    NAME_LENGTH_MAX,
    PRIORITY_LEAST,
    PRIORITY_MOST,
    REPLICAS_MAX,
)


class SubmissionSerializer(StrictSerializer):
    """What a person submits. Give `command` (argv) or `script`."""

    project = TextField(help_text="The project's path, such as lab/nlp.")
    clusters = serializers.ListField(child=TextField(), required=False, help_text="Names; none: any that can take it.")
    name = TextField(required=False, allow_blank=True, help_text=f"Up to {NAME_LENGTH_MAX} characters.")
    command = serializers.ListField(child=TextField(allow_blank=True, trim_whitespace=False), required=False)
    script = TextField(required=False, allow_blank=True, trim_whitespace=False)
    replicas = WholeField(low=1, high=REPLICAS_MAX, required=False)
    gpus_per_replica = WholeField(low=1, high=GPUS_PER_REPLICA_MAX, required=False)
    min_runtime_seconds = WholeField(low=0, high=DURATION_MAX_SECONDS, required=False)
    timeout_seconds = WholeField(low=1, high=DURATION_MAX_SECONDS, required=False, allow_null=True)
    resumable = YesNoField(required=False)
    allow_unallocated = YesNoField(required=False)
    priority = WholeField(
        low=PRIORITY_LEAST,
        high=PRIORITY_MOST,
        required=False,
        help_text="Orders work inside its project and nowhere else.",
    )
    environment = serializers.DictField(child=TextField(allow_blank=True, trim_whitespace=False), required=False)


class ReasonSerializer(serializers.Serializer[Any]):
    """Why: a code, a sentence, and numbers that depend on the code."""

    code = serializers.CharField()
    text = serializers.CharField()


class QueueSerializer(serializers.Serializer[Any]):
    """A pending workload's place, as the last pass saw it."""

    position = serializers.IntegerField(allow_null=True)
    gpus_ahead = serializers.IntegerField(allow_null=True)


class AttemptHostSerializer(serializers.Serializer[Any]):
    """The GPUs of one host that a replica of an attempt has or had."""

    replica = serializers.IntegerField()
    host = serializers.CharField()
    gpus = serializers.ListField(child=serializers.IntegerField())


class AttemptSerializer(serializers.Serializer[Any]):
    """One run of a workload on hosts."""

    number = serializers.IntegerField()
    cluster = serializers.CharField()
    state = serializers.ChoiceField(choices=AttemptState.choices)
    standing = serializers.ChoiceField(choices=Standing.choices)
    standing_before_stopping = serializers.ChoiceField(
        choices=Standing.choices, allow_null=True, help_text="How it stood until it was told to stop; null: not told."
    )
    express = serializers.BooleanField()
    min_runtime_seconds = serializers.IntegerField()
    queued_at = serializers.DateTimeField()
    decided_at = serializers.DateTimeField()
    assigned_at = serializers.DateTimeField(allow_null=True)
    running_at = serializers.DateTimeField(allow_null=True)
    protected_until = serializers.DateTimeField(allow_null=True)
    stopping_at = serializers.DateTimeField(allow_null=True)
    stop_cause = serializers.CharField()
    ended_at = serializers.DateTimeField(allow_null=True)
    outcome = serializers.ChoiceField(choices=[*Outcome.choices, ("", "Not ended")])
    exit_code = serializers.IntegerField(allow_null=True)
    reason = ReasonSerializer()
    hosts = AttemptHostSerializer(many=True)


class WorkloadRowSerializer(serializers.Serializer[Any]):
    """A workload in a list."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    project = serializers.CharField()
    author = serializers.CharField()
    clusters = serializers.ListField(child=serializers.CharField())
    replicas = serializers.IntegerField()
    gpus_per_replica = serializers.IntegerField()
    gpus = serializers.IntegerField()
    min_runtime_seconds = serializers.IntegerField()
    timeout_seconds = serializers.IntegerField(allow_null=True)
    resumable = serializers.BooleanField()
    allow_unallocated = serializers.BooleanField()
    priority = serializers.IntegerField(help_text="Orders work inside its project and nowhere else.")
    state = serializers.ChoiceField(choices=WorkloadState.choices)
    submitted_at = serializers.DateTimeField()
    queued_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    cancel_requested_at = serializers.DateTimeField(allow_null=True)
    is_demonstration = serializers.BooleanField()
    reason = ReasonSerializer()
    queue = QueueSerializer(allow_null=True, help_text="null unless pending.")
    attempts = AttemptSerializer(many=True)
    charged_gpu_seconds = serializers.IntegerField(help_text="Up to now.")


class WorkloadSerializer(WorkloadRowSerializer):
    """A workload with what it runs."""

    command = serializers.ListField(child=serializers.CharField())
    script = serializers.CharField()
    environment = serializers.DictField(
        child=serializers.CharField(), allow_null=True, help_text="null: only its author and administrators see it."
    )
