"""Which budgets are in force when, and how they came about."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from django.db.models import Max, QuerySet

from portal.budgets.models import BudgetChange, BudgetLine
from portal.clusters.models import Cluster
from portal.common.units import PPM
from portal.projects.models import Project


class Line(NamedTuple):
    """A project's budget: parts per million of its parent's share, burst cap in GPUs or none."""

    share_ppm: int
    burst_gpus: int | None


class ShareStep(NamedTuple):
    """From `at` on, until the project's next step."""

    project_id: int
    at: datetime
    share_ppm: int
    burst_gpus: int | None


class Level(NamedTuple):
    """The budgets of one parent's children: the change in force (none yet: None), its lines, and the newest version."""

    change: BudgetChange | None
    lines: dict[int, Line]
    current_version: int


NO_BUDGET = Line(0, None)


def changes_standing() -> QuerySet[BudgetChange]:
    """Changes that count from their moment on: neither withdrawn nor a withdrawal."""
    return BudgetChange.objects.filter(withdraws=None, withdrawn_by=None)


def changes_in_force(*, cluster: Cluster, at: datetime) -> QuerySet[BudgetChange]:
    """For each parent, the change in force at that moment."""
    return (
        changes_standing()
        .filter(cluster=cluster, effective_at__lte=at)
        .order_by("parent_id", "-effective_at", "-version")
        .distinct("parent_id")
    )


def budgets_at(*, cluster: Cluster, at: datetime) -> dict[int, Line]:
    """Every project's budget at that moment; a project that is not in it has none. The root holds 100 %."""
    in_force = changes_in_force(cluster=cluster, at=at).values("pk")
    rows = BudgetLine.objects.filter(change__in=in_force).order_by("project_id")
    return {
        project_id: Line(share_ppm, burst_gpus)
        for project_id, share_ppm, burst_gpus in rows.values_list("project_id", "share_ppm", "burst_gpus")
    }


def version_of_level(*, cluster: Cluster, parent: Project) -> int:
    """The newest version of a level, what an edit must be based on; 0: never edited."""
    changes = BudgetChange.objects.filter(cluster=cluster, parent=parent)
    return changes.aggregate(latest=Max("version"))["latest"] or 0


def level_at(*, cluster: Cluster, parent: Project, at: datetime) -> Level:
    """The budgets of the children of `parent` at that moment."""
    change = changes_in_force(cluster=cluster, at=at).filter(parent=parent).select_related("author").first()
    lines = {}
    if change is not None:
        rows = BudgetLine.objects.filter(change=change).values_list("project_id", "share_ppm", "burst_gpus")
        lines = {project_id: Line(share_ppm, burst_gpus) for project_id, share_ppm, burst_gpus in rows}
    return Level(change, lines, version_of_level(cluster=cluster, parent=parent))


def versions_of_levels(*, cluster: Cluster) -> dict[int, int]:
    """The newest version of each level of the cluster, by its parent's id; who isn't in it was never edited."""
    changes = BudgetChange.objects.filter(cluster=cluster).order_by().values_list("parent_id")
    return dict(changes.annotate(latest=Max("version")))


def level_history(*, cluster: Cluster, parent: Project) -> QuerySet[BudgetChange]:
    """Every change of a level, newest first; `history.changes_recorded` says what each moved, from and to."""
    changes = BudgetChange.objects.filter(cluster=cluster, parent=parent)
    return changes.select_related(*CHANGE_RELATED).order_by("-version")


CHANGE_RELATED = ("author", "parent", "cluster", "undoes", "withdraws", "withdrawn_by__author")


def share_history(*, cluster: Cluster, since: datetime) -> list[ShareStep]:
    """The steps of every project's budget: its very first, the one in force at `since`, and all after it.

    A change that no longer lists a child takes its budget away. Of changes that take effect at one moment,
    the last version counts.
    """
    steps: dict[int, list[ShareStep]] = {}
    changes = changes_standing().filter(cluster=cluster).order_by("effective_at", "parent_id", "version")
    lines: dict[int, dict[int, Line]] = {}
    rows = BudgetLine.objects.filter(change__cluster=cluster)
    for change_id, project_id, share_ppm, burst_gpus in rows.values_list(
        "change_id", "project_id", "share_ppm", "burst_gpus"
    ):
        lines.setdefault(change_id, {})[project_id] = Line(share_ppm, burst_gpus)
    listed: dict[int, set[int]] = {}
    for change_id, parent_id, at in changes.values_list("pk", "parent_id", "effective_at"):
        now_listed = lines.get(change_id, {})
        gone = listed.get(parent_id, set()) - now_listed.keys()
        for project_id, line in {**dict.fromkeys(gone, NO_BUDGET), **now_listed}.items():
            _step_add(steps.setdefault(project_id, []), ShareStep(project_id, at, *line))
        listed[parent_id] = set(now_listed)
    return [step for project_id in sorted(steps) for step in _steps_from(steps[project_id], since)]


def _step_add(steps: list[ShareStep], step: ShareStep) -> None:
    if steps and steps[-1].at == step.at:
        steps.pop()
    if not steps or steps[-1][2:] != step[2:]:
        steps.append(step)


def _steps_from(steps: list[ShareStep], since: datetime) -> Iterable[ShareStep]:
    """The first, and from the one in force at `since` on."""
    before = [position for position, step in enumerate(steps) if step.at <= since]
    first_needed = before[-1] if before else 0
    return steps[:1] + steps[max(first_needed, 1) :]


class Shares(NamedTuple):
    """Budgets in force with what they come to: each project's share of the cluster, and its own work's part of it."""

    lines: dict[int, Line]
    shares: dict[int, Fraction]
    own: dict[int, Fraction]


def shares_at(*, cluster: Cluster, at: datetime) -> Shares:
    """Shares of the whole cluster: the product along the path. The root has 1, no budget is 0.

    The path is the one that budgets were given along: of an earlier moment, before a project was moved, that of then.
    A project's own part is what it doesn't give out: all parts of a tree add up to the whole.
    """
    in_force = changes_in_force(cluster=cluster, at=at).values("pk")
    rows = BudgetLine.objects.filter(change__in=in_force).order_by("project_id")
    lines: dict[int, Line] = {}
    givers: dict[int, int] = {}
    for project_id, giver_id, share_ppm, burst_gpus in rows.values_list(
        "project_id", "change__parent__pk", "share_ppm", "burst_gpus"
    ):
        lines[project_id] = Line(share_ppm, burst_gpus)
        givers[project_id] = giver_id
    shares = {pk: Fraction(0 if parent_id else 1) for pk, parent_id in Project.objects.values_list("pk", "parent_id")}
    own = dict(shares)
    for project_id in _givers_first(givers):
        giver_id = givers[project_id]
        share = shares[giver_id] * Fraction(lines[project_id].share_ppm, PPM)
        shares[project_id] = share
        own[project_id] += share
        own[giver_id] -= share
    return Shares(lines, shares, own)


def _givers_first(givers: dict[int, int]) -> Iterable[int]:
    """The projects with a line, each after the one that it has its share from."""
    depths: dict[int, int] = {}
    for project_id in givers:
        path = []
        while project_id in givers and project_id not in depths and project_id not in path:
            path.append(project_id)
            project_id = givers[project_id]
        for position, each in enumerate(reversed(path), start=1):
            depths[each] = depths.get(project_id, 0) + position
    return sorted(givers, key=lambda project_id: depths[project_id])


def shares_of_cluster(*, cluster: Cluster, at: datetime) -> dict[int, Fraction]:
    """Every project's share of the whole cluster: the product along its path. The root has 1, no budget is 0."""
    return shares_at(cluster=cluster, at=at).shares


class Ahead(NamedTuple):
    """A change that is still ahead, and the level that it lists."""

    change: BudgetChange
    lines: Mapping[int, Line]


class SetBack(NamedTuple):
    """What a planned change makes of a budget that was decided before its moment; None: it takes the budget away."""

    project: Project
    before: Line
    after: Line | None


class PlannedEffect(NamedTuple):
    """A change that is still ahead, and the decisions that it will set back."""

    change: BudgetChange
    sets_back: tuple[SetBack, ...]


def set_back_by(
    *, before: Mapping[int, Line], after: Mapping[int, Line], ahead: Sequence[Mapping[int, Line]]
) -> list[dict[int, tuple[Line, Line | None]]]:
    """For each level still ahead, next first: what it makes of the budgets that differ between `before` and `after`.

    A planned change lists its whole level: what is decided before its moment is overwritten by it. What it moves of
    budgets that the decision left alone is its own purpose and not said here; nor is what an earlier one set back.
    Pure.
    """
    decided = {pk: line for pk, line in after.items() if line != before.get(pk, NO_BUDGET)}
    found: list[dict[int, tuple[Line, Line | None]]] = []
    for lines in ahead:
        undone = {pk: (line, lines.get(pk)) for pk, line in decided.items() if lines.get(pk, NO_BUDGET) != line}
        decided = {pk: line for pk, line in decided.items() if pk not in undone}
        found.append(undone)
    return found


def levels_ahead(*, cluster: Cluster, after: datetime, parent: Project | None = None) -> dict[int, list[Ahead]]:
    """By parent: the changes that take effect after that moment, the next first; of one moment the last version."""
    changes = changes_standing().filter(cluster=cluster, effective_at__gt=after)
    if parent is not None:
        changes = changes.filter(parent=parent)
    related = changes.select_related("author").prefetch_related("lines").order_by("effective_at", "version")
    last = {(change.parent_id, change.effective_at): change for change in related}
    levels: dict[int, list[Ahead]] = {}
    for change in last.values():
        lines = {line.project_id: Line(line.share_ppm, line.burst_gpus) for line in change.lines.all()}
        levels.setdefault(change.parent_id, []).append(Ahead(change, lines))
    return levels


def changes_ahead(*, cluster: Cluster, parent: Project, after: datetime) -> list[Ahead]:
    """The same of one level."""
    return levels_ahead(cluster=cluster, after=after, parent=parent).get(parent.pk, [])


def planned_effects(
    *, cluster: Cluster, parent: Project, lines: Mapping[int, Line], effective_at: datetime | None, now: datetime
) -> list[PlannedEffect]:
    """What the changes still ahead would make of a level not saved yet: `lines` by project id, None being now."""
    moment = effective_at or now
    ahead = changes_ahead(cluster=cluster, parent=parent, after=moment)
    if not ahead:
        return []
    before = level_at(cluster=cluster, parent=parent, at=moment).lines
    return effects_of_planned(before=before, after=lines, ahead=ahead)


def effects_of_planned(
    *,
    before: Mapping[int, Line],
    after: Mapping[int, Line],
    ahead: Sequence[Ahead],
    projects: Mapping[int, Project] | None = None,
) -> list[PlannedEffect]:
    """The same from what was read already; only changes that set something back, its projects by path."""
    found = set_back_by(before=before, after=after, ahead=[each.lines for each in ahead])
    if projects is None:
        projects = Project.objects.in_bulk({pk for undone in found for pk in undone}) if any(found) else {}
    return [
        PlannedEffect(each.change, _sets_back(undone, projects))
        for each, undone in zip(ahead, found, strict=True)
        if undone
    ]


def _sets_back(undone: Mapping[int, tuple[Line, Line | None]], projects: Mapping[int, Project]) -> tuple[SetBack, ...]:
    each = [SetBack(projects[pk], *lines) for pk, lines in undone.items()]
    return tuple(sorted(each, key=lambda set_back: set_back.project.path.split("/")))
