"""One column of a table, read as numbers, flags or names at once; a bad cell is found only when there is one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portal.simulations.traces.rows import MISSING, IntArray, TraceRefused, shown

FLAGS = {"1": 1, "true": 1, "yes": 1, "0": 0, "false": 0, "no": 0}
NAME_CHARACTERS = 200
EXACT_INTEGERS = 1 << 53


@dataclass(frozen=True, slots=True)
class Column:
    """The cells under one name, each with the line that it stands in."""

    file: str
    name: str
    lines: Sequence[int]
    cells: Sequence[str]

    def refusal(self, row: int, words: str) -> TraceRefused:
        """What to raise about one cell."""
        return TraceRefused(
            self.file, f"{shown(self.cells[row].strip())} {words}", line=self.lines[row], column=self.name
        )

    def numbers(self, least: float, most: float) -> NDArray[np.float64]:
        """Finite numbers within bounds, both included."""
        quick = self._quick(math.ceil(least), int(most))
        if quick is not None:
            return quick.astype(np.float64)
        try:
            values = np.array([_number(cell) for cell in self.cells], dtype=np.float64)
        except ValueError:
            row = self._first(lambda cell: not _is_number(cell))
            raise self.refusal(row, "is not a number" if self.cells[row].strip() else "is empty") from None
        wrong = ~((values >= least) & (values <= most))  # so that NaN is wrong too
        if wrong.any():
            raise self.refusal(int(wrong.argmax()), f"is not between {least:g} and {most:.12g}")
        return values

    def whole(self, least: int, most: int) -> IntArray:
        """Whole numbers within bounds, both included."""
        quick = self._quick(least, most)
        if quick is not None:
            return quick
        values = self.numbers(least, most)
        parts = values != np.floor(values)
        if parts.any():
            raise self.refusal(int(parts.argmax()), "is not a whole number")
        return values.astype(np.int64)

    def seconds(self, most: int, *, up: bool) -> IntArray:
        """Seconds from 0 on; parts of one rounded up or down."""
        quick = self._quick(0, most)
        if quick is not None:
            return quick
        values = self.numbers(0, most)
        return (np.ceil(values) if up else np.floor(values)).astype(np.int64)

    def optional(self, read: Callable[["Column"], IntArray], missing: int = MISSING) -> IntArray:
        """As `read` has it; `missing` where the cell is empty."""
        given = [row for row, cell in enumerate(self.cells) if cell and not cell.isspace()]
        if len(given) == len(self.cells):
            return read(self)
        values = np.full(len(self.cells), missing, dtype=np.int64)
        if given:
            lines, cells = [self.lines[row] for row in given], [self.cells[row] for row in given]
            values[given] = read(Column(self.file, self.name, lines, cells))
        return values

    def flags(self) -> IntArray:
        """1 for yes, 0 for no."""
        try:
            return np.array([FLAGS[cell.strip().lower()] for cell in self.cells], dtype=np.int64)
        except KeyError:
            row = self._first(lambda cell: cell.strip().lower() not in FLAGS)
            raise self.refusal(row, "is not one of 1, 0, true, false, yes, no") from None

    def check_names(self, *, needed: bool = True) -> None:
        """Names must be there (where needed), of a sane length and without control characters."""
        joined = "".join(self.cells)
        if (
            joined.isprintable()
            and len(max(self.cells, key=len)) <= NAME_CHARACTERS
            and (not needed or self._all_given())
        ):
            return
        for name in dict.fromkeys(self.cells):
            if (needed and not name.strip()) or len(name) > NAME_CHARACTERS or not _printable(name):
                raise self.refusal(list(self.cells).index(name), f"must have 1 to {NAME_CHARACTERS} plain characters")

    def _all_given(self) -> bool:
        return all(self.cells) and not any(map(str.isspace, self.cells))

    def _quick(self, least: int, most: int) -> IntArray | None:
        """The usual case, plain whole numbers within bounds; None: look closer."""
        try:
            values = np.array(list(map(int, self.cells)), dtype=np.int64)
        except (ValueError, OverflowError):
            return None
        sound = not len(values) or (int(values.min()) >= least and int(values.max()) <= most)
        return values if sound and "_" not in "".join(self.cells) else None

    def _first(self, wrong: Callable[[str], bool]) -> int:
        return next(row for row, cell in enumerate(self.cells) if wrong(cell))


class Names:
    """Names to indexes, in the order in which they appear; blanks around a name don't count."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._raw: dict[str, int] = {}

    def indexes(self, cells: Sequence[str]) -> IntArray:
        for raw in dict.fromkeys(cells):
            if raw not in self._raw:
                self._raw[raw] = self._index.setdefault(raw.strip(), len(self._index))
        return np.array([self._raw[cell] for cell in cells], dtype=np.int64)

    def all(self) -> tuple[str, ...]:
        return tuple(self._index)


def _number(cell: str) -> float:
    """A number as people write it: no underscores, which Python would allow."""
    if "_" in cell:
        raise ValueError(cell)
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return False
    return True


def _printable(name: str) -> bool:
    return name.replace("\t", " ").isprintable()


def round_up(values: NDArray[np.float64]) -> tuple[IntArray, NDArray[np.bool_]]:
    """Parts of a GPU rounded up, and where that was needed."""
    whole = np.ceil(values).astype(np.int64)
    return whole, whole != values
