"""A whole gang onto hosts, or not at all (R13).

Hosts are indexed by what sits on them and by their free GPUs, so that a place is found
without looking at every host. Among hosts that would do, in this order:

1. the kind of host, so that protected work and work that can be taken stay apart
2. the least free GPUs that are enough, so that whole hosts stay free
3. the lower host id
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from scheduler.tally import Tally
from scheduler.types import IntArray

EMPTY, KEPT, TAKEABLE, MIXED = 0, 1, 2, 3
"""Kinds of host: nothing on it; allocated work; work that can be taken; both."""

FOR_ALLOCATED = (KEPT, MIXED, EMPTY, TAKEABLE)
FOR_UNALLOCATED = (TAKEABLE, MIXED, EMPTY, KEPT)
"""Kinds in the order in which a start prefers them: its like first, its opposite last."""

FREE, ROOM, MOST = range(3)
"""GPUs of a host that are free; with those of unallocated work; with all that some asker may take (R9)."""

Placement = tuple[tuple[int, int], ...]
"""(host index, replicas on it), by host index."""


class Floor:
    """Free GPUs of the schedulable hosts during one decision.

    `free[h]` is what a start may use at once: never below 0, and 0 on a host that takes none.
    """

    def __init__(self, gpus: Sequence[int], block: Sequence[int], schedulable: Sequence[bool]) -> None:
        self.gpus = list(gpus)
        self.block = list(block)
        self.blocks = np.array(self.block, dtype=np.int64)
        self.schedulable = list(schedulable)
        self.free = [size if open_ else 0 for size, open_ in zip(self.gpus, self.schedulable, strict=True)]
        self.kept = [0] * len(self.gpus)  # GPUs of allocated work, held for included
        self.takeable = [0] * len(self.gpus)  # GPUs of work that can be taken by every asker
        self.funded = [0] * len(self.gpus)  # GPUs of work that can be taken by licence (R9)
        self.sizes = Tally(self.free)
        self.tallies = (Tally(self.free), Tally(self.free), Tally(self.free))  # see FREE, ROOM, MOST
        self._counted = [(gpus, gpus, gpus) for gpus in self.free]  # the host's numbers there
        self.zone = [0] * len(self.gpus)  # 0: nobody's; else the reservation that keeps the host
        self.touched: set[int] = set()  # hosts that were changed
        self._filed = [(0, EMPTY, 0)] * len(self.gpus)  # zone, kind and free GPUs by which the host is found
        self._heaps: dict[tuple[int, int], dict[int, list[int]]] = {}  # by zone and kind, then free GPUs
        self._levels: dict[tuple[int, int], list[int]] = {}

    def _count(self, host: int) -> None:
        free = self.free[host]
        room = free + self.takeable[host]
        new, old = (free, room, room + self.funded[host]), self._counted[host]
        if new == old:
            return
        self._counted[host] = new
        for kind in (FREE, ROOM, MOST):
            if old[kind] != new[kind]:
                self.tallies[kind].move(old[kind], new[kind])

    def index_hosts(self) -> None:
        """Call once, when the facts are in; `change` keeps the index from then on."""
        for host in range(len(self.gpus)):
            self._file(host)

    def kind(self, host: int) -> int:
        """What sits on the host."""
        return (KEPT if self.kept[host] > 0 else EMPTY) + (TAKEABLE if self.takeable[host] > 0 else EMPTY)

    def change(self, host: int, free: int = 0, kept: int = 0, takeable: int = 0) -> None:
        """Add to a host's numbers and file it anew."""
        self.touched.add(host)
        self.free[host] += free
        self.kept[host] += kept
        self.takeable[host] += takeable
        self._file(host)

    def put(self, host: int, occupied: int, kept: int, takeable: int) -> bool:
        """The host's numbers, given anew; whether any of them is another."""
        open_ = self.schedulable[host]
        free, takeable = (max(self.gpus[host] - occupied, 0), takeable) if open_ else (0, 0)
        if free == self.free[host] and kept == self.kept[host] and takeable == self.takeable[host]:
            return False
        self.free[host], self.kept[host], self.takeable[host] = free, kept, takeable
        self._file(host)
        return True

    def license(self, host: int, gpus: int) -> None:
        """So many more GPUs there can be taken by licence."""
        self.funded[host] += gpus
        self._count(host)

    def set_zone(self, host: int, zone: int) -> None:
        """The host is kept for another reservation, or for none."""
        if self.zone[host] != zone:
            self.touched.add(host)
            self.zone[host] = zone
            self._file(host)

    def _file(self, host: int) -> None:
        self._count(host)
        zone, kind, free = place = self.zone[host], self.kind(host), self.free[host]
        if place == self._filed[host]:
            return
        self._filed[host] = place
        if free > 0:
            name = zone, kind
            heap = self._heaps.setdefault(name, {}).get(free)
            if heap is None:
                heap = self._heaps[name][free] = []
                insort(self._levels.setdefault(name, []), free)
            heappush(heap, host)

    def find_host(self, gpus: int, kinds: Sequence[int], zones: Sequence[int] = (0,)) -> int | None:
        """The best host with `gpus` free together in those zones, or None."""
        for kind in kinds:
            found = [one for zone in zones if (one := self._find_in((zone, kind), gpus)) is not None]
            if found:
                return min(found)[1]
        return None

    def _find_in(self, name: tuple[int, int], gpus: int) -> tuple[int, int] | None:
        """(free GPUs, host) of the fullest host of a zone and kind that has enough."""
        levels = self._levels.get(name, [])
        at = bisect_left(levels, gpus)
        while at < len(levels):
            heap = self._heaps[name][levels[at]]
            while heap and (self.free[heap[0]] != levels[at] or (self.zone[heap[0]], self.kind(heap[0])) != name):
                heappop(heap)
            if heap:
                return levels[at], heap[0]
            del self._heaps[name][levels[at]]
            del levels[at]
        return None

    def find_place(
        self, replicas: int, gpus: int, kinds: Sequence[int], zones: Sequence[int] = (0,)
    ) -> Placement | None:
        """A place for the whole gang on free GPUs, or None.

        On one host if one can hold it all; else on the fewest hosts of one topology block
        that can, the tightest such block first; else over the blocks with most room.
        """
        host = self.find_host(replicas * gpus, kinds, zones)
        if host is not None:
            return ((host, replicas),)
        if replicas == 1:
            return None
        slots = np.array(self.free, dtype=np.int64) // gpus
        slots[~np.isin(np.array(self.zone, dtype=np.int64), zones)] = 0
        if int(slots.sum()) < replicas:
            return None
        rank = [0, 0, 0, 0]
        for order, kind in enumerate(kinds):
            rank[kind] = order
        ranks = np.zeros(len(slots), dtype=np.int64)
        for host in np.flatnonzero(slots).tolist():
            ranks[host] = rank[self.kind(host)]
        return spread_gang(slots, self.blocks, ranks, replicas)


def spread_gang(slots: IntArray, block: IntArray, rank: IntArray, replicas: int) -> Placement:
    """Choose hosts for `replicas`, given how many each can take; there must be enough.

    Blocks: the one with the fewest slots that suffice; if none suffices, the largest first.
    In a block: lower rank, then more slots (fewer hosts), then lower id; the last host is
    the one of that rank with the fewest slots that suffice.
    """
    chosen: list[tuple[int, int]] = []
    missing = replicas
    hosts = np.flatnonzero(slots > 0)
    for name in _order_blocks(slots[hosts], block[hosts], replicas):
        inside = hosts[block[hosts] == name]
        order = inside[np.lexsort((inside, -slots[inside], rank[inside]))]
        missing -= _fill_hosts(order.tolist(), slots, rank, missing, chosen)
        if missing == 0:
            break
    return tuple(sorted(chosen))


def _order_blocks(slots: IntArray, block: IntArray, replicas: int) -> list[int]:
    names, position = np.unique(block, return_inverse=True)
    room = np.zeros(len(names), dtype=np.int64)
    np.add.at(room, position, slots)
    fitting = [(int(size), int(name)) for size, name in zip(room, names, strict=True) if size >= replicas]
    if fitting:
        return [min(fitting)[1]]
    return [name for _, name in sorted((-int(size), int(name)) for size, name in zip(room, names, strict=True))]


def _fill_hosts(
    order: Sequence[int], slots: IntArray, rank: IntArray, missing: int, chosen: list[tuple[int, int]]
) -> int:
    """Fill hosts in order; returns the replicas placed."""
    placed = 0
    for position, host in enumerate(order):
        if placed == missing:
            break
        left = missing - placed
        if slots[host] > left:
            like = [other for other in order[position:] if slots[other] >= left and rank[other] == rank[host]]
            host = min(like, key=lambda other: (int(slots[other]), other))
        taken = min(int(slots[host]), left)
        chosen.append((host, taken))
        placed += taken
    return placed
