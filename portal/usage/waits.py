"""Queue waits: from the moment a workload could start to its start; first starts and restarts apart.

A start is the moment at which all GPUs of the gang are its own (`assigned_at`). Classes:
debug: at most 8 GPUs and a minimum runtime above 0 and under 15 min; small: at most 8 GPUs; large: more.
Percentiles are nearest rank. What still waits is in none of them.
"""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models import Q

from portal.clusters.models import Cluster
from portal.common.errors import Refused
from portal.common.units import epoch_seconds
from portal.projects.models import Project
from portal.usage.arrays import BoolArray, IntArray
from portal.usage.attempts import AttemptColumns, attempts_joined, window_attempts

WAIT_CLASSES = ("debug", "small", "large")
DEBUG_GPUS_MAX = 8
DEBUG_SECONDS_BELOW = 900


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
    *,
    start: datetime,
    end: datetime,
    cluster: Cluster | None = None,
    project: Project | None = None,
    attempts: AttemptColumns | None = None,
) -> WaitColumns:
    """Every start in [start, end), of one cluster or all, of one project's subtree or all.

    `attempts`: those of this range or a longer one, if the caller has read them already.
    """
    if attempts is None:
        clusters = Cluster.objects.all() if cluster is None else [cluster]
        parts = [window_attempts(cluster=each, start=start, end=end, waiting=False) for each in clusters]
        attempts = attempts_joined(parts)
    started = attempts.assigned_at
    chosen = (started >= epoch_seconds(start)) & (started < epoch_seconds(end))
    if project is not None:
        below = Project.objects.filter(Q(pk=project.pk) | Q(path__startswith=f"{project.path}/"))
        chosen &= np.isin(attempts.project, list(below.order_by().values_list("pk", flat=True)))
    mine = attempts.where(chosen)
    return WaitColumns(
        np.maximum(mine.assigned_at - mine.queued_at, 0),
        mine.assigned_at,
        mine.gpus,
        mine.min_runtime_seconds,
        mine.project,
        mine.restart,
        size_classes(mine.gpus, mine.min_runtime_seconds),
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
