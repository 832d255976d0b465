"""What each change moved, from and to, and what has become of it. The order that counts is (effective_at, version)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from django.db.models import Q, QuerySet

from portal.budgets.models import BudgetChange, BudgetLine
from portal.budgets.selectors import (
    CHANGE_RELATED,
    NO_BUDGET,
    Line,
    PlannedEffect,
    changes_ahead,
    changes_standing,
    effects_of_planned,
)
from portal.clusters.models import Cluster
from portal.projects.former import projects_as_below
from portal.projects.models import Project, User
from portal.projects.selectors import projects_visible


class ChangeState(StrEnum):
    """Ahead; counting now; over; overtaken by a later version for the same moment; withdrawn; a withdrawal."""

    PLANNED = "planned"
    IN_FORCE = "in_force"
    PAST = "past"
    SUPERSEDED = "superseded"
    WITHDRAWN = "withdrawn"
    WITHDRAWAL = "withdrawal"


class Move(NamedTuple):
    """One child's budget before and after; None: it had none, or has none any more."""

    project: Project
    before: Line | None
    after: Line | None


@dataclass(frozen=True)
class Recorded:
    """A change, what has become of it at the moment asked about, and what it moves."""

    change: BudgetChange
    state: ChangeState
    moves: tuple[Move, ...]


class _Place(NamedTuple):
    """Where a change that counts stands in the order of its level."""

    effective_at: datetime
    version: int
    pk: int


def changes_visible(*, user: User) -> QuerySet[BudgetChange]:
    """Changes of levels whose parent the person sees, the newest first."""
    changes = BudgetChange.objects.filter(parent__in=projects_visible(user=user))
    return changes.select_related(*CHANGE_RELATED).order_by("-created_at", "-pk")


def changes_of_project(*, cluster: Cluster, project: Project) -> QuerySet[BudgetChange]:
    """Changes on the cluster of the levels in which the project ever stood, the newest first."""
    changes = changes_in_levels_of(changes=BudgetChange.objects.filter(cluster=cluster), project=project)
    return changes.select_related(*CHANGE_RELATED).order_by("-created_at", "-pk")


def changes_in_levels_of(*, changes: QuerySet[BudgetChange], project: Project) -> QuerySet[BudgetChange]:
    """Those of `changes` that are of a level in which the project stands, or once had a budget."""
    levels = BudgetLine.objects.filter(project=project).values("change__parent")
    return changes.filter(Q(parent__in=levels) | Q(parent=project.parent_id))


def changes_recorded(
    *, changes: Iterable[BudgetChange], at: datetime, project: Project | None = None
) -> list[Recorded]:
    """Each change in the order given with its moves, of one project only if named; three queries, however many.

    One more where a project has left its level since: it is named as it was called there.
    """
    asked = list(changes)
    levels = _levels(asked)
    pairs = {change.pk: _pair(change, levels) for change in asked}
    lines = _lines({pk for pair in pairs.values() for pk in pair if pk is not None}, project)
    project_ids = {project_id for of_change in lines.values() for project_id in of_change}
    projects = Project.objects.in_bulk(project_ids)
    sides = {change.pk: [lines.get(pk or 0, {}) for pk in pairs[change.pk]] for change in asked}
    named = _named(asked, sides, projects)
    return [
        Recorded(
            change=change,
            state=_state(change, levels[change.cluster_id, change.parent_id], at),
            moves=_moves(named, change.parent_id, *sides[change.pk]),
        )
        for change in asked
    ]


def planned_after(*, recorded: Recorded, at: datetime) -> list[PlannedEffect]:
    """What the changes still ahead will make of what a change in force, or itself ahead, has moved."""
    if recorded.state not in (ChangeState.IN_FORCE, ChangeState.PLANNED) or not recorded.moves:
        return []
    change = recorded.change
    return effects_of_planned(
        before={move.project.pk: move.before or NO_BUDGET for move in recorded.moves},
        after={move.project.pk: move.after or NO_BUDGET for move in recorded.moves},
        ahead=changes_ahead(cluster=change.cluster, parent=change.parent, after=max(at, change.effective_at)),
        projects={move.project.pk: move.project for move in recorded.moves},
    )


def _levels(changes: Sequence[BudgetChange]) -> dict[tuple[int, int], list[_Place]]:
    """The changes that count, of every level asked about, in their order."""
    levels: dict[tuple[int, int], list[_Place]] = {(each.cluster_id, each.parent_id): [] for each in changes}
    rows = changes_standing().filter(
        cluster__in={cluster_id for cluster_id, _ in levels}, parent__in={parent_id for _, parent_id in levels}
    )
    for cluster_id, parent_id, effective_at, version, pk in rows.order_by("effective_at", "version").values_list(
        "cluster_id", "parent_id", "effective_at", "version", "pk"
    ):
        levels.get((cluster_id, parent_id), []).append(_Place(effective_at, version, pk))
    return levels


def _pair(change: BudgetChange, levels: dict[tuple[int, int], list[_Place]]) -> tuple[int | None, int | None]:
    """The changes before and after whose lines are compared; a withdrawal leads from what it withdraws back."""
    about = change.withdraws or change
    place = (about.effective_at, about.version)
    earlier = [each for each in levels[change.cluster_id, change.parent_id] if each[:2] < place]
    before = earlier[-1].pk if earlier else None
    return (about.pk, before) if change.withdraws else (before, about.pk)


def _state(change: BudgetChange, level: Sequence[_Place], at: datetime) -> ChangeState:
    if change.withdraws_id is not None:
        return ChangeState.WITHDRAWAL
    later = [each for each in level if each[:2] > (change.effective_at, change.version)]
    if not any(each.pk == change.pk for each in level):
        return ChangeState.WITHDRAWN
    if later and later[0].effective_at == change.effective_at:
        return ChangeState.SUPERSEDED
    if change.effective_at > at:
        return ChangeState.PLANNED
    return ChangeState.PAST if later and later[0].effective_at <= at else ChangeState.IN_FORCE


def _lines(change_ids: Iterable[int], project: Project | None) -> dict[int, dict[int, Line]]:
    rows = BudgetLine.objects.filter(change__in=list(change_ids)).order_by("change_id", "project_id")
    if project is not None:
        rows = rows.filter(project=project)
    lines: dict[int, dict[int, Line]] = {}
    for change_id, project_id, share_ppm, burst_gpus in rows.values_list(
        "change_id", "project_id", "share_ppm", "burst_gpus"
    ):
        lines.setdefault(change_id, {})[project_id] = Line(share_ppm, burst_gpus)
    return lines


def _named(
    changes: Iterable[BudgetChange], sides: dict[int, list[dict[int, Line]]], projects: dict[int, Project]
) -> dict[tuple[int, int], Project]:
    """Each project by its id and the level's parent; parents are read only where a project has left."""
    named: dict[tuple[int, int], Project] = {}
    left: list[tuple[Project, Project]] = []
    for change in changes:
        for pk in sides[change.pk][0].keys() | sides[change.pk][1].keys():
            named[pk, change.parent_id] = projects[pk]
            if projects[pk].parent_id != change.parent_id:
                left.append((projects[pk], change.parent))
    return named | projects_as_below(places=left)


def _moves(
    named: dict[tuple[int, int], Project], parent_id: int, before: dict[int, Line], after: dict[int, Line]
) -> tuple[Move, ...]:
    """By path; a budget of 0 % where there was none before is no move."""
    moved = [
        Move(named[pk, parent_id], before.get(pk), after.get(pk))
        for pk in before.keys() | after.keys()
        if (before.get(pk) or _NOTHING) != (after.get(pk) or _NOTHING)
    ]
    return tuple(sorted(moved, key=lambda move: move.project.path.split("/")))


_NOTHING = Line(0, None)
