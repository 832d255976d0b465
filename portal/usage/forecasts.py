"""What a forecast of a project's balance is made from, read from the tables."""

from datetime import datetime, timedelta

import numpy as np

from portal.budgets.selectors import share_history
from portal.clusters.models import Cluster
from portal.clusters.selectors import capacity_steps, policy_values
from portal.common.units import epoch_seconds
from portal.projects.models import Project
from portal.projects.selectors import ancestor_ids, ancestor_paths
from portal.usage.arrays import NEVER
from portal.usage.columns import SegmentColumns
from portal.usage.forecast import Forecast, Known, Running, balance_forecast
from portal.usage.segments import window_segments
from portal.workloads.models import CHARGED_STANDINGS, Attempt, AttemptState
from scheduler.policy import Policy
from scheduler.usage import Rows

POLICY_NAMES = ("lookback_seconds", "half_life_seconds", "first_budget_seconds")


def lookback_start(*, cluster: Cluster, now: datetime) -> datetime:
    """Where the lookback window begins."""
    return now - timedelta(seconds=policy_values(cluster=cluster)["lookback_seconds"])


def forecast_read(
    *, cluster: Cluster, project: Project, now: datetime, columns: SegmentColumns | None = None
) -> Forecast | None:
    """The project's balance from now on; None for the root, whose balance decides nothing.

    `columns`: the cluster's segments from the beginning of the lookback window or earlier, if the caller has them.
    """
    path = tuple(ancestor_ids(project=project))
    if len(path) == 1:
        return None
    values = policy_values(cluster=cluster)
    policy = Policy(**{name: values[name] for name in POLICY_NAMES})
    since = now - timedelta(seconds=policy.lookback_seconds)
    if columns is None:
        columns = window_segments(cluster=cluster, start=since, end=now)
    known = Known(
        now=epoch_seconds(now),
        path=path,
        policy=policy,
        shares=[
            (step.project_id, epoch_seconds(step.at), step.share_ppm)
            for step in share_history(cluster=cluster, since=since)
            if step.project_id in path
        ],
        capacity=[
            (epoch_seconds(step.at), step.schedulable_gpus) for step in capacity_steps(cluster=cluster, since=since)
        ],
        charged={each: _charged(columns.below(each), epoch_seconds(now)) for each in path[1:]},
        running=_running(cluster, project, path, now),
    )
    return balance_forecast(known)


def _charged(columns: SegmentColumns, now: int) -> Rows:
    mine = columns.charged()
    gpus, ends = columns.gpus[mine], columns.end_at[mine]
    return Rows(
        path=np.zeros_like(gpus),
        author=np.zeros_like(gpus),
        start_at=columns.start_at[mine],
        end_at=np.where(ends == NEVER, now, np.minimum(ends, now)),
        gpus=gpus,
    )


def _running(cluster: Cluster, project: Project, path: tuple[int, ...], now: datetime) -> list[Running]:
    """Allocated attempts under the topmost project of the path, below the root."""
    places = dict(zip(ancestor_paths(project.path), path, strict=True))
    top = ancestor_paths(project.path)[1]
    rows = Attempt.objects.filter(
        cluster=cluster, state__in=[AttemptState.ASSIGNED, AttemptState.RUNNING], standing__in=CHARGED_STANDINGS
    ).values_list(
        "workload__project__path",
        "workload__replicas",
        "workload__gpus_per_replica",
        "min_runtime_seconds",
        "running_at",
        "workload__timeout_seconds",
    )
    return [
        Running(
            path=tuple(places[above] for above in ancestor_paths(name) if above in places),
            gpus=replicas * gpus,
            contract_ends_at=epoch_seconds(running_at or now) + contract,
            ends_at=None if timeout is None else epoch_seconds(running_at or now) + timeout,
        )
        for name, replicas, gpus, contract, running_at, timeout in rows
        if name == top or name.startswith(f"{top}/")
    ]
