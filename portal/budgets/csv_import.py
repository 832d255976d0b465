"""Budgets of a whole tree from a CSV: all of its levels change together, or nothing does."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from portal.budgets.csv_rows import ERRORS_MAX, Row, RowError, rows_read
from portal.budgets.history import Move
from portal.budgets.models import BudgetChange
from portal.budgets.selectors import (
    NO_BUDGET,
    Ahead,
    Line,
    PlannedEffect,
    budgets_at,
    effects_of_planned,
    levels_ahead,
    versions_of_levels,
)
from portal.budgets.services import budget_change_create, lines_errors, moment_errors, reason_errors
from portal.clusters.models import Cluster
from portal.common.errors import Conflict, FieldError, Refused
from portal.common.permissions import ROLE_RANK, role_covers
from portal.common.units import PPM, whole_second
from portal.projects.models import Membership, Project, User
from portal.projects.selectors import ancestor_paths, projects_visible

STALE = "stale"


@dataclass(frozen=True)
class LevelEdit:
    """What a file would change of one level, the version that its author looked at, and what is planned against it."""

    cluster: Cluster
    parent: Project
    base_version: int
    lines: tuple[tuple[Project, Line], ...]
    moves: tuple[Move, ...]
    planned: tuple[PlannedEffect, ...]


@dataclass(frozen=True)
class ImportPlan:
    """What a file would do: the levels that it changes, or what is wrong with it."""

    rows: int
    edits: tuple[LevelEdit, ...]
    errors: tuple[RowError, ...]


@dataclass
class _Level:
    """A level as the file has it."""

    cluster: Cluster
    parent: Project
    rows: list[tuple[Row, Project]] = field(default_factory=list)


@dataclass(frozen=True)
class _Facts:
    """All that a plan is made from, read once."""

    projects: dict[str, Project]
    children: dict[int, list[Project]]
    editable: set[int]
    clusters: dict[str, Cluster]
    budgets: dict[int, dict[int, Line]]
    versions: dict[int, dict[int, int]]
    ahead: dict[int, dict[int, list[Ahead]]]


def budgets_plan(*, text: str, user: User, effective_at: datetime | None, now: datetime) -> ImportPlan:
    """What importing the file would do; nothing is changed."""
    reading = rows_read(text)
    errors = list(reading.errors)
    edits: list[LevelEdit] = []
    if reading.rows:
        names = {row.cluster for row in reading.rows}
        facts = _facts(user=user, cluster_names=names, at=effective_at or now)
        levels, strangers = _levels(reading.rows, facts)
        errors += strangers
        for level in levels:
            wrong, edit = _level_plan(level, facts)
            errors += wrong
            edits += [edit] if edit else []
    elif not errors:
        errors.append(RowError(1, "", "empty", "The file has no line below its header."))
    return ImportPlan(len(reading.rows), tuple(edits), tuple(_errors_cut(errors)))


@transaction.atomic
def budgets_import(
    *, text: str, reason: str, author: User, effective_at: datetime | None, now: datetime
) -> list[BudgetChange]:
    """Make every change of the file, one a level, all at the same moment; refused whole if anything is wrong.

    Levels that the file leaves as they are get no change. Stale versions alone are a conflict.
    """
    now = whole_second(now)
    wrong = reason_errors(reason) + moment_errors(whole_second(effective_at or now), now)
    plan = budgets_plan(text=text, user=author, effective_at=effective_at, now=now)
    parents = sorted({edit.parent.pk for edit in plan.edits})
    # In one order for all, so that two imports can't wait for each other; then what was planned is planned again.
    list(Project.objects.select_for_update(no_key=True).filter(pk__in=parents).order_by("pk"))
    plan = budgets_plan(text=text, user=author, effective_at=effective_at, now=now)
    _errors_raise(wrong, plan)
    return [
        budget_change_create(
            cluster=edit.cluster,
            parent=edit.parent,
            base_version=edit.base_version,
            lines=[(project, *line) for project, line in edit.lines],
            reason=reason,
            author=author,
            effective_at=effective_at,
            now=now,
        )
        for edit in plan.edits
    ]


def error_field(error: RowError) -> FieldError:
    """A complaint as the errors of a problem: `csv.12.percent`, and the line said in the sentence too."""
    where = f"csv.{error.line}.{error.column}" if error.column else f"csv.{error.line}"
    return FieldError(where, error.code, f"Line {error.line}: {error.detail}")


def _errors_raise(wrong: Sequence[FieldError], plan: ImportPlan) -> None:
    stale = [error for error in plan.errors if error.code == STALE]
    if stale and not wrong and len(stale) == len(plan.errors):
        conflict = Conflict(stale[0].detail)
        conflict.errors = [error_field(error) for error in stale]
        raise conflict
    if wrong or plan.errors:
        raise Refused.many([*wrong, *(error_field(error) for error in plan.errors)])


def _errors_cut(errors: list[RowError]) -> Iterator[RowError]:
    ordered = sorted(errors)
    yield from ordered[:ERRORS_MAX]
    if len(ordered) > ERRORS_MAX:
        more = len(ordered) - ERRORS_MAX
        yield RowError(ordered[ERRORS_MAX].line, "", "more", f"… and {more} more.")


def _facts(*, user: User, cluster_names: set[str], at: datetime) -> _Facts:
    visible = list(projects_visible(user=user).filter(archived_at=None).order_by("path"))
    children: dict[int, list[Project]] = {}
    for project in visible:
        if project.parent_id is not None:
            children.setdefault(project.parent_id, []).append(project)
    clusters = {cluster.name: cluster for cluster in Cluster.objects.filter(name__in=_storable(cluster_names))}
    return _Facts(
        projects={project.path: project for project in visible},
        children=children,
        editable=_editable(user, visible),
        clusters=clusters,
        budgets={each.pk: budgets_at(cluster=each, at=at) for each in clusters.values()},
        versions={each.pk: versions_of_levels(cluster=each) for each in clusters.values()},
        ahead={each.pk: levels_ahead(cluster=each, after=at) for each in clusters.values()},
    )


def _storable(names: Iterable[str]) -> list[str]:
    """Names that the database can be asked for: a lone surrogate is no text to it."""
    return [name for name in names if not any("\ud800" <= letter <= "\udfff" for letter in name)]


def _editable(user: User, projects: Iterable[Project]) -> set[int]:
    """Ids of the projects whose children's budgets the person may set."""
    if user.is_superuser:
        return {project.pk for project in projects}
    held = Membership.objects.filter(user_id=user.pk).values_list("project__path", "role")
    leads = {path for path, role in held if role in ROLE_RANK and role_covers(role, "budgets_edit")}
    return {project.pk for project in projects if leads.intersection(ancestor_paths(project.path))}


def _levels(rows: Sequence[Row], facts: _Facts) -> tuple[list[_Level], list[RowError]]:
    """The rows by level, in the file's order; rows of no cluster or project that there is are complaints."""
    levels: dict[tuple[int, int], _Level] = {}
    errors: list[RowError] = []
    for row in rows:
        cluster, project = facts.clusters.get(row.cluster), facts.projects.get(row.project)
        if cluster is None:
            errors.append(_unknown_cluster(row))
        if project is None:
            sentence = f"There is no project {row.project[:200]!r} that you may see: the file may be of another tree."
            errors.append(RowError(row.line, "project", "unknown_project", sentence))
        if cluster is None or project is None:
            continue
        parent = _parent_of(project, facts)
        if parent is None:
            errors += _top_errors(row, facts.budgets[cluster.pk].get(project.pk), project)
            continue
        level = levels.setdefault((cluster.pk, parent.pk), _Level(cluster, parent))
        level.rows.append((row, project))
    return list(levels.values()), errors


def _unknown_cluster(row: Row) -> RowError:
    return RowError(row.line, "cluster", "unknown_cluster", f"There is no cluster {row.cluster[:60]!r}.")


def _parent_of(project: Project, facts: _Facts) -> Project | None:
    return facts.projects.get(project.path.rpartition("/")[0])


def _top_errors(row: Row, line: Line | None, project: Project) -> list[RowError]:
    """The root, or the highest project that the person sees: a file can only repeat what it has."""
    if row.is_broken:
        return []
    root = project.parent_id is None
    if root and row.share_ppm in (None, PPM) and row.burst_gpus is None:
        return []
    if not root and _line_of(row) == (line or NO_BUDGET):
        return []
    sentence = "The root holds the whole cluster." if root else f"You may not set the budget of {project.path}."
    return [RowError(row.line, "percent", "not_yours", sentence)]


def _line_of(row: Row) -> Line:
    return Line(row.share_ppm or 0, row.burst_gpus)


def _level_plan(level: _Level, facts: _Facts) -> tuple[list[RowError], LevelEdit | None]:
    """What is wrong with a level of the file, or what it would change."""
    standing = facts.budgets[level.cluster.pk]
    readable = [(row, project) for row, project in level.rows if not row.is_broken]
    differing = [(row, project) for row, project in readable if _line_of(row) != standing.get(project.pk, NO_BUDGET)]
    first = level.rows[0][0].line
    if level.parent.pk not in facts.editable:
        sentence = f"Only leads of {level.parent.path} set the budgets of its children."
        return [RowError(row.line, "percent", "not_yours", sentence) for row, _ in differing], None
    errors = list(_complete_errors(level, facts, first))
    if differing:
        version = facts.versions[level.cluster.pk].get(level.parent.pk, 0)
        errors += _version_errors(level.parent, [row for row, _ in readable], version)
        errors += _blank_errors(differing)
    if errors or not differing or len(readable) < len(level.rows):
        return errors, None
    errors = [
        RowError(first, "percent", error.code, error.detail)
        for error in lines_errors(level.parent, [(project, *_line_of(row)) for row, project in level.rows])
    ]
    return errors, None if errors else _edit(level, standing, facts)


def _edit(level: _Level, standing: dict[int, Line], facts: _Facts) -> LevelEdit:
    lines = tuple((project, _line_of(row)) for row, project in level.rows)
    moves = tuple(
        Move(project, standing.get(project.pk), line)
        for project, line in lines
        if line != standing.get(project.pk, NO_BUDGET)
    )
    planned = effects_of_planned(
        before=standing,
        after={project.pk: line for project, line in lines},
        ahead=facts.ahead[level.cluster.pk].get(level.parent.pk, []),
        projects={project.pk: project for project, _ in lines},
    )
    return LevelEdit(level.cluster, level.parent, level.rows[0][0].version or 0, lines, moves, tuple(planned))


def _complete_errors(level: _Level, facts: _Facts, first: int) -> Iterator[RowError]:
    """Each child of the level once."""
    seen: dict[int, int] = {}
    for row, project in level.rows:
        if project.pk in seen:
            sentence = f"{project.path} stands on line {seen[project.pk]} already."
            yield RowError(row.line, "project", "twice", sentence)
        seen.setdefault(project.pk, row.line)
    missing = [child.path for child in facts.children.get(level.parent.pk, []) if child.pk not in seen]
    if missing:
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        sentence = f"Every child of {level.parent.path} must be listed; missing: {', '.join(missing[:10])}{more}."
        yield RowError(first, "project", "missing", sentence)


def _version_errors(parent: Project, rows: Sequence[Row], current: int) -> Iterator[RowError]:
    """The version that was exported must be the newest, and the same on all lines of the level."""
    for row in rows:
        if row.version is None:
            yield RowError(
                row.line, "version", "required", "The version is missing: it says what the file was made from."
            )
        elif row.version != current:
            sentence = f"The budgets below {parent.path} are at version {current} by now, not {row.version}."
            yield RowError(row.line, "version", STALE, f"{sentence} Export them again.")


def _blank_errors(differing: Sequence[tuple[Row, Project]]) -> Iterator[RowError]:
    for row, project in differing:
        if row.share_ppm is None:
            sentence = f"The percent of {project.path} is missing; write 0 to take its budget away."
            yield RowError(row.line, "percent", "required", sentence)
