"""What a trace lacks, drawn with a fixed seed: contracts and the shape of gangs. Django-free."""

from dataclasses import dataclass
from random import Random

from portal.scheduling.replay.trace import Job

MIN_RUNTIME_SECONDS = 7200
DEBUG_GPUS = 8
DEBUG_DURATION_SECONDS = 900
DEBUG_MIN_RUNTIME_SECONDS = 300
ZERO_MIN_RUNTIME_FRACTION = 0.15


@dataclass(frozen=True)
class Contract:
    """How a job is submitted."""

    replicas: int
    gpus_per_replica: int
    min_runtime_seconds: int
    resumable: bool


def contracts_draw(jobs: list[Job], *, gpus_per_host: int, seed: int) -> list[Contract]:
    """A contract for each job, in their order: the same seed gives the same."""
    random = Random(seed)  # noqa: S311 - the draw must be repeatable, not secret
    return [_contract(job, random.random(), gpus_per_host) for job in jobs]


def _contract(job: Job, draw: float, gpus_per_host: int) -> Contract:
    replicas = job.replicas or gang_replicas(job.gpus, gpus_per_host)
    return Contract(
        replicas=replicas,
        gpus_per_replica=-(-job.gpus // replicas),
        min_runtime_seconds=_min_runtime(job, draw),
        resumable=True if job.resumable is None else job.resumable,
    )


def gang_replicas(gpus: int, gpus_per_host: int) -> int:
    """Equal replicas on as few hosts as possible."""
    replicas = -(-gpus // gpus_per_host)
    while gpus % replicas:
        replicas += 1
    return replicas


def _min_runtime(job: Job, draw: float) -> int:
    if job.min_runtime_seconds is not None:
        return job.min_runtime_seconds
    if draw < ZERO_MIN_RUNTIME_FRACTION:
        return 0
    if job.gpus <= DEBUG_GPUS and job.duration_seconds <= DEBUG_DURATION_SECONDS:
        return DEBUG_MIN_RUNTIME_SECONDS
    return MIN_RUNTIME_SECONDS
