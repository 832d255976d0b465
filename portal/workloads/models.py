"""Workloads, their attempts, the GPUs they hold, their logs and what happened to them."""

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.contrib.postgres.indexes import GistIndex, OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper

from portal.clusters.models import Cluster, Host
from portal.projects.models import Project


class WorkloadState(models.TextChoices):
    PENDING = "pending", "Pending"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"
    TIMED_OUT = "timed_out", "Timed out"
    PREEMPTED = "preempted", "Preempted"
    HOST_FAILED = "host_failed", "Host failed"


class Workload(models.Model):
    """What a person submits. `pending` until its gang runs; requeued ones are pending again, first submit time kept."""

    # No index of their own where one below begins with the column: a pass rewrites every one of a row's indexes.
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="workloads", db_index=False)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="workloads", db_index=False
    )
    clusters = models.ManyToManyField(Cluster, related_name="workloads")
    name = models.CharField(max_length=200)
    command = models.JSONField(default=list)
    script = models.TextField(blank=True)
    environment = models.JSONField(default=dict)
    replicas = models.PositiveIntegerField()
    gpus_per_replica = models.PositiveIntegerField()
    min_runtime_seconds = models.PositiveIntegerField()
    timeout_seconds = models.PositiveIntegerField(null=True, blank=True)
    resumable = models.BooleanField(default=True)
    allow_unallocated = models.BooleanField(default=True)
    priority = models.SmallIntegerField(default=0)
    state = models.CharField(max_length=12, choices=WorkloadState.choices, default=WorkloadState.PENDING)
    submitted_at = models.DateTimeField()
    queued_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancelled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    reason_code = models.CharField(max_length=40, default="not_yet_considered")
    reason_text = models.CharField(max_length=1000, default="Not yet considered.")
    reason = models.JSONField(default=dict)
    idempotency_key = models.CharField(max_length=200, null=True, blank=True)
    idempotency_digest = models.CharField(max_length=64, blank=True)
    is_demonstration = models.BooleanField(default=False)

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(
                fields=["submitted_at", "id"], name="workload_pending", condition=Q(state=WorkloadState.PENDING)
            ),
            models.Index(fields=["project", "-id"], name="workload_by_project"),
            models.Index(fields=["author", "-id"], name="workload_by_author"),
            models.Index(fields=["state", "-id"], name="workload_by_state"),
            models.Index(fields=["ended_at"], name="workload_ended", condition=Q(ended_at__isnull=False)),
            # The start of a name. An index of its trigrams, for its middle, makes a pass's writes seven times slower.
            models.Index(OpClass(Upper("name"), name="text_pattern_ops"), name="workload_by_name_start"),
            # Whose a gang is and how large, for ranges over all attempts, without a look at the row.
            models.Index(fields=["id"], include=["project", "replicas", "gpus_per_replica"], name="workload_gang"),
            models.Index(
                fields=["cancelled_by"], name="workload_by_canceller", condition=Q(cancelled_by__isnull=False)
            ),
        )
        constraints = (
            models.UniqueConstraint(
                fields=["author", "idempotency_key"],
                name="workload_idempotency_key_once",
                condition=Q(idempotency_key__isnull=False),
            ),
            models.CheckConstraint(condition=Q(state__in=WorkloadState.values), name="workload_state_known"),
            models.CheckConstraint(
                condition=Q(replicas__gte=1, gpus_per_replica__gte=1), name="workload_asks_for_a_gpu"
            ),
            models.CheckConstraint(
                condition=Q(timeout_seconds__isnull=True) | Q(timeout_seconds__gte=F("min_runtime_seconds")),
                name="workload_timeout_not_below_min_runtime",
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, state__in=["pending", "running"])
                | Q(ended_at__isnull=False) & ~Q(state__in=["pending", "running"]),
                name="workload_ended_exactly_when_final",
            ),
        )

    def __str__(self) -> str:
        return f"{self.pk} {self.name}"

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.replicas * self.gpus_per_replica


class AttemptState(models.TextChoices):
    ASSIGNED = "assigned", "Assigned"
    RUNNING = "running", "Running"
    STOPPING = "stopping", "Stopping"
    ENDED = "ended", "Ended"


class Standing(models.TextChoices):
    PROTECTED = "protected", "Protected"
    FUNDED = "funded", "Funded"
    UNALLOCATED = "unallocated", "Unallocated"
    STOPPING = "stopping", "Stopping"
    REFUNDED = "refunded", "Refunded"


CHARGED_STANDINGS = (Standing.PROTECTED, Standing.FUNDED)


class Outcome(models.TextChoices):
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"
    TIMED_OUT = "timed_out", "Timed out"
    PREEMPTED = "preempted", "Preempted"
    HOST_FAILED = "host_failed", "Host failed"
    START_FAILED = "start_failed", "Failed to start"


class Attempt(models.Model):
    """One run of a workload on hosts; the moments of its life, in order, each null until it comes.

    queued_at (its wait began) <= decided_at <= assigned_at (all its GPUs are free and its: segments start)
    <= running_at (the whole gang runs: the minimum runtime starts) <= stopping_at (told to stop) <= ended_at.
    `assigned` with `assigned_at` null is *held for*: GPUs are being emptied for it.
    """

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="attempts", db_index=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=AttemptState.choices, default=AttemptState.ASSIGNED)
    standing = models.CharField(max_length=12, choices=Standing.choices)
    lapsed = models.BooleanField(default=False)
    express = models.BooleanField(default=False)
    min_runtime_seconds = models.PositiveIntegerField()
    queued_at = models.DateTimeField()
    decided_at = models.DateTimeField()
    assigned_at = models.DateTimeField(null=True, blank=True)
    running_at = models.DateTimeField(null=True, blank=True)
    stopping_at = models.DateTimeField(null=True, blank=True)
    stop_grace_seconds = models.PositiveIntegerField(default=0)
    stop_cause = models.CharField(max_length=12, choices=Outcome.choices, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    checkpointed_at = models.DateTimeField(null=True, blank=True)
    taker = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="victims", db_index=False
    )
    reason_code = models.CharField(max_length=40, blank=True)
    reason_text = models.CharField(max_length=1000, blank=True)
    reason = models.JSONField(default=dict)

    class Meta:
        ordering = ("workload", "number")
        indexes = (
            models.Index(fields=["cluster", "id"], name="attempt_active", condition=~Q(state="ended")),
            models.Index(
                fields=["cluster", "ended_at"],
                include=["queued_at", "assigned_at", "min_runtime_seconds", "workload", "number"],
                name="attempt_in_window",
            ),
            models.Index(fields=["taker"], name="attempt_by_taker", condition=Q(taker__isnull=False)),
        )
        constraints = (
            models.UniqueConstraint(fields=["workload", "number"], name="attempt_number_once"),
            models.UniqueConstraint(
                fields=["workload"], condition=~Q(state="ended"), name="attempt_one_active_per_workload"
            ),
            models.CheckConstraint(condition=Q(state__in=AttemptState.values), name="attempt_state_known"),
            models.CheckConstraint(condition=Q(standing__in=Standing.values), name="attempt_standing_known"),
            models.CheckConstraint(
                condition=Q(state="ended", ended_at__isnull=False) & ~Q(outcome="")
                | ~Q(state="ended") & Q(ended_at__isnull=True, outcome=""),
                name="attempt_ended_exactly_with_an_outcome",
            ),
            models.CheckConstraint(
                condition=Q(running_at__isnull=True) | Q(assigned_at__isnull=False, running_at__gte=F("assigned_at")),
                name="attempt_runs_after_it_is_assigned",
            ),
        )

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.workload_id}"


class GpuClaim(models.Model):
    """One GPU of a host that an attempt holds: `held` while it is emptied for it, `occupied` from then on."""

    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="claims", db_index=False)
    replica = models.PositiveIntegerField()
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="claims")
    gpu_index = models.PositiveIntegerField()
    held = DateTimeRangeField(null=True, blank=True)
    occupied = DateTimeRangeField(null=True, blank=True)

    class Meta:
        ordering = ("attempt", "replica", "gpu_index")
        indexes = (GistIndex(fields=["held"], name="gpu_held_in_window", condition=Q(held__isnull=False)),)
        constraints = (
            models.UniqueConstraint(fields=["attempt", "host", "gpu_index"], name="gpu_claim_once_per_attempt"),
            ExclusionConstraint(
                name="gpu_in_one_attempt_at_a_time",
                expressions=[
                    ("host", RangeOperators.EQUAL),
                    ("gpu_index", RangeOperators.EQUAL),
                    ("occupied", RangeOperators.OVERLAPS),
                ],
                condition=Q(occupied__isnull=False),
            ),
            ExclusionConstraint(
                name="gpu_held_for_one_attempt_at_a_time",
                expressions=[
                    ("host", RangeOperators.EQUAL),
                    ("gpu_index", RangeOperators.EQUAL),
                    ("held", RangeOperators.OVERLAPS),
                ],
                condition=Q(held__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return f"{self.host}:{self.gpu_index}"


class ReplicaStatus(models.Model):
    """What the hosts last said of one replica of an attempt. `freed_at`: its processes are gone, its GPUs free."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="replica_statuses")
    replica = models.PositiveIntegerField()
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="+")
    running_at = models.DateTimeField(null=True, blank=True)
    freed_at = models.DateTimeField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    detail = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["attempt", "replica"], name="replica_status_once"),)

    def __str__(self) -> str:
        return f"replica {self.replica} of attempt {self.attempt_id}"


class LogChunk(models.Model):
    """A stretch of a replica's output, keyed by attempt, replica and offset: the same chunk twice is one row."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="log_chunks")
    replica = models.PositiveIntegerField()
    offset = models.BigIntegerField()
    data = models.BinaryField()
    received_at = models.DateTimeField()

    class Meta:
        ordering = ("attempt", "replica", "offset")
        constraints = (models.UniqueConstraint(fields=["attempt", "replica", "offset"], name="log_chunk_once"),)

    def __str__(self) -> str:
        return f"output of attempt {self.attempt_id}, replica {self.replica}, from {self.offset}"


class WorkloadEvent(models.Model):
    """A workload's timeline: every decision about it and everything that happened, with its reason. Append-only."""

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="events", db_index=False)
    attempt = models.ForeignKey(Attempt, null=True, on_delete=models.PROTECT, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=30)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    code = models.CharField(max_length=40, blank=True)
    text = models.CharField(max_length=1000, blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ("id",)
        indexes = (
            models.Index(fields=["workload", "id"], name="workload_timeline"),
            models.Index(fields=["actor"], name="event_by_actor", condition=Q(actor__isnull=False)),
        )

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:%F %T}"
