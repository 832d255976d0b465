"""A remedy to try against dispersed capacity: a limit on a project's begun and unfinished workloads.

A workload that has not begun is shown to the scheduler only while its project has room: those
that have begun, and those that may begin at any pass, are together at most `limit`. Who waits
outside comes in by priority, then first submit, then the lower id. Debug workloads pass freely:
they are over in minutes.
"""

from __future__ import annotations

import heapq

from scheduler.simulation.work import Work


class Gate:
    """Who may be considered, by project. Without a limit: everyone."""

    def __init__(self, projects: int, limit: int | None) -> None:
        self.limit = limit
        self.inside: list[set[int]] = [set() for _ in range(projects)]
        self.outside: list[list[tuple[int, int, int, Work]]] = [[] for _ in range(projects)]

    def admit(self, work: Work) -> bool:
        """Whether it may be considered now; else it waits outside."""
        if self.limit is None or work.kind == 0:
            return True
        inside = self.inside[work.project]
        if len(inside) < self.limit:
            inside.add(work.id)
            return True
        heapq.heappush(self.outside[work.project], (-work.priority, work.submit_at, work.id, work))
        return False

    def leave(self, work: Work) -> Work | None:
        """It is over; whoever comes in for it."""
        if self.limit is None or work.kind == 0:
            return None
        self.inside[work.project].discard(work.id)
        queue = self.outside[work.project]
        if not queue:
            return None
        follower = heapq.heappop(queue)[-1]
        self.inside[work.project].add(follower.id)
        return follower
