"""Requests of project leads, proposals of managers, what was said about them, and which digests were sent."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from portal.budgets.models import BudgetChange
from portal.clusters.models import Cluster
from portal.common.units import PPM
from portal.projects.models import Project
from portal.simulations.models import Comparison


class RequestState(models.TextChoices):
    """What became of a request; portal.proposals.transitions has the steps between."""

    DRAFT = "draft", "Draft"
    SUBMITTED = "submitted", "Submitted"
    TAKEN_UP = "taken_up", "Taken up"
    GRANTED = "granted", "Granted"
    DECLINED = "declined", "Declined"
    WITHDRAWN = "withdrawn", "Withdrawn"


class ProposalState(models.TextChoices):
    """How far a proposal is; portal.proposals.transitions has the steps between."""

    DRAFT = "draft", "Draft"
    OPEN = "open", "Open"
    STALE = "stale", "Stale"
    APPROVED = "approved", "Approved"
    REJECTED = "rejected", "Rejected"
    WITHDRAWN = "withdrawn", "Withdrawn"


class GrantRequest(models.Model):
    """A lead asks that a project hold so many GPUs of a cluster for a time, and says why.

    `last_grant` is what the ledger said when it was submitted, `given_gpus` what the project was to hold when it was
    granted; both are kept as they were then.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="requests")
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=10, choices=RequestState.choices, default=RequestState.DRAFT)
    title = models.CharField(max_length=200)
    purpose = models.TextField()
    impact = models.TextField()
    gpus = models.PositiveIntegerField()
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    last_grant = models.JSONField(null=True, blank=True)
    given_gpus = models.DecimalField(max_digits=14, decimal_places=2, null=True, blank=True)
    created_at = models.DateTimeField()
    submitted_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    decision_reason = models.TextField(blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=["project", "cluster", "state"], name="request_of_project"),
            models.Index(fields=["state", "-id"], name="request_by_state"),
        )
        constraints = (
            models.CheckConstraint(condition=Q(state__in=RequestState.values), name="request_state_known"),
            models.CheckConstraint(condition=Q(until_at__gt=F("from_at")), name="request_ends_after_it_begins"),
            models.CheckConstraint(condition=Q(gpus__gte=1), name="request_asks_for_a_gpu"),
            models.CheckConstraint(
                condition=Q(state__in=["draft", "withdrawn"]) | Q(submitted_at__isnull=False, last_grant__isnull=False),
                name="request_submitted_with_its_past",
            ),
        )

    def __str__(self) -> str:
        return f"{self.pk} {self.title}"


class Proposal(models.Model):
    """A budget change of one level under debate: based on a version, with what it would set and why.

    `edited_by` set its lines last. `comparison` is the newest simulation of exactly these lines.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    parent = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="proposals")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    edited_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=10, choices=ProposalState.choices, default=ProposalState.DRAFT)
    title = models.CharField(max_length=200)
    reason = models.TextField()
    base_version = models.PositiveIntegerField()
    effective_at = models.DateTimeField(null=True, blank=True)
    requests = models.ManyToManyField(GrantRequest, related_name="proposals", blank=True)
    comparison = models.ForeignKey(Comparison, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    opened_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    decision_reason = models.TextField(blank=True)
    change = models.OneToOneField(
        BudgetChange, null=True, blank=True, on_delete=models.PROTECT, related_name="proposal"
    )

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=["parent", "cluster", "state"], name="proposal_of_level"),
            models.Index(fields=["state", "-id"], name="proposal_by_state"),
        )
        constraints = (
            models.CheckConstraint(condition=Q(state__in=ProposalState.values), name="proposal_state_known"),
            models.CheckConstraint(condition=~Q(reason=""), name="proposal_has_a_reason"),
            models.CheckConstraint(
                condition=Q(state="approved", change__isnull=False) | ~Q(state="approved") & Q(change__isnull=True),
                name="proposal_approved_with_its_change",
            ),
        )

    def __str__(self) -> str:
        return f"{self.pk} {self.title}"


class ProposalLine(models.Model):
    """What a proposal would set for one child: parts per million of the parent's share, burst cap or none."""

    proposal = models.ForeignKey(Proposal, on_delete=models.CASCADE, related_name="lines")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    share_ppm = models.PositiveIntegerField()
    burst_gpus = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        ordering = ("project__path",)
        constraints = (
            models.UniqueConstraint(fields=["proposal", "project"], name="proposal_line_once"),
            models.CheckConstraint(condition=Q(share_ppm__lte=PPM), name="proposal_line_at_most_the_whole"),
        )

    def __str__(self) -> str:
        return f"{self.project}: {self.share_ppm} ppm"


class Comment(models.Model):
    """What somebody said about a proposal. Plain text; never edited, never deleted."""

    proposal = models.ForeignKey(Proposal, on_delete=models.PROTECT, related_name="comments")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()
    text = models.TextField()

    class Meta:
        ordering = ("id",)
        constraints = (models.CheckConstraint(condition=~Q(text=""), name="comment_says_something"),)

    def __str__(self) -> str:
        return f"{self.author} on {self.proposal}"


class Digest(models.Model):
    """A mail that was sent: at most one a person and day."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    day = models.DateField()
    sent_at = models.DateTimeField()
    subject = models.CharField(max_length=200)
    body = models.TextField()

    class Meta:
        ordering = ("-id",)
        constraints = (models.UniqueConstraint(fields=["person", "day"], name="digest_once_a_day"),)

    def __str__(self) -> str:
        return f"{self.subject} to {self.person} on {self.day}"


class DigestItem(models.Model):
    """One thing that a person has been told of: `key` names it, so that it is told once."""

    digest = models.ForeignKey(Digest, on_delete=models.CASCADE, related_name="items")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=100)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["person", "key"], name="digest_item_told_once"),)

    def __str__(self) -> str:
        return f"{self.key} to {self.person}"
