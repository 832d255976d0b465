"""The ledger: what ran where, when and with which standing, in whole seconds.

Usage, balances, charges and charts are functions of these rows and nothing else (R3).
"""

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, RangeBoundary, RangeOperators
from django.db import models
from django.db.models import F, Q

from portal.clusters.models import Cluster, Host, TsTzRange
from portal.projects.models import Project
from portal.workloads.models import Attempt, Standing, Workload


class Segment(models.Model):
    """GPUs of one host that an attempt occupied from `start_at` to `end_at` (open: null) with one standing.

    `path` holds the ids of the projects that are charged, root first: its ancestors when it was charged.
    Constraints: no two segments of an attempt overlap on a host; a deferred trigger refuses gaps;
    both ends are whole seconds.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="segments")
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="segments")
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+", db_index=False)
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="segments")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="segments", db_index=False)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    path = ArrayField(models.BigIntegerField())
    gpus = models.PositiveIntegerField()
    standing = models.CharField(max_length=12, choices=Standing.choices)
    start_at = models.DateTimeField()
    end_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("attempt", "host", "start_at")
        indexes = (
            models.Index(fields=["cluster", "end_at", "start_at"], name="segment_in_window"),
            models.Index(fields=["cluster", "attempt"], name="segment_open", condition=Q(end_at__isnull=True)),
            models.Index(fields=["project", "start_at"], name="segment_by_project"),
        )
        constraints = (
            models.CheckConstraint(
                condition=Q(end_at__isnull=True) | Q(end_at__gt=F("start_at")), name="segment_not_empty"
            ),
            models.CheckConstraint(condition=Q(gpus__gte=1), name="segment_has_gpus"),
            models.CheckConstraint(condition=Q(standing__in=Standing.values), name="segment_standing_known"),
            ExclusionConstraint(
                name="segment_no_overlap",
                expressions=[
                    ("attempt", RangeOperators.EQUAL),
                    ("host", RangeOperators.EQUAL),
                    (TsTzRange("start_at", "end_at", RangeBoundary()), RangeOperators.OVERLAPS),
                ],
            ),
        )

    def __str__(self) -> str:
        return f"{self.gpus} GPUs {self.standing} from {self.start_at:%F %T}"


class LedgerDayKind(models.TextChoices):
    SEGMENTS = "segments", "Segments"
    ATTEMPTS = "attempts", "Attempts"


class LedgerDay(models.Model):
    """What ended on one day (UTC) in a cluster, packed for reading: segments, or attempts. See portal.usage.days.

    A copy, never a source: a trigger drops it when one of its rows changes. `first_at` is when the first of them
    began; null: nothing ended that day.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=10, choices=LedgerDayKind.choices)
    day = models.DateField()
    first_at = models.DateTimeField(null=True)
    rows = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["cluster", "kind", "day"], name="ledger_day_once"),)

    def __str__(self) -> str:
        return f"{self.rows} {self.kind} that ended on {self.day:%F}"
