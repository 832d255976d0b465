"""Charts of simulations over simulated time: GPUs occupied, what is fragmented, one series of several runs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from portal.common.units import DAY_SECONDS, HOUR_SECONDS
from portal.dashboard.chart_words import unknown_cell
from portal.dashboard.charts import (
    Cell,
    Chart,
    Column,
    Dict,
    Table,
    amount_format,
    axis_base,
    axis_title,
    layout_base,
    named,
    plain,
    token,
)
from portal.dashboard.simulation_shown import SERIES_SHADES, Shown, subtitle_of
from portal.dashboard.simulation_words import fragments_title, gpus_title

HOURS_DAY = DAY_SECONDS // HOUR_SECONDS
HOUR_DAYS = 1 / HOURS_DAY


def gpus_chart(each: Shown, address: str) -> Chart:
    """Allocated and unallocated GPUs, stacked, hour by hour."""
    series = each.report["series"]
    allocated = [run - free for run, free in zip(series["running_gpus"], series["unallocated_gpus"], strict=True)]
    bands = [("allocated", "protected", allocated), ("unallocated", "unallocated", series["unallocated_gpus"])]
    days = days_of(each.report)
    top = max(series["running_gpus"], default=0)
    traces = [_band(name, shade, days, values) for name, shade, values in bands]
    layout = _days_layout(days, top=top, unit="GPUs")
    ends = [("allocated", "protected", _last(allocated) / 2)]
    ends.append(("unallocated", "unallocated", _last(allocated) + _last(series["unallocated_gpus"]) / 2))
    return Chart(
        "gpus",
        gpus_title(each.report),
        subtitle_of("GPUs occupied, mean of each hour", [each]),
        traces,
        named(layout, ends, top=top),
        _series_table(days, {name: values for name, _, values in bands}),
        address=address,
    )


def fragments_chart(each: Shown, address: str) -> Chart:
    """What capacity is dispersed over: work begun and not ended, what of it waits again, GPUs free in vain."""
    series = each.report["series"]
    lines = {
        "begun, not ended": series["unfinished_started"],
        "of them waiting again": series["interrupted"],
        "GPUs free while work waits": series["free_unusable_gpus"],
    }
    days = days_of(each.report)
    return _lines(
        "fragments",
        fragments_title(each.report),
        "Workloads, and GPUs, mean of each hour",
        [each],
        days,
        lines,
        address,
    )


def series_chart(shown: Sequence[Shown], address: str, *, key: str, field: str, words: str) -> Chart:
    """One series of each run, over the days that they share."""
    days = max((days_of(each.report) for each in shown), key=len)
    lines = {each.label: each.report["series"][field] for each in shown}
    means = {name: sum(values) / len(values) if values else 0 for name, values in lines.items()}
    found = ", ".join(f"{name} {mean:,.0f}" for name, mean in means.items())
    return _lines(key, f"{words} on average: {found}", f"{words}, mean of each hour", shown, days, lines, address)


def _lines(
    key: str,
    title: str,
    measure: str,
    shown: Sequence[Shown],
    days: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    address: str,
) -> Chart:
    top = max((value for values in lines.values() for value in values), default=0)
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": plain(name),
            "x": _held(days[: len(values)], HOUR_DAYS),
            "y": _held(values, 0),
            "line": {"width": 2, "shape": "hv", "color": token(shade), "dash": dash},
            "hovertemplate": "day %{x:.1f}: %{y:,.0f}<extra>" + plain(name) + "</extra>",
        }
        for (name, values), (shade, dash) in zip(lines.items(), SERIES_SHADES, strict=False)
    ]
    layout = {**_days_layout(days, top=top, unit=""), "showlegend": True}
    layout["margin"] = {**layout["margin"], "t": 44}
    return Chart(key, title, subtitle_of(measure, shown), traces, layout, _series_table(days, lines), address=address)


def days_of(report: Mapping[str, Any]) -> list[float]:
    """The hours of a report's series as days since measuring began; the warm-up is before 0."""
    return [round(hour / HOURS_DAY - report["warmup_days"], 4) for hour in report["series"]["hour"]]


def _held(values: Sequence[float], more: float) -> list[float]:
    """With the end of the last hour: a mean holds through its hour."""
    return [*values, values[-1] + more] if values else []


def _band(name: str, shade: str, days: Sequence[float], values: Sequence[float]) -> Dict:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": _held(days, HOUR_DAYS),
        "y": _held(values, 0),
        "stackgroup": "standings",
        "line": {"width": 0, "shape": "hv", "color": token(shade)},
        "fillcolor": token(shade),
        "hovertemplate": "day %{x:.1f}: %{y:,.0f} GPUs<extra>" + name + "</extra>",
    }


def _days_layout(days: Sequence[float], *, top: float, unit: str) -> Dict:
    layout = layout_base(
        height=280,
        xaxis=axis_base(title=axis_title("days"), nticks=6, showgrid=False),
        yaxis=axis_base(title=axis_title(unit), range=[0, top * 1.06 or 1], nticks=6, tickformat=amount_format(top)),
        hovermode="x",
    )
    if days and days[0] < 0:
        ground = {"fillcolor": token("unavailable"), "line": {"width": 0}, "layer": "below"}
        layout["shapes"] = [{"type": "rect", "x0": days[0], "x1": 0, "y0": 0, "y1": 1, "yref": "paper", **ground}]
        layout["annotations"] = [_warmup_words(days[0])]
    return layout


def _warmup_words(first: float) -> Dict:
    font = {"color": token("muted"), "size": 12}
    return {"text": "warm-up", "x": first, "xanchor": "left", "y": 1, "yref": "paper", "showarrow": False, "font": font}


def _series_table(days: Sequence[float], lines: Mapping[str, Sequence[float]]) -> Table:
    columns = [Column("day"), *(Column(name) for name in lines)]
    rows = [
        [
            Cell(f"{day:.2f}", day),
            *(_amount(values[row]) if row < len(values) else unknown_cell() for values in lines.values()),
        ]
        for row, day in enumerate(days)
    ]
    return Table(columns, rows)


def _amount(value: float) -> Cell:
    return Cell(f"{value:,.1f}", round(value, 3))


def _last(values: Sequence[float]) -> float:
    return values[-1] if values else 0.0
