"""Budget changes as the API shows them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from portal.budgets.csv_import import ImportPlan
from portal.budgets.history import Move, Recorded, changes_recorded, planned_after
from portal.budgets.models import BudgetChange, BudgetLine
from portal.budgets.selectors import PlannedEffect, SetBack, version_of_level
from portal.common.units import PPM
from portal.projects.former import projects_as_below

Rows = list[dict[str, Any]]


def change_rows(*, changes: Iterable[BudgetChange], at: datetime) -> Rows:
    """Answers for changes, in the order given."""
    return [_change_row(recorded) for recorded in changes_recorded(changes=changes, at=at)]


def change_row(*, change: BudgetChange, at: datetime) -> dict[str, Any]:
    """One change with every child's budget."""
    [recorded] = changes_recorded(changes=[change], at=at)
    rows = BudgetLine.objects.filter(change=change).select_related("project").order_by("project__path")
    lines = list(rows)
    named = projects_as_below(places=[(line.project, change.parent) for line in lines])
    return {
        **_change_row(recorded),
        "planned_after": planned_rows(planned_after(recorded=recorded, at=at)),
        "level_version": version_of_level(cluster=change.cluster, parent=change.parent),
        "children": [
            {
                "project": named[line.project_id, change.parent_id].path,
                "percent": _percent(line.share_ppm),
                "share_ppm": line.share_ppm,
                "burst_gpus": line.burst_gpus,
            }
            for line in lines
        ],
    }


def _change_row(recorded: Recorded) -> dict[str, Any]:
    change = recorded.change
    withdrawal = getattr(change, "withdrawn_by", None)
    return {
        "id": change.pk,
        "cluster": change.cluster.name,
        "parent": change.parent.path,
        "version": change.version,
        "base_version": change.base_version,
        "author": change.author.username if change.author else None,
        "reason": change.reason,
        "created_at": change.created_at,
        "effective_at": change.effective_at,
        "state": recorded.state.value,
        "undoes": change.undoes_id,
        "withdraws": change.withdraws_id,
        "withdrawn_by": withdrawal.pk if withdrawal else None,
        "moves": [move_row(move) for move in recorded.moves],
    }


def planned_rows(effects: Iterable[PlannedEffect]) -> Rows:
    """Changes still ahead with the budgets that they set back."""
    return [
        {
            "change": effect.change.pk,
            "effective_at": effect.change.effective_at,
            "sets_back": [move_row(each) for each in effect.sets_back],
        }
        for effect in effects
    ]


def move_row(move: Move | SetBack) -> dict[str, Any]:
    """From and to of one child."""
    before, after = move.before, move.after
    return {
        "project": move.project.path,
        "from_percent": _percent(before.share_ppm) if before else None,
        "to_percent": _percent(after.share_ppm) if after else None,
        "from_burst_gpus": before.burst_gpus if before else None,
        "to_burst_gpus": after.burst_gpus if after else None,
    }


def import_row(*, plan: ImportPlan, dry_run: bool, changes: Iterable[BudgetChange] = ()) -> dict[str, Any]:
    """What a file would do or did."""
    return {
        "dry_run": dry_run,
        "rows": plan.rows,
        "levels": [
            {
                "cluster": edit.cluster.name,
                "parent": edit.parent.path,
                "base_version": edit.base_version,
                "moves": [move_row(move) for move in edit.moves],
                "planned_after": planned_rows(edit.planned),
            }
            for edit in plan.edits
        ],
        "errors": [error._asdict() for error in plan.errors],
        "changes": [change.pk for change in changes],
    }


def _percent(share_ppm: int) -> float:
    return share_ppm * 100 / PPM
