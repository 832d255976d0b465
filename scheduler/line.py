"""What waits, in order: what never changes about a workload while it waits is worked out once, by row of Pending.

A kept state adds the rows that are new and takes out those that wait no longer.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

import numpy as np

from scheduler.kinds import NAMED, Kinds, name_kinds
from scheduler.ordering import Items, rank, sort_pending
from scheduler.tally import Tally
from scheduler.types import BoolArray, IntArray, Pending, Policy


class Line:
    """Every row as an item of a walk, the queue of each project, and numbers beside the columns of Pending.

    `queues`: by project, the rows that wait, by the policy's keys but for authors' usage. `kind`, `shape`:
    by row, see `Kinds`; those of rows that wait no longer stay as they were, those of spare rows are 0.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.order = tuple(key for key in policy.leaf_order if key != "author_usage")
        self.kinds = Kinds()
        self.items = Items()
        self.queues: dict[int, list[int]] = {}
        self._ranks: list[tuple[int, ...]] = []  # by row: its place in its queue, once a row has come
        self.largest_gpus = 0  # that anybody asked for in total
        self.count = 0
        self.kind = self.shape = np.zeros(0, dtype=np.int64)
        self._is_filled = False

    @classmethod
    def of(cls, pending: Pending, policy: Policy) -> Line:
        """All rows; all of them wait."""
        line = cls(policy)
        line._fill(pending)
        return line

    def extend(self, pending: Pending, count: int, over: BoolArray) -> None:
        """The rows that have come since, the first `count` of the table's; `over`: some have left again."""
        if not self._is_filled:
            self._fill(pending if count == len(pending.id) else _cut(pending, count))
        if len(pending.id) > len(self.kind):
            self._grow(len(pending.id))
        old, self.count = self.count, count
        if old < count:
            self.items.cut(old)
        for row in range(old, count):
            self._add(pending, row)
            if over[row]:
                self.leave(row)

    def _grow(self, size: int) -> None:
        spare = np.zeros(size - len(self.kind), dtype=np.int64)
        self.kind, self.shape = np.concatenate([self.kind, spare]), np.concatenate([self.shape, spare])

    def leave(self, row: int) -> None:
        """It waits no longer."""
        if row < self.count:
            kind = self.items.kind[row]
            self.kinds.leave(kind)
            self.queues[self.kinds.project[kind]].remove(row)

    def _add(self, pending: Pending, row: int) -> None:
        """One row, as `_fill` does all."""
        kinds, items = self.kinds, self.items
        name = name_kinds([getattr(pending, column).item(row) for column in NAMED], self._policy)
        project, priority, replicas, _, seconds, _, _ = name
        kind = kinds.find(name)
        gpus = kinds.gpus[kind]
        kinds.come(kind)
        items.add(
            row=row,
            returns=False,
            project=project,
            author=pending.author.item(row),
            priority=priority,
            first_submit_at=pending.first_submit_at.item(row),
            workload=pending.id.item(row),
            replicas=replicas,
            gpus=gpus,
            contract_seconds=seconds,
            kind=kind,
        )
        ranks = self._ranks
        ranks += [rank(items, item, self.order, 0) for item in range(len(ranks), row + 1)]
        insort(self.queues.setdefault(project, []), row, key=ranks.__getitem__)
        self.largest_gpus = max(self.largest_gpus, gpus)
        self.kind[row], self.shape[row] = kind, kinds.shape[kind]

    def _fill(self, pending: Pending) -> None:
        """All rows at once."""
        self._is_filled = True
        self.count = len(pending.id)
        kind = self._number(name_kinds([getattr(pending, column) for column in NAMED], self._policy))
        gpus = pending.replicas * pending.gpus_per_replica
        self.kind, self.shape = kind, np.array(self.kinds.shape, dtype=np.int64)[kind]
        self.largest_gpus = int(gpus.max(initial=0))
        self.items = Items.of(pending, gpus, kind)
        order = sort_pending(pending, self.order)
        project = pending.project[order]
        cuts = np.flatnonzero(project[1:] != project[:-1]) + 1
        self.queues = {
            self.items.project[rows[0]]: rows for rows in (part.tolist() for part in np.split(order, cuts)) if rows
        }

    def _number(self, columns: Sequence[IntArray | BoolArray]) -> IntArray:
        """The kinds of all rows, by the columns of their names, and which each is."""
        order = np.lexsort(columns)
        new = np.zeros(len(order), dtype=bool)
        new[:1] = True
        for column in columns:
            new[1:] |= column[order][1:] != column[order][:-1]
        counts = np.diff(np.append(np.flatnonzero(new), len(order)))
        self.kinds = Kinds.of([column[order[new]] for column in columns], counts.tolist())
        kind = np.empty(len(order), dtype=np.int64)
        kind[order] = np.cumsum(new) - 1
        return kind

    def can_hold(self, tally: Tally) -> BoolArray:
        """For every row: whether hosts of that tally could hold its gang."""
        fits = np.array(self.kinds.list_fits(tally), dtype=bool)
        return fits[self.shape] if len(fits) else np.zeros(len(self.shape), dtype=bool)


def _cut(pending: Pending, count: int) -> Pending:
    """Without the spare rows."""
    return Pending(**{name: getattr(pending, name)[:count] for name in Pending.__dataclass_fields__})
