"""What a draft would do, from two simulations: each project today and under the draft, on one axis. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.common.units import PPM, duration_words, percent_words
from portal.dashboard.chart_axes import duration_axis
from portal.dashboard.chart_words import UNKNOWN, text_cell, unknown_cell
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
    plain,
    shortened,
    token,
)

Report = Mapping[str, Any]
NOTHING = "No project asked for GPUs in the history that was replayed."
MEASURE_DELIVERY = "GPU-hours delivered of those owed"
MEASURE_WAITS = "Queue wait that nine in ten starts stay under (p90)"


@dataclass(frozen=True)
class Pair:
    """A project's figure today and under the draft; None: there is none."""

    name: str
    today: float | None
    draft: float | None


def pairs_of(today: Report, draft: Report, read: Callable[[Mapping[str, Any]], float | None]) -> list[Pair]:
    """One pair a project of either report, by path; projects with neither figure are left out."""
    before, after = today.get("by_project", {}), draft.get("by_project", {})
    pairs = [
        Pair(path, *(read(side[path]) if path in side else None for side in (before, after)))
        for path in sorted({*before, *after}, key=lambda path: path.split("/"))
    ]
    return [pair for pair in pairs if pair.today is not None or pair.draft is not None]


def delivery_of(figures: Mapping[str, Any]) -> float | None:
    value: float | None = figures.get("delivery")
    return value


def wait_p90_of(figures: Mapping[str, Any]) -> float | None:
    value: float | None = figures.get("waits", {}).get("all", {}).get("p90_s")
    return value


def delivery_chart(pairs: Sequence[Pair], *, frame: ChartFrame) -> Chart:
    """Each project's delivery; the worst that would come is the finding."""
    title = _delivery_title(pairs)
    if not pairs:
        return chart_empty(key="delivery", title=title, frame=frame, measure=MEASURE_DELIVERY, note=NOTHING)
    top = max([1.0, *(value for pair in pairs for value in (pair.today, pair.draft) if value is not None)])
    axis = axis_base(range=[-0.04, top * 1.08], tickformat=".0%", title=axis_title("delivered of owed"))
    return _pairs_chart(
        "delivery", title, MEASURE_DELIVERY, pairs, axis, lambda value: percent_words(round(value * PPM)), frame
    )


def waits_chart(pairs: Sequence[Pair], *, frame: ChartFrame) -> Chart:
    """Each project's p90 wait, on a log axis."""
    title = _waits_title(pairs)
    if not pairs:
        return chart_empty(key="waits", title=title, frame=frame, measure=MEASURE_WAITS, note=NOTHING)
    longest = max(value for pair in pairs for value in (pair.today, pair.draft) if value is not None)
    scale = duration_axis(longest)
    scale["range"] = [-0.12, scale["range"][1]]  # room for the points of those who don't wait
    axis = axis_base(**scale, title=axis_title("queue wait, log scale"))
    return _pairs_chart(
        "waits", title, MEASURE_WAITS, pairs, axis, lambda value: duration_words(int(value)), frame, least=1.0
    )


def _delivery_title(pairs: Sequence[Pair]) -> str:
    known = [pair for pair in pairs if pair.today is not None and pair.draft is not None]
    if not known:
        return "Nothing was owed in the history that was replayed"
    worst = min(known, key=lambda pair: (pair.draft or 0) - (pair.today or 0))
    before, after = (percent_words(round((value or 0) * PPM)) for value in (worst.today, worst.draft))
    if (worst.draft or 0) < (worst.today or 0) and before != after:
        return f"{worst.name} would get {after} of what it is owed, where it gets {before} today"
    return "No project would get less of what it is owed"


def _waits_title(pairs: Sequence[Pair]) -> str:
    known = [pair for pair in pairs if pair.today is not None and pair.draft is not None]
    if not known:
        return "Nothing started in the history that was replayed"
    worst = max(known, key=lambda pair: (pair.draft or 0) - (pair.today or 0))
    before, after = (duration_words(int(value or 0)) for value in (worst.today, worst.draft))
    if (worst.draft or 0) > (worst.today or 0) and before != after:
        return f"{worst.name} would wait up to {after}, where it waits up to {before} today"
    return "No project would wait longer"


def _pairs_chart(
    key: str,
    title: str,
    measure: str,
    pairs: Sequence[Pair],
    axis: Dict,
    words: Callable[[float], str],
    frame: ChartFrame,
    *,
    least: float = 0.0,
) -> Chart:
    layout = layout_base(
        height=30 * len(pairs) + 110,
        xaxis=axis,
        yaxis=axis_base(
            type="linear",
            range=[len(pairs) - 0.5, -0.5],
            tickvals=list(range(len(pairs))),
            ticktext=[plain(shortened(pair.name)) for pair in pairs],
            showgrid=False,
        ),
        hovermode="closest",
        showlegend=True,
    )
    layout["margin"] = {**layout["margin"], "t": 40}
    return Chart(
        key=key,
        title=title,
        subtitle=frame.subtitle(measure),
        traces=[_lines(pairs, least), *(_points(pairs, side, words, least) for side in ("today", "draft"))],
        layout=layout,
        table=_table(pairs, words),
        address=frame.address,
    )


def _lines(pairs: Sequence[Pair], least: float) -> Dict:
    ends = [
        (max(pair.today, least), max(pair.draft, least), place)
        for place, pair in enumerate(pairs)
        if pair.today is not None and pair.draft is not None
    ]
    return {
        "type": "scatter",
        "mode": "lines",
        "showlegend": False,
        "x": [x for before, after, _ in ends for x in (before, after, None)],
        "y": [y for _, _, place in ends for y in (place, place, None)],
        "line": {"width": 3, "color": token("grid")},
        "hoverinfo": "skip",
    }


def _points(pairs: Sequence[Pair], side: str, words: Callable[[float], str], least: float) -> Dict:
    found = [(getattr(pair, side), place, pair.name) for place, pair in enumerate(pairs)]
    known = [(value, place, name) for value, place, name in found if value is not None]
    is_draft = side == "draft"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "under the draft" if is_draft else "today",
        "x": [max(value, least) for value, _, _ in known],
        "y": [place for _, place, _ in known],
        "cliponaxis": False,
        "marker": {
            "size": 9 if is_draft else 15,  # where nothing moves, one lies in the other
            "color": token("accent" if is_draft else "muted"),
            "symbol": "diamond" if is_draft else "circle-open",
            "line": {"width": 2} if not is_draft else {"width": 0},
        },
        "customdata": [f"{plain(name)}, {side}: {words(value)}" for value, _, name in known],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _table(pairs: Sequence[Pair], words: Callable[[float], str]) -> Table:
    columns = [Column("project", numeric=False), Column("today"), Column("draft")]
    return Table(
        columns,
        [[text_cell(pair.name), *(_cell(value, words) for value in (pair.today, pair.draft))] for pair in pairs],
    )


def _cell(value: float | None, words: Callable[[float], str]) -> Cell:
    return unknown_cell() if value is None else Cell(words(value) or UNKNOWN, value)
