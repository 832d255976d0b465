"""A project's balance over time: as passes found it, and from now on a range that stops where nothing is known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from portal.common.units import PPM
from portal.dashboard.chart_axes import moment_words, time_axis
from portal.dashboard.chart_usage import moment_cell
from portal.dashboard.chart_words import hours_cell, text_cell, unknown_cell
from portal.dashboard.charts import (
    Cell,
    Chart,
    ChartFrame,
    Column,
    Dict,
    Table,
    axis_base,
    axis_title,
    chart_empty,
    layout_base,
    token,
)

MEASURE = (
    "Balance as the first pass of each step found it: quota less usage over the lookback window, in % of the quota"
)
MEASURE_AHEAD = "; from now on a range, its upper edge if nothing more starts, its lower edge if what runs goes on"
PERCENT = PPM // 100
EMPTY = "No pass has found a balance in this range. A project has one while it has a budget."
QUIET, GOING = "nothing more starts", "what runs goes on"


@dataclass(frozen=True)
class Measured:
    """What a pass found."""

    at: datetime
    quota_gpu_seconds: int
    usage_gpu_seconds: int

    @property
    def balance_ppm(self) -> int | None:
        quota = self.quota_gpu_seconds
        return (quota - self.usage_gpu_seconds) * PPM // quota if quota > 0 else None


@dataclass(frozen=True)
class Expected:
    """The two edges of the range at a moment to come."""

    at: datetime
    quiet_ppm: int
    going_ppm: int


def balance_over_time(
    measured: Sequence[Measured], expected: Sequence[Expected], *, frame: ChartFrame, title: str, remark: str
) -> Chart:
    """A line of what was, a band of what may be, and 0 marked: at 0 and below work is no longer funded."""
    known = [each for each in measured if each.balance_ppm is not None]
    measure = MEASURE + (MEASURE_AHEAD if expected else "")
    if not known and not expected:
        return replace(chart_empty(key="balance", title=title, frame=frame, measure=measure, note=EMPTY), remark=remark)
    until = max([frame.end_at, *(each.at for each in expected)])
    values = [each.balance_ppm or 0 for each in known]
    values += [ppm for each in expected for ppm in (each.quiet_ppm, each.going_ppm)]
    low, high = min([0, *values]) / PERCENT, max([100 * PERCENT, *values]) / PERCENT
    layout = _layout(replace(frame, end_at=until), low, high)
    traces = [_zero(frame, until), *_measured_line(known, frame)]
    if expected:
        traces += _band(expected, frame)
        layout = {**layout, "showlegend": True, "margin": {**layout["margin"], "t": 40}}
    return Chart(
        key="balance",
        title=title,
        subtitle=frame.subtitle(measure),
        traces=traces,
        layout=layout,
        table=_table(known, expected, frame),
        address=frame.address,
        remark=remark,
    )


def _layout(frame: ChartFrame, low: float, high: float) -> Dict:
    room = (high - low) * 0.06
    return layout_base(
        height=280,
        xaxis=axis_base(**time_axis(frame.start_at, frame.end_at, frame.zone), showgrid=False),
        yaxis=axis_base(
            title=axis_title("balance"), range=[low - (room if low < 0 else 0), high + room], nticks=6, ticksuffix=" %"
        ),
        hovermode="closest",
    )


def _zero(frame: ChartFrame, until: datetime) -> Dict:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "0 %",
        "showlegend": False,
        "x": [frame.start_at.timestamp(), until.timestamp()],
        "y": [0, 0],
        "line": {"width": 1, "color": token("axis")},
        "hoverinfo": "skip",
    }


def _measured_line(known: Sequence[Measured], frame: ChartFrame) -> list[Dict]:
    """Broken where no pass looked for twice as long as between most of them."""
    apart = sorted((after.at - before.at).total_seconds() for before, after in pairwise(known))
    gap_seconds = 2 * apart[len(apart) // 2] if apart else 0
    x: list[float] = []
    y: list[float | None] = []
    words: list[str] = []
    for each in known:
        at = each.at.timestamp()
        if x and at - x[-1] > gap_seconds:
            x, y, words = [*x, at], [*y, None], [*words, ""]
        x.append(at)
        y.append((each.balance_ppm or 0) / PERCENT)
        words.append(f"{moment_words(each.at, frame.zone)}<br>balance {percent_exact(each.balance_ppm or 0)}")
    return [
        {
            "type": "scatter",
            "mode": "lines" if len(x) > 1 else "markers",
            "name": "found by passes",
            "x": x,
            "y": y,
            "line": {"width": 2, "color": token("text")},
            "marker": {"size": 7, "color": token("text")},
            "connectgaps": False,
            "customdata": words,
            "hovertemplate": "%{customdata}<extra></extra>",
        }
    ]


def _band(expected: Sequence[Expected], frame: ChartFrame) -> list[Dict]:
    x = [each.at.timestamp() for each in expected]
    edge = {"type": "scatter", "mode": "lines", "x": x, "hoverinfo": "skip"}
    quiet = [each.quiet_ppm / PERCENT for each in expected]
    going = [each.going_ppm / PERCENT for each in expected]
    words = [
        f"{moment_words(each.at, frame.zone)}<br>{QUIET}: {percent_exact(each.quiet_ppm)}"
        f"<br>{GOING}: {percent_exact(each.going_ppm)}"
        for each in expected
    ]
    return [
        {**edge, "name": f"if {GOING}", "y": going, "line": {"width": 1.5, "color": token("accent"), "dash": "dot"}},
        {
            **edge,
            "name": f"if {QUIET}",
            "y": quiet,
            "line": {"width": 1.5, "color": token("accent")},
            "fill": "tonexty",
            "fillcolor": token("band"),
        },
        {
            "type": "scatter",
            "mode": "markers",
            "showlegend": False,
            "marker": {"opacity": 0, "size": 8},
            "x": x,
            "y": [(up + down) / 2 for up, down in zip(quiet, going, strict=True)],
            "customdata": words,
            "hovertemplate": "%{customdata}<extra></extra>",
        },
    ]


def percent_exact(ppm: int) -> str:
    """`−3.25 %`: for tables, titles and hover."""
    return f"{ppm / PERCENT:,.2f}".rstrip("0").rstrip(".").replace("-", "−") + " %"


def _percent_cell(ppm: int) -> Cell:
    return Cell(percent_exact(ppm), ppm / PPM)


def _table(known: Sequence[Measured], expected: Sequence[Expected], frame: ChartFrame) -> Table:
    columns = [
        Column("at", frame.zone.key, numeric=False),
        Column("kind", numeric=False),
        Column("quota", "GPU-hours", "GPU-seconds"),
        Column("usage", "GPU-hours", "GPU-seconds"),
        Column("balance, or if nothing more starts", csv_unit="ratio"),
        Column("balance if what runs goes on", csv_unit="ratio"),
    ]
    rows: list[list[Cell]] = [
        [
            moment_cell(each.at, frame.zone),
            text_cell("found by a pass"),
            hours_cell(each.quota_gpu_seconds),
            hours_cell(each.usage_gpu_seconds),
            _percent_cell(each.balance_ppm or 0),
            unknown_cell(),
        ]
        for each in known
    ]
    rows += [
        [
            moment_cell(each.at, frame.zone),
            text_cell("expected"),
            unknown_cell(),
            unknown_cell(),
            _percent_cell(each.quiet_ppm),
            _percent_cell(each.going_ppm),
        ]
        for each in expected
    ]
    return Table(columns, rows)
