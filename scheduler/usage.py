"""GPU-seconds inside the lookback window, from attempt segments (R2, R3).

Usage is a pure function of the segments: integer sums without a half-life; with one, the
coefficients of each moment are summed as integers first, so that a cut, which adds the same
number with both signs at one moment, leaves no trace in the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.types import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Window:
    """The lookback window [since, now], both in epoch seconds, and the half-life or None."""

    since: int
    now: int
    half_life: int | None

    @property
    def seconds(self) -> int:
        """Its length L in seconds, above 0."""
        return self.now - self.since


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Segments to be summed: what each belongs to, from when to when, with how many GPUs."""

    path: IntArray
    author: IntArray
    start_at: IntArray
    end_at: IntArray
    gpus: IntArray


def clip_rows(rows: Rows, window: Window) -> Rows:
    """The rows cut to the window; those that end outside it or before they start are dropped.

    A segment that lies in the future, after a step of the clock, counts as no time.
    """
    start = np.maximum(rows.start_at, window.since)
    end = np.minimum(rows.end_at, window.now)
    keep = (end > start) & (rows.gpus > 0)
    return Rows(rows.path[keep], rows.author[keep], start[keep], end[keep], rows.gpus[keep])


def sum_groups(group: IntArray, groups: int, rows: Rows, window: Window) -> list[int]:
    """R2's U without the unserved part: for each group, sum of GPUs x seconds in the window.

    `rows` are clipped. Whole GPU-seconds, 0 or more; 0 for a group without rows. With a
    half-life h a second of age a weighs 2^(-a/h) and the sum is rounded once, half up.
    """
    if window.half_life is None:
        sums = np.zeros(groups, dtype=np.int64)
        np.add.at(sums, group, (rows.end_at - rows.start_at) * rows.gpus)
        return [int(value) for value in sums]
    return _sum_weighted(group, groups, rows, window)


def _sum_weighted(group: IntArray, groups: int, rows: Rows, window: Window) -> list[int]:
    """The half-life form: sum over moments t of c(t) x F(t), c(t) the change of GPUs at t.

    F(t) is the weight of all seconds up to t; c is summed exactly before it meets F, and the
    products are added with one rounding (fsum), so neither order nor cuts matter.
    """
    groups_twice = np.concatenate([group, group])
    moments = np.concatenate([rows.start_at, rows.end_at])
    change = np.concatenate([-rows.gpus, rows.gpus])
    order = np.lexsort((moments, groups_twice))
    groups_twice, moments, change = groups_twice[order], moments[order], change[order]
    totals = [0.0] * groups
    if not len(order):
        return [0] * groups
    new = np.ones(len(order), dtype=bool)
    new[1:] = (groups_twice[1:] != groups_twice[:-1]) | (moments[1:] != moments[:-1])
    at = np.flatnonzero(new)
    sums, moments, groups_twice = np.add.reduceat(change, at), moments[at], groups_twice[at]
    terms = [float(c) * weigh_until(int(t), window) for c, t in zip(sums, moments, strict=True)]
    edges = np.searchsorted(groups_twice, np.arange(groups + 1))
    for index in range(groups):
        totals[index] = math.fsum(terms[edges[index] : edges[index + 1]])
    return [round_once(total) for total in totals]


def weigh_until(moment: int, window: Window) -> float:
    """F(t): weight of all seconds before `moment`, h / ln 2 x 2^(-(now - t) / h), in seconds."""
    half_life = window.half_life or 1
    return float(half_life / math.log(2) * 2.0 ** (-(window.now - moment) / half_life))


def round_once(value: float) -> int:
    """To whole GPU-seconds, half up."""
    return math.floor(value + 0.5)


def sum_paths(rows: Rows, paths: Sequence[tuple[int, ...]], nodes: int, window: Window) -> list[int]:
    """GPU-seconds of every node: each row counts for all nodes of its path (R3).

    `paths` maps a row's path to the nodes that were its ancestors when it was charged;
    nodes that are gone are simply not in it. `rows` are clipped.
    """
    if window.half_life is None:
        totals = [0] * nodes
        for path, used in enumerate(sum_groups(rows.path, len(paths), rows, window)):
            if used:
                for node in paths[path]:
                    totals[node] += used
        return totals
    return sum_groups(*_expand_paths(rows, paths, nodes), window)


def _expand_paths(rows: Rows, paths: Sequence[tuple[int, ...]], nodes: int) -> tuple[IntArray, int, Rows]:
    """One row for each row and node of its path, so that each node is rounded once."""
    lengths = np.array([len(path) for path in paths], dtype=np.int64)
    flat = np.array([node for path in paths for node in path], dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    times = lengths[rows.path]
    source = np.repeat(np.arange(len(rows.path)), times)
    within = np.arange(len(source)) - np.repeat(np.cumsum(times) - times, times)
    group = flat[first[rows.path][source] + within] if len(flat) else source
    wide = Rows(*(column[source] for column in (rows.path, rows.author, rows.start_at, rows.end_at, rows.gpus)))
    return group, nodes, wide


def measure_unserved(contract: IntArray, running_at: IntArray, now: int, counted: BoolArray) -> IntArray:
    """Seconds of minimum runtime still to be served, 0 or more; 0 where not `counted` (R2).

    All of the contract while the gang is not running. A clock that steps back serves nothing.
    """
    served = np.where(running_at >= 0, np.maximum(now - running_at, 0), 0)
    return np.where(counted, np.maximum(contract - served, 0), 0)


RECOVERY_STEPS = 128
"""Into how many parts the window is cut for the recovery estimate: 79 minutes of 7 days."""


class Outflow:
    """When charged usage will leave the window if nothing more is charged: an estimate for people.

    By path and step of the window, the GPU-seconds charged before it; straight lines between.
    """

    def __init__(self, rows: Rows, paths: Sequence[tuple[int, ...]], window: Window) -> None:
        self._window = window
        self._mine: dict[int, list[int]] = {}  # paths by node
        for number, path in enumerate(paths):
            for node in path:
                self._mine.setdefault(node, []).append(number)
        self._edges = np.arange(RECOVERY_STEPS + 1, dtype=np.int64) * window.seconds // RECOVERY_STEPS
        moments = np.concatenate([rows.start_at, rows.end_at]) - window.since
        change = np.concatenate([rows.gpus, -rows.gpus])
        slot = np.concatenate([rows.path, rows.path]) * len(self._edges) + np.searchsorted(self._edges, moments)
        rate = np.zeros(len(paths) * len(self._edges), dtype=np.int64)
        offset = np.zeros_like(rate)
        np.add.at(rate, slot, change)
        np.add.at(offset, slot, change * moments)
        shape = (len(paths), len(self._edges))
        self._sums = rate.reshape(shape).cumsum(axis=1) * self._edges - offset.reshape(shape).cumsum(axis=1)

    def recovers_at(self, node: int, excess: int) -> int:
        """When `excess` GPU-seconds of the node's usage will have left; at most a window from now."""
        gone = self._sums[self._mine.get(node, [])].sum(axis=0)
        step = int(np.searchsorted(gone, excess))
        if step > RECOVERY_STEPS:
            return self._window.now + self._window.seconds
        low, high = int(self._edges[max(step - 1, 0)]), int(self._edges[step])
        before, after = int(gone[max(step - 1, 0)]), int(gone[step])
        part = -(-(high - low) * (excess - before) // max(after - before, 1))  # rounded up
        return self._window.now + low + max(part, 0)
