"""A proposal's simulation as its page shows it: how far it is, what failed, or both reports side by side."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portal.common.units import PPM, duration_words, percent_words
from portal.dashboard.chart_proposal import delivery_chart, delivery_of, pairs_of, wait_p90_of, waits_chart
from portal.dashboard.chart_words import UNKNOWN
from portal.dashboard.charts import Chart, ChartFrame
from portal.dashboard.ranges import zone
from portal.projects.models import User
from portal.proposals.models import Proposal
from portal.simulations.models import Comparison, Run, RunState
from portal.simulations.names import HIDDEN, names_hidden, report_seen, text_seen

Report = dict[str, Any]
ORDER = (RunState.FAILED, RunState.CANCELLED, RunState.RUNNING, RunState.QUEUED, RunState.DONE)


@dataclass(frozen=True)
class Change:
    """A figure today and under the draft, in words."""

    what: str
    today: str
    draft: str


@dataclass(frozen=True)
class ProjectRow:
    """A project's figures today and under the draft."""

    path: str
    delivery: Change
    wait_p50: Change
    wait_p90: Change
    preemptions: Change
    lost: Change


@dataclass(frozen=True)
class Simulated:
    """The comparison and what can be said of it now."""

    comparison: Comparison
    state: str
    progress_ppm: int
    seconds_left: int | None
    errors: list[str]
    notes: list[str]
    figures: list[Change]
    rows: list[ProjectRow]
    charts: list[Chart]
    hidden: int

    @property
    def runs(self) -> list[Run]:
        return [self.comparison.today, self.comparison.draft]

    @property
    def is_open(self) -> bool:
        """Whether something of it still waits or runs, and nothing has gone wrong."""
        return self.state in (RunState.QUEUED, RunState.RUNNING)

    @property
    def is_done(self) -> bool:
        return self.state == RunState.DONE

    @property
    def percent(self) -> str:
        return percent_words(self.progress_ppm)


def simulated_of(*, proposal: Proposal, user: User, address: str) -> Simulated | None:
    """The newest simulation of the proposal's lines, as far as this person sees its projects; None: not asked for."""
    rows = Comparison.objects.select_related("today", "draft").defer("today__scenario", "draft__scenario")
    comparison = rows.filter(pk=proposal.comparison_id or 0).first()
    if comparison is None:
        return None
    today, draft = comparison.today, comparison.draft
    state = next(each for each in ORDER if each in (today.state, draft.state))
    left = [run.seconds_left for run in (today, draft) if run.seconds_left is not None and run.is_open]
    hidden = names_hidden(run=draft, user=user) if state in (RunState.DONE, RunState.FAILED) else frozenset[str]()
    before, after = (report_seen(run.report, hidden) or {} for run in (today, draft))
    return Simulated(
        comparison=comparison,
        state=state,
        progress_ppm=(_progress(today) + _progress(draft)) // 2,
        seconds_left=max(left, default=None),
        errors=[text_seen(run.error, hidden) for run in (today, draft) if run.error],
        notes=[text_seen(note, hidden) for note in dict.fromkeys([*today.notes, *draft.notes])],
        figures=_figures(before, after) if state == RunState.DONE else [],
        rows=_rows(before, after) if state == RunState.DONE else [],
        charts=_charts(comparison, before, after, address) if state == RunState.DONE else [],
        hidden=int(after.get(HIDDEN, 0)),
    )


def _progress(run: Run) -> int:
    return PPM if run.state == RunState.DONE else run.progress_ppm


def _charts(comparison: Comparison, before: Report, after: Report, address: str) -> list[Chart]:
    run = comparison.today
    start, end = run.history_from or comparison.created_at, run.history_to or comparison.created_at
    frame = ChartFrame(start, end, zone(), comparison.created_at, address)
    return [
        delivery_chart(pairs_of(before, after, delivery_of), frame=frame),
        waits_chart(pairs_of(before, after, wait_p90_of), frame=frame),
    ]


def _figures(before: Report, after: Report) -> list[Change]:
    return [
        _change("Delivered of owed, mean", before, after, lambda report: _percent(report.get("delivery_mean"))),
        _change("Least delivered", before, after, lambda report: _percent(report.get("delivery_min"))),
        _change("Queue wait, p90", before, after, lambda report: _duration(wait_p90_of(report))),
        _change("Preemptions", before, after, lambda report: _count(report.get("preemptions"))),
    ]


def _rows(before: Report, after: Report) -> list[ProjectRow]:
    sides = before.get("by_project", {}), after.get("by_project", {})
    rows = []
    for path in sorted({*sides[0], *sides[1]}, key=lambda path: path.split("/")):
        today, draft = (side.get(path, {}) for side in sides)
        rows.append(
            ProjectRow(
                path,
                _change("delivered", today, draft, lambda figures: _percent(figures.get("delivery"))),
                _change("p50", today, draft, lambda figures: _duration(_wait(figures, "p50_s"))),
                _change("p90", today, draft, lambda figures: _duration(_wait(figures, "p90_s"))),
                _change("preemptions", today, draft, lambda figures: _count(figures.get("preemptions"))),
                _change("lost", today, draft, lambda figures: _hours(figures.get("lost_gpu_hours"))),
            )
        )
    return rows


def _change(what: str, today: Mapping[str, Any], draft: Mapping[str, Any], words: Any) -> Change:
    return Change(what, words(today), words(draft))


def _wait(figures: Mapping[str, Any], name: str) -> float | None:
    value: float | None = figures.get("waits", {}).get("all", {}).get(name)
    return value


def _percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else percent_words(round(ratio * PPM))


def _duration(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration_words(int(seconds))


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _hours(hours: float | None) -> str:
    return UNKNOWN if hours is None else f"{hours:,.1f}"
