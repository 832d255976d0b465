"""People, the project tree, roles and API tokens."""

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import F, Q


class User(AbstractUser):
    """A person. Administrators are superusers; operators run hosts, policies and simulations, site-wide."""

    is_operator = models.BooleanField(default=False)

    @property
    def is_site_wide(self) -> bool:
        """Whether the person sees every project: operators and administrators."""
        return self.is_superuser or self.is_operator


class Project(models.Model):
    """A node of the project tree. `path` is its slugs joined by `/`, kept by the services; the root's is its slug.

    `version` counts its own changes (name, slug, place, archive), so that nobody edits what they haven't seen.
    """

    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    slug = models.SlugField(max_length=60, allow_unicode=True)
    name = models.CharField(max_length=200)
    path = models.CharField(max_length=1000, db_index=True)
    depth = models.PositiveSmallIntegerField(default=0)
    description = models.TextField(blank=True)
    is_demonstration = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ("path",)
        constraints = (
            models.UniqueConstraint(fields=["parent", "slug"], name="project_slug_once_per_parent"),
            # With a condition it is no key that others could refer to: paths follow a move while work goes on in them.
            models.UniqueConstraint(fields=["path"], condition=~Q(path=""), name="project_path_once"),
            models.CheckConstraint(condition=~Q(path=""), name="project_has_a_path"),
            models.CheckConstraint(condition=~Q(parent=F("id")), name="project_not_its_own_parent"),
            models.CheckConstraint(condition=~Q(name=""), name="project_has_a_name"),
        )

    def __str__(self) -> str:
        return self.path


class FormerPath(models.Model):
    """A path that a project had until it, or one above it, was renamed or moved. What is live at a path goes first."""

    path = models.CharField(max_length=1000)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="former_paths")
    left_at = models.DateTimeField()

    class Meta:
        ordering = ("-left_at", "-id")
        indexes = (models.Index(fields=["path", "-left_at"], name="former_path_newest"),)

    def __str__(self) -> str:
        return f"{self.path} until {self.left_at:%F %T}"


class Role(models.TextChoices):
    """What a person may do in a project and below it; each includes the one before."""

    VIEWER = "viewer", "Viewer"
    MEMBER = "member", "Member"
    LEAD = "lead", "Lead"


class Membership(models.Model):
    """A person's role on a project, inherited downwards."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices)
    created_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "project"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        )

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"


class Invitation(models.Model):
    """A link that makes one account, or one role for somebody who has one. Only a SHA-256 digest of it is kept."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=Role.choices)
    label = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(condition=Q(role__in=Role.values), name="invitation_role_known"),
            models.CheckConstraint(
                condition=Q(accepted_at=None) | Q(revoked_at=None), name="invitation_accepted_or_revoked"
            ),
        )

    def __str__(self) -> str:
        return f"{self.label}, {self.role} of {self.project}"


class ApiToken(models.Model):
    """A token for REST and CLI. Only a SHA-256 digest is kept; `prefix` is what people see in lists."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=10, default="write", choices=[("read", "Read"), ("write", "Read and write")])
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user}"
