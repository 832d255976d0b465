"""Owed and delivered: how much of what budgets entitled projects to, and they asked for, they got (SPEC.md section 2).

owed: hour by hour the smaller of share x schedulable GPUs and demand, of the project's whole subtree.
demand: GPUs running or waiting with a minimum runtime above 0. A workload that accepts several clusters asks
on each of them while it waits. delivered: allocated (charged) GPU-seconds.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from math import gcd
from typing import NamedTuple

import numpy as np

from portal.budgets.selectors import ShareStep, share_history
from portal.clusters.models import Cluster, HostState
from portal.common.units import PPM, epoch_seconds, moment_of
from portal.usage.arrays import IntArray, int_array
from portal.usage.attempts import AttemptColumns, window_attempts
from portal.usage.columns import (
    Parents,
    SegmentColumns,
    gpu_seconds_by_group,
    hour_edges,
    numbers_of,
    parents_read,
)
from portal.usage.occupancy import HostSpans, capacity_between, host_spans_read
from portal.usage.segments import window_segments

INT64_ABOVE = 2**63


@dataclass(frozen=True)
class Delivery:
    """What a project was owed over a range, and what it got."""

    owed_gpu_seconds: int
    delivered_gpu_seconds: int

    @property
    def ratio(self) -> float | None:
        """Delivered over owed; None: it asked for nothing that it was entitled to."""
        return self.delivered_gpu_seconds / self.owed_gpu_seconds if self.owed_gpu_seconds else None


@dataclass(frozen=True)
class HourlyDelivery:
    """GPU-seconds owed and delivered between neighbouring `edges` (full hours UTC, and the ends), by project id."""

    edges: list[datetime]
    owed: dict[int, list[int]]
    delivered: dict[int, list[int]]


def delivery(
    *,
    cluster: Cluster,
    start: datetime,
    end: datetime,
    columns: SegmentColumns | None = None,
    parents: Parents | None = None,
    spans: HostSpans | None = None,
    attempts: AttemptColumns | None = None,
) -> dict[int, Delivery]:
    """Every project's owed and delivered GPU-seconds, its whole subtree counted. Arguments as `delivery_by_hour`'s."""
    found = _hours(cluster, start, end, _Known(columns, parents, spans, attempts))
    owed, delivered = found.owed.sum(axis=1).tolist(), found.delivered.sum(axis=1).tolist()
    return {pk: Delivery(owed[row], delivered[row]) for row, pk in enumerate(found.projects)}


def delivery_mean(deliveries: Iterable[Delivery]) -> float | None:
    """The mean ratio over projects that were owed something, each counted up to 1."""
    ratios = [min(ratio, 1.0) for each in deliveries if (ratio := each.ratio) is not None]
    return sum(ratios) / len(ratios) if ratios else None


def delivery_by_hour(
    *,
    cluster: Cluster,
    start: datetime,
    end: datetime,
    columns: SegmentColumns | None = None,
    attempts: AttemptColumns | None = None,
) -> HourlyDelivery:
    """Owed and delivered, hour by hour. A fixed number of queries, whatever the size of tree and ledger.

    `columns`, `attempts`: the cluster's segments and attempts of this range or a longer one, if the caller has read
    them already; so with `parents` (the tree of projects) and `spans` (of the hosts).
    """
    found = _hours(cluster, start, end, _Known(columns, attempts=attempts))
    return HourlyDelivery(
        edges=[moment_of(int(edge)) for edge in found.edges],
        owed=dict(zip(found.projects, found.owed.tolist(), strict=True)),
        delivered=dict(zip(found.projects, found.delivered.tolist(), strict=True)),
    )


class _Hours(NamedTuple):
    """`owed` and `delivered` hold a row for each project and a column for each hour."""

    edges: IntArray
    projects: list[int]
    owed: IntArray
    delivered: IntArray


class _Known(NamedTuple):
    """What the caller has read already."""

    columns: SegmentColumns | None = None
    parents: Parents | None = None
    spans: HostSpans | None = None
    attempts: AttemptColumns | None = None


def _hours(cluster: Cluster, start: datetime, end: datetime, known: _Known) -> _Hours:
    edges = hour_edges(start, end)
    parents = parents_read() if known.parents is None else known.parents
    spans = host_spans_read(cluster=cluster, start=start, end=end) if known.spans is None else known.spans
    columns, attempts = known.columns, known.attempts
    if columns is None:
        columns = window_segments(cluster=cluster, start=start, end=end, parents=parents)
    if attempts is None:
        attempts = window_attempts(cluster=cluster, start=start, end=end)
    entitled = _entitled(share_history(cluster=cluster, since=start), spans, edges, parents)
    owed = np.minimum(entitled, _demand(attempts, edges, parents))
    return _Hours(edges, list(parents), owed, _delivered(columns, edges, parents))


def _demand(attempts: AttemptColumns, edges: IntArray, parents: Parents) -> IntArray:
    """GPU-seconds asked for in each hour, from the place in the queue on, in the subtree of each project as it is."""
    mine = attempts.where(attempts.min_runtime_seconds > 0)
    rows = numbers_of(list(parents), mine.project)
    totals = gpu_seconds_by_group(edges, rows, len(parents), mine.queued_at, mine.ended_at, mine.gpus)
    row_of = {project_id: row for row, project_id in enumerate(parents)}
    for project_id, parent_id in reversed(list(parents.items())):  # children stand after their parents
        if parent_id is not None:
            totals[row_of[parent_id]] += totals[row_of[project_id]]
    return totals


def _delivered(columns: SegmentColumns, edges: IntArray, parents: Parents) -> IntArray:
    """GPU-seconds charged in each hour to each project: to those that were ancestors when it was charged."""
    mine = columns.charged()
    by_path = gpu_seconds_by_group(
        edges, columns.path[mine], len(columns.paths), columns.start_at[mine], columns.end_at[mine], columns.gpus[mine]
    )
    totals = np.zeros((len(parents), len(edges) - 1), dtype=np.int64)
    row_of = {project_id: row for row, project_id in enumerate(parents)}
    for path, hours in zip(columns.paths, by_path, strict=True):
        for project_id in path:
            totals[row_of[project_id]] += hours
    return totals


def _entitled(steps: list[ShareStep], spans: HostSpans, edges: IntArray, parents: Parents) -> IntArray:
    """share x schedulable GPU-seconds in each hour, rounded down; exact, because shares are whole ppm of the parent."""
    moments = {epoch_seconds(step.at) for step in steps}
    changes = np.unique(int_array([edges[0], *(at for at in moments if edges[0] < at < edges[-1])]))
    cuts = np.unique(np.concatenate((edges, changes)))
    schedulable = capacity_between(spans=spans, edges=cuts)[HostState.SCHEDULABLE]
    first_cut = np.searchsorted(cuts, edges[:-1])  # of each hour: every edge is a cut
    change_of_cut = np.searchsorted(changes, cuts[:-1], side="right") - 1
    most = int(schedulable.max(initial=0)) * (len(changes) + 1)
    shares = _shares_at(steps, changes, parents)
    entitled = np.zeros((len(parents), len(edges) - 1), dtype=np.int64)
    if len(cuts) < 2:
        return entitled
    for row, (parts, whole) in enumerate(shares):
        # A share is at most the whole, so nothing is above whole x most: int64 where that fits, else Python's integers.
        kind = np.int64 if whole * most < INT64_ABOVE else object
        weighted = np.array(parts, dtype=kind)[change_of_cut] * schedulable.astype(kind)
        entitled[row] = np.add.reduceat(weighted, first_cut) // whole
    return entitled


def _shares_at(steps: list[ShareStep], changes: IntArray, parents: Parents) -> list[tuple[list[int], int]]:
    """For each project its share of the cluster from each change on, as whole parts of a whole."""
    own: dict[int, list[int]] = {}
    for step in steps:  # each project's in the order in which they took effect
        shares = own.setdefault(step.project_id, [0] * len(changes))
        since = int(np.searchsorted(changes, epoch_seconds(step.at), side="left"))
        shares[since:] = [step.share_ppm] * (len(changes) - since)
    found: dict[int, tuple[list[int], int]] = {}
    for project_id, parent_id in parents.items():  # parents stand before their children
        if parent_id is None:
            found[project_id] = ([1] * len(changes), 1)
            continue
        parts, whole = found[parent_id]
        shares = own.get(project_id, [0] * len(changes))
        parts, whole = [part * share for part, share in zip(parts, shares, strict=True)], whole * PPM
        common = gcd(whole, *parts)
        found[project_id] = ([part // common for part in parts], whole // common)
    return list(found.values())
