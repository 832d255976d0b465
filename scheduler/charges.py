"""What contracts would charge, by project and in order: so that a rest finds which is the next to fit (R6, R7)."""

from __future__ import annotations

from bisect import bisect_left, insort

from scheduler.state import Table
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


class Waiting:
    """The contracts of the workloads that wait, in GPU-seconds, each of them above 0."""

    def __init__(self, pending: Table, projects: int) -> None:
        self.by_project: list[list[int]] = [[] for _ in range(projects)]
        self._pending = pending
        for row in (pending.row_of or {}).values():
            self.come(row)

    def come(self, row: int) -> None:
        """The workload in that row of a kept table waits."""
        project, gpu_seconds = self._read(row)
        if gpu_seconds:
            insort(self.by_project[project], gpu_seconds)

    def go(self, row: int) -> None:
        """It waits no longer."""
        project, gpu_seconds = self._read(row)
        if gpu_seconds:
            known = self.by_project[project]
            del known[bisect_left(known, gpu_seconds)]

    def _read(self, row: int) -> tuple[int, int]:
        """Project and GPU-seconds."""
        columns = self._pending.columns
        gpus = columns["replicas"].item(row) * columns["gpus_per_replica"].item(row)
        return columns["project"].item(row), gpus * columns["min_runtime_seconds"].item(row)


def count_within(charges: list[Charge], room: int) -> int:
    """How many of them fit into that room: those come first, and often they are all."""
    if not charges or charges[-1][0] <= room:
        return len(charges)
    return bisect_left(charges, (room + 1, NEVER))
