"""The rows of a trace as what a replay submits; what the trace lacks is drawn with the seed, as in the simulator."""

from dataclasses import dataclass

import numpy as np

from portal.simulations.scenarios.jobs import Drawn, gang_replicas
from portal.simulations.traces.rows import MISSING, TraceRows
from scheduler.simulation.setup import Contracts


@dataclass(frozen=True)
class Job:
    """How a job is submitted, and how long it then runs."""

    job_id: str
    user: str
    project: str
    submit_seconds: int
    duration_seconds: int
    replicas: int
    gpus_per_replica: int
    min_runtime_seconds: int
    resumable: bool
    priority: int


def jobs_of(rows: TraceRows, *, until_seconds: int, gpus_per_host: int, seed: int) -> list[Job]:
    """Jobs submitted before `until_seconds`, by submit time: the same seed gives the same."""
    drawn = Drawn.of(rows, Contracts(), seed).min_runtime_seconds
    replicas = np.where(rows.replicas == MISSING, gang_replicas(rows.gpus, gpus_per_host), rows.replicas)
    return [
        Job(
            job_id=rows.ids[row],
            user=rows.users[rows.user[row]] if rows.user[row] != MISSING else "",
            project=rows.projects[rows.project[row]],
            submit_seconds=int(rows.submit_at[row]),
            duration_seconds=int(rows.duration_seconds[row]),
            replicas=int(replicas[row]),
            gpus_per_replica=int(-(-rows.gpus[row] // replicas[row])),
            min_runtime_seconds=int(drawn[row]),
            resumable=bool(rows.resumable[row] != 0),
            priority=int(rows.priority[row]),
        )
        for row in np.flatnonzero(rows.submit_at < until_seconds).tolist()
    ]
