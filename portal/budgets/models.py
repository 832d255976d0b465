"""Budgets. The history of budgets is the list of changes: append-only, nothing is ever updated.

The budgets in force at a moment, for one cluster and one parent, are the lines of the change with the
greatest (effective_at, version) at or before it; a child without a line has none. The root holds 100 %.
A change that was still ahead when it was withdrawn never counts; the withdrawal is a change without lines, so that
it has its own version, author and reason.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q

from portal.clusters.models import Cluster
from portal.common.units import PPM
from portal.projects.models import Project


class BudgetChange(models.Model):
    """One atomic edit of all children of one parent on one cluster."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="budget_changes")
    parent = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="budget_changes")
    version = models.PositiveIntegerField()
    base_version = models.PositiveIntegerField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    reason = models.TextField()
    created_at = models.DateTimeField()
    effective_at = models.DateTimeField()
    undoes = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="undone_by")
    withdraws = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="withdrawn_by"
    )

    class Meta:
        ordering = ("-effective_at", "-version")
        constraints = (
            models.UniqueConstraint(fields=["cluster", "parent", "version"], name="budget_version_once"),
            models.CheckConstraint(condition=~Q(reason=""), name="budget_change_has_a_reason"),
        )
        indexes = (models.Index(fields=["cluster", "effective_at"], name="budget_in_force"),)

    def __str__(self) -> str:
        return f"budgets of {self.parent} on {self.cluster}, version {self.version}"


class BudgetLine(models.Model):
    """A child's budget in a change: whole parts per million of its parent's share, burst cap in GPUs or none.

    A deferred constraint trigger keeps the lines of one change at 1,000,000 or less together.
    """

    change = models.ForeignKey(BudgetChange, on_delete=models.PROTECT, related_name="lines")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="budget_lines")
    share_ppm = models.PositiveIntegerField()
    burst_gpus = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        ordering = ("change", "project")
        constraints = (
            models.UniqueConstraint(fields=["change", "project"], name="budget_line_once"),
            models.CheckConstraint(condition=Q(share_ppm__lte=PPM), name="budget_at_most_the_whole"),
        )

    def __str__(self) -> str:
        return f"{self.project}: {self.share_ppm} ppm"
