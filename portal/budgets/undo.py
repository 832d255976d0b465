"""Taking a change back: by a new change, or, while it is still ahead, by withdrawing it. Nothing is erased."""

from datetime import datetime

from django.db import transaction

from portal.budgets.history import ChangeState, Recorded, changes_recorded
from portal.budgets.models import BudgetChange
from portal.budgets.selectors import NO_BUDGET, Line, level_at
from portal.budgets.services import base_require, budget_change_create, reason_errors
from portal.common.errors import Refused
from portal.common.messages import pass_request
from portal.common.services import audit_record
from portal.common.units import whole_second
from portal.projects.models import Project, User
from portal.projects.selectors import user_require


@transaction.atomic
def budget_change_undo(
    *,
    change: BudgetChange,
    base_version: int,
    reason: str,
    author: User | None,
    effective_at: datetime | None,
    now: datetime,
) -> BudgetChange:
    """Take `change` back by a new change on top of `base_version`.

    What it moved goes back to what it was before; what others have moved since then stays. A change that is still
    ahead is withdrawn instead, and then `effective_at` has no meaning.
    """
    if author is not None:
        user_require(user=author, action="budgets_edit", project=change.parent)
    Project.objects.select_for_update(no_key=True).get(pk=change.parent_id)
    now = whole_second(now)
    [recorded] = changes_recorded(changes=[change], at=now)
    if complaint := undo_complaint(recorded=recorded, now=now):
        raise Refused(complaint, code="not_undoable")
    if change.effective_at > now:
        return _withdraw(recorded, base_version=base_version, reason=reason, author=author, now=now)
    base_require(cluster=change.cluster, parent=change.parent, base_version=base_version)
    lines = undo_lines(recorded=recorded, at=effective_at or now)
    if lines == _standing(change, lines, effective_at or now):
        sentence = f"There is nothing to undo: what version {change.version} moved is as it was before it."
        raise Refused(sentence, code="not_undoable")
    return budget_change_create(
        cluster=change.cluster,
        parent=change.parent,
        base_version=base_version,
        lines=[(project, line.share_ppm, line.burst_gpus) for project, line in lines.items()],
        reason=reason,
        author=author,
        effective_at=effective_at,
        now=now,
        undoes=change,
    )


def undo_complaint(*, recorded: Recorded, now: datetime) -> str:
    """Why a change can't be taken back, in words; nothing if it can."""
    change = recorded.change
    if recorded.state is ChangeState.WITHDRAWAL:
        return "A withdrawal can't be undone: plan the change anew."
    if recorded.state is ChangeState.WITHDRAWN:
        return f"Version {change.version} was withdrawn already."
    if not recorded.moves and change.effective_at <= now:
        return f"Version {change.version} moved nothing: there is nothing to undo."
    return ""


def undo_lines(*, recorded: Recorded, at: datetime) -> dict[Project, Line]:
    """The level with what the change moved set back, for all children that there are now."""
    change = recorded.change
    standing = level_at(cluster=change.cluster, parent=change.parent, at=at).lines
    back = {move.project.pk: move.before or NO_BUDGET for move in recorded.moves}
    children = Project.objects.filter(parent=change.parent, archived_at=None).order_by("path")
    return {child: back.get(child.pk, standing.get(child.pk, NO_BUDGET)) for child in children}


def _standing(change: BudgetChange, lines: dict[Project, Line], at: datetime) -> dict[Project, Line]:
    standing = level_at(cluster=change.cluster, parent=change.parent, at=at).lines
    return {child: standing.get(child.pk, NO_BUDGET) for child in lines}


def _withdraw(
    recorded: Recorded, *, base_version: int, reason: str, author: User | None, now: datetime
) -> BudgetChange:
    change = recorded.change
    current = base_require(cluster=change.cluster, parent=change.parent, base_version=base_version)
    if errors := reason_errors(reason):
        raise Refused.many(errors)
    withdrawal = BudgetChange.objects.create(
        cluster=change.cluster,
        parent=change.parent,
        version=current + 1,
        base_version=base_version,
        author=author,
        reason=reason.strip(),
        created_at=now,
        effective_at=change.effective_at,
        withdraws=change,
    )
    audit_record(
        actor=author,
        action="budget_change_withdraw",
        target=withdrawal,
        before={move.project.path: _record(move.after) for move in recorded.moves},
        after={move.project.path: _record(move.before) for move in recorded.moves},
        now=now,
        reason=reason.strip(),
    )
    pass_request(change.cluster_id)
    return withdrawal


def _record(line: Line | None) -> dict[str, int | None]:
    return (line or NO_BUDGET)._asdict()
