"""Moving and archiving projects: what reaches into budgets, the ledger and the queue (decision 0012).

Both keep passes and reports of every cluster out while they write, so that what is open in the ledger changes its
ancestors at one moment, and nothing starts in a project that is being archived.
"""

from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import Count, QuerySet

from portal.budgets.models import BudgetChange, BudgetLine
from portal.budgets.selectors import NO_BUDGET, Line, budgets_at, changes_standing, level_at
from portal.budgets.services import budget_change_create
from portal.clusters.models import Cluster
from portal.common.errors import Conflict, Refused
from portal.common.messages import pass_request
from portal.common.services import audit_record
from portal.common.units import whole_second
from portal.projects.models import Project, User
from portal.projects.selectors import user_require
from portal.projects.tree import (
    depth_problems,
    live_require,
    parent_lead_require,
    path_below,
    path_require_free,
    paths_follow,
    project_fresh,
    subtree_of,
    tree_lock,
    version_require,
)
from portal.scheduling.round import state_lock
from portal.usage.services import segments_repath
from portal.workloads.models import Workload, WorkloadState

ACTIVE_STATES = (WorkloadState.PENDING, WorkloadState.RUNNING)


class Held(NamedTuple):
    """A budget that goes back to the parent: on which cluster, and how much."""

    cluster: Cluster
    line: Line


def budgets_held(*, project: Project, at: datetime) -> list[Held]:
    """What the project itself holds of its parent on each cluster."""
    lines = ((cluster, budgets_at(cluster=cluster, at=at)) for cluster in Cluster.objects.order_by("name"))
    return [Held(cluster, found[project.pk]) for cluster, found in lines if found.get(project.pk, NO_BUDGET)[0]]


def budget_changes_planned(*, project: Project, at: datetime) -> QuerySet[BudgetChange]:
    """Changes of the project's level that are still ahead and name it."""
    lines = BudgetLine.objects.filter(project=project).values("change")
    planned = changes_standing().filter(parent=project.parent_id, effective_at__gt=at, pk__in=lines)
    return planned.select_related("cluster").order_by("effective_at", "pk")


def workloads_active(*, project: Project) -> dict[str, int]:
    """Workloads of the project and all below it that wait or run, by state."""
    active = Workload.objects.filter(project__in=subtree_of(project), state__in=ACTIVE_STATES)
    return dict(active.order_by().values_list("state").annotate(count=Count("pk")))


@transaction.atomic
def project_move(
    *, project: Project, parent: Project, actor: User | None, now: datetime, base_version: int | None = None
) -> Project:
    """Hang the project, with all below it, below another; by who leads both places. Where it is already: no change.

    Its budget goes back to the old parent; what was charged stays with the ancestors of its time.
    """
    now = _tree_held(now)
    _levels_hold(project, parent)
    held, target = project_fresh(project), project_fresh(parent)
    old = held.parent
    if old is not None and old.pk == target.pk:
        parent_lead_require(held, actor)
        return held
    parent_lead_require(held, actor)
    if actor is not None:
        user_require(user=actor, action="project_edit", project=target)
    version_require(held, base_version)
    if old is None:
        raise Refused("The root of the tree can't be moved.", attr="parent", code="root")
    _move_checked(held, target)
    _no_plan_require(held, now)
    released = budgets_held(project=held, at=now)
    before = {"path": held.path}
    paths_follow(held, parent=target, slug=held.slug, now=now)
    segments_repath(projects=list(subtree_of(held).values_list("pk", flat=True)), at=now)
    _budgets_release(old, released, f"{before['path']} was moved to another parent.", actor, now)
    audit_record(actor=actor, action="project_move", target=held, before=before, after={"path": held.path}, now=now)
    _passes_request()
    return held


def _move_checked(project: Project, target: Project) -> None:
    if target.pk == project.pk or target.path.startswith(f"{project.path}/"):
        below = "itself" if target.pk == project.pk else f"{target.path}, which lies in it"
        raise Refused(f"{project.path} can't be moved below {below}.", attr="parent", code="cycle")
    live_require(project)
    live_require(target, attr="parent")
    path_require_free(path_below(target, project.slug))
    deepest = subtree_of(project).order_by("-depth").values_list("depth", flat=True)[0]
    if problems := depth_problems(deepest - project.depth + target.depth + 1):
        raise Refused.many(problems)


@transaction.atomic
def project_archive(*, project: Project, actor: User | None, now: datetime, base_version: int | None = None) -> Project:
    """Close the project and all below it: no submissions, no budget. Refused while work waits or runs there."""
    now = _tree_held(now)
    _levels_hold(project)
    held = project_fresh(project)
    parent_lead_require(held, actor)
    if held.archived_at is not None:
        return held
    version_require(held, base_version)
    if held.parent is None:
        raise Refused("The root of the tree can't be archived.", code="root")
    # Who submits holds its project's row for its key: from here on they wait, and find it archived.
    rows = list(subtree_of(held).select_for_update().order_by("pk"))
    _no_work_require(held)
    _no_plan_require(held, now)
    released = budgets_held(project=held, at=now)
    closed = [row for row in rows if row.archived_at is None]
    for row in closed:
        row.archived_at, row.version = now, row.version + 1
    Project.objects.bulk_update(closed, ["archived_at", "version"])
    held.refresh_from_db()
    _budgets_release(held.parent, released, f"{held.path} is archived.", actor, now)
    before = {"archived_at": None}
    after = {"archived_at": now.isoformat(), **_along(held, closed)}
    audit_record(actor=actor, action="project_archive", target=held, before=before, after=after, now=now)
    _passes_request()
    return held


@transaction.atomic
def project_unarchive(
    *, project: Project, actor: User | None, now: datetime, base_version: int | None = None
) -> Project:
    """Open it again, with what was archived along with it; it comes back without a budget."""
    tree_lock()
    held = project_fresh(project)
    parent_lead_require(held, actor)
    if held.archived_at is None:
        return held
    version_require(held, base_version)
    if held.parent is not None:
        live_require(held.parent)
    closed_at = held.archived_at
    rows = list(subtree_of(held).filter(archived_at=closed_at).select_for_update(no_key=True).order_by("pk"))
    for row in rows:
        row.archived_at, row.version = None, row.version + 1
    Project.objects.bulk_update(rows, ["archived_at", "version"])
    held.refresh_from_db()
    before = {"archived_at": closed_at.isoformat()}
    after = {"archived_at": None, **_along(held, rows)}
    audit_record(actor=actor, action="project_unarchive", target=held, before=before, after=after, now=now)
    return held


def _along(project: Project, rows: list[Project]) -> dict[str, list[str]]:
    """What was archived or brought back together with the project, for the audit log."""
    paths = [row.path for row in rows if row.pk != project.pk]
    return {"with": paths} if paths else {}


def _tree_held(now: datetime) -> datetime:
    """Passes and reports of every cluster wait, in the order of ids; then nobody else changes the tree."""
    for cluster in Cluster.objects.order_by("pk"):
        state_lock(cluster)
    tree_lock()
    return whole_second(now)


def _levels_hold(project: Project, *others: Project) -> None:
    """Nobody divides the level that the project leaves, nor one in it, until the transaction ends.

    Who gave it a budget meanwhile would leave it with a share of a parent that it no longer has. In the order of ids,
    as an import takes them.
    """
    place = Project.objects.get(pk=project.pk)
    rows = subtree_of(place) | Project.objects.filter(pk__in=[place.parent_id, *(other.pk for other in others)])
    list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk"))


def _no_work_require(project: Project) -> None:
    active = workloads_active(project=project)
    if not active:
        return
    waiting, running = active.get(WorkloadState.PENDING, 0), active.get(WorkloadState.RUNNING, 0)
    raise Conflict(
        f"In {project.path} and below it {running} running and {waiting} waiting workloads are left:"
        " cancel them or let them end, then archive it.",
        code="workloads_active",
    )


def _no_plan_require(project: Project, now: datetime) -> None:
    planned = budget_changes_planned(project=project, at=now).first()
    if planned is not None:
        raise Conflict(
            f"A change of budgets on {planned.cluster.name} that takes effect at {planned.effective_at:%F %H:%M} UTC"
            f" names {project.path}: withdraw it first.",
            code="budget_planned",
        )


def _budgets_release(parent: Project, released: list[Held], reason: str, actor: User | None, now: datetime) -> None:
    """One change a cluster: the level as it stands, without the project that leaves it."""
    children = list(Project.objects.filter(parent=parent, archived_at=None).order_by("pk"))
    for cluster, _ in released:
        level = level_at(cluster=cluster, parent=parent, at=now)
        lines = [(child, *level.lines.get(child.pk, NO_BUDGET)) for child in children]
        budget_change_create(
            cluster=cluster,
            parent=parent,
            base_version=level.current_version,
            lines=lines,
            reason=reason,
            author=actor,
            effective_at=None,
            now=now,
        )


def _passes_request() -> None:
    for cluster_id in Cluster.objects.values_list("pk", flat=True):
        pass_request(cluster_id)
