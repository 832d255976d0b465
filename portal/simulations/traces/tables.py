"""A table with a header line, in chunks of columns: fast for a million rows, exact about lines when one is wrong."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from portal.simulations.traces.columns import Column
from portal.simulations.traces.rows import TraceRefused
from portal.simulations.traces.text import open_lines

if TYPE_CHECKING:
    import _csv

CHUNK_ROWS = 1 << 13  # more at once costs time: the garbage collector walks what is alive
CSV_WORDS = {"unexpected end of data": "is inside quotes that are never closed"}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a table, by column name."""

    file: str
    lines: Sequence[int]
    cells: dict[str, Sequence[str]]

    def __contains__(self, name: str) -> bool:
        return name in self.cells

    def __getitem__(self, name: str) -> Column:
        return Column(self.file, name, self.lines, self.cells[name])


class Table:
    """The header of a file and what follows it."""

    def __init__(self, file: str, data: bytes, *, delimiter: str = ",", quoted: bool = True) -> None:
        self.file = file
        lines = open_lines(data)
        if quoted:
            self._reader = csv.reader(lines, delimiter=delimiter, strict=True)
        else:
            self._reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        header = next((row for row in self._rows() if not _blank(row)), [])
        self.header = tuple(name.strip() for name in header)
        self.header_line = self._reader.line_num
        twice = sorted({name for name in self.header if name and self.header.count(name) > 1})
        if twice:
            raise TraceRefused(file, "is named twice", line=self.header_line, column=twice[0])

    def require(self, *needed: str) -> None:
        """Refuse a header that lacks one of the columns."""
        missing = [name for name in needed if name not in self.header]
        if missing:
            others = f", like {', '.join(missing[1:])}" if missing[1:] else ""
            has = ", ".join(name for name in self.header if name) or "none"
            words = f"is missing{others} (the columns are: {has})"
            raise TraceRefused(self.file, words, line=self.header_line, column=missing[0])

    def chunks(self) -> Iterator[Chunk]:
        """The rows after the header; blank lines are read over."""
        source = self._rows()
        while True:
            lines, rows, read = [], [], 0
            for row in islice(source, CHUNK_ROWS):
                read += 1
                if len(row) == len(self.header) or not _blank(row):
                    rows.append(row)
                    lines.append(self._reader.line_num)
            if rows:
                self._check_lengths(lines, rows)
                yield Chunk(self.file, lines, dict(zip(self.header, zip(*rows, strict=True), strict=True)))
            elif not read:  # a chunk may be all blank
                return

    def _check_lengths(self, lines: list[int], rows: list[list[str]]) -> None:
        width = len(self.header)
        if set(map(len, rows)) != {width}:
            line, row = next((line, row) for line, row in zip(lines, rows, strict=True) if len(row) != width)
            raise TraceRefused(self.file, f"{len(row)} fields, but the header names {width}", line=line)

    def _rows(self) -> "Iterator[list[str]]":
        reader: _csv.Reader = self._reader
        try:
            yield from reader
        except csv.Error as error:
            words = CSV_WORDS.get(str(error), f"is not well-formed ({error})")
            raise TraceRefused(self.file, words, line=reader.line_num) from None


def _blank(row: list[str]) -> bool:
    return not row or (len(row) == 1 and not row[0].strip())
