"""Owed and delivered: how much of what budgets entitled projects to, and they asked for, they got (SPEC.md section 2).

owed: hour by hour the smaller of share x schedulable GPUs and demand, of the project's whole subtree.
demand: GPUs running or waiting with a minimum runtime above 0. A workload that accepts several clusters asks
on each of them while it waits. delivered: allocated (charged) GPU-seconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from portal.budgets.selectors import ShareStep, share_history
from portal.clusters.models import Cluster, HostState
from portal.common.units import PPM, epoch_seconds, moment_of
from portal.projects.models import Project
from portal.usage.columns import (
    IntArray,
    SegmentColumns,
    gpu_seconds_between,
    hour_edges,
    int_array,
    row_fetch,
    window_segments,
)
from portal.usage.occupancy import capacity_between

_DEMAND = """
SELECT array_agg(project_id), array_agg(gpus), array_agg(extract(epoch FROM start_at)::bigint),
       array_agg(coalesce(extract(epoch FROM end_at)::bigint, -1))
FROM (
    SELECT w.project_id, w.replicas::bigint * w.gpus_per_replica AS gpus, a.queued_at AS start_at, a.ended_at AS end_at
    FROM workloads_attempt a JOIN workloads_workload w ON w.id = a.workload_id
    WHERE a.cluster_id = %(cluster)s AND a.min_runtime_seconds > 0
      AND a.queued_at < %(end)s AND (a.ended_at IS NULL OR a.ended_at > %(start)s)
    UNION ALL
    SELECT w.project_id, w.replicas::bigint * w.gpus_per_replica, w.queued_at, w.ended_at
    FROM workloads_workload w JOIN workloads_workload_clusters c ON c.workload_id = w.id
    WHERE c.cluster_id = %(cluster)s AND w.min_runtime_seconds > 0 AND w.state IN ('pending', 'cancelled')
      AND w.queued_at < %(end)s AND (w.ended_at IS NULL OR w.ended_at > %(start)s)
      AND NOT EXISTS (SELECT 1 FROM workloads_attempt a WHERE a.workload_id = w.id AND a.queued_at >= w.queued_at)
) AS asked
"""


Parents = Mapping[int, int | None]


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
    *, cluster: Cluster, start: datetime, end: datetime, columns: SegmentColumns | None = None
) -> dict[int, Delivery]:
    """Every project's owed and delivered GPU-seconds, its whole subtree counted."""
    hourly = delivery_by_hour(cluster=cluster, start=start, end=end, columns=columns)
    return {
        project_id: Delivery(sum(owed), sum(hourly.delivered[project_id])) for project_id, owed in hourly.owed.items()
    }


def delivery_mean(deliveries: Iterable[Delivery]) -> float | None:
    """The mean ratio over projects that were owed something, each counted up to 1."""
    ratios = [min(ratio, 1.0) for each in deliveries if (ratio := each.ratio) is not None]
    return sum(ratios) / len(ratios) if ratios else None


def delivery_by_hour(
    *, cluster: Cluster, start: datetime, end: datetime, columns: SegmentColumns | None = None
) -> HourlyDelivery:
    """Owed and delivered, hour by hour. Six queries, whatever the size of tree and ledger.

    `columns`: the cluster's segments of this range, if the caller has read them already.
    """
    edges = hour_edges(start, end)
    parents: Parents = dict(Project.objects.order_by("depth", "pk").values_list("pk", "parent_id"))
    demand = _demand(cluster, start, end, edges, parents)
    entitled = _entitled(cluster, start, end, edges, parents)
    if columns is None:
        columns = window_segments(cluster=cluster, start=start, end=end)
    delivered = _delivered(columns, edges, parents)
    owed = {project_id: np.minimum(entitled[project_id], demand[project_id]) for project_id in parents}
    return HourlyDelivery(
        edges=[moment_of(int(edge)) for edge in edges],
        owed={project_id: [int(value) for value in hours] for project_id, hours in owed.items()},
        delivered={project_id: [int(value) for value in hours] for project_id, hours in delivered.items()},
    )


def _zeros(edges: IntArray, parents: Parents) -> dict[int, IntArray]:
    return {project_id: np.zeros(len(edges) - 1, dtype=np.int64) for project_id in parents}


def _demand(cluster: Cluster, start: datetime, end: datetime, edges: IntArray, parents: Parents) -> dict[int, IntArray]:
    """GPU-seconds asked for in each hour, in the subtree of each project as the tree stands."""
    row = row_fetch(_DEMAND, {"cluster": cluster.pk, "start": start, "end": end})
    project, gpus, start_at, end_at = map(int_array, row)
    totals = _zeros(edges, parents)
    for project_id in np.unique(project):
        mine = project == project_id
        totals[int(project_id)] += gpu_seconds_between(edges, start_at[mine], end_at[mine], gpus[mine])
    for project_id in reversed(list(parents)):
        parent_id = parents[project_id]
        if parent_id is not None:
            totals[parent_id] += totals[project_id]
    return totals


def _delivered(columns: SegmentColumns, edges: IntArray, parents: Parents) -> dict[int, IntArray]:
    """GPU-seconds charged in each hour to each project: to those that were ancestors when it was charged."""
    totals = _zeros(edges, parents)
    charged = columns.charged()
    for index, path in enumerate(columns.paths):
        mine = charged & (columns.path == index)
        hours = gpu_seconds_between(edges, columns.start_at[mine], columns.end_at[mine], columns.gpus[mine])
        for project_id in path:
            totals[project_id] += hours
    return totals


def _entitled(
    cluster: Cluster, start: datetime, end: datetime, edges: IntArray, parents: Parents
) -> dict[int, IntArray]:
    """share x schedulable GPU-seconds in each hour, rounded down; exact, because shares are whole ppm of the parent."""
    steps = share_history(cluster=cluster, since=start)
    moments = {epoch_seconds(step.at) for step in steps}
    cuts = np.unique(np.concatenate((edges, int_array([at for at in moments if edges[0] < at < edges[-1]]))))
    schedulable = capacity_between(cluster=cluster, start=start, end=end, edges=cuts)[HostState.SCHEDULABLE]
    hour_of_cut = np.searchsorted(edges, cuts[:-1], side="right") - 1
    shares = _shares_at_cuts(steps, cuts, parents)
    entitled = {}
    for project_id, (parts, whole) in shares.items():
        weighted = np.zeros(len(edges) - 1, dtype=object)
        np.add.at(weighted, hour_of_cut, parts * schedulable.astype(object))
        entitled[project_id] = (weighted // whole).astype(np.int64)
    return entitled


def _shares_at_cuts(steps: list[ShareStep], cuts: IntArray, parents: Parents) -> dict[int, tuple[np.ndarray, int]]:
    """For each project its share of the cluster at each cut, as whole parts of `PPM ** depth`."""
    own: dict[int, IntArray] = {}
    for step in steps:
        shares = own.setdefault(step.project_id, np.zeros(len(cuts) - 1, dtype=np.int64))
        shares[cuts[:-1] >= epoch_seconds(step.at)] = step.share_ppm
    found: dict[int, tuple[np.ndarray, int]] = {}
    nothing = np.zeros(len(cuts) - 1, dtype=np.int64)
    for project_id, parent_id in parents.items():  # parents stand before their children
        if parent_id is None:
            found[project_id] = (np.full(len(cuts) - 1, 1, dtype=object), 1)
        else:
            parts, whole = found[parent_id]
            found[project_id] = (parts * own.get(project_id, nothing).astype(object), whole * PPM)
    return found
