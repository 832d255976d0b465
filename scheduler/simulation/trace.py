"""A history of work as a source: what was submitted when is given."""

from __future__ import annotations

import numpy as np

from scheduler.simulation.parts import FOREVER
from scheduler.simulation.report import classify
from scheduler.simulation.setup import HostEvent, HostSetup, Jobs
from scheduler.simulation.work import Work
from scheduler.types import BoolArray


def find_too_large(jobs: Jobs, hosts: HostSetup) -> BoolArray:
    """Jobs that the hosts could not hold even if all were free."""
    sizes, inverse = np.unique(jobs.gpus_per_replica, return_inverse=True)
    most = np.array([int((hosts.gpus // size).sum()) for size in sizes.tolist()], dtype=np.int64)
    return np.asarray(jobs.replicas > most[inverse])


def make_works(jobs: Jobs) -> list[Work]:
    """A record for each job, in the same order."""
    columns = (
        jobs.id,
        jobs.project,
        jobs.user,
        jobs.submit_at,
        jobs.duration_seconds,
        jobs.replicas,
        jobs.gpus_per_replica,
        jobs.min_runtime_seconds,
        jobs.resumable,
        jobs.allow_unallocated,
        jobs.priority,
        jobs.checkpoint_interval_seconds,
    )
    works = [Work(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    kinds = classify(jobs.replicas * jobs.gpus_per_replica, jobs.min_runtime_seconds)
    for work, kind in zip(works, kinds.tolist(), strict=True):
        work.kind = kind
    return works


class Trace:
    """Jobs in the order of their submission; ties fall to the lower id."""

    host_events: tuple[HostEvent, ...] = ()

    def __init__(self, jobs: Jobs, hosts: HostSetup, end_at: int | None) -> None:
        large = find_too_large(jobs, hosts)
        late = np.zeros(len(jobs), dtype=bool) if end_at is None else jobs.submit_at >= end_at
        self.too_large = int(large.sum())
        self.cut = int((late & ~large).sum())
        kept = jobs.take(~large & ~late)
        self.works = make_works(kept.take(np.lexsort((kept.id, kept.submit_at))))
        self.place = 0

    def next_at(self) -> int:
        """The next submission."""
        return self.works[self.place].submit_at if self.place < len(self.works) else FOREVER

    def take(self, now: int) -> list[Work]:
        """What is submitted now."""
        first = self.place
        while self.place < len(self.works) and self.works[self.place].submit_at <= now:
            self.place += 1
        return self.works[first : self.place]

    def follow(self, now: int, waiting_gpus: list[int], waiting_debug: list[int]) -> None:
        """A history doesn't react."""
