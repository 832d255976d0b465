"""A CSV of budgets, read into rows; what can't be read is said line by line. It knows no project and no cluster."""

import csv
import re
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import NamedTuple

from portal.budgets.percent import PercentError, ppm_exact
from portal.budgets.services import BURST_GPUS_MAX
from portal.common.csv_text import BOM, plain

READ = ("cluster", "project", "version", "percent", "burst_gpus")
SHOWN = (
    "name", "percent_of_cluster", "gpus", "gpu_hours_per_week", "own_percent_of_cluster", "own_gpus",
    "own_gpu_hours_per_week", "quota_gpu_seconds", "used_gpu_seconds", "balance", "standing",
)  # fmt: skip
COLUMNS = (*READ[:2], SHOWN[0], *READ[2:], *SHOWN[1:])
BYTES_MAX = 2_000_000
ROWS_MAX = 20_000
ERRORS_MAX = 200
SHOWN_MAX = 60
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
VERSION_MAX = 2_147_483_647


class RowError(NamedTuple):
    """One complaint: the line of the file (1 is the header), the column ("" for the whole line), a sentence."""

    line: int
    column: str
    code: str
    detail: str


class Row(NamedTuple):
    """What a line says. `share_ppm` None: nothing stands there, as for the root or a project without a budget.

    A broken one has a cell that can't be read: it counts as the line of its project, and nothing is judged by it.
    """

    line: int
    cluster: str
    project: str
    version: int | None
    share_ppm: int | None
    burst_gpus: int | None
    is_broken: bool = False


class Reading(NamedTuple):
    """The rows, and what is wrong with those that can't be read."""

    rows: list[Row]
    errors: list[RowError]


class CellError(ValueError):
    """A cell is not what its column holds."""


def text_decode(raw: bytes) -> str:
    """The text of a file: UTF-8, with or without its mark. What is something else is refused with a ValueError."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("The file is UTF-16; save it as CSV UTF-8.")
    if b"\0" in raw:
        line = raw.count(b"\n", 0, raw.index(0)) + 1
        raise ValueError(f"Line {line} has a NUL byte; save it as CSV UTF-8.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"The file is not UTF-8 (line {line}); save it as CSV UTF-8.") from None


def rows_read(text: str) -> Reading:
    """Rows and complaints, both by line. Commas or semicolons, any end of line, a byte-order mark: all are read."""
    text = text.removeprefix(BOM)
    if len(text.encode(errors="replace")) > BYTES_MAX:
        return _nothing(1, "too_large", f"The file is larger than {BYTES_MAX:,} bytes, the most that is read.")
    if "\0" in text:
        return _nothing(text[: text.index("\0")].count("\n") + 1, "invalid", "A NUL byte: this is no text.")
    head = text.split("\n", 1)[0]
    reader = csv.reader(StringIO(text, newline=""), delimiter=";" if head.count(";") > head.count(",") else ",")
    try:
        lines = list(_numbered(reader))
    except csv.Error as error:
        return _nothing(reader.line_num, "invalid", f"This line can't be read as CSV: {error}.")
    if not lines:
        return _nothing(1, "empty", "The file is empty; export the budgets to see what it should hold.")
    if len(lines) > ROWS_MAX:
        return _nothing(ROWS_MAX, "too_large", f"The file has more than {ROWS_MAX:,} lines.")
    names = [plain(name.strip()) for name in lines[0][1]]
    if errors := list(_header_errors(names)):
        return Reading([], errors)
    return _body_read(names, lines[1:])


def _nothing(line: int, code: str, detail: str) -> Reading:
    return Reading([], [RowError(line, "", code, detail)])


def _numbered(reader: "Iterator[list[str]]") -> Iterator[tuple[int, list[str]]]:
    """Each line that isn't blank, with the number of the line on which it begins."""
    begun = 1
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield begun, cells
        begun = reader.line_num + 1  # type: ignore[attr-defined]  # csv's readers have it


def _header_errors(names: Sequence[str]) -> Iterator[RowError]:
    valid = ", ".join(COLUMNS)
    for name in dict.fromkeys(names):
        if name not in COLUMNS:
            shown = repr(name[:SHOWN_MAX])
            yield RowError(1, name[:SHOWN_MAX], "unknown_column", f"There is no column {shown}; there are: {valid}.")
        elif names.count(name) > 1:
            yield RowError(1, name, "twice", f"The column {name} stands there twice.")
    for name in READ:
        if name not in names:
            yield RowError(1, name, "missing_column", f"The column {name} is missing; needed are: {', '.join(READ)}.")


def _body_read(names: Sequence[str], lines: Sequence[tuple[int, list[str]]]) -> Reading:
    rows, errors = [], []
    for number, cells in lines:
        if len(cells) != len(names):
            sentence = f"This line has {len(cells)} cells, the header {len(names)}."
            errors.append(RowError(number, "", "cells", sentence))
            continue
        row, complaints = _row_read(number, dict(zip(names, cells, strict=True)))
        errors += complaints
        if row is not None:
            rows.append(row)
    return Reading(rows, errors)


def _row_read(number: int, cells: dict[str, str]) -> tuple[Row | None, list[RowError]]:
    errors: list[RowError] = []
    values: dict[str, int | None] = dict.fromkeys(("version", "percent", "burst_gpus"))
    for column, read in (("version", _version), ("percent", _percent), ("burst_gpus", _burst)):
        try:
            values[column] = read(cells[column].strip())
        except (CellError, PercentError) as error:
            errors.append(RowError(number, column, "invalid", str(error)))
    cluster, project = (plain(cells[column].strip()) for column in ("cluster", "project"))
    for column, value in (("cluster", cluster), ("project", project)):
        if not value:
            errors.append(RowError(number, column, "required", f"The {column} is missing."))
    if not cluster or not project:
        return None, errors
    amounts = (values["version"], values["percent"], values["burst_gpus"])
    return Row(number, cluster, project, *amounts, is_broken=bool(errors)), errors


def _percent(text: str) -> int | None:
    return ppm_exact(text.removesuffix("%")) if text else None


def _version(text: str) -> int | None:
    if not text:
        return None
    if not _WHOLE.fullmatch(text) or int(text) > VERSION_MAX:
        raise CellError(f"{text[:SHOWN_MAX]!r} is no version; it is a whole number, as exported.")
    return int(text)


def _burst(text: str) -> int | None:
    if not text:
        return None
    if not _WHOLE.fullmatch(text) or int(text) > BURST_GPUS_MAX:
        raise CellError(f"{text[:SHOWN_MAX]!r} is no burst cap; it is empty or 0 to {BURST_GPUS_MAX:,} GPUs.")
    return int(text)
