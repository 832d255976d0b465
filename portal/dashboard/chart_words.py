"""Numbers as charts, tables and titles say them. Pure."""

from portal.common.units import HOUR_SECONDS, PPM, duration_exact, duration_words, percent_words
from portal.dashboard.charts import Cell

UNKNOWN = "–"


def hours_words(gpu_seconds: float) -> str:
    """GPU-hours exact to the hundredth, with separators: for tables, titles and hover."""
    hours = gpu_seconds / HOUR_SECONDS
    if not hours:
        return "0"
    if abs(hours) < 0.005:
        return "<0.01"
    return f"{hours:,.2f}" if abs(hours) < 100 else f"{hours:,.0f}"


def hours_cell(gpu_seconds: int) -> Cell:
    """GPU-hours to read, whole GPU-seconds to calculate with."""
    return Cell(f"{gpu_seconds / HOUR_SECONDS:,.2f}", gpu_seconds)


def count_cell(number: int) -> Cell:
    return Cell(f"{number:,}", number)


def text_cell(text: str) -> Cell:
    return Cell(text, text)


def unknown_cell(reason: str = "") -> Cell:
    return Cell(f"{UNKNOWN} {reason}".strip(), "")


def seconds_cell(seconds: int | None) -> Cell:
    return unknown_cell() if seconds is None else Cell(duration_words(seconds), seconds)


def ratio_words(part: float, whole: float) -> str:
    """Percent of a whole; a dash where there is no whole to have a part of."""
    return percent_words(round(part * PPM / whole)) if whole else UNKNOWN


def ratio_cell(part: int, whole: int) -> Cell:
    return Cell(ratio_words(part, whole), round(part / whole, 6)) if whole else unknown_cell()


def wait_words(seconds: int) -> str:
    """A wait in a hover box: as people say it, and exact."""
    words = duration_words(seconds)
    return words if seconds < 60 else f"{words} ({duration_exact(seconds)})"


def gpus_words(number: float) -> str:
    """`1 GPU`, `3.5 GPUs`."""
    text = f"{number:,.1f}".removesuffix(".0")
    return f"{text} GPU" if text == "1" else f"{text} GPUs"
