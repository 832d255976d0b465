"""Charts of queue waits: distribution with p50 and p90, p50 and p90 over time, and by project. Data in, dicts out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from portal.dashboard.chart_axes import duration_axis
from portal.dashboard.chart_usage import moment_cell
from portal.dashboard.chart_words import UNKNOWN, count_cell, seconds_cell, text_cell, wait_words
from portal.dashboard.charts import (
    Chart,
    ChartFrame,
    Column,
    Dict,
    Table,
    axis_base,
    axis_title,
    chart_empty,
    layout_base,
    plain,
    shortened,
    token,
)

CURVE_POINTS_MAX = 300
MEASURE_CURVE = "Percent of starts that had waited at most so long"
MEASURE_TIME = "Queue wait of the workloads that started in each step, p50 and p90"
MEASURE_PROJECTS = "Queue wait from p50 to p90"
EMPTY = "No workload started in this range. Choose a longer range."
LINES = (("text", "solid"), ("accent", "solid"), ("muted", "dash"), ("text", "dot"))


def nearest_rank(ordered: Sequence[int], percent: int) -> int | None:
    """The nearest-rank percentile of waits in rising order; None of none."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None


@dataclass(frozen=True)
class WaitStep:
    """Waits of what started in a stretch of time."""

    start_at: datetime
    end_at: datetime
    waits: Sequence[int]  # rising

    @property
    def middle(self) -> float:
        return (self.start_at.timestamp() + self.end_at.timestamp()) / 2

    def words(self, zone: ZoneInfo) -> str:
        return f"{self.start_at.astimezone(zone):%a %-d %b %H:%M} to {self.end_at.astimezone(zone):%a %H:%M}"


def wait_distribution(
    series: Mapping[str, Sequence[int]], *, frame: ChartFrame, title: str, key: str, note: str = EMPTY
) -> Chart:
    """One curve a class: from 0 to 100 % of its starts over the wait, p50 and p90 marked."""
    filled = {name: waits for name, waits in series.items() if waits}
    if not filled:
        return chart_empty(key=key, title=title, frame=frame, measure=MEASURE_CURVE, note=note)
    longest = max(waits[-1] for waits in filled.values())
    traces: list[Dict] = []
    for position, (name, waits) in enumerate(filled.items()):
        shade, dash = LINES[position % len(LINES)]
        traces += [_curve(name, waits, shade, dash, longest), _marks(name, waits, shade)]
    layout = layout_base(
        height=300,
        xaxis=axis_base(**duration_axis(longest), title=axis_title("queue wait, log scale")),
        yaxis=axis_base(range=[0, 104], tickvals=[0, 25, 50, 75, 90, 100], ticksuffix=" %"),
        hovermode="closest",
        showlegend=True,
    )
    layout["margin"] = {**layout["margin"], "t": 40}
    return Chart(
        key=key,
        title=title,
        subtitle=frame.subtitle(MEASURE_CURVE),
        traces=traces,
        layout=layout,
        table=percentile_table("class", filled),
        address=frame.address,
    )


def _curve(name: str, waits: Sequence[int], shade: str, dash: str, longest: int) -> Dict:
    """The share of waits up to each; thinned evenly where there are many, its ends kept."""
    size = len(waits)
    picks = sorted({*range(0, size, max(1, size // CURVE_POINTS_MAX)), size - 1})
    points = {max(1, waits[pick]): (pick + 1) * 100 / size for pick in picks}
    x, y = list(points), list(points.values())
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(f"{name} ({size:,})"),
        "x": [1, *x, max(60, longest)],
        "y": [0 if x[0] > 1 else y[0], *y, 100],
        "line": {"shape": "hv", "width": 2, "color": token(shade), "dash": dash},
        "hoverinfo": "skip",
    }


def _marks(name: str, waits: Sequence[int], shade: str) -> Dict:
    """p50 and p90 as points with their values."""
    values = [(percent, nearest_rank(waits, percent) or 0) for percent in (50, 90)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "showlegend": False,
        "x": [max(1, seconds) for _, seconds in values],
        "y": [percent for percent, _ in values],
        "marker": {"size": 10, "color": token(shade), "symbol": ["circle", "diamond"], "line": {"width": 0}},
        "customdata": [f"{plain(name)}, p{percent}: {wait_words(seconds)}" for percent, seconds in values],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def percentile_table(label: str, series: Mapping[str, Sequence[int]]) -> Table:
    """p50, p90 and the longest of each series, in words; whole seconds in the CSV."""
    columns = [
        Column(label, numeric=False),
        Column("starts"),
        *(Column(name, csv_unit="seconds") for name in ("p50", "p90", "longest")),
    ]
    rows = [
        [
            text_cell(name),
            count_cell(len(waits)),
            *(seconds_cell(nearest_rank(waits, percent)) for percent in (50, 90, 100)),
        ]
        for name, waits in series.items()
    ]
    return Table(columns, rows)


def waits_over_time(
    panels: Mapping[str, Sequence[WaitStep]], *, frame: ChartFrame, title: str, time_axis: Dict
) -> Chart:
    """Small multiples, one a class: p50 and p90 of each step on one log scale."""
    longest = max((step.waits[-1] for steps in panels.values() for step in steps if step.waits), default=None)
    if longest is None:
        return chart_empty(key="over-time", title=title, frame=frame, measure=MEASURE_TIME, note=EMPTY)
    traces: list[Dict] = []
    layout = layout_base(height=240, xaxis={}, yaxis={}, hovermode="closest", showlegend=True)
    layout["margin"] = {**layout["margin"], "t": 64}
    layout["legend"] = {**layout["legend"], "yref": "container", "y": 1, "yanchor": "top"}
    layout["meta"] = {"panels": len(panels), "panel_height": 180}
    layout["annotations"] = []
    for position, (name, steps) in enumerate(panels.items(), start=1):
        suffix = "" if position == 1 else str(position)
        layout[f"xaxis{suffix}"] = axis_base(**time_axis, showgrid=False, anchor=f"y{suffix}")
        layout[f"yaxis{suffix}"] = axis_base(**duration_axis(longest), anchor=f"x{suffix}")
        layout["annotations"].append(_panel_title(name, suffix))
        if not any(step.waits for step in steps):
            layout["annotations"].append(_panel_empty(suffix))
        traces += [
            _percentile_line(steps, percent, suffix=suffix, zone=frame.zone, legend=position == 1)
            for percent in (50, 90)
        ]
    return Chart(
        key="over-time",
        title=title,
        subtitle=frame.subtitle(MEASURE_TIME),
        traces=traces,
        layout=layout,
        table=_time_table(panels, frame.zone),
        address=frame.address,
    )


def _panel_title(name: str, suffix: str) -> Dict:
    return {
        "text": plain(name),
        "font": {"weight": 600},
        "xref": f"x{suffix} domain",
        "yref": f"y{suffix} domain",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": 8,
        "showarrow": False,
    }


def _panel_empty(suffix: str) -> Dict:
    return {
        "text": "none started",
        "font": {"color": token("muted")},
        "xref": f"x{suffix} domain",
        "yref": f"y{suffix} domain",
        "x": 0.5,
        "y": 0.5,
        "showarrow": False,
    }


def _percentile_line(steps: Sequence[WaitStep], percent: int, *, suffix: str, zone: ZoneInfo, legend: bool) -> Dict:
    values = [nearest_rank(step.waits, percent) for step in steps]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"p{percent}",
        "legendgroup": f"p{percent}",
        "showlegend": legend,
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "x": [step.middle for step in steps],
        "y": [None if value is None else max(1, value) for value in values],
        "line": {"width": 2, "color": token("text" if percent == 50 else "accent")},
        "marker": {"size": 5, "symbol": "circle" if percent == 50 else "diamond"},
        "connectgaps": False,
        "customdata": [
            f"{step.words(zone)}<br>p{percent}: {UNKNOWN if value is None else wait_words(value)}, "
            f"{len(step.waits):,} starts"
            for step, value in zip(steps, values, strict=True)
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _time_table(panels: Mapping[str, Sequence[WaitStep]], zone: ZoneInfo) -> Table:
    columns = [
        Column("class", numeric=False),
        Column("from", zone.key, numeric=False),
        Column("to", zone.key, numeric=False),
        Column("starts"),
        Column("p50", csv_unit="seconds"),
        Column("p90", csv_unit="seconds"),
    ]
    rows = [
        [
            text_cell(name),
            moment_cell(step.start_at, zone),
            moment_cell(step.end_at, zone),
            count_cell(len(step.waits)),
            *(seconds_cell(nearest_rank(step.waits, percent)) for percent in (50, 90)),
        ]
        for name, steps in panels.items()
        for step in steps
        if step.waits
    ]
    return Table(columns, rows)


def waits_by_project_chart(series: Mapping[str, Sequence[int]], *, frame: ChartFrame, title: str) -> Chart:
    """One line a project, from p50 to p90, the longest p90 first."""
    filled = {name: waits for name, waits in series.items() if waits}
    if not filled:
        return chart_empty(key="projects", title=title, frame=frame, measure=MEASURE_PROJECTS, note=EMPTY)
    names = sorted(filled, key=lambda name: (-(nearest_rank(filled[name], 90) or 0), name))
    ends = {name: tuple(nearest_rank(filled[name], percent) or 0 for percent in (50, 90)) for name in names}
    longest = max(p90 for _, p90 in ends.values())
    bars = [
        {
            "type": "scatter",
            "mode": "lines",
            "showlegend": False,
            "x": [x for name in names for x in (*(max(1, end) for end in ends[name]), None)],
            "y": [y for position in range(len(names)) for y in (position, position, None)],
            "line": {"width": 3, "color": token("grid")},
            "hoverinfo": "skip",
        },
        *(_project_points(ends, index, percent) for index, percent in enumerate((50, 90))),
    ]
    layout = layout_base(
        height=26 * len(names) + 100,
        xaxis=axis_base(**duration_axis(longest), title=axis_title("queue wait, log scale")),
        yaxis=axis_base(
            type="linear",
            range=[len(names) - 0.5, -0.5],
            tickvals=list(range(len(names))),
            ticktext=[plain(shortened(name)) for name in names],
            showgrid=False,
        ),
        hovermode="closest",
        showlegend=True,
    )
    layout["margin"] = {**layout["margin"], "t": 40}
    return Chart(
        key="projects",
        title=title,
        subtitle=frame.subtitle(MEASURE_PROJECTS),
        traces=bars,
        layout=layout,
        table=percentile_table("project", {name: filled[name] for name in names}),
        address=frame.address,
    )


def _project_points(ends: Mapping[str, Sequence[int]], index: int, percent: int) -> Dict:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"p{percent}",
        "x": [max(1, pair[index]) for pair in ends.values()],
        "y": list(range(len(ends))),
        "cliponaxis": False,
        "marker": {
            "size": 10,
            "color": token("text" if percent == 50 else "accent"),
            "symbol": "circle" if percent == 50 else "diamond",
        },
        "customdata": [f"{plain(name)}, p{percent}: {wait_words(pair[index])}" for name, pair in ends.items()],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
