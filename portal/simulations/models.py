"""Simulations: what was asked, how far it is, and what came out; uploaded traces; pairs of runs for proposals."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from portal.clusters.models import Cluster


class RunState(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class Source(models.TextChoices):
    HISTORY = "history", "History of this portal"
    TRACE = "trace", "Uploaded trace"
    GENERATOR = "generator", "Generator"


OPEN_STATES = (RunState.QUEUED, RunState.RUNNING)


class UploadedTrace(models.Model):
    """A workload history that somebody uploaded: kept compressed, read only as data, in a process of its own."""

    name = models.CharField(max_length=200)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    size_bytes = models.PositiveBigIntegerField()
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField()

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=["created_at"], name="trace_by_age"),)

    def __str__(self) -> str:
        return self.name


class Run(models.Model):
    """One simulation. It has a report exactly when it is done: a part of one is never kept.

    `claim` is the worker's that runs it: who reports of a run with another claim is not heard. `heard_at` is when that
    worker last did. `notes` say in words what of the history or trace does not count as it was.
    """

    cluster = models.ForeignKey(Cluster, null=True, blank=True, on_delete=models.PROTECT, related_name="simulations")
    title = models.CharField(max_length=200)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="simulations"
    )
    source = models.CharField(max_length=10, choices=Source.choices)
    scenario = models.JSONField()
    seed = models.PositiveBigIntegerField(default=1)
    trace = models.ForeignKey(UploadedTrace, null=True, blank=True, on_delete=models.PROTECT, related_name="runs")
    history_from = models.DateTimeField(null=True, blank=True)
    history_to = models.DateTimeField(null=True, blank=True)
    # Paths of the scenario that are projects of this portal, with their ids: names are shown to who may see those.
    projects = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.QUEUED)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    heard_at = models.DateTimeField(null=True, blank=True)
    claim = models.UUIDField(null=True, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    progress_ppm = models.PositiveIntegerField(default=0)
    seconds_left = models.PositiveIntegerField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancelled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    error = models.CharField(max_length=2000, blank=True)
    notes = models.JSONField(default=list)
    report = models.JSONField(null=True, blank=True)
    code_version = models.CharField(max_length=100, blank=True)
    wall_seconds = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=["state", "id"], name="run_open", condition=Q(state__in=["queued", "running"])),
            models.Index(fields=["author", "-id"], name="run_by_author"),
        )
        constraints = (
            models.CheckConstraint(condition=Q(state__in=RunState.values), name="run_state_known"),
            models.CheckConstraint(condition=Q(source__in=Source.values), name="run_source_known"),
            models.CheckConstraint(
                condition=Q(state="done", report__isnull=False) | ~Q(state="done") & Q(report__isnull=True),
                name="run_has_a_report_exactly_when_done",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running"], ended_at__isnull=True)
                | ~Q(state__in=["queued", "running"]) & Q(ended_at__isnull=False),
                name="run_ended_exactly_when_final",
            ),
            models.CheckConstraint(
                condition=Q(state="running", claim__isnull=False, started_at__isnull=False, heard_at__isnull=False)
                | ~Q(state="running"),
                name="run_running_is_claimed",
            ),
            models.CheckConstraint(condition=Q(progress_ppm__lte=1_000_000), name="run_progress_at_most_whole"),
            models.CheckConstraint(
                condition=Q(source="history", cluster__isnull=False, history_from__lt=models.F("history_to"))
                | ~Q(source="history") & Q(history_from__isnull=True, history_to__isnull=True),
                name="run_of_a_history_has_its_range",
            ),
            models.CheckConstraint(
                condition=Q(source="trace", trace__isnull=False) | ~Q(source="trace") & Q(trace__isnull=True),
                name="run_of_a_trace_has_it",
            ),
        )

    def __str__(self) -> str:
        return f"{self.pk} {self.title}"

    @property
    def is_open(self) -> bool:
        """Whether it waits or runs."""
        return self.state in OPEN_STATES


class Comparison(models.Model):
    """The portal's history replayed twice: under today's budgets, and with the drafted ones of some projects."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    title = models.CharField(max_length=200)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    shares = models.JSONField()  # {project id: [parts per million, burst cap in GPUs or none]}
    today = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="+")
    draft = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ("-id",)
        constraints = (models.CheckConstraint(condition=~Q(today=models.F("draft")), name="comparison_of_two_runs"),)

    def __str__(self) -> str:
        return f"{self.pk} {self.title}"
