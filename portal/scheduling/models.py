"""Passes: when the scheduler looked, what it did, how long it took; and the reservations that they keep."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from portal.clusters.models import Cluster
from portal.projects.models import Project
from portal.workloads.models import Workload


class Pass(models.Model):
    """One pass over a cluster at `now_at`, the moment it decided for; `error` is what stopped it, if anything."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="passes")
    now_at = models.DateTimeField()
    pending = models.PositiveIntegerField(default=0)
    active = models.PositiveIntegerField(default=0)
    starts = models.PositiveIntegerField(default=0)
    preempts = models.PositiveIntegerField(default=0)
    lapses = models.PositiveIntegerField(default=0)
    returns = models.PositiveIntegerField(default=0)
    stale = models.PositiveIntegerField(default=0)
    snapshot_ms = models.PositiveIntegerField(default=0)
    decide_ms = models.PositiveIntegerField(default=0)
    apply_ms = models.PositiveIntegerField(default=0)
    clock_step_back_seconds = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=1000, blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=["cluster", "-id"], name="pass_newest"),)

    def __str__(self) -> str:
        return f"pass over {self.cluster} at {self.now_at:%F %T}"


class Balance(models.Model):
    """A project's quota and usage in a cluster at the last pass, for pages; the ledger never reads them back."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="balances")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="balances")
    at = models.DateTimeField()
    quota_gpu_seconds = models.BigIntegerField()
    usage_gpu_seconds = models.BigIntegerField()
    share_ppb = models.BigIntegerField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["cluster", "project"], name="balance_latest_once"),)

    def __str__(self) -> str:
        return f"{self.project} on {self.cluster}"


class BalanceSample(models.Model):
    """Balances as they stood at the top of each hour, for charts over time."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="balance_samples")
    at = models.DateTimeField()
    quota_gpu_seconds = models.BigIntegerField()
    usage_gpu_seconds = models.BigIntegerField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["cluster", "project", "at"], name="balance_sample_once"),)

    def __str__(self) -> str:
        return f"{self.project} on {self.cluster} at {self.at:%F %T}"


class ReportsProbe(models.Model):
    """The portal's own message through the reports' queue: what its last passage through broker and receiver proves.

    All that hosts had pushed before `sent_at` was taken in by `passed_at`. `unbroken_since`: from then on the probes
    came through one after the other, so that a host's silence is the host's.
    """

    sequence = models.BigIntegerField()
    sent_at = models.DateTimeField()
    passed_at = models.DateTimeField()
    unbroken_since = models.DateTimeField()

    def __str__(self) -> str:
        return f"probe of {self.sent_at:%F %T}, passed at {self.passed_at:%F %T}"


class ReservationEnd(models.TextChoices):
    STARTED = "started", "Started"
    CANCELLED = "cancelled", "Cancelled"
    HOST_LOST = "host_lost", "Lost a host"
    ELSEWHERE = "elsewhere", "Started elsewhere"


class Reservation(models.Model):
    """Hosts and a time kept for a workload that waits (R12), as decided; one that is over says when and why.

    Ids rise in the order in which reservations are made: their starts are considered in that order (R8).
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="reservations", db_index=False)
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="reservations", db_index=False)
    at = models.DateTimeField()
    made_at = models.DateTimeField()
    moved = models.BooleanField(default=False)
    placement = models.JSONField()  # [[host id, replicas on it], ...] by host id
    takings = ArrayField(models.BigIntegerField(), default=list)  # workloads that it may take past their minimum
    ended_at = models.DateTimeField(null=True, blank=True)
    end = models.CharField(max_length=10, choices=ReservationEnd.choices, blank=True)

    class Meta:
        ordering = ("id",)
        indexes = (models.Index(fields=["cluster", "ended_at"], name="reservation_by_end"),)
        constraints = (
            models.UniqueConstraint(
                fields=["workload", "cluster"], condition=Q(ended_at__isnull=True), name="reservation_one_per_workload"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, end="") | Q(ended_at__isnull=False, end__in=ReservationEnd.values),
                name="reservation_ended_exactly_with_a_reason",
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=models.F("made_at")),
                name="reservation_ends_after_it_is_made",
            ),
        )

    def __str__(self) -> str:
        return f"reservation of workload {self.workload_id} on {self.cluster} from {self.at:%F %T} on"
