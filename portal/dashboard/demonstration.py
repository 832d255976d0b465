"""The demonstration: a small organisation, plainly marked as one, for the embedded default's first start.

Everything here is idempotent: what is there stays, what is missing is made.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from portal.budgets.selectors import version_of_level
from portal.budgets.services import budget_change_create
from portal.clusters.models import Cluster
from portal.clusters.selectors import policy_version
from portal.clusters.services import policy_change
from portal.common.models import AuditEntry
from portal.dashboard.demonstration_proposals import demonstration_debate
from portal.projects.authentication import token_digest
from portal.projects.models import ApiToken, FormerPath, Project, User
from portal.projects.services import (
    membership_set,
    project_create,
    token_create,
    token_revoke,
    user_create,
    user_password_set,
)

ROOT_SLUG = "lab"
TOKEN_NAME = "demonstration"  # noqa: S105 - what the token is called
PPM_OF_PERCENT = 10_000

PROJECTS = (
    ("lab/nlp", "Language", "Language models and their evaluation"),
    ("lab/vision", "Vision", "Images and video"),
    ("lab/robotics", "Robotics", "Policies for arms and for mobile robots"),
    ("lab/robotics/arms", "Robot arms", "Manipulation"),
    ("lab/robotics/mobile", "Mobile robots", "Navigation"),
    ("lab/platform", "Platform", "Shared tools and benchmarks"),
)
BUDGETS_PERCENT = {
    "lab": {"nlp": 35, "vision": 25, "robotics": 20, "platform": 10},
    "lab/robotics": {"arms": 60, "mobile": 30},
}
# A short window, so that balances move while somebody watches; short grace times for the same reason, and contracts
# that count as little against a quota of one hour as half an hour does against one of a week.
POLICY = {
    "lookback_seconds": 3600,
    "licence_floor_seconds": 60,
    "grace_allocated_seconds": 15,
    "grace_unallocated_seconds": 5,
}


@dataclass(frozen=True)
class Account:
    """One person of the demonstration whom somebody may sign in as."""

    role: str
    username: str
    project: str = ""
    project_role: str = ""


ACCOUNTS = (
    Account("administrator", "admin"),
    Account("operator", "operator"),
    Account("manager", "manager", "lab", "lead"),
    Account("lead", "lead", "lab/robotics", "lead"),
    Account("member", "member", "lab/nlp", "member"),
    Account("viewer", "viewer", "lab", "viewer"),
)
# Colleagues who submit the demonstration's work; nobody can sign in as them.
AUTHORS = (
    ("mei", "lab/nlp"),
    ("omar", "lab/nlp"),
    ("ines", "lab/vision"),
    ("jonas", "lab/vision"),
    ("priya", "lab/robotics/arms"),
    ("tomas", "lab/robotics/mobile"),
    ("yuki", "lab/platform"),
)


@dataclass(frozen=True)
class SignIns:
    """Passwords by user name and the administrator's token: what demo.json keeps."""

    passwords: dict[str, str]
    token: str


@transaction.atomic
def demonstration_make(*, root: Project, cluster: Cluster, known: SignIns | None, now: datetime) -> SignIns:
    """Tree, budgets, policy, people; passwords and token as `known`, new ones where it lacks them."""
    projects = _projects_make(root, now)
    _budgets_make(projects, cluster, now)
    if policy_version(cluster=cluster) == 0:
        policy_change(
            cluster=cluster,
            overrides=dict(POLICY),
            reason="Demonstration: a short window, so that balances move while you watch.",
            author=None,
            base_version=0,
            now=now,
        )
    passwords = {
        account.username: _account_make(account, projects, known.passwords if known else {}, now)
        for account in ACCOUNTS
    }
    _authors_make(projects, now)
    demonstration_debate(projects=projects, cluster=cluster, now=now)
    return SignIns(passwords, _token_make(known.token if known else "", now))


def demonstration_rest(*, now: datetime) -> bool:
    """Started without the demonstration: its projects take no new work. Returns whether there was one."""
    marked = Project.objects.filter(is_demonstration=True, parent__isnull=False)
    return bool(marked.filter(archived_at=None).update(archived_at=now)) or marked.exists()


def _projects_make(root: Project, now: datetime) -> dict[str, Project]:
    """By the paths that they were made with: what somebody renamed, moved or archived since then stays so."""
    found = {project.path: project for project in Project.objects.filter(is_demonstration=True)}
    moved = (
        FormerPath.objects.filter(project__is_demonstration=True).select_related("project").order_by("left_at", "pk")
    )
    found = {former.path: former.project for former in moved} | found
    found[root.path] = root
    for path, name, description in PROJECTS:
        if path not in found:
            parent_path, _, slug = path.rpartition("/")
            found[path] = project_create(
                parent=found[parent_path],
                slug=slug,
                name=name,
                description=description,
                actor=None,
                now=now,
                is_demonstration=True,
            )
    by_people = AuditEntry.objects.filter(action="project_archive", target_type="project").values("target_id")
    demonstrations = Project.objects.filter(is_demonstration=True, pk__in=[found[path].pk for path, _, _ in PROJECTS])
    demonstrations.exclude(pk__in=by_people).update(archived_at=None)
    return found


def _budgets_make(projects: dict[str, Project], cluster: Cluster, now: datetime) -> None:
    for path, percent in BUDGETS_PERCENT.items():
        parent = projects[path]
        if version_of_level(cluster=cluster, parent=parent) == 0:
            children = Project.objects.filter(parent=parent, archived_at=None)
            budget_change_create(
                cluster=cluster,
                parent=parent,
                base_version=0,
                lines=[(child, percent.get(child.slug, 0) * PPM_OF_PERCENT, None) for child in children],
                reason="Demonstration: the first budgets.",
                author=None,
                effective_at=None,
                now=now,
            )


def _account_make(account: Account, projects: dict[str, Project], known: dict[str, str], now: datetime) -> str:
    password = known.get(account.username) or secrets.token_urlsafe(12)
    user = User.objects.filter(username=account.username).first()
    if user is None:
        user = user_create(
            username=account.username,
            password=password,
            actor=None,
            now=now,
            is_operator=account.role == "operator",
            is_superuser=account.role == "administrator",
        )
        if account.project:
            membership_set(user=user, project=projects[account.project], role=account.project_role, actor=None, now=now)
    elif account.username not in known:
        user_password_set(user=user, password=password, actor=None, now=now)
    return password


def _authors_make(projects: dict[str, Project], now: datetime) -> None:
    there = set(User.objects.filter(username__in=[name for name, _ in AUTHORS]).values_list("username", flat=True))
    for username, path in AUTHORS:
        if username not in there:
            user = user_create(username=username, password=None, actor=None, now=now)
            membership_set(user=user, project=projects[path], role="member", actor=None, now=now)


def _token_make(known: str, now: datetime) -> str:
    administrator = User.objects.get(username=ACCOUNTS[0].username)
    tokens = ApiToken.objects.filter(user=administrator, name=TOKEN_NAME, revoked_at=None)
    if known and tokens.filter(digest=token_digest(known)).exists():
        return known
    for token in tokens:
        token_revoke(token=token, actor=administrator, now=now)
    return token_create(user=administrator, name=TOKEN_NAME, now=now)[1]
