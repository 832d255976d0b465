"""The yardsticks of trust: one queue in strict order, nothing backfilled, nothing preempted.

`fifo` orders by submission, `sjf` by duration; ties fall to the earlier submission, then the
lower id. The head waits until it fits, and all wait behind it. They decide at every event,
ends before submissions. One host is a flat pool; on several hosts a replica goes to the host
with the least room that holds it.
"""

from __future__ import annotations

import heapq

from scheduler.simulation.loop import Loop
from scheduler.simulation.parts import FOREVER
from scheduler.simulation.setup import HostChange, Scheduler
from scheduler.simulation.work import Attempt, Work
from scheduler.types import Standing


class Queue:
    """The decider of `fifo` and `sjf`. All time counts as funded: there are no budgets."""

    at_every_event = True
    reports_checkpoints = False
    checked = 0

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.shortest = loop.setup.scheduler == Scheduler.SJF
        self.queue: list[tuple[int, int, int, Work]] = []
        self.started = 0

    def submit(self, work: Work) -> None:
        """It waits."""
        heapq.heappush(self.queue, (work.duration if self.shortest else 0, work.submit_at, work.id, work))

    def end(self, attempt: Attempt, requeue: bool) -> None:
        """After a host failure its work waits again, where it first stood."""
        if requeue:
            self.submit(attempt.work)

    def checkpoint(self, attempt: Attempt, at: int) -> None:
        """Nobody is ever taken: it doesn't matter."""

    def change_host(self, host: int, kind: HostChange) -> None:
        """The hosts' table says it."""

    def decide(self, now: int) -> None:
        """Start from the head, while it fits."""
        while self.queue and (places := self._place(self.queue[0][-1])) is not None:
            work = heapq.heappop(self.queue)[-1]
            self.started += 1
            self.loop.assign(Attempt(self.started, work, places, now), Standing.FUNDED, [])

    def quiet_until(self) -> int:
        """Nothing changes between events."""
        return FOREVER

    def _place(self, work: Work) -> dict[int, int] | None:
        table, size = self.loop.hosts, work.gpus_per_replica
        if table.free < work.gpus:
            return None
        room = [
            total - busy if is_open else 0
            for total, busy, is_open in zip(table.gpus, table.busy, table.open, strict=True)
        ]
        places: dict[int, int] = {}
        for _ in range(work.replicas):
            fitting = [(free, host) for host, free in enumerate(room) if free >= size]
            if not fitting:
                return None
            host = min(fitting)[1]
            room[host] -= size
            places[host] = places.get(host, 0) + size
        return places
