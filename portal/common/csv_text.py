"""CSV that spreadsheets read as it was meant: UTF-8 with its mark, and no cell that runs as a formula. Django-free."""

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any

BOM = "\ufeff"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
CONTENT_TYPE = "text/csv; charset=utf-8"


def neutral(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA_STARTS) else value


def plain(text: str) -> str:
    """The text of a cell as it was before `neutral`."""
    return text[1:] if text.startswith("'") and text[1:].lstrip(" ").startswith(FORMULA_STARTS) else text


def csv_line(values: Sequence[Any]) -> str:
    """One line, its end included; None is an empty cell."""
    buffer = StringIO()
    csv.writer(buffer).writerow([neutral(value) for value in values])
    return buffer.getvalue()
