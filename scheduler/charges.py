"""What contracts would charge, by project and in order: so that a rest finds which is the next to fit (R6, R7)."""

from __future__ import annotations

from bisect import bisect_left, insort

from scheduler.types import NEVER

Charge = tuple[int, int]
"""(GPU-seconds of a whole minimum runtime, number of whose it is)."""


class Charges:
    """The contracts of many, each of them above 0."""

    def __init__(self, projects: int) -> None:
        self.by_project: list[list[Charge]] = [[] for _ in range(projects)]

    def add(self, project: int, gpu_seconds: int, number: int) -> None:
        """One more; who has no contract is left aside."""
        if gpu_seconds:
            insort(self.by_project[project], (gpu_seconds, number))

    def remove(self, project: int, gpu_seconds: int, number: int) -> None:
        """One of them less."""
        if gpu_seconds:
            known = self.by_project[project]
            del known[bisect_left(known, (gpu_seconds, number))]


def count_within(charges: list[Charge], room: int) -> int:
    """How many of them fit into that room: those come first."""
    return bisect_left(charges, (room + 1, NEVER))
