"""Charts of simulations: waits by class, delivery by project, GPUs and fragmentation over time. One run or several.

Pure: reports in (`scheduler.simulation.report` as JSON), dicts out. Simulated time counts in days from the start of
what is measured; the warm-up lies before it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from portal.dashboard.chart_axes import duration_axis
from portal.dashboard.chart_simulation_series import fragments_chart, gpus_chart, series_chart
from portal.dashboard.chart_words import count_cell, seconds_cell, text_cell, unknown_cell, wait_words
from portal.dashboard.charts import (
    Cell,
    Chart,
    Column,
    Dict,
    Table,
    axis_base,
    axis_title,
    layout_base,
    plain,
    shortened,
    token,
)
from portal.dashboard.simulation_shown import SERIES_SHADES, Shown, subtitle_of
from portal.dashboard.simulation_words import (
    delivery_title,
    percent_text,
    waits_title,
)

CLASSES = ("debug", "small", "large", "all")
PERCENTILES = (("p50_s", "p50", "text", "circle"), ("p90_s", "p90", "accent", "diamond"))
PROJECTS_SHOWN = 40
LABEL_MOST = 18


def charts_of(shown: Sequence[Shown], *, address: str) -> dict[str, Chart]:
    """Every chart of a page about these runs, by its key."""
    found = [waits_chart(shown, address), delivery_chart(shown, address)]
    if len(shown) == 1:
        found += [gpus_chart(shown[0], address), fragments_chart(shown[0], address)]
    else:
        found += [
            series_chart(shown, address, key="waiting", field="waiting_gpus", words="GPUs waiting"),
            series_chart(
                shown, address, key="unfinished", field="unfinished_started", words="Workloads begun, not ended"
            ),
        ]
    return {chart.key: chart for chart in found}


def _name(part: str, each: Shown) -> str:
    label = each.label if len(each.label) <= LABEL_MOST else f"{each.label[: LABEL_MOST - 1]}…"
    return f"{part}, {label}" if label else part


def waits_chart(shown: Sequence[Shown], address: str) -> Chart:
    """One line a class and run, from p50 to p90, on a log scale."""
    measure = "Queue wait of first starts, p50 and p90 by class"
    rows = [
        (_name(name, each), each.report["waits"][name])
        for name in CLASSES
        for each in shown
        if each.report["waits"][name]["started"]
    ]
    title = waits_title([(each.label, each.report) for each in shown])
    if not rows:
        return Chart(
            "waits", title, subtitle_of(measure, shown), state="empty", note="No workload started.", address=address
        )
    longest = max(waits["p90_s"] for _, waits in rows)
    layout = layout_base(
        height=30 * len(rows) + 100,
        xaxis=axis_base(**duration_axis(longest), title=axis_title("queue wait, log scale")),
        yaxis=_names_axis([name for name, _ in rows]),
        hovermode="closest",
        showlegend=True,
    )
    layout["margin"] = {**layout["margin"], "t": 40}
    ends = [[max(1, waits[field]) for field, *_ in PERCENTILES] for _, waits in rows]
    return Chart(
        "waits",
        title,
        subtitle_of(measure, shown),
        [_joins(ends), *(_wait_points(rows, position) for position in range(len(PERCENTILES)))],
        layout,
        _waits_table(rows),
        address=address,
    )


def _names_axis(names: Sequence[str]) -> Dict:
    return axis_base(
        type="linear",
        range=[len(names) - 0.5, -0.5],
        tickvals=list(range(len(names))),
        ticktext=[plain(shortened(name)) for name in names],
        ticklabelstandoff=8,
        showgrid=False,
    )


def _joins(ends: Sequence[Sequence[float]]) -> Dict:
    """Grey lines between the points of a row."""
    return {
        "type": "scatter",
        "mode": "lines",
        "showlegend": False,
        "x": [x for low, *_, high in ends for x in (low, high, None)],
        "y": [y for position in range(len(ends)) for y in (position, position, None)],
        "line": {"width": 3, "color": token("grid")},
        "hoverinfo": "skip",
    }


def _wait_points(rows: Sequence[tuple[str, Mapping[str, Any]]], position: int) -> Dict:
    field, name, shade, symbol = PERCENTILES[position]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [max(1, waits[field]) for _, waits in rows],
        "y": list(range(len(rows))),
        "cliponaxis": False,
        "marker": {"size": 10, "color": token(shade), "symbol": symbol},
        "customdata": [f"{plain(row)}, {name}: {wait_words(waits[field])}" for row, waits in rows],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _waits_table(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Table:
    columns = [
        Column("class", numeric=False),
        Column("asked"),
        Column("started"),
        *(Column(name, csv_unit="seconds") for name in ("mean", "p50", "p90", "p99")),
    ]
    cells = [
        [
            text_cell(name),
            count_cell(waits["n"]),
            count_cell(waits["started"]),
            seconds_cell(None if waits["mean_s"] is None else round(waits["mean_s"])),
            *(seconds_cell(waits[field]) for field in ("p50_s", "p90_s", "p99_s")),
        ]
        for name, waits in rows
    ]
    return Table(columns, cells)


def delivery_chart(shown: Sequence[Shown], address: str) -> Chart:
    """A point a project and run: the part that it got of what it was owed, the least first."""
    measure = "GPU-hours delivered of those owed"
    title = delivery_title([(each.label, each.report) for each in shown])
    names = _projects_by_delivery(shown)
    if not names:
        note = "No project was owed anything: none asked for work with a minimum runtime under a budget."
        return Chart("delivery", title, subtitle_of(measure, shown), state="empty", note=note, address=address)
    drawn = names[:PROJECTS_SHOWN]
    top = max(each.report["delivery"].get(name) or 0 for each in shown for name in drawn)
    layout = layout_base(
        height=26 * len(drawn) + 90,
        xaxis=axis_base(range=[0, max(1.05, top * 1.05)], tickformat=",.0%", title=axis_title("delivered of owed")),
        yaxis=_names_axis(drawn),
        hovermode="closest",
        showlegend=len(shown) > 1,
        shapes=[_whole_line()],
    )
    layout["margin"] = {**layout["margin"], "t": 40 if len(shown) > 1 else 12}
    traces = [_delivery_points(each, position, drawn) for position, each in enumerate(shown)]
    table = _delivery_table(shown, names)
    chart = Chart("delivery", title, subtitle_of(measure, shown), traces, layout, table, address=address)
    cut = f"the {PROJECTS_SHOWN} that got least of {len(names)}; the table has all."
    return chart.partial(cut) if len(names) > PROJECTS_SHOWN else chart


def _projects_by_delivery(shown: Sequence[Shown]) -> list[str]:
    first: dict[str, float] = {}
    for each in shown:
        for name, ratio in each.report["delivery"].items():
            if ratio is not None:
                first.setdefault(name, ratio)
    return sorted(first, key=lambda name: (first[name], name))


def _whole_line() -> Dict:
    line = {"color": token("axis"), "width": 1, "dash": "dot"}
    return {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _delivery_points(each: Shown, position: int, names: Sequence[str]) -> Dict:
    shade, _ = SERIES_SHADES[position % len(SERIES_SHADES)]
    found = [(row, each.report["delivery"].get(name)) for row, name in enumerate(names)]
    given = [(row, ratio) for row, ratio in found if ratio is not None]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(each.label or "delivered"),
        "x": [ratio for _, ratio in given],
        "y": [row for row, _ in given],
        "cliponaxis": False,
        "marker": {
            "size": 10,
            "color": token(shade),
            "symbol": ("circle", "diamond", "square", "cross")[position % 4],
        },
        "customdata": [f"{plain(_name(names[row], each))}: {percent_text(ratio)}" for row, ratio in given],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _delivery_table(shown: Sequence[Shown], names: Sequence[str]) -> Table:
    columns = [Column("project", numeric=False)]
    for each in shown:
        columns += [
            Column(_name("delivered of owed", each), "%", "ratio"),
            Column(_name("owed", each), "GPU-hours"),
            Column(_name("delivered", each), "GPU-hours"),
            Column(_name("p90 wait", each), csv_unit="seconds"),
            Column(_name("preemptions", each)),
        ]
    return Table(columns, [[text_cell(name), *_delivery_cells(shown, name)] for name in names])


def _delivery_cells(shown: Sequence[Shown], name: str) -> list[Cell]:
    cells: list[Cell] = []
    for each in shown:
        figures = each.report["by_project"].get(name)
        if figures is None:
            cells += [unknown_cell()] * 5
            continue
        ratio = figures["delivery"]
        cells += [
            unknown_cell() if ratio is None else Cell(percent_text(ratio), round(ratio, 6)),
            Cell(f"{figures['owed_gpu_hours']:,.0f}", round(figures["owed_gpu_hours"], 3)),
            Cell(f"{figures['delivered_gpu_hours']:,.0f}", round(figures["delivered_gpu_hours"], 3)),
            seconds_cell(figures["waits"]["all"]["p90_s"]),
            count_cell(figures["preemptions"]),
        ]
    return cells
