"""What never changes about a workload while it waits, worked out once: by row of Pending.

The tests of `candidates.py` read these columns in each decision; a kept state adds the rows that are new.
"""

from __future__ import annotations

import numpy as np

from scheduler.tally import Tally
from scheduler.types import BoolArray, IntArray, Pending, Policy

FEW_ROWS = 16
"""So many new rows are worked out one by one."""


class Line:
    """Columns beside those of Pending, in the same order.

    `gpus`: in total. `charge`: its minimum runtime in GPU-seconds. `funds`: it asks for a minimum runtime.
    `short`: small, short and new enough for an express start (R7). `may_idle`: it may run unallocated (R6,
    R7); minimum runtime 0 always does, resumable or not. `shape`: the place of its (replicas, GPUs per
    replica) in `shapes`. Spare rows of Pending are all 0 here, too.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.gpus, self.charge, self.shape = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self.funds, self.short, self.may_idle = (np.zeros(0, dtype=bool) for _ in range(3))
        self.shapes: list[tuple[int, int]] = []
        self._numbers: dict[int, int] = {}  # by packed shape: its place
        self.largest_gpus = 0  # that anybody asked for in total
        self.count = 0  # rows that are worked out

    @classmethod
    def of(cls, pending: Pending, policy: Policy) -> Line:
        """The columns of all rows."""
        line = cls(policy)
        line.extend(pending, len(pending.id))
        return line

    def extend(self, pending: Pending, count: int) -> None:
        """The rows that have come since, the first `count` of the table's."""
        if len(pending.id) > len(self.gpus):
            self._grow(len(pending.id))
        if count - self.count > FEW_ROWS:
            self._work_out(pending, slice(self.count, count))
        else:
            for row in range(self.count, count):
                self._add(pending, row)
        self.count = count

    def _grow(self, size: int) -> None:
        for name in ("gpus", "charge", "shape", "funds", "short", "may_idle"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros(size - len(column), dtype=column.dtype)]))

    def _add(self, pending: Pending, row: int) -> None:
        """One row, as `_work_out` does many."""
        policy = self._policy
        replicas, each = pending.replicas.item(row), pending.gpus_per_replica.item(row)
        seconds, gpus = pending.min_runtime_seconds.item(row), replicas * each
        small = gpus <= policy.express_gpus and 0 < seconds <= policy.express_seconds
        self.largest_gpus = max(self.largest_gpus, gpus)
        self.gpus[row] = gpus
        self.charge[row] = gpus * seconds
        self.funds[row] = seconds > 0
        self.short[row] = small and pending.first_start[row]
        self.may_idle[row] = seconds == 0 or (pending.resumable[row] and pending.allow_unallocated[row])
        self.shape[row] = self._place((replicas << 21) | each)

    def _work_out(self, pending: Pending, rows: slice) -> None:
        policy, replicas, each = self._policy, pending.replicas[rows], pending.gpus_per_replica[rows]
        seconds = pending.min_runtime_seconds[rows]
        gpus, funds = replicas * each, seconds > 0
        small = (gpus <= policy.express_gpus) & (seconds <= policy.express_seconds)
        self.largest_gpus = max(self.largest_gpus, int(gpus.max()))
        self.gpus[rows] = gpus
        self.charge[rows] = gpus * seconds
        self.funds[rows] = funds
        self.short[rows] = small & funds & pending.first_start[rows]
        self.may_idle[rows] = ~funds | (pending.resumable[rows] & pending.allow_unallocated[rows])
        self.shape[rows] = self._number((replicas << 21) | each)

    def _number(self, packed: IntArray) -> IntArray:
        names, which = np.unique(packed, return_inverse=True)
        return np.array([self._place(name) for name in names.tolist()], dtype=np.int64)[which]

    def _place(self, packed: int) -> int:
        place = self._numbers.get(packed)
        if place is None:
            place = self._numbers[packed] = len(self.shapes)
            self.shapes.append((packed >> 21, packed & ((1 << 21) - 1)))
        return place

    def can_hold(self, tally: Tally) -> BoolArray:
        """For every row: whether hosts of that tally could hold its gang."""
        fits = np.array([tally.count_slots(gpus) >= replicas for replicas, gpus in self.shapes], dtype=bool)
        return fits[self.shape] if len(fits) else np.zeros(len(self.shape), dtype=bool)
