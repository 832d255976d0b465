"""Charts of GPU-time: standings over time, and a budget over its use. Data in, dicts out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from portal.dashboard.chart_axes import moment_words
from portal.dashboard.chart_words import gpus_words, hours_cell, hours_words, ratio_cell
from portal.dashboard.charts import (
    STANDINGS,
    Cell,
    Chart,
    ChartFrame,
    Column,
    Dict,
    Table,
    chart_empty,
    named,
    time_layout,
    token,
)

ALLOCATED = ("protected", "funded")
MEASURE_STANDINGS = "GPUs occupied (GPU-hours per hour), by standing"
MEASURE_CAPACITY = ", under the schedulable GPUs (above them: on closed hosts)"
MEASURE_USE = "GPU-hours used per hour, by standing, against the allotment, both as means of each step"


@dataclass(frozen=True)
class Step:
    """A stretch of the range with the GPU-seconds of each standing in it."""

    start_at: datetime
    end_at: datetime
    gpu_seconds: Mapping[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> int:
        return int((self.end_at - self.start_at).total_seconds())

    @property
    def middle(self) -> float:
        return self.start_at.timestamp() + self.seconds / 2

    def total(self, standings: Sequence[str] = STANDINGS) -> int:
        return sum(self.gpu_seconds.get(standing, 0) for standing in standings)

    def gpus(self, standing: str) -> float:
        return self.gpu_seconds.get(standing, 0) / self.seconds

    def words(self, zone: ZoneInfo) -> str:
        start, end = self.start_at.astimezone(zone), self.end_at.astimezone(zone)
        return f"{start:%a %-d %b %H:%M} to " + (f"{end:%H:%M}" if end.date() == start.date() else f"{end:%a %H:%M}")


@dataclass(frozen=True)
class Level:
    """GPUs that something stands at from `at` on: an allotment, a capacity. `words` say which budget it is."""

    at: datetime
    gpus: float
    words: str = ""


def used_standings(steps: Sequence[Step]) -> list[str]:
    """The standings that occur, in their fixed order."""
    return [standing for standing in STANDINGS if any(step.gpu_seconds.get(standing) for step in steps)]


def standings_over_time(
    steps: Sequence[Step], *, frame: ChartFrame, title: str, key: str = "standings", capacity: Sequence[Level] = ()
) -> Chart:
    """Stacked areas: mean GPUs of each step by standing, under the schedulable GPUs as a line."""
    standings = used_standings(steps)
    if not standings:
        return chart_empty(
            key=key,
            title=title,
            frame=frame,
            measure=MEASURE_STANDINGS,
            note="No GPU was occupied in this range. Choose a longer range, or submit a workload.",
        )
    top = max([step.total() / step.seconds for step in steps] + [level.gpus for level in capacity])
    traces = [_area(steps, standing) for standing in standings]
    ends = _stack_ends(steps, standings)
    if capacity:
        traces.append(level_line(capacity, frame=frame, name="schedulable", shade="text"))
        ends.append(("schedulable", "text", capacity[-1].gpus))
    traces.append(_hover(steps, standings, frame.zone))
    return Chart(
        key=key,
        title=title,
        subtitle=frame.subtitle(MEASURE_STANDINGS + (MEASURE_CAPACITY if capacity else "")),
        traces=traces,
        layout=named(time_layout(frame, height=300, unit="GPUs", top=top), ends, top=top),
        table=_steps_table(steps, standings, frame.zone),
        address=frame.address,
    )


def _area(steps: Sequence[Step], standing: str) -> Dict:
    """One standing, flat over each step: a mean is not a slope."""
    values = [step.gpus(standing) for step in steps]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": standing,
        "x": [step.start_at.timestamp() for step in steps] + [steps[-1].end_at.timestamp()],
        "y": [*values, values[-1]],
        "stackgroup": "standings",
        "line": {"width": 0, "shape": "hv", "color": token(standing)},
        "fillcolor": token(standing),
        "hoverinfo": "skip",
    }


def _stack_ends(steps: Sequence[Step], standings: Sequence[str]) -> list[tuple[str, str, float]]:
    """Where each band lies at the right edge: its middle."""
    ends, base = [], 0.0
    for standing in standings:
        gpus = steps[-1].gpus(standing)
        ends.append((standing, standing, base + gpus / 2))
        base += gpus
    return ends


def level_line(levels: Sequence[Level], *, frame: ChartFrame, name: str, shade: str) -> Dict:
    """A step line: each level holds until the next."""
    end = frame.end_at.timestamp()
    start = frame.start_at.timestamp()
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [max(level.at.timestamp(), start) for level in levels] + [end],
        "y": [level.gpus for level in levels] + [levels[-1].gpus],
        "line": {"shape": "hv", "color": token(shade), "width": 2},
        "hoverinfo": "skip",
    }


def _hover(steps: Sequence[Step], standings: Sequence[str], zone: ZoneInfo, more: Sequence[str] = ()) -> Dict:
    """One box for all series of a step, with exact numbers."""
    lines = [
        [f"{standing}: {hours_words(step.gpu_seconds.get(standing, 0))} GPU-hours" for standing in standings]
        for step in steps
    ]
    for position, text in enumerate(more):
        lines[position].append(text)
    return {
        "type": "scatter",
        "mode": "markers",
        "marker": {"opacity": 0, "size": 1},
        "showlegend": False,
        "x": [step.middle for step in steps],
        "y": [step.total() / step.seconds for step in steps],
        "text": [step.words(zone) for step in steps],
        "customdata": ["<br>".join(each) for each in lines],
        "hovertemplate": "%{text}<br>%{customdata}<extra></extra>",
    }


def _moment_columns(zone: ZoneInfo) -> list[Column]:
    return [Column("from", zone.key, numeric=False), Column("to", zone.key, numeric=False)]


def moment_cell(moment: datetime, zone: ZoneInfo) -> Cell:
    """Local to read; ISO 8601 with offset to calculate with."""
    return Cell(moment_words(moment, zone), moment.astimezone(zone).isoformat())


def _steps_table(steps: Sequence[Step], standings: Sequence[str], zone: ZoneInfo) -> Table:
    columns = [
        *_moment_columns(zone),
        *(Column(standing, "GPU-hours", "GPU-seconds") for standing in standings),
        Column("all", "GPU-hours", "GPU-seconds"),
    ]
    rows = [
        [
            moment_cell(step.start_at, zone),
            moment_cell(step.end_at, zone),
            *(hours_cell(step.gpu_seconds.get(standing, 0)) for standing in standings),
            hours_cell(step.total()),
        ]
        for step in steps
    ]
    return Table(columns, rows)


def budget_over_use(
    steps: Sequence[Step],
    allotted: Sequence[int],
    *,
    frame: ChartFrame,
    title: str,
    budget: str,
) -> Chart:
    """Bars of what was used, under the step line of what the budgets then in force allotted: means of the same steps.

    `allotted`: GPU-seconds of each step; empty for a project that never had a budget. `budget` names the budget that
    it is drawn against.
    """
    standings = used_standings(steps)
    measure = f"{MEASURE_USE}: {budget}"
    levels = [Level(step.start_at, given / step.seconds) for step, given in zip(steps, allotted, strict=False)]
    if not standings and not any(allotted):
        return chart_empty(
            key="use",
            title=title,
            frame=frame,
            measure=measure,
            note="Nothing was used in this range and no budget was in force. "
            "A lead of the project above can give one on the budgets page.",
        )
    top = max([step.total() / step.seconds for step in steps] + [level.gpus for level in levels])
    traces = [_bars(steps, standing) for standing in standings]
    ends = [(standing, standing, value) for standing, _, value in _stack_ends(steps, standings)]
    if any(allotted):
        traces.append(level_line(levels, frame=frame, name="allotment", shade="text"))
        ends.append(("allotment", "text", levels[-1].gpus))
    more = [f"allotted: {hours_words(each)} GPU-hours" for each in allotted]
    traces.append(_hover(steps, standings, frame.zone, more))
    layout = {**time_layout(frame, height=300, unit="GPUs", top=top), "barmode": "stack", "bargap": 0.12}
    return Chart(
        key="use",
        title=title,
        subtitle=frame.subtitle(measure),
        traces=traces,
        layout=named(layout, ends, top=top),
        table=_use_table(steps, allotted, standings, frame.zone),
        address=frame.address,
    )


def _bars(steps: Sequence[Step], standing: str) -> Dict:
    return {
        "type": "bar",
        "name": standing,
        "x": [step.middle for step in steps],
        "width": [step.seconds * 0.86 for step in steps],
        "y": [step.gpus(standing) for step in steps],
        "marker": {"color": token(standing), "line": {"width": 0}},
        "hoverinfo": "skip",
    }


def _use_table(steps: Sequence[Step], allotted: Sequence[int], standings: Sequence[str], zone: ZoneInfo) -> Table:
    table = _steps_table(steps, standings, zone)
    if not allotted:
        return table
    columns = [
        *table.columns,
        Column("allotted", "GPU-hours", "GPU-seconds"),
        Column("allocated of allotted", "%", "ratio"),
    ]
    rows = [
        [*row, hours_cell(given), ratio_cell(step.total(ALLOCATED), given)]
        for row, step, given in zip(table.rows, steps, allotted, strict=True)
    ]
    return Table(columns, rows)


def use_title(name: str, charged_gpu_seconds: int, allotted_gpu_seconds: int, unallocated_gpu_seconds: int) -> str:
    """The finding of a budget chart in one sentence."""
    free = f", and {hours_words(unallocated_gpu_seconds)} unallocated" if unallocated_gpu_seconds else ""
    if not allotted_gpu_seconds:
        return f"{name} had no budget here: {hours_words(charged_gpu_seconds)} GPU-hours charged{free}"
    share = f"{charged_gpu_seconds * 100 / allotted_gpu_seconds:.0f} %"
    return (
        f"{name} used {share} of its allotment: {hours_words(charged_gpu_seconds)} of "
        f"{hours_words(allotted_gpu_seconds)} GPU-hours{free}"
    )


def gpus_of(gpu_seconds: int, seconds: int) -> str:
    """Mean GPUs in words."""
    return gpus_words(gpu_seconds / seconds) if seconds else gpus_words(0)


def levels_gpu_seconds(levels: Sequence[Level], start_at: datetime, end_at: datetime) -> int:
    """The GPU-seconds under a step line between two moments, cut down to whole ones."""
    total = 0.0
    for position, level in enumerate(levels):
        until = levels[position + 1].at if position + 1 < len(levels) else end_at
        total += level.gpus * max(0.0, (min(until, end_at) - max(level.at, start_at)).total_seconds())
    return int(total + 1e-6)
