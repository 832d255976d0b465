"""GPU-seconds inside the moving window, kept from one decision to the next (R2, R3).

A sum over the window changes by a rate while nothing happens: what is charged now flows in at
the right edge, what was charged one window ago flows out at the left. Only changes of the rate
cost anything. The sums are the same whole numbers as `usage.sum_paths` gives.
"""

from __future__ import annotations

from bisect import insort

Key = tuple[int, int]  # (project, author)
Path = tuple[int, ...]
Edge = tuple[int, int, Path, Key]
Bend = tuple[int, int]
"""(seconds from now, by how many GPUs usage grows faster from then on)."""

MOST_PASSED = 4096
"""Edges that have passed and are still listed."""


class Meters:
    """Sums by node and by (project, author), for one ledger: charged or unallocated."""

    def __init__(self, nodes: int, window_seconds: int) -> None:
        self.window_seconds = window_seconds
        self.level = [0] * nodes
        self.rate = [0] * nodes
        self.authors: dict[Key, list[int]] = {}  # level, rate, and the moment at which that was the level
        self.now = 0
        self._edges: list[Edge] = []  # when a rate changes at the left edge of the window, in order of time
        self._next = 0  # the first of them that is to come

    def get(self, key: Key, default: int = 0) -> int:
        """The sum of an author inside a project, as of `now`."""
        known = self.authors.get(key)
        return default if known is None else known[0] + known[1] * (self.now - known[2])

    def advance(self, now: int) -> None:
        """Time passes."""
        seconds = now - self.now
        if seconds <= 0:
            return
        self.now = now
        level = self.level
        for node, rate in enumerate(self.rate):
            if rate:
                level[node] += rate * seconds
        self.flow()

    def flow(self) -> None:
        """Carry out what was due at the left edge already."""
        edges, at = self._edges, self._next
        while at < len(edges) and edges[at][0] <= self.now:
            moment, gpus, path, key = edges[at]
            self.turn(path, key, gpus, moment)
            at += 1
        self._next = at
        if at > MOST_PASSED:
            del edges[:at]
            self._next = 0

    def sum_bends(self, until: int) -> tuple[list[int], list[int]]:
        """By node: GPUs that leave its rate, and that join it, up to that moment if nothing happens but time."""
        falls, rises = [0] * len(self.level), [0] * len(self.level)
        for at in range(self._next, len(self._edges)):
            moment, gpus, path, _ = self._edges[at]
            if moment > until:
                break
            for node in path:
                if gpus < 0:
                    falls[node] -= gpus
                else:
                    rises[node] += gpus
        return falls, rises

    def list_bends(self, node: int, until: int) -> list[Bend]:
        """When and how the node's rate changes up to that moment, if nothing happens but time."""
        bends = []
        for at in range(self._next, len(self._edges)):
            moment, gpus, path, _ = self._edges[at]
            if moment > until:
                break
            if node in path:
                bends.append((moment - self.now, gpus))
        return bends

    def turn(self, path: Path, key: Key, gpus: int, at: int) -> None:
        """From `at` on, not after now, so many GPUs more are counted each second."""
        self.change(path, key, gpus, gpus * (self.now - at))

    def change(self, path: Path, key: Key, gpus: int, gpu_seconds: int) -> None:
        """So many GPUs more each second from now on, and so many GPU-seconds more at once."""
        rate, level = self.rate, self.level
        for node in path:
            rate[node] += gpus
            level[node] += gpu_seconds
        known = self.authors.get(key)
        if known is None:
            self.authors[key] = [gpu_seconds, gpus, self.now]
            return
        known[0] += known[1] * (self.now - known[2]) + gpu_seconds
        known[1] += gpus
        known[2] = self.now

    def leave(self, path: Path, key: Key, gpus: int, at: int) -> None:
        """What began to count at `at` stops to a window later; sums that are given already hold it till then."""
        edge = (at + self.window_seconds, -gpus, path, key)
        if self._edges and edge < self._edges[-1]:
            insort(self._edges, edge, lo=self._next)
        else:
            self._edges.append(edge)
