"""The pyramid (SPEC.md section 2): availability, occupancy, impact, utilization, and what is lost at each level."""

from dataclasses import dataclass
from datetime import datetime

from portal.budgets.selectors import budgets_at
from portal.clusters.models import Cluster, Host, HostState
from portal.projects.models import Project
from portal.usage.columns import STANDINGS, SegmentColumns, gpu_seconds_each, row_fetch, step_edges, window_segments
from portal.usage.delivery import Delivery, delivery
from portal.usage.occupancy import capacity_between

_HELD = """
WITH asked AS (SELECT tstzrange(%(start)s, %(end)s, '[)') AS span),
mine AS (
    SELECT c.id, c.attempt_id, c.host_id, c.gpu_index, c.held * asked.span AS held
    FROM workloads_gpuclaim c JOIN workloads_attempt a ON a.id = c.attempt_id
    JOIN workloads_workload w ON w.id = a.workload_id JOIN projects_project p ON p.id = w.project_id, asked
    WHERE a.cluster_id = %(cluster)s AND c.held && asked.span
      AND (%(path)s::text IS NULL OR p.path = %(path)s OR starts_with(p.path, %(path)s || '/'))
),
taken AS (
    SELECT mine.held * o.occupied AS span FROM mine
    JOIN workloads_gpuclaim o ON o.host_id = mine.host_id AND o.gpu_index = mine.gpu_index
        AND o.occupied && mine.held AND o.attempt_id <> mine.attempt_id
)
SELECT (SELECT coalesce(sum(extract(epoch FROM upper(held) - lower(held))), 0)::bigint FROM mine)
     - (SELECT coalesce(sum(extract(epoch FROM upper(span) - lower(span))), 0)::bigint FROM taken)
"""
_UNSCHEDULABLE = """
SELECT coalesce(sum(s.gpus * extract(epoch FROM
    least(coalesce(s.end_at, %(end)s), coalesce(h.end_at, %(end)s), %(end)s)
    - greatest(s.start_at, h.start_at, %(start)s))), 0)::bigint
FROM usage_segment s JOIN clusters_hostspan h ON h.host_id = s.host_id AND h.state <> 'schedulable'
    AND h.start_at < coalesce(s.end_at, %(end)s) AND coalesce(h.end_at, %(end)s) > s.start_at
WHERE s.cluster_id = %(cluster)s AND (s.end_at IS NULL OR s.end_at > %(start)s) AND s.start_at < %(end)s
  AND (h.end_at IS NULL OR h.end_at > %(start)s) AND h.start_at < %(end)s
  AND (%(project)s::bigint IS NULL OR %(project)s = ANY (s.path))
"""


@dataclass(frozen=True)
class Pyramid:
    """Whole GPU-seconds over a range. `idle_gpu_seconds` is None for one project: idle GPUs are nobody's.

    `delivered_gpu_seconds` counts each project up to what it was owed, so that nobody's surplus hides another's want;
    owed and delivered are summed over the leaves of the budget tree. `occupied_unschedulable_gpu_seconds` is the part
    of what was occupied that ran out its contract on hosts that took no new work.
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
    def availability(self) -> float | None:
        """Schedulable over installed; None: no host was installed."""
        return _ratio(self.schedulable_gpu_seconds, self.installed_gpu_seconds)

    @property
    def occupancy(self) -> float | None:
        """Occupied over schedulable; None: nothing was schedulable."""
        return _ratio(self.occupied_gpu_seconds, self.schedulable_gpu_seconds)

    @property
    def impact(self) -> float | None:
        """Delivered over owed; None: nobody asked for what they were entitled to."""
        return _ratio(self.delivered_gpu_seconds, self.owed_gpu_seconds)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def pyramid(*, cluster: Cluster, start: datetime, end: datetime, project: Project | None = None) -> Pyramid:
    """The four levels over [start, end), of the whole cluster or of one project's part in it."""
    edges = step_edges(start, end, max(int((end - start).total_seconds()), 1))
    by_state = {
        state: int(total.sum())
        for state, total in capacity_between(cluster=cluster, start=start, end=end, edges=edges).items()
    }
    schedulable = by_state[HostState.SCHEDULABLE]
    columns = window_segments(cluster=cluster, start=start, end=end, project=project)
    each = gpu_seconds_each(start, end, columns)
    occupied = {name: int(each[columns.standing == index].sum()) for index, name in enumerate(STANDINGS)}
    held, elsewhere = _held_and_unschedulable(cluster, start, end, project)
    idle = max(schedulable - (sum(occupied.values()) - elsewhere) - held, 0)
    counted = _counted(cluster, start, end, project, columns if project is None else None)
    return Pyramid(
        start=start,
        end=end,
        installed_gpu_seconds=sum(by_state.values()),
        schedulable_gpu_seconds=schedulable,
        lost_by_state={state: total for state, total in by_state.items() if state != HostState.SCHEDULABLE},
        occupied_by_standing=occupied,
        occupied_unschedulable_gpu_seconds=elsewhere,
        held_gpu_seconds=held,
        idle_gpu_seconds=idle if project is None else None,
        owed_gpu_seconds=sum(each.owed_gpu_seconds for each in counted),
        delivered_gpu_seconds=sum(min(each.delivered_gpu_seconds, each.owed_gpu_seconds) for each in counted),
        utilization=None,
        utilization_reason=_utilization_reason(cluster),
    )


def _held_and_unschedulable(
    cluster: Cluster, start: datetime, end: datetime, project: Project | None
) -> tuple[int, int]:
    parameters = {
        "cluster": cluster.pk,
        "start": start,
        "end": end,
        "project": None if project is None else project.pk,
        "path": None if project is None else project.path,
    }
    (held,) = row_fetch(_HELD, parameters)
    (elsewhere,) = row_fetch(_UNSCHEDULABLE, parameters)
    return int(held), int(elsewhere)


def _counted(
    cluster: Cluster, start: datetime, end: datetime, project: Project | None, columns: SegmentColumns | None
) -> list[Delivery]:
    """The projects over which impact is summed: the one asked for, or the leaves of the budget tree."""
    found = delivery(cluster=cluster, start=start, end=end, columns=columns)
    if project is not None:
        return [found[project.pk]]
    with_budget = {pk for pk, line in budgets_at(cluster=cluster, at=end).items() if line.share_ppm}
    divided = set(Project.objects.filter(pk__in=with_budget).values_list("parent_id", flat=True))
    return [each for pk, each in found.items() if pk in with_budget - divided]


def _utilization_reason(cluster: Cluster) -> str:
    hosts = Host.objects.filter(cluster=cluster, retired_at=None)
    if hosts.exists() and not hosts.filter(simulated=False).exists():
        return "The GPUs of this cluster are simulated: there is no telemetry to measure."
    return "No host of this cluster reports GPU telemetry yet."
