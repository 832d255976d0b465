"""One builder, one style: a chart is a finding, a measure, a plotly figure as plain dicts, and a table of the same.

No ORM here, nothing of the request: data in, dicts out. Colours are names (`token:protected`) that charts.js reads
from CSS custom properties, so that one figure serves light and dark. Every text that comes from people goes through
`plain`, because plotly reads a little HTML in labels.
"""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from portal.dashboard.chart_axes import moment_words, time_axis

Dict = dict[str, Any]

STANDINGS = ("protected", "funded", "unallocated", "stopping", "refunded")
DIRECT_LABELS_MAX = 4
LABEL_GAP = 0.075  # of the axis: below it two labels at the right edge would touch


@dataclass(frozen=True)
class Column:
    """A table's column; its header carries the unit. `csv_unit` where the CSV gives the exact whole number instead."""

    label: str
    unit: str = ""
    csv_unit: str = ""
    numeric: bool = True

    @property
    def header(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def csv_header(self) -> str:
        unit = self.csv_unit or self.unit
        return f"{self.label} ({unit})" if unit else self.label


@dataclass(frozen=True)
class Cell:
    """A value as people read it and as a spreadsheet gets it."""

    text: str
    raw: str | int | float


@dataclass(frozen=True)
class Table:
    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Cell]] = ()

    @property
    def lines(self) -> list[list[tuple[Column, Cell]]]:
        """Rows with their columns beside, as templates want them."""
        return [list(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class ChartFrame:
    """What every chart of a page shares: range, zone, age of the data and the address that shows it again."""

    start_at: datetime
    end_at: datetime
    zone: ZoneInfo
    made_at: datetime
    address: str = ""

    def subtitle(self, measure: str) -> str:
        """Measure and unit, range, zone, age."""
        start, end = (moment_words(moment, self.zone) for moment in (self.start_at, self.end_at))
        made = f"{self.made_at.astimezone(self.zone):%H:%M}"
        return f"{measure} · {start} to {end} ({self.zone.key}) · data of {made}"

    @property
    def seconds(self) -> int:
        return int((self.end_at - self.start_at).total_seconds())


@dataclass(frozen=True)
class Chart:
    """What the template `dashboard/charts_figure.html` draws. `state`: ready, partial, empty or failed."""

    key: str
    title: str
    subtitle: str
    traces: Sequence[Dict] = ()
    layout: Dict = field(default_factory=dict)
    table: Table = field(default_factory=Table)
    state: str = "ready"
    note: str = ""
    address: str = ""
    remark: str = ""  # a sentence below the subtitle that the picture needs

    @property
    def element_id(self) -> str:
        return f"chart-{self.key}"

    @property
    def data_id(self) -> str:
        return f"chart-{self.key}-data"

    @property
    def csv_address(self) -> str:
        return with_query(self.address, f"csv={self.key}")

    @property
    def link(self) -> str:
        return f"{self.address}#{self.element_id}"

    @property
    def height(self) -> int:
        """Pixels, kept free until it is drawn."""
        return int(self.layout.get("height", 0))

    @property
    def drawn(self) -> bool:
        return self.state in ("ready", "partial")

    @property
    def payload(self) -> Dict:
        """What charts.js reads: the figure, and the words that a PNG must carry along."""
        return {
            "data": list(self.traces),
            "layout": self.layout,
            "title": plain(self.title),
            "subtitle": plain(self.subtitle),
            "filename": self.key,
        }

    def partial(self, note: str) -> "Chart":
        """The same chart, marked as missing something, and what."""
        return replace(self, state="partial", note=note) if self.state == "ready" else self


def chart_empty(*, key: str, title: str, frame: ChartFrame, measure: str, note: str) -> Chart:
    """Nothing to draw: says so and what to do about it."""
    return Chart(
        key=key, title=title, subtitle=frame.subtitle(measure), state="empty", note=note, address=frame.address
    )


def chart_failed(*, key: str, title: str, frame: ChartFrame, measure: str, note: str) -> Chart:
    """The data could not be read: says what failed."""
    return Chart(
        key=key, title=title, subtitle=frame.subtitle(measure), state="failed", note=note, address=frame.address
    )


def with_query(address: str, extra: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}{extra}"


def plain(text: str) -> str:
    """Text from people, for plotly: shown as typed, whatever it looks like."""
    return html.escape(text, quote=False)


def shortened(text: str, most: int = 26) -> str:
    """A name as an axis can hold it; its end says more than its beginning, as a path does."""
    return text if len(text) <= most else "…" + text[-most + 1 :]


def axis_title(text: str) -> Dict:
    return {"text": text, "standoff": 8, "font": {"size": 12, "color": token("muted")}}


def token(name: str) -> str:
    return f"token:{name}"


def axis_base(**more: Any) -> Dict:
    """Lines and ticks as every axis has them; zooming is off, the range is the address's."""
    return {
        "fixedrange": True,
        "gridcolor": token("grid"),
        "linecolor": token("axis"),
        "tickcolor": token("axis"),
        "zeroline": False,
        "automargin": True,
        "ticks": "",
        "tickangle": 0,
        "exponentformat": "none",
        **more,
    }


def layout_base(*, height: int, xaxis: Dict, yaxis: Dict, **more: Any) -> Dict:
    return {
        "height": height,
        "margin": {"l": 48, "r": 16, "t": 12, "b": 36},
        "paper_bgcolor": token("surface"),
        "plot_bgcolor": token("surface"),
        "font": {"family": token("font"), "size": 13, "color": token("text")},
        "hoverlabel": {
            "bgcolor": token("surface"),
            "bordercolor": token("axis"),
            "font": {"family": token("font"), "size": 13, "color": token("text")},
            "namelength": -1,
        },
        "dragmode": False,
        "showlegend": False,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "xanchor": "left",
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        "xaxis": xaxis,
        "yaxis": yaxis,
        **more,
    }


def amount_format(top: float) -> str:
    """Plain numbers with separators; millions and more in short. Never 200m for a fifth."""
    return ",~s" if top >= 1_000_000 else ",~r"


def time_layout(frame: ChartFrame, *, height: int, unit: str, top: float) -> Dict:
    """Time along x in the site's zone, an amount from 0 up along y."""
    return layout_base(
        height=height,
        xaxis=axis_base(**time_axis(frame.start_at, frame.end_at, frame.zone), showgrid=False),
        yaxis=axis_base(
            title=axis_title(unit),
            range=[0, top * 1.06 or 1],
            rangemode="tozero",
            nticks=6,
            tickformat=amount_format(top),
        ),
        hovermode="x",
    )


def direct_labels(ends: Iterable[tuple[str, str, float]], *, top: float) -> list[Dict]:
    """Names at the right edge, each with its colour's square, moved apart where two would touch.

    `ends`: (name, token, value at the edge). Text stays in the text colour: the standings' own are too light to read.
    """
    placed: list[Dict] = []
    gap, floor = top * LABEL_GAP, float("-inf")
    for name, colour, value in sorted(ends, key=lambda end: end[2]):
        floor = max(value, floor + gap)
        for words, shade, shift in (("■", token(colour), 4), (plain(name), token("text"), 20)):
            placed.append(
                {
                    "x": 1,
                    "xref": "paper",
                    "xanchor": "left",
                    "xshift": shift,
                    "y": floor,
                    "yanchor": "middle",
                    "text": words,
                    "showarrow": False,
                    "font": {"color": shade},
                }
            )
    return placed


def named(layout: Dict, ends: Sequence[tuple[str, str, float]], *, top: float) -> Dict:
    """Direct labels up to four series, else a legend in one row."""
    if len(ends) > DIRECT_LABELS_MAX:
        return {**layout, "showlegend": True, "margin": {**layout["margin"], "t": 44}}
    room = 32 + 8 * max((len(name) for name, _, _ in ends), default=0)
    return {
        **layout,
        "margin": {**layout["margin"], "r": room},
        "annotations": [*layout.get("annotations", []), *direct_labels(ends, top=top)],
    }
