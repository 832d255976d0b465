"""The history of a level in words: who, when, from, to, why."""

from collections.abc import Iterable
from dataclasses import dataclass

from portal.budgets.models import BudgetChange
from portal.dashboard.budget_units import percent_text

MISSING = "no budget"


@dataclass(frozen=True)
class Move:
    """One child's budget before and after a change."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class ChangeView:
    change: BudgetChange
    moves: list[Move]


def changes_shown(changes: Iterable[BudgetChange]) -> list[ChangeView]:
    """Newest first, each against the version before it; the oldest of the list against nothing, if it is the first.

    A list that is cut has one more at its end than it shows, for the comparison.
    """
    ordered = list(changes)
    shown = []
    for position, change in enumerate(ordered):
        earlier = ordered[position + 1] if position + 1 < len(ordered) else None
        shown.append(ChangeView(change, _moves(earlier, change)))
    return shown


def _moves(earlier: BudgetChange | None, change: BudgetChange) -> list[Move]:
    before, after = _texts(earlier), _texts(change)
    names = sorted({*before, *after})
    return [
        Move(name, before.get(name, MISSING), after.get(name, MISSING))
        for name in names
        if before.get(name) != after.get(name)
    ]


def _texts(change: BudgetChange | None) -> dict[str, str]:
    if change is None:
        return {}
    return {line.project.name: _line_text(line.share_ppm, line.burst_gpus) for line in change.lines.all()}


def _line_text(share_ppm: int, burst_gpus: int | None) -> str:
    cap = f", at most {burst_gpus:,} GPUs" if burst_gpus is not None else ""
    return f"{percent_text(share_ppm)} %{cap}"
