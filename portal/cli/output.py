"""What a command prints: a table for people, JSON for programs, complaints on the error stream."""

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from portal.common.units import duration_words

MISSING = "-"


class Format(StrEnum):
    """`-o`."""

    table = "table"
    json = "json"


def json_print(data: Any) -> None:
    """The API's own answer, indented."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def table_print(columns: Sequence[str], rows: Sequence[Sequence[Any]], empty: str) -> None:
    """Rows under their headings; numbers to the right; `empty` where there are none."""
    console = _console()
    if not rows:
        console.print(Text(empty))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) or row[index] is None for row in rows)
        table.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    console.print(table)


def facts_print(facts: Sequence[tuple[str, Any]]) -> None:
    """Names and values, one a line; what is None is left out."""
    console = _console()
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        if value is not None:
            console.print(Text(f"{name:<{width}}  {cell(value)}"), soft_wrap=True)


def line_print(text: str) -> None:
    """One sentence on the output."""
    sys.stdout.write(clean(text) + "\n")


def complaint_print(text: str) -> None:
    """One sentence on the error stream."""
    sys.stderr.write(clean(text, keep="\n") + "\n")


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return clean(str(value))


def clean(text: str, keep: str = "") -> str:
    """Text that can't command the terminal: control characters become question marks."""
    return "".join(letter if letter.isprintable() or letter in keep else "?" for letter in text)


def seconds_words(seconds: int | None) -> str | None:
    """A duration as people say it; None stays None."""
    return None if seconds is None else duration_words(seconds)


def moment_words(text: str | None) -> str | None:
    """A moment of the API with its zone named."""
    return None if text is None else text.replace("T", " ").replace("Z", " UTC").replace("+00:00", " UTC")


def _console() -> Console:
    width = None if sys.stdout.isatty() else 200
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
