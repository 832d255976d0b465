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
from portal.usage.columns import (
    NEVER,
    STANDINGS,
    IntArray,
    gpu_seconds_between,
    int_array,
    step_edges,
    window_segments,
)
from portal.usage.models import Segment
from portal.workloads.models import CHARGED_STANDINGS, Workload


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
    *, cluster: Cluster, start: datetime, end: datetime, step_seconds: int, project: Project | None = None
) -> Occupancy:
    """GPU-seconds occupied in each step by standing, beside what was schedulable and installed. Two queries."""
    edges = step_edges(start, end, step_seconds)
    columns = window_segments(cluster=cluster, start=start, end=end, project=project)
    by_standing = {}
    for index, standing in enumerate(STANDINGS):
        chosen = columns.standing == index
        steps = gpu_seconds_between(edges, columns.start_at[chosen], columns.end_at[chosen], columns.gpus[chosen])
        by_standing[standing] = [int(value) for value in steps]
    by_state = capacity_between(cluster=cluster, start=start, end=end, edges=edges)
    installed = np.sum(list(by_state.values()), axis=0)
    return Occupancy(
        edges=[moment_of(int(edge)) for edge in edges],
        by_standing=by_standing,
        schedulable=[int(value) for value in by_state[HostState.SCHEDULABLE]],
        installed=[int(value) for value in installed],
    )


def capacity_between(*, cluster: Cluster, start: datetime, end: datetime, edges: IntArray) -> dict[str, IntArray]:
    """GPU-seconds of the hosts between the edges, by the state in which the hosts stood. One query."""
    rows = list(host_spans(cluster=cluster, start=start, end=end).values_list("state", "start_at", "end_at", "gpus"))
    by_state = {}
    for state in HostState.values:
        spans = [row for row in rows if row[0] == state]
        by_state[state] = gpu_seconds_between(
            edges,
            int_array([epoch_seconds(row[1]) for row in spans]),
            int_array([NEVER if row[2] is None else epoch_seconds(row[2]) for row in spans]),
            int_array([row[3] for row in spans]),
        )
    return by_state
