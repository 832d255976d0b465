"""The yardsticks of trust: one queue in strict order, nothing backfilled, nothing preempted.

`fifo` orders by submission, `sjf` by duration; ties fall to the earlier submission, then the
lower id. The head waits until it fits, and all wait behind it. They decide at every event,
ends before submissions. One host is a flat pool; on several hosts a replica goes to the host
with the least room that holds it.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort

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
        self._room = [0] * len(loop.hosts.gpus)  # GPUs of every host that are free
        self._by_room = [(0, host) for host in range(len(self._room))]  # the same, in order
        self._touched = set(range(len(self._room)))  # hosts of which that may be another now

    def submit(self, work: Work) -> None:
        """It waits."""
        heapq.heappush(self.queue, (work.duration if self.shortest else 0, work.submit_at, work.id, work))

    def end(self, attempt: Attempt, requeue: bool) -> None:
        """After a host failure its work waits again, where it first stood."""
        self._touched.update(attempt.places)
        if requeue:
            self.submit(attempt.work)

    def checkpoint(self, attempt: Attempt, at: int) -> None:
        """Nobody is ever taken: it doesn't matter."""

    def change_host(self, host: int, kind: HostChange) -> None:
        """The hosts' table says it."""
        self._touched.add(host)

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
        for host in self._touched:
            self._file(host, table.gpus[host] - table.busy[host] if table.open[host] else 0)
        self._touched.clear()
        places: dict[int, int] = {}
        for _ in range(work.replicas):
            at = bisect_left(self._by_room, (size, -1))
            if at == len(self._by_room):
                self._touched.update(places)
                return None
            room, host = self._by_room[at]
            self._file(host, room - size)
            places[host] = places.get(host, 0) + size
        return places

    def _file(self, host: int, room: int) -> None:
        old, self._room[host] = self._room[host], room
        if old != room:
            del self._by_room[bisect_left(self._by_room, (old, host))]
            insort(self._by_room, (room, host))
