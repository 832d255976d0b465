"""What never changes about a workload while it waits, worked out once: by row of Pending.

The tests of `candidates.py` read these columns in each decision; a kept state adds the rows that are new.
"""

from __future__ import annotations

import numpy as np

from scheduler.tally import Tally
from scheduler.types import BoolArray, IntArray, Pending, Policy

Columns = dict[str, "IntArray | BoolArray"]


class Line:
    """Columns beside those of Pending, in the same order.

    `gpus`: in total. `charge`: its minimum runtime in GPU-seconds. `funds`: it asks for a minimum runtime.
    `short`: small, short and new enough for an express start (R7). `may_idle`: it may run unallocated (R6,
    R7); minimum runtime 0 always does, resumable or not. `shape`: the place of its (replicas, GPUs per
    replica) in `shapes`.
    """

    gpus: IntArray
    charge: IntArray
    funds: BoolArray
    short: BoolArray
    may_idle: BoolArray
    shape: IntArray

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.shapes: list[tuple[int, int]] = []
        self._numbers: dict[int, int] = {}  # by packed shape: its place
        self._columns: Columns = {}
        self.largest_gpus = 0  # that anybody asked for in total
        self.count = 0

    @classmethod
    def of(cls, pending: Pending, policy: Policy) -> Line:
        """The columns of all rows."""
        line = cls(policy)
        line.extend(pending)
        return line

    def extend(self, pending: Pending) -> None:
        """The rows that have come since."""
        old, self.count = self.count, len(pending.id)
        if self._columns and old == self.count:
            return
        if not self._columns or self.count > len(self._columns["gpus"]):
            more = self._work_out(pending, slice(old, self.count))
            self.largest_gpus = max(self.largest_gpus, int(more["gpus"].max(initial=0)))
            for name, column in more.items():
                kept = self._columns[name][:old] if old else column[:0]
                self._columns[name] = np.concatenate(
                    [kept, column, np.zeros(self.count if old else 0, dtype=column.dtype)]
                )
        else:
            for row in range(old, self.count):
                self._add(pending, row)
        for name, column in self._columns.items():
            setattr(self, name, column[: self.count])

    def _add(self, pending: Pending, row: int) -> None:
        """One row, as `_work_out` does many."""
        policy, columns = self._policy, self._columns
        replicas, each = pending.replicas.item(row), pending.gpus_per_replica.item(row)
        seconds, gpus = pending.min_runtime_seconds.item(row), replicas * each
        small = gpus <= policy.express_gpus and 0 < seconds <= policy.express_seconds
        self.largest_gpus = max(self.largest_gpus, gpus)
        columns["gpus"][row] = gpus
        columns["charge"][row] = gpus * seconds
        columns["funds"][row] = seconds > 0
        columns["short"][row] = small and pending.first_start[row]
        columns["may_idle"][row] = seconds == 0 or (pending.resumable[row] and pending.allow_unallocated[row])
        columns["shape"][row] = self._place((replicas << 21) | each)

    def _work_out(self, pending: Pending, rows: slice) -> Columns:
        policy, replicas, each = self._policy, pending.replicas[rows], pending.gpus_per_replica[rows]
        seconds = pending.min_runtime_seconds[rows]
        gpus, funds = replicas * each, seconds > 0
        small = (gpus <= policy.express_gpus) & (seconds <= policy.express_seconds)
        return {
            "gpus": gpus,
            "charge": gpus * seconds,
            "funds": funds,
            "short": small & funds & pending.first_start[rows],
            "may_idle": ~funds | (pending.resumable[rows] & pending.allow_unallocated[rows]),
            "shape": self._number((replicas << 21) | each),
        }

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
        return fits[self.shape] if len(fits) else np.zeros(self.count, dtype=bool)
