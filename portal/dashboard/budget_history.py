"""Budget changes in words: who, when, from, to, why, and what has become of each."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from portal.budgets.history import ChangeState, Recorded, changes_recorded
from portal.budgets.history import Move as RecordedMove
from portal.budgets.models import BudgetChange
from portal.budgets.selectors import Ahead, Line, PlannedEffect
from portal.budgets.undo import undo_complaint
from portal.dashboard.budget_units import percent_text
from portal.projects.models import Project

MISSING = "no budget"
MOVES_MOST = 8
STATE_WORDS = {
    ChangeState.PLANNED: "planned",
    ChangeState.IN_FORCE: "in force",
    ChangeState.PAST: "replaced since",
    ChangeState.SUPERSEDED: "never in force: a later version has the same moment",
    ChangeState.WITHDRAWN: "withdrawn",
    ChangeState.WITHDRAWAL: "a withdrawal",
}


@dataclass(frozen=True)
class Move:
    """One child's budget before and after a change."""

    name: str
    path: str
    before: str
    after: str


@dataclass(frozen=True)
class ChangeView:
    """A change as pages show it."""

    change: BudgetChange
    state: ChangeState
    moves: list[Move]
    more_moves: int
    complaint: str

    @property
    def state_words(self) -> str:
        return STATE_WORDS[self.state]

    @property
    def is_planned(self) -> bool:
        return self.state is ChangeState.PLANNED

    @property
    def may_be_taken_back(self) -> bool:
        return not self.complaint and self.state is not ChangeState.SUPERSEDED

    @property
    def undo_verb(self) -> str:
        return "Withdraw" if self.is_planned else "Undo"


def changes_shown(
    changes: Iterable[BudgetChange],
    *,
    at: datetime,
    project: Project | None = None,
    moves_most: int | None = MOVES_MOST,
) -> list[ChangeView]:
    """The changes in the order given, with the first of what they moved, or what they moved of one project."""
    recorded = changes_recorded(changes=changes, at=at, project=project)
    return [change_view(each, at=at, moves_most=moves_most) for each in recorded]


def change_view(recorded: Recorded, *, at: datetime, moves_most: int | None = None) -> ChangeView:
    moves = [move_words(move) for move in recorded.moves[:moves_most]]
    more = len(recorded.moves) - len(moves)
    return ChangeView(recorded.change, recorded.state, moves, more, undo_complaint(recorded=recorded, now=at))


def move_words(move: RecordedMove) -> Move:
    project = move.project
    return Move(project.name, project.path, line_text(move.before), line_text(move.after))


def line_text(line: Line | None) -> str:
    """`14 %, at most 8 GPUs`, or that there is none."""
    if line is None:
        return MISSING
    cap = f", at most {line.burst_gpus:,} GPUs" if line.burst_gpus is not None else ""
    return f"{percent_text(line.share_ppm)} %{cap}"


def planned_words(effects: Iterable[PlannedEffect]) -> list[str]:
    """`The change planned for 5 Dec 08:00 by mona sets Vision from 37.5 % to 22 %.`: a sentence a change."""
    return [
        f"{planned_name(effect.change)} sets "
        + ", ".join(
            f"{each.project.name} from {line_text(each.before)} to {line_text(each.after)}" for each in effect.sets_back
        )
        + "."
        for effect in effects
    ]


def planned_name(change: BudgetChange) -> str:
    """`The change planned for 5 Dec 08:00 by mona`, the year where it is another."""
    at = timezone.localtime(change.effective_at)
    year = "" if at.year == timezone.localtime().year else " %Y"
    who = change.author.username if change.author else "the system"
    return f"The change planned for {at.strftime(f'%-d %b{year} %H:%M')} by {who}"


def planned_data(ahead: Iterable[Ahead]) -> str:
    """What the level's script needs to say the same while somebody types; moments in the site's zone, as inputs are."""
    return json.dumps(
        [
            {
                "at": f"{timezone.localtime(each.change.effective_at):%Y-%m-%dT%H:%M:%S}",
                "words": planned_name(each.change),
                "lines": each.lines,
            }
            for each in ahead
        ]
    )
