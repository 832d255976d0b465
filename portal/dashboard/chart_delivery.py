"""Owed and delivered over time: bars of what a project got under the line of what it was owed. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from portal.dashboard.chart_usage import Level, Step, level_line, moment_cell
from portal.dashboard.chart_words import hours_cell, hours_words, ratio_cell, ratio_words
from portal.dashboard.charts import Chart, ChartFrame, Column, Dict, Table, chart_empty, named, time_layout, token

MEASURE = "GPU-hours per hour delivered, under those owed: the smaller of share x schedulable GPUs and demand"


@dataclass(frozen=True)
class Owed:
    """A stretch of time with the GPU-seconds owed and delivered in it."""

    start_at: datetime
    end_at: datetime
    owed_gpu_seconds: int
    delivered_gpu_seconds: int

    @property
    def step(self) -> Step:
        return Step(self.start_at, self.end_at)


def delivery_title(name: str, stretches: Sequence[Owed]) -> str:
    """`Vision got 97 % of what it was owed: 1,070 of 1,100 GPU-hours`."""
    owed = sum(each.owed_gpu_seconds for each in stretches)
    delivered = sum(each.delivered_gpu_seconds for each in stretches)
    if not owed:
        return f"{name} was owed nothing: it asked for nothing that its budget covers"
    share = ratio_words(delivered, owed)
    return f"{name} got {share} of what it was owed: {hours_words(delivered)} of {hours_words(owed)} GPU-hours"


def owed_and_delivered(name: str, stretches: Sequence[Owed], *, frame: ChartFrame) -> Chart:
    title = delivery_title(name, stretches)
    if not any(each.owed_gpu_seconds or each.delivered_gpu_seconds for each in stretches):
        note = "Nothing was owed or delivered in this range: no work with a minimum runtime was asked for."
        return chart_empty(key="delivery", title=title, frame=frame, measure=MEASURE, note=note)
    owed = [Level(each.start_at, each.owed_gpu_seconds / each.step.seconds) for each in stretches]
    delivered = [each.delivered_gpu_seconds / each.step.seconds for each in stretches]
    top = max([*delivered, *(level.gpus for level in owed)])
    ends = [("delivered", "accent", delivered[-1] / 2), ("owed", "text", owed[-1].gpus)]
    return Chart(
        key="delivery",
        title=title,
        subtitle=frame.subtitle(MEASURE),
        traces=[
            _bars(stretches, delivered),
            level_line(owed, frame=frame, name="owed", shade="text"),
            _hover(stretches, frame),
        ],
        layout=named(time_layout(frame, height=260, unit="GPUs", top=top), ends, top=top),
        table=_table(stretches, frame),
        address=frame.address,
    )


def _bars(stretches: Sequence[Owed], delivered: Sequence[float]) -> Dict:
    return {
        "type": "bar",
        "name": "delivered",
        "x": [each.step.middle for each in stretches],
        "width": [each.step.seconds * 0.86 for each in stretches],
        "y": list(delivered),
        "marker": {"color": token("accent"), "line": {"width": 0}},
        "hoverinfo": "skip",
    }


def _hover(stretches: Sequence[Owed], frame: ChartFrame) -> Dict:
    return {
        "type": "scatter",
        "mode": "markers",
        "marker": {"opacity": 0, "size": 1},
        "showlegend": False,
        "x": [each.step.middle for each in stretches],
        "y": [each.delivered_gpu_seconds / each.step.seconds for each in stretches],
        "text": [each.step.words(frame.zone) for each in stretches],
        "customdata": [
            f"owed: {hours_words(each.owed_gpu_seconds)} GPU-hours<br>"
            f"delivered: {hours_words(each.delivered_gpu_seconds)} GPU-hours"
            for each in stretches
        ],
        "hovertemplate": "%{text}<br>%{customdata}<extra></extra>",
    }


def _table(stretches: Sequence[Owed], frame: ChartFrame) -> Table:
    zone = frame.zone
    columns = [
        Column("from", zone.key, numeric=False),
        Column("to", zone.key, numeric=False),
        Column("owed", "GPU-hours", "GPU-seconds"),
        Column("delivered", "GPU-hours", "GPU-seconds"),
        Column("delivered of owed", "%", "ratio"),
    ]
    rows = [
        [
            moment_cell(each.start_at, zone),
            moment_cell(each.end_at, zone),
            hours_cell(each.owed_gpu_seconds),
            hours_cell(each.delivered_gpu_seconds),
            ratio_cell(each.delivered_gpu_seconds, each.owed_gpu_seconds),
        ]
        for each in stretches
    ]
    return Table(columns, rows)
