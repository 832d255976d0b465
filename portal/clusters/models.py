"""Clusters, their policies, hosts and what happened to them."""

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeBoundary, RangeOperators
from django.db import models
from django.db.models import F, Func, Q


class TsTzRange(Func):
    """`tstzrange(start, end, '[)')`, for exclusion constraints over two columns."""

    function = "TSTZRANGE"
    output_field = DateTimeRangeField()


class Cluster(models.Model):
    """A pool of like hosts with one scheduling policy. `paused_at`: no passes run while it is set."""

    version = models.PositiveIntegerField(default=1)

    name = models.SlugField(max_length=60, unique=True)
    description = models.TextField(blank=True)
    engine = models.CharField(max_length=10, default="agent", choices=[("agent", "Host agents"), ("slurm", "Slurm")])
    created_at = models.DateTimeField()
    paused_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class PolicyChange(models.Model):
    """One version of a cluster's policy: only the settings that differ from the defaults. Append-only."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="policy_changes")
    version = models.PositiveIntegerField()
    overrides = models.JSONField(default=dict)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    reason = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("cluster", "-version")
        constraints = (models.UniqueConstraint(fields=["cluster", "version"], name="policy_version_once"),)

    def __str__(self) -> str:
        return f"policy {self.version} of {self.cluster}"


class HostState(models.TextChoices):
    """Where a host's GPU-time goes; only `schedulable` hosts take new attempts."""

    SCHEDULABLE = "schedulable", "Schedulable"
    CORDONED = "cordoned", "Cordoned"
    UNHEALTHY = "unhealthy", "Unhealthy"
    UNREACHABLE = "unreachable", "Unreachable"


class Host(models.Model):
    """A machine with GPUs. `state` follows from the person's cordon, then health; see `host_state_refresh`.

    `silent_at`: given up as unheard since; cleared when it is heard again. `gone_at`: what ran on it was ended for
    that; cleared when it says that it is empty. `unhealthy_code`: the cause in code, for a person's override of it
    (`overridden_codes`). `ready_at`: taken out and empty, so that it can be repaired.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="hosts")
    name = models.CharField(max_length=100, unique=True)
    gpus = models.PositiveIntegerField()
    gpu_model = models.CharField(max_length=100, blank=True)
    simulated = models.BooleanField(default=False)
    separates_users = models.BooleanField(default=False)
    topology_block = models.CharField(max_length=60, blank=True)
    state = models.CharField(max_length=12, choices=HostState.choices, default=HostState.UNREACHABLE)
    state_cause = models.CharField(max_length=200, blank=True)
    cordoned_at = models.DateTimeField(null=True, blank=True)
    cordoned_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    cordon_reason = models.CharField(max_length=300, blank=True)
    unhealthy_cause = models.CharField(max_length=200, blank=True)
    unhealthy_code = models.CharField(max_length=1000, blank=True)
    overridden_codes = models.JSONField(default=list, blank=True)
    overridden_at = models.DateTimeField(null=True, blank=True)
    overridden_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    ready_at = models.DateTimeField(null=True, blank=True)
    public_key = models.BinaryField(max_length=32, null=True)
    last_heard_at = models.DateTimeField(null=True, blank=True)
    silent_at = models.DateTimeField(null=True, blank=True)
    gone_at = models.DateTimeField(null=True, blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    report_sequence = models.BigIntegerField(default=0)
    desired_sequence = models.BigIntegerField(default=0)
    agent_version = models.CharField(max_length=40, blank=True)
    registered_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(condition=Q(gpus__gte=1, gpus__lte=1_048_576), name="host_gpus_in_bounds"),
            models.CheckConstraint(condition=Q(state__in=HostState.values), name="host_state_known"),
        )

    def __str__(self) -> str:
        return self.name


class HostSpan(models.Model):
    """A stretch of time in which a host stood in one state: what quota and availability are computed from."""

    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="spans")
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    gpus = models.PositiveIntegerField()
    state = models.CharField(max_length=12, choices=HostState.choices)
    cause = models.CharField(max_length=200, blank=True)
    start_at = models.DateTimeField()
    end_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("host", "start_at")
        indexes = (models.Index(fields=["cluster", "start_at"], name="host_span_by_cluster"),)
        constraints = (
            models.CheckConstraint(
                condition=Q(end_at__isnull=True) | Q(end_at__gt=F("start_at")), name="host_span_not_empty"
            ),
            ExclusionConstraint(
                name="host_span_no_overlap",
                expressions=[
                    ("host", RangeOperators.EQUAL),
                    (TsTzRange("start_at", "end_at", RangeBoundary()), RangeOperators.OVERLAPS),
                ],
            ),
        )

    def __str__(self) -> str:
        return f"{self.host} {self.state} from {self.start_at:%F %T}"


class HostEvent(models.Model):
    """The repair log: what happened to a host, who or what did it. Append-only."""

    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=30)
    detail = models.CharField(max_length=500, blank=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ("-at", "-id")

    def __str__(self) -> str:
        return f"{self.host}: {self.kind}"
