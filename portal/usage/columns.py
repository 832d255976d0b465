"""Rows of the ledger as numeric columns, and exact GPU-seconds over any cut of time.

Everything is int64: moments are epoch seconds, GPU-time is whole GPU-seconds. No row is looked at in Python.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from portal.clusters.models import Cluster
from portal.common.units import epoch_seconds
from portal.projects.models import Project
from portal.workloads.models import CHARGED_STANDINGS, Standing

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NEVER = -1
STANDINGS: tuple[str, ...] = tuple(Standing.values)
CHARGED = tuple(STANDINGS.index(standing) for standing in CHARGED_STANDINGS)

_SEGMENTS = """
SELECT array_agg(attempt_id), array_agg(workload_id), array_agg(host_id), array_agg(project_id),
       array_agg(author_id), array_agg(gpus), array_agg(array_position(%(standings)s::text[], standing::text) - 1),
       array_agg(extract(epoch FROM start_at)::bigint),
       array_agg(coalesce(extract(epoch FROM end_at)::bigint, -1)),
       array_agg(path::text)
FROM usage_segment
WHERE cluster_id = %(cluster)s AND (end_at IS NULL OR end_at > %(start)s) AND start_at < %(end)s
  AND (%(project)s::bigint IS NULL OR %(project)s = ANY (path))
"""


@dataclass(frozen=True, eq=False)
class SegmentColumns:
    """Segments that reach into a range of time, uncut; `end_at` is NEVER while one is open."""

    attempt: IntArray
    workload: IntArray
    host: IntArray
    project: IntArray
    author: IntArray
    gpus: IntArray
    standing: IntArray  # index into STANDINGS
    start_at: IntArray
    end_at: IntArray
    path: IntArray  # index into `paths`
    paths: tuple[tuple[int, ...], ...]  # project ids, root first: who was charged

    def charged(self) -> BoolArray:
        """Which of them are charged to a budget."""
        return np.isin(self.standing, CHARGED)


def row_fetch(sql: str, parameters: Mapping[str, Any]) -> list[Any]:
    """The one row of a query that aggregates."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        row: list[Any] = list(cursor.fetchone() or [])
    return row


def int_array(values: Any) -> IntArray:
    """An int64 array of a list that the database gave, or an empty one for none."""
    return np.array(values if values is not None else [], dtype=np.int64)


def window_segments(
    *, cluster: Cluster, start: datetime, end: datetime, project: Project | None = None
) -> SegmentColumns:
    """Segments of the cluster that reach into [start, end); with `project`, those charged to it or below it."""
    parameters = {
        "standings": list(STANDINGS),
        "cluster": cluster.pk,
        "start": start,
        "end": end,
        "project": None if project is None else project.pk,
    }
    *numbers, texts = row_fetch(_SEGMENTS, parameters)
    attempt, workload, host, project_id, author, gpus, standing, start_at, end_at = map(int_array, numbers)
    positions: dict[str, int] = {}
    path = [positions.setdefault(text, len(positions)) for text in texts or []]
    paths = tuple(tuple(int(part) for part in text.strip("{}").split(",")) for text in positions)
    return SegmentColumns(
        attempt=attempt,
        workload=workload,
        host=host,
        project=project_id,
        author=author,
        gpus=gpus,
        standing=standing,
        start_at=start_at,
        end_at=end_at,
        path=int_array(path),
        paths=paths,
    )


def gpu_seconds_between(edges: IntArray, start_at: IntArray, end_at: IntArray, gpus: IntArray) -> IntArray:
    """GPU-seconds that the spans occupy between each two neighbouring edges, exactly.

    A span open for ever has `end_at` NEVER. The sum over any finer cut of the same range is the same.
    """
    if len(edges) < 2 or not len(gpus):
        return np.zeros(max(len(edges) - 1, 0), dtype=np.int64)
    first, last = int(edges[0]), int(edges[-1])
    ends = np.clip(np.where(end_at == NEVER, last, end_at), first, last) - first
    starts = np.clip(start_at, first, last) - first
    moments = edges - first
    return np.diff(_ramp(moments, starts, gpus) - _ramp(moments, ends, gpus))


def _ramp(moments: IntArray, starts: IntArray, gpus: IntArray) -> IntArray:
    """At each moment the sum of gpus x (moment - start) over the starts before it."""
    order = np.argsort(starts, kind="stable")
    ordered = starts[order]
    count = np.concatenate(([0], np.cumsum(gpus[order])))
    weighted = np.concatenate(([0], np.cumsum(gpus[order] * ordered)))
    index = np.searchsorted(ordered, moments, side="right")
    ramp: IntArray = count[index] * moments - weighted[index]
    return ramp


def gpu_seconds_each(start: datetime, end: datetime, columns: SegmentColumns) -> IntArray:
    """For each segment, its GPU-seconds inside [start, end)."""
    first, last = epoch_seconds(start), epoch_seconds(end)
    ends = np.clip(np.where(columns.end_at == NEVER, last, columns.end_at), first, last)
    each: IntArray = (ends - np.clip(columns.start_at, first, last)) * columns.gpus
    return each


def step_edges(start: datetime, end: datetime, step_seconds: int) -> IntArray:
    """start, start + step, … and end."""
    first, last = epoch_seconds(start), epoch_seconds(end)
    return np.append(np.arange(first, last, step_seconds, dtype=np.int64), np.int64(last))


def hour_edges(start: datetime, end: datetime) -> IntArray:
    """start, every full hour (UTC) between, and end: so that neighbouring ranges add up hour by hour."""
    first, last = epoch_seconds(start), epoch_seconds(end)
    hours = np.arange((first // 3600 + 1) * 3600, last, 3600, dtype=np.int64)
    return np.concatenate(([first], hours, [last])).astype(np.int64)
