"""GPU-seconds by hour, exactly: whole numbers in, whole numbers out."""

from __future__ import annotations

import numpy as np

from scheduler.types import IntArray


def integrate(
    group: IntArray, start: IntArray, end: IntArray, gpus: IntArray, *, groups: int, edges: IntArray
) -> IntArray:
    """Sum of GPUs x seconds by group (rows) between neighbouring edges (columns).

    Every span counts from `start` up to `end`, cut to the edges; a correction has negative GPUs.
    Sums that wrap on the way come out right, for the result itself fits.
    """
    width = len(edges)
    moments = np.clip(np.concatenate([start, end]), edges[0], edges[-1])
    change = np.concatenate([gpus, -gpus])
    slot = np.concatenate([group, group]) * width + np.searchsorted(edges, moments)
    rate = np.zeros(groups * width, dtype=np.int64)
    offset = np.zeros_like(rate)
    np.add.at(rate, slot, change)
    np.add.at(offset, slot, change * moments)
    shape = (groups, width)
    until = rate.reshape(shape).cumsum(axis=1) * edges - offset.reshape(shape).cumsum(axis=1)
    return np.asarray(np.diff(until, axis=1))


def integrate_steps(at: IntArray, level: IntArray, edges: IntArray) -> IntArray:
    """The same of a level that holds from each `at` (rising, one may stand twice) to the next."""
    if not len(at):
        return np.zeros(len(edges) - 1, dtype=np.int64)
    end = np.append(at[1:], max(int(edges[-1]), int(at[-1])))
    whole = np.zeros(len(at), dtype=np.int64)
    return np.asarray(integrate(whole, at, end, level, groups=1, edges=edges)[0])
