"""Queue waits: from the moment a workload could start to its start; first starts and restarts apart.

A start is the moment at which all GPUs of the gang are its own (`assigned_at`). Classes:
debug: at most 8 GPUs and a minimum runtime above 0 and under 15 min; small: at most 8 GPUs; large: more.
Percentiles are nearest rank. What still waits is in none of them.
"""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from portal.clusters.models import Cluster
from portal.common.errors import Refused
from portal.projects.models import Project
from portal.usage.arrays import BoolArray, IntArray, columns_fetch

WAIT_CLASSES = ("debug", "small", "large")
DEBUG_GPUS_MAX = 8
DEBUG_SECONDS_BELOW = 900

# OFFSET 0: each attempt looks its workload up. Joined freely, PostgreSQL reads every workload there ever was.
_WAITS = """
SELECT array_agg(a.queued_at), array_agg(a.assigned_at), array_agg(w.gpus),
       array_agg(a.min_runtime_seconds), array_agg(w.project_id),
       array_agg(a.number > 1 AND EXISTS (SELECT 1 FROM workloads_attempt e WHERE e.workload_id = a.workload_id
                                          AND e.number < a.number AND e.assigned_at IS NOT NULL))
FROM workloads_attempt a CROSS JOIN LATERAL (
    SELECT project_id, replicas::bigint * gpus_per_replica AS gpus FROM workloads_workload
    WHERE id = a.workload_id OFFSET 0
) AS w
WHERE a.assigned_at >= %(start)s AND a.assigned_at < %(end)s
  AND (a.ended_at IS NULL OR a.ended_at >= %(start)s)
  AND (%(cluster)s::bigint IS NULL OR a.cluster_id = %(cluster)s)
  AND (%(path)s::text IS NULL OR w.project_id IN (
      SELECT id FROM projects_project WHERE path = %(path)s OR starts_with(path, %(path)s || '/')))
"""


@dataclass(frozen=True, eq=False)
class WaitColumns:
    """One row for each start."""

    wait_seconds: IntArray
    started_at: IntArray
    gpus: IntArray
    min_runtime_seconds: IntArray
    project: IntArray
    restart: BoolArray
    size_class: IntArray  # index into WAIT_CLASSES


@dataclass(frozen=True)
class WaitStats:
    """Waits of one group of starts."""

    key: str | int
    restart: bool
    count: int
    p50_seconds: int
    p90_seconds: int
    mean_seconds: float


def wait_samples(
    *, start: datetime, end: datetime, cluster: Cluster | None = None, project: Project | None = None
) -> WaitColumns:
    """Every start in [start, end), of one cluster or all, of one project's subtree or all. One query."""
    parameters = {
        "start": start,
        "end": end,
        "cluster": None if cluster is None else cluster.pk,
        "path": None if project is None else project.path,
    }
    queued_at, started_at, gpus, min_runtime, project_id, restart = columns_fetch(_WAITS, parameters)
    return WaitColumns(
        np.maximum(started_at - queued_at, 0),
        started_at,
        gpus,
        min_runtime,
        project_id,
        restart.astype(np.bool_),
        size_classes(gpus, min_runtime),
    )


def size_classes(gpus: IntArray, min_runtime_seconds: IntArray) -> IntArray:
    """Index into WAIT_CLASSES for each."""
    few = gpus <= DEBUG_GPUS_MAX
    short = (min_runtime_seconds > 0) & (min_runtime_seconds < DEBUG_SECONDS_BELOW)
    return np.where(few & short, 0, np.where(few, 1, 2)).astype(np.int64)


def nearest_rank(values: IntArray, percent: int) -> int:
    """The smallest value that at least `percent` of all values do not exceed; values must not be empty."""
    rank = max(-(-percent * len(values) // 100), 1)
    return int(np.partition(values, rank - 1)[rank - 1])


def queue_waits(
    *, cluster: Cluster | None, start: datetime, end: datetime, by: str, project: Project | None = None
) -> list[WaitStats]:
    """p50, p90 and mean by `class` (debug, small, large), `project` (its id) or `all`; first starts before restarts."""
    samples = wait_samples(start=start, end=end, cluster=cluster, project=project)
    groups = _groups(samples, by)
    stats = []
    for key, members in groups:
        for restart in (False, True):
            waits = samples.wait_seconds[members & (samples.restart == restart)]
            if len(waits):
                figures = (nearest_rank(waits, 50), nearest_rank(waits, 90), float(waits.mean()))
                stats.append(WaitStats(key, restart, len(waits), *figures))
    return stats


def _groups(samples: WaitColumns, by: str) -> list[tuple[str | int, BoolArray]]:
    if by == "class":
        return [(name, samples.size_class == index) for index, name in enumerate(WAIT_CLASSES)]
    if by == "project":
        return [(int(pk), samples.project == pk) for pk in np.unique(samples.project)]
    if by == "all":
        return [("all", np.ones(len(samples.wait_seconds), dtype=bool))]
    raise Refused("Waits are grouped by class, project or all.", attr="by")
