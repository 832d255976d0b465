"""The pyramid (SPEC.md section 2): availability, occupancy, impact, utilization, and what is lost at each level."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from portal.budgets.selectors import budgets_at
from portal.clusters.models import Cluster, Host, HostState
from portal.common.units import epoch_seconds
from portal.projects.models import Project
from portal.usage.arrays import NEVER, row_fetch
from portal.usage.attempts import AttemptColumns
from portal.usage.columns import (
    STANDINGS,
    Parents,
    SegmentColumns,
    gpu_seconds_each,
    parents_read,
    step_edges,
    sums_by_group,
)
from portal.usage.delivery import Delivery, delivery
from portal.usage.occupancy import HOST_STATES, HostSpans, capacity_between, host_spans_read
from portal.usage.segments import window_segments

_HELD = """
WITH asked AS (SELECT tstzrange(%(start)s, %(end)s, '[)') AS span),
mine AS (
    SELECT c.id, c.attempt_id, c.host_id, c.gpu_index, c.held * asked.span AS held
    FROM workloads_gpuclaim c JOIN workloads_attempt a ON a.id = c.attempt_id, asked
    WHERE a.cluster_id = %(cluster)s AND c.held IS NOT NULL AND c.held && asked.span
      AND (%(path)s::text IS NULL OR a.workload_id IN (
          SELECT w.id FROM workloads_workload w JOIN projects_project p ON p.id = w.project_id
          WHERE p.path = %(path)s OR starts_with(p.path, %(path)s || '/')))
),
taken AS (
    SELECT mine.held * o.occupied AS span FROM mine
    JOIN workloads_gpuclaim o ON o.host_id = mine.host_id AND o.gpu_index = mine.gpu_index
        AND o.occupied && mine.held AND o.attempt_id <> mine.attempt_id
)
SELECT (SELECT coalesce(sum(extract(epoch FROM upper(held) - lower(held))), 0)::bigint FROM mine)
     - (SELECT coalesce(sum(extract(epoch FROM upper(span) - lower(span))), 0)::bigint FROM taken)
"""


@dataclass(frozen=True)
class Pyramid:
    """Whole GPU-seconds over a range. `idle_gpu_seconds` is None for one project: idle GPUs are nobody's.

    `delivered_gpu_seconds` counts each project up to what it was owed, so that nobody's surplus hides another's want;
    owed and delivered are summed over the leaves of the budget tree. `occupied_unschedulable_gpu_seconds` is the part
    of what was occupied that ran out its contract on hosts that took no new work: it is in no ratio, because those
    hosts are not in what was schedulable.
    """

    start: datetime
    end: datetime
    installed_gpu_seconds: int
    schedulable_gpu_seconds: int
    lost_by_state: dict[str, int]
    occupied_by_standing: dict[str, int]
    occupied_unschedulable_gpu_seconds: int
    held_gpu_seconds: int
    idle_gpu_seconds: int | None
    owed_gpu_seconds: int
    delivered_gpu_seconds: int
    utilization: float | None
    utilization_reason: str

    @property
    def occupied_gpu_seconds(self) -> int:
        """All standings together: what the ledger says ran."""
        return sum(self.occupied_by_standing.values())

    @property
    def occupied_schedulable_gpu_seconds(self) -> int:
        """The part of it on hosts that took work: what occupancy counts."""
        return self.occupied_gpu_seconds - self.occupied_unschedulable_gpu_seconds

    @property
    def availability(self) -> float | None:
        """Schedulable over installed; None: no host was installed."""
        return _ratio(self.schedulable_gpu_seconds, self.installed_gpu_seconds)

    @property
    def occupancy(self) -> float | None:
        """Occupied on schedulable hosts over schedulable; None: nothing was schedulable."""
        return _ratio(self.occupied_schedulable_gpu_seconds, self.schedulable_gpu_seconds)

    @property
    def impact(self) -> float | None:
        """Delivered over owed; None: nobody asked for what they were entitled to."""
        return _ratio(self.delivered_gpu_seconds, self.owed_gpu_seconds)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def pyramid(
    *,
    cluster: Cluster,
    start: datetime,
    end: datetime,
    project: Project | None = None,
    columns: SegmentColumns | None = None,
    attempts: AttemptColumns | None = None,
) -> Pyramid:
    """The four levels over [start, end), of the whole cluster or of one project's part in it.

    `columns`, `attempts`: all of the cluster's segments and attempts of this range or a longer one, if the caller has
    read them already.
    """
    parents = parents_read()
    if columns is None:
        columns = window_segments(cluster=cluster, start=start, end=end, parents=parents)
    spans = host_spans_read(cluster=cluster, start=start, end=end)
    edges = step_edges(start, end, max(int((end - start).total_seconds()), 1))
    by_state = {state: int(total.sum()) for state, total in capacity_between(spans=spans, edges=edges).items()}
    schedulable = by_state[HostState.SCHEDULABLE]
    mine = columns if project is None else columns.below(project.pk)
    sums = sums_by_group(mine.standing, len(STANDINGS), gpu_seconds_each(start, end, mine)).tolist()
    elsewhere = _unschedulable(mine, spans, start, end)
    held = _held(cluster, start, end, project)
    idle = max(schedulable - (sum(sums) - elsewhere) - held, 0)
    found = delivery(
        cluster=cluster, start=start, end=end, columns=columns, parents=parents, spans=spans, attempts=attempts
    )
    counted = _counted(found, cluster, end, project, parents)
    return Pyramid(
        start=start,
        end=end,
        installed_gpu_seconds=sum(by_state.values()),
        schedulable_gpu_seconds=schedulable,
        lost_by_state={state: total for state, total in by_state.items() if state != HostState.SCHEDULABLE},
        occupied_by_standing=dict(zip(STANDINGS, sums, strict=True)),
        occupied_unschedulable_gpu_seconds=elsewhere,
        held_gpu_seconds=held,
        idle_gpu_seconds=idle if project is None else None,
        owed_gpu_seconds=sum(each.owed_gpu_seconds for each in counted),
        delivered_gpu_seconds=sum(min(each.delivered_gpu_seconds, each.owed_gpu_seconds) for each in counted),
        utilization=None,
        utilization_reason=utilization_reason(cluster=cluster),
    )


def _held(cluster: Cluster, start: datetime, end: datetime, project: Project | None) -> int:
    path = None if project is None else project.path
    (held,) = row_fetch(_HELD, {"cluster": cluster.pk, "start": start, "end": end, "path": path})
    return int(held)


def _unschedulable(columns: SegmentColumns, spans: HostSpans, start: datetime, end: datetime) -> int:
    """GPU-seconds occupied on hosts while they took no new work."""
    first, last = epoch_seconds(start), epoch_seconds(end)
    closed = np.flatnonzero(spans.state != HOST_STATES.index(HostState.SCHEDULABLE))
    rows = np.flatnonzero(np.isin(columns.host, spans.host[closed]))
    order = rows[np.argsort(columns.host[rows], kind="stable")]
    hosts, gpus = columns.host[order], columns.gpus[order]
    starts = np.clip(columns.start_at[order], first, last)
    ends = np.clip(np.where(columns.end_at[order] == NEVER, last, columns.end_at[order]), first, last)
    total = 0
    for row in closed:
        here = slice(*np.searchsorted(hosts, (spans.host[row], spans.host[row] + 1)))
        until = last if spans.end_at[row] == NEVER else spans.end_at[row]
        shared = np.minimum(ends[here], until) - np.maximum(starts[here], spans.start_at[row])
        total += int((np.maximum(shared, 0) * gpus[here]).sum())
    return total


def _counted(
    found: dict[int, Delivery], cluster: Cluster, end: datetime, project: Project | None, parents: Parents
) -> list[Delivery]:
    """The projects over which impact is summed: the one asked for, or the leaves of the budget tree."""
    if project is not None:
        return [found[project.pk]]
    with_budget = {pk for pk, line in budgets_at(cluster=cluster, at=end).items() if line.share_ppm}
    divided = {parents[pk] for pk in with_budget}
    return [each for pk, each in found.items() if pk in with_budget - divided]


def utilization_reason(*, cluster: Cluster) -> str:
    """Why it is not known how busy the GPUs are, or which are held by no process."""
    hosts = Host.objects.filter(cluster=cluster, retired_at=None)
    if hosts.exists() and not hosts.filter(simulated=False).exists():
        return "The GPUs of this cluster are simulated: there is no telemetry to measure."
    return "No host of this cluster reports GPU telemetry yet."
