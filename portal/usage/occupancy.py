"""What was charged, what was occupied with which standing, and what there was to occupy."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models import BigIntegerField, ExpressionWrapper, F, Sum
from django.db.models.functions import Cast, Coalesce, Extract, Now, TruncSecond

from portal.clusters.models import Cluster, HostState
from portal.clusters.selectors import host_spans
from portal.common.units import epoch_seconds, moment_of
from portal.projects.models import Project
from portal.usage.arrays import NEVER, BoolArray, IntArray, int_array
from portal.usage.columns import (
    STANDINGS,
    SegmentColumns,
    dense,
    gpu_seconds_by_group,
    gpu_seconds_each,
    step_edges,
    sums_by_group,
)
from portal.usage.models import Segment
from portal.usage.segments import window_segments
from portal.workloads.models import CHARGED_STANDINGS, Standing, Workload

HOST_STATES: tuple[str, ...] = tuple(HostState.values)


@dataclass(frozen=True)
class Occupancy:
    """GPU-seconds of each step between neighbouring `edges`."""

    edges: list[datetime]
    by_standing: dict[str, list[int]]
    schedulable: list[int]
    installed: list[int]


def charged_by_workload(*, workload_ids: Iterable[int], at: datetime | None = None) -> dict[int, int]:
    """GPU-seconds charged for each workload up to `at` (the database's clock if none), in one query."""
    ids = list(workload_ids)
    until = Coalesce(F("end_at"), TruncSecond(Now()) if at is None else at)
    seconds = Cast(Extract(until - F("start_at"), "epoch"), BigIntegerField())
    spent = ExpressionWrapper(seconds * Cast(F("gpus"), BigIntegerField()), output_field=BigIntegerField())
    rows = Segment.objects.filter(workload__in=ids, standing__in=CHARGED_STANDINGS).order_by().values("workload_id")
    sums = dict(rows.annotate(spent=Sum(spent)).values_list("workload_id", "spent"))
    return {workload_id: int(sums.get(workload_id, 0)) for workload_id in ids}


def charged_gpu_seconds(*, workload: Workload, at: datetime | None = None) -> int:
    """GPU-seconds charged to the budget for a workload, over all its attempts."""
    return charged_by_workload(workload_ids=[workload.pk], at=at)[workload.pk]


def occupancy_by_standing(
    *,
    cluster: Cluster,
    start: datetime,
    end: datetime,
    step_seconds: int,
    project: Project | None = None,
    columns: SegmentColumns | None = None,
) -> Occupancy:
    """GPU-seconds occupied in each step by standing, beside what was schedulable and installed. Three queries.

    `columns`: all of the cluster's segments of this range or a longer one, if the caller has read them already.
    """
    edges = step_edges(start, end, step_seconds)
    if columns is None:
        columns = window_segments(cluster=cluster, start=start, end=end, project=project)
    elif project is not None:
        columns = columns.below(project.pk)
    steps = gpu_seconds_by_group(
        edges, columns.standing, len(STANDINGS), columns.start_at, columns.end_at, columns.gpus
    )
    by_state = capacity_between(spans=host_spans_read(cluster=cluster, start=start, end=end), edges=edges)
    installed = np.sum(list(by_state.values()), axis=0)
    return Occupancy(
        edges=[moment_of(int(edge)) for edge in edges],
        by_standing={standing: steps[index].tolist() for index, standing in enumerate(STANDINGS)},
        schedulable=by_state[HostState.SCHEDULABLE].tolist(),
        installed=installed.tolist(),
    )


@dataclass(frozen=True, eq=False)
class HostSpans:
    """Stretches in which hosts stood in one state, as columns; `end_at` is NEVER while one is open."""

    host: IntArray
    state: IntArray  # index into HOST_STATES
    start_at: IntArray
    end_at: IntArray
    gpus: IntArray


def host_spans_read(*, cluster: Cluster, start: datetime, end: datetime) -> HostSpans:
    """Spans that reach into [start, end), uncut. One query."""
    rows = host_spans(cluster=cluster, start=start, end=end).order_by()
    found = list(rows.values_list("host_id", "state", "start_at", "end_at", "gpus"))
    return HostSpans(
        int_array([row[0] for row in found]),
        int_array([HOST_STATES.index(row[1]) for row in found]),
        int_array([epoch_seconds(row[2]) for row in found]),
        int_array([NEVER if row[3] is None else epoch_seconds(row[3]) for row in found]),
        int_array([row[4] for row in found]),
    )


def capacity_between(*, spans: HostSpans, edges: IntArray) -> dict[str, IntArray]:
    """GPU-seconds of the hosts between the edges, by the state in which the hosts stood."""
    by_state = gpu_seconds_by_group(edges, spans.state, len(HOST_STATES), spans.start_at, spans.end_at, spans.gpus)
    return {state: by_state[index] for index, state in enumerate(HOST_STATES)}


@dataclass(frozen=True)
class AuthorUsage:
    """What one person's workloads used, and how many of them there were."""

    author_id: int
    charged_gpu_seconds: int
    unallocated_gpu_seconds: int
    workloads: int


def usage_by_author(*, columns: SegmentColumns, start: datetime, end: datetime) -> list[AuthorUsage]:
    """Of each author with a segment in [start, end); of segments that were read already. No query."""
    first, last = epoch_seconds(start), epoch_seconds(end)
    inside = (columns.start_at < last) & ((columns.end_at == NEVER) | (columns.end_at > first))
    each = gpu_seconds_each(start, end, columns)
    authors, author = dense(columns.author)
    unallocated = columns.standing == STANDINGS.index(Standing.UNALLOCATED)
    workload, whose = columns.workload[inside], author[inside]
    order = np.argsort(workload, kind="stable")
    is_first = np.diff(workload[order], prepend=NEVER) != 0  # of its workload's segments: a workload has one author
    workloads = np.bincount(whose[order][is_first], minlength=len(authors))
    sums = [_sums(author, len(authors), each, chosen) for chosen in (columns.charged(), unallocated)]
    return [
        AuthorUsage(int(author_id), int(charged), int(free), int(count))
        for author_id, charged, free, count in zip(authors, *sums, workloads, strict=True)
        if count
    ]


def _sums(group: IntArray, groups: int, values: IntArray, chosen: BoolArray) -> IntArray:
    return sums_by_group(group[chosen], groups, values[chosen])
