"""Rows of the ledger as numeric columns, and exact GPU-seconds over any cut of time.

Everything is int64: moments are epoch seconds, GPU-time is whole GPU-seconds. No row is looked at in Python.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from portal.common.units import HOUR_SECONDS, epoch_seconds
from portal.projects.models import Project
from portal.usage.arrays import NEVER, BoolArray, IntArray
from portal.workloads.models import CHARGED_STANDINGS, Standing

Path = tuple[int, ...]
Parents = Mapping[int, int | None]

STANDINGS: tuple[str, ...] = tuple(Standing.values)
CHARGED = tuple(STANDINGS.index(standing) for standing in CHARGED_STANDINGS)


@dataclass(frozen=True, eq=False)
class SegmentColumns:
    """Segments that reach into a range of time, uncut; `end_at` is NEVER while one is open."""

    workload: IntArray
    host: IntArray
    author: IntArray
    gpus: IntArray
    standing: IntArray  # index into STANDINGS
    start_at: IntArray
    end_at: IntArray
    path: IntArray  # index into `paths`
    paths: tuple[Path, ...]  # project ids, root first: who was charged

    def charged(self) -> BoolArray:
        """Which of them are charged to a budget."""
        return np.array([number in CHARGED for number in range(len(STANDINGS))])[self.standing]

    def below(self, project_id: int) -> "SegmentColumns":
        """Those that are charged to the project or below it."""
        mine = np.array([project_id in path for path in self.paths], dtype=np.bool_)
        chosen = mine[self.path] if len(mine) else np.zeros(0, dtype=np.bool_)
        columns = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "paths"}
        return SegmentColumns(**{name: column[chosen] for name, column in columns.items()}, paths=self.paths)


def parents_read() -> Parents:
    """Each project's parent; parents stand before their children."""
    return dict(Project.objects.order_by("depth", "pk").values_list("pk", "parent_id"))


def gpu_seconds_by_group(
    edges: IntArray, group: IntArray, groups: int, start_at: IntArray, end_at: IntArray, gpus: IntArray
) -> IntArray:
    """GPU-seconds that the spans of each group occupy between each two neighbouring edges, exactly: [group, step].

    A span open for ever has `end_at` NEVER. The sum over any finer cut of the same range is the same.
    """
    if len(edges) < 2:
        return np.zeros((groups, 0), dtype=np.int64)
    last = int(edges[-1])
    ends = np.where(end_at == NEVER, last, end_at)
    return _since(edges, group, groups, start_at, gpus) - _since(edges, group, groups, ends, gpus)


def _since(edges: IntArray, group: IntArray, groups: int, moments: IntArray, gpus: IntArray) -> IntArray:
    """GPU-seconds in each step, were each span to run from its moment to the last edge: the part of the step in which
    it begins, and every later step whole."""
    steps = len(edges) - 1
    clipped = np.clip(moments, edges[0], edges[-1])
    step = np.minimum(np.searchsorted(edges, clipped, side="right") - 1, steps - 1)
    cell = group * steps + step
    part = np.zeros(groups * steps, dtype=np.int64)
    begun = np.zeros(groups * steps, dtype=np.int64)
    np.add.at(part, cell, gpus * (edges[step + 1] - clipped))
    np.add.at(begun, cell, gpus)
    begun_before = np.cumsum(begun.reshape(groups, steps), axis=1) - begun.reshape(groups, steps)
    found: IntArray = part.reshape(groups, steps) + begun_before * np.diff(edges)
    return found


def gpu_seconds_between(edges: IntArray, start_at: IntArray, end_at: IntArray, gpus: IntArray) -> IntArray:
    """GPU-seconds that the spans occupy between each two neighbouring edges, exactly."""
    found: IntArray = gpu_seconds_by_group(edges, np.zeros_like(gpus), 1, start_at, end_at, gpus)[0]
    return found


def gpu_seconds_each(start: datetime, end: datetime, columns: SegmentColumns) -> IntArray:
    """For each segment, its GPU-seconds inside [start, end)."""
    first, last = epoch_seconds(start), epoch_seconds(end)
    ends = np.clip(np.where(columns.end_at == NEVER, last, columns.end_at), first, last)
    each: IntArray = (ends - np.clip(columns.start_at, first, last)) * columns.gpus
    return each


def sums_by_group(group: IntArray, groups: int, values: IntArray) -> IntArray:
    """The exact sum of the values of each group."""
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, group, values)
    return sums


def step_edges(start: datetime, end: datetime, step_seconds: int) -> IntArray:
    """start, start + step, … and end."""
    first, last = epoch_seconds(start), epoch_seconds(end)
    return np.append(np.arange(first, last, step_seconds, dtype=np.int64), np.int64(last))


def hour_edges(start: datetime, end: datetime) -> IntArray:
    """start, every full hour (UTC) between, and end: so that neighbouring ranges add up hour by hour."""
    first, last = epoch_seconds(start), epoch_seconds(end)
    hours = np.arange((first // HOUR_SECONDS + 1) * HOUR_SECONDS, last, HOUR_SECONDS, dtype=np.int64)
    return np.concatenate(([first], hours, [last])).astype(np.int64)


def numbers_of(ids: Sequence[int], values: NDArray[np.int64]) -> IntArray:
    """For each value, its place in `ids`; every value is one of them."""
    order = np.argsort(np.array(ids, dtype=np.int64), kind="stable")
    found: IntArray = order[np.searchsorted(np.array(ids, dtype=np.int64)[order], values)]
    return found


def dense(values: IntArray) -> tuple[IntArray, IntArray]:
    """The different values in rising order, and each one's place among them. Ids lie close: no sorting then."""
    if not len(values):
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low > 8 * len(values):
        found, places = np.unique(values, return_inverse=True)
        return found, places
    there = np.bincount(values - low, minlength=high - low + 1) > 0
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[values - low]
