"""The pyramid as a waterfall: from installed GPU-hours to useful ones, with what is lost at each level by cause."""

from collections.abc import Sequence
from dataclasses import dataclass

from portal.dashboard.chart_words import UNKNOWN, hours_cell, hours_words, ratio_cell, text_cell, unknown_cell
from portal.dashboard.charts import (
    Cell,
    Chart,
    ChartFrame,
    Column,
    Dict,
    Table,
    amount_format,
    axis_base,
    axis_title,
    chart_empty,
    layout_base,
    token,
)

MEASURE = "GPU-hours, from installed to useful, with what is lost by cause"
ROW_PIXELS = 34


@dataclass(frozen=True)
class Rung:
    """A bar: what is there at a level (`loss` false), or what is lost below it. None: unknown, and why."""

    label: str
    gpu_seconds: int | None
    shade: str
    loss: bool = False
    gain: bool = False
    why: str = ""

    @property
    def kind(self) -> str:
        return "lost" if self.loss else "added" if self.gain else "there"

    @property
    def floats(self) -> bool:
        """Whether the bar hangs from what was left before it, instead of starting at 0."""
        return self.loss or self.gain


def pyramid_waterfall(rungs: Sequence[Rung], *, frame: ChartFrame, title: str) -> Chart:
    """Floating bars from the top down; the first is everything, each loss hangs from what was left before it."""
    whole = rungs[0].gpu_seconds or 0
    if not whole:
        return chart_empty(
            key="pyramid",
            title=title,
            frame=frame,
            measure=MEASURE,
            note="No GPU was installed in this range. Choose a longer one, or register a host.",
        )
    bars = _bars(rungs)
    layout = layout_base(
        height=ROW_PIXELS * len(rungs) + 56,
        xaxis=axis_base(
            range=[0, whole / 3600 * 1.3],
            nticks=5,
            tickformat=amount_format(whole / 3600),
            title=axis_title("GPU-hours"),
        ),
        yaxis=axis_base(type="category", autorange="reversed", showgrid=False),
        hovermode="closest",
        bargap=0.28,
    )
    return Chart(
        key="pyramid",
        title=title,
        subtitle=frame.subtitle(MEASURE),
        traces=[bars],
        layout=layout,
        table=_table(rungs, whole),
        address=frame.address,
    )


def _bars(rungs: Sequence[Rung]) -> Dict:
    bases, left = [], rungs[0].gpu_seconds or 0
    for rung in rungs:
        if rung.loss:
            left -= rung.gpu_seconds or 0
            bases.append(left / 3600)
        elif rung.gain:
            bases.append(left / 3600)
            left += rung.gpu_seconds or 0
        else:
            left = rung.gpu_seconds if rung.gpu_seconds is not None else left
            bases.append(0)
    whole = rungs[0].gpu_seconds or 1
    return {
        "type": "bar",
        "orientation": "h",
        "name": "GPU-hours",
        "y": [rung.label for rung in rungs],
        "x": [(rung.gpu_seconds or 0) / 3600 for rung in rungs],
        "base": bases,
        "marker": {
            "color": [token(rung.shade) for rung in rungs],
            "line": {"color": token("axis"), "width": 1},
            "pattern": {
                "shape": ["/" if rung.shade == "unavailable" else "" for rung in rungs],
                "fgcolor": token("muted"),
                "size": 6,
            },
        },
        "text": [_label(rung) for rung in rungs],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [_hover(rung, whole) for rung in rungs],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _label(rung: Rung) -> str:
    if rung.gpu_seconds is None:
        return f"{UNKNOWN} unknown"
    sign = {"lost": "−", "added": "+"}.get(rung.kind, "") if rung.gpu_seconds else ""
    words = hours_words(rung.gpu_seconds)
    return words if words.startswith("<") else sign + words


def _hover(rung: Rung, whole: int) -> str:
    if rung.gpu_seconds is None:
        return f"{rung.label}: unknown<br>{rung.why}"
    percent = f"{rung.gpu_seconds * 100 / whole:.1f} %"
    return f"{rung.label}<br>{hours_words(rung.gpu_seconds)} GPU-hours, {percent} of installed"


def _table(rungs: Sequence[Rung], whole: int) -> Table:
    columns = [
        Column("level", numeric=False),
        Column("kind", numeric=False),
        Column("amount", "GPU-hours", "GPU-seconds"),
        Column("of installed", "%", "ratio"),
    ]
    return Table(columns, [_row(rung, whole) for rung in rungs])


def _row(rung: Rung, whole: int) -> list[Cell]:
    kind = text_cell(rung.kind)
    if rung.gpu_seconds is None:
        return [text_cell(rung.label), kind, unknown_cell(rung.why), unknown_cell()]
    return [text_cell(rung.label), kind, hours_cell(rung.gpu_seconds), ratio_cell(rung.gpu_seconds, whole)]
