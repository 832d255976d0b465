"""Changing budgets: one level at a time, on top of the version that was looked at, never above 100 %."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from portal.budgets.models import BudgetChange, BudgetLine
from portal.budgets.percent import percent_exact_text
from portal.budgets.selectors import NO_BUDGET, budgets_at, level_at, version_of_level
from portal.clusters.models import Cluster
from portal.common.errors import Conflict, FieldError, Refused
from portal.common.messages import pass_request
from portal.common.services import audit_record
from portal.common.units import PPM, whole_second
from portal.projects.models import Project, User
from portal.projects.selectors import user_require

BURST_GPUS_MAX = 1_000_000
AHEAD_MAX = timedelta(days=3660)
REASON_LENGTH_MAX = 10_000

LineInput = tuple[Project, Any, Any]


@transaction.atomic
def budget_change_create(
    *,
    cluster: Cluster,
    parent: Project,
    base_version: int,
    lines: Sequence[LineInput],
    reason: str,
    author: User | None,
    effective_at: datetime | None,
    now: datetime,
    undoes: BudgetChange | None = None,
    nothing_is_kept: bool = True,
) -> BudgetChange:
    """Set the budgets of all children of `parent` on one cluster at once: (project, share_ppm, burst_gpus) each.

    Refused above 100 %, with a child missing, twice or unknown, without a reason, or to take effect in the past;
    a conflict when somebody else changed the level since `base_version`. `effective_at` None is now. Unless
    `nothing_is_kept`, lines that stand so already make no change: the one in force at that moment is returned.
    """
    if author is not None:
        user_require(user=author, action="budgets_edit", project=parent)
    parent = Project.objects.select_for_update(no_key=True).get(pk=parent.pk)  # one editor of this level at a time
    now = whole_second(now)
    moment = now if effective_at is None else whole_second(effective_at)
    current = base_require(cluster=cluster, parent=parent, base_version=base_version)
    errors = reason_errors(reason) + moment_errors(moment, now) + lines_errors(parent, lines)
    if errors:
        raise Refused.many(errors)
    if not nothing_is_kept and (same := change_with(cluster=cluster, parent=parent, lines=lines, at=moment)):
        return same
    before = budgets_at(cluster=cluster, at=moment)
    change = BudgetChange.objects.create(
        cluster=cluster,
        parent=parent,
        version=current + 1,
        base_version=base_version,
        author=author,
        reason=reason.strip(),
        created_at=now,
        effective_at=moment,
        undoes=undoes,
    )
    BudgetLine.objects.bulk_create(
        BudgetLine(change=change, project=project, share_ppm=share_ppm, burst_gpus=burst_gpus)
        for project, share_ppm, burst_gpus in lines
    )
    audit_record(
        actor=author,
        action="budget_change_create",
        target=change,
        before={project.path: _line_record(*before.get(project.pk, (0, None))) for project, _, _ in lines},
        after={project.path: _line_record(share_ppm, burst_gpus) for project, share_ppm, burst_gpus in lines},
        now=now,
        reason=reason.strip(),
    )
    pass_request(cluster.pk)
    return change


def change_with(*, cluster: Cluster, parent: Project, lines: Sequence[LineInput], at: datetime) -> BudgetChange | None:
    """The change in force at that moment, if the level stands with exactly these lines then."""
    level = level_at(cluster=cluster, parent=parent, at=at)
    moved = any(level.lines.get(project.pk, NO_BUDGET) != (ppm, burst) for project, ppm, burst in lines)
    return None if moved else level.change


def base_require(*, cluster: Cluster, parent: Project, base_version: int) -> int:
    """The version of the level, which must be the one that the edit was based on; its row must be locked."""
    current = version_of_level(cluster=cluster, parent=parent)
    if base_version != current:
        raise Conflict(
            f"These budgets are at version {current} by now; yours were based on version {base_version}.",
            attr="base_version",
            current_version=current,
        )
    return current


def _line_record(share_ppm: int, burst_gpus: int | None) -> dict[str, int | None]:
    return {"share_ppm": share_ppm, "burst_gpus": burst_gpus}


def reason_errors(reason: str) -> list[FieldError]:
    if not reason.strip():
        return [FieldError("reason", "required", "Give the reason for this change.")]
    if "\0" in reason or len(reason) > REASON_LENGTH_MAX:
        sentence = f"A reason has at most {REASON_LENGTH_MAX} characters, none of them NUL."
        return [FieldError("reason", "invalid", sentence)]
    return []


def moment_errors(moment: datetime, now: datetime) -> list[FieldError]:
    if moment < now:
        sentence = f"A change can't take effect in the past: {moment.isoformat()} is before {now.isoformat()}."
        return [FieldError("effective_at", "invalid", sentence)]
    if moment - now > AHEAD_MAX:
        return [FieldError("effective_at", "invalid", "A change takes effect within ten years.")]
    return []


def lines_errors(parent: Project, lines: Sequence[LineInput]) -> list[FieldError]:
    children = {child.pk: child for child in Project.objects.filter(parent=parent, archived_at=None)}
    if parent.archived_at is not None:
        return [FieldError("parent", "archived", f"{parent.path} is archived: it has nothing to give out.")]
    errors = [error for line in lines for error in _line_errors(parent, children, line)]
    listed = [project.pk for project, _, _ in lines]
    twice = sorted({project.path for project, _, _ in lines if listed.count(project.pk) > 1})
    missing = sorted(child.path for pk, child in children.items() if pk not in listed)
    if twice:
        errors.append(FieldError("lines", "twice", f"Listed more than once: {', '.join(twice)}."))
    if missing:
        sentence = f"Every child of {parent.path} must be listed; missing: {', '.join(missing)}."
        errors.append(FieldError("lines", "missing", sentence))
    return errors or _total_errors(parent, lines)


def _line_errors(parent: Project, children: dict[int, Project], line: LineInput) -> list[FieldError]:
    project, share_ppm, burst_gpus = line
    errors = []
    if project.pk not in children:
        errors.append(FieldError("lines", "unknown", f"{project.path} is no child of {parent.path}."))
    if not _whole_number(share_ppm) or not 0 <= share_ppm <= PPM:
        sentence = f"The budget of {project.path} must be between 0 % and 100 % of {parent.path}'s share."
        errors.append(FieldError("share_ppm", "invalid", sentence))
    if burst_gpus is not None and (not _whole_number(burst_gpus) or not 0 <= burst_gpus <= BURST_GPUS_MAX):
        sentence = f"The burst cap of {project.path} must be 0 to {BURST_GPUS_MAX} GPUs, or none."
        errors.append(FieldError("burst_gpus", "invalid", sentence))
    return errors


def _whole_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _total_errors(parent: Project, lines: Sequence[LineInput]) -> list[FieldError]:
    total = sum(share_ppm for _, share_ppm, _ in lines)
    if total <= PPM:
        return []
    parts = " + ".join(f"{project.path} {percent_exact(ppm)}" for project, ppm, _ in lines if ppm)
    sentence = f"The children of {parent.path} add up to {percent_exact(total)}, more than 100 %: {parts}."
    return [FieldError("share_ppm", "over_100_percent", sentence)]


def percent_exact(ppm: int) -> str:
    """`60 %`, `12.5 %`: parts per million as people write percent, exactly."""
    return f"{percent_exact_text(ppm)} %"
