"""Where the attempts of a kept state sit: by row, by host, and as flat columns (R13)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from scheduler.types import ALLOCATED, IntArray, Standing

if TYPE_CHECKING:
    from scheduler.facts import Facts
    from scheduler.state import State

UNALLOCATED = int(Standing.UNALLOCATED)

SPARE_ROWS = 256


class Seats:
    """GPUs of every attempt on every host, in step with the state's table of attempts."""

    places: list[dict[int, int]]  # by row: GPUs by host index
    on_host: dict[int, set[int]]  # rows by host index

    def __init__(self, state: State) -> None:
        self.state = state
        self.count_anew()

    def count_anew(self) -> None:
        """Rows have got new places in the table."""
        self.places, self.on_host = [], {}
        self._flat = np.zeros((SPARE_ROWS, 3), dtype=np.int64)
        self._count = 0
        for row in range(self.state.attempts.count):
            self._sit(row)

    def columns(self) -> IntArray:
        """(row, host index, GPUs), rising by row; of attempts that are over, too, until the table forgets them."""
        return self._flat[: self._count].T

    def count(self, host: int, facts: Facts) -> tuple[int, int, int]:
        """GPUs of a host that are occupied, that allocated work has or is held for, and that all askers may take."""
        places, standing, held = self.places, facts.standing, facts.held
        occupied = kept = takeable = 0
        for row in self.on_host.get(host, ()):
            gpus, its = places[row][host], standing.item(row)
            occupied += max(gpus - self._count_coming(host, row), 0) if row in held else gpus
            if its == UNALLOCATED:
                takeable += gpus
            elif its in ALLOCATED:
                kept += gpus
        return occupied, kept, takeable

    def _count_coming(self, host: int, held: int) -> int:
        """GPUs there of attempts that stop for the one that is held for."""
        columns = self.state.attempts.columns
        number, takers = columns["id"].item(held), columns["taker"]
        return sum(self.places[row][host] for row in self.on_host[host] if takers.item(row) == number)

    def list_hosts(self, row: int) -> Collection[int]:
        """Those on which an attempt sits, as far as is known here."""
        return self.places[row] if row < len(self.places) else ()

    def move(self, row: int, new: Collection[int]) -> None:
        """An attempt sits on these hosts now. It never changes them: it gets all at once, and leaves them."""
        old = self.list_hosts(row)
        if len(old) == len(new):
            return
        for host in old:
            self.on_host[host].discard(row)
        if not new:
            self.places[row] = {}
        elif old:
            self.count_anew()  # some of its hosts are free already
        else:
            self._sit(row)

    def _sit(self, row: int) -> None:
        columns = self.state.attempts.columns
        number, gpus = columns["id"].item(row), columns["gpus_per_replica"].item(row)
        there = {host: count * gpus for host, count in self.state.places.get(number, {}).items()}
        while row >= len(self.places):
            self.places.append({})
        self.places[row] = there
        for host, count in there.items():
            self.on_host.setdefault(host, set()).add(row)
            if self._count == len(self._flat):
                self._flat = np.concatenate([self._flat, np.zeros_like(self._flat)])
            self._flat[self._count] = row, host, count
            self._count += 1
