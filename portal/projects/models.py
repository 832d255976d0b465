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
    """A node of the project tree. `path` is its slugs joined by `/`, kept by the services; the root's is its slug."""

    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    slug = models.SlugField(max_length=60, allow_unicode=True)
    name = models.CharField(max_length=200)
    path = models.CharField(max_length=1000, unique=True)
    depth = models.PositiveSmallIntegerField(default=0)
    description = models.TextField(blank=True)
    is_demonstration = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("path",)
        constraints = (
            models.UniqueConstraint(fields=["parent", "slug"], name="project_slug_once_per_parent"),
            models.CheckConstraint(condition=~Q(parent=F("id")), name="project_not_its_own_parent"),
            models.CheckConstraint(condition=~Q(name=""), name="project_has_a_name"),
        )

    def __str__(self) -> str:
        return self.path


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

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "project"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        )

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"


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
