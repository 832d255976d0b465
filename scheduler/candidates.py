"""Which pending workloads are worth offering to a walk, by array tests, and as its items (R6, R7).

What plainly can't start is left out at once; the walk then asks one by one.
"""

from __future__ import annotations

import numpy as np

from scheduler.board import Board
from scheduler.ordering import Items
from scheduler.types import BoolArray, IntArray


class Shapes:
    """The different (replicas, GPUs per replica) among pending workloads, few as they are."""

    def __init__(self, board: Board) -> None:
        self._pending = board.facts.pending
        self.names: list[tuple[int, int]] = []
        self._number: IntArray | None = None

    @property
    def number(self) -> IntArray:
        """For every pending workload: the position of its shape in `names`."""
        if self._number is None:
            packed = (self._pending.replicas << 21) | self._pending.gpus_per_replica
            names, self._number = np.unique(packed, return_inverse=True)
            self.names = [(int(name) >> 21, int(name) & ((1 << 21) - 1)) for name in names]
        return self._number

    def can_hold(self, room: IntArray) -> BoolArray:
        """For every pending workload: whether hosts with that much room could hold its gang."""
        number = self.number
        slots = {gpus: int((room // gpus).sum()) for gpus in {gpus for _, gpus in self.names}}
        fits = np.array([slots[gpus] >= replicas for replicas, gpus in self.names], dtype=bool)
        return fits[number] if len(self.names) else np.zeros(0, dtype=bool)


def find_room(board: Board, takeable: bool = True, licensed: bool = False) -> IntArray:
    """GPUs of every host that are free, run what every asker may take, or what some may (R9)."""
    room = np.array(board.floor.free, dtype=np.int64)
    if takeable:
        room += np.array(board.floor.takeable, dtype=np.int64)
    if licensed:
        for host, gpus in board.pool.tables.funded_gpus.items():
            room[host] += gpus
    return room


def can_hold(room: IntArray, replicas: int, gpus: int) -> bool:
    """Whether hosts with that much room could hold the gang."""
    return int((room // gpus).sum()) >= replicas


def find_short(board: Board) -> BoolArray:
    """R7: pending workloads that are small and short enough for an express start."""
    pending, policy = board.facts.pending, board.policy
    gpus, contract = pending.replicas * pending.gpus_per_replica, pending.min_runtime_seconds
    small = (gpus <= policy.express_gpus) & (contract <= policy.express_seconds) & (contract > 0)
    return np.asarray(small & pending.first_start & ~board.started)


def find_express(board: Board) -> BoolArray:
    """R7: pending workloads that may start express, by size, contract, burst cap and express share."""
    pending, policy = board.facts.pending, board.policy
    gpus = pending.replicas * pending.gpus_per_replica
    contract = pending.min_runtime_seconds
    small = find_short(board)
    if not small.any():
        return small
    limits = board.limits()
    counted = gpus * np.maximum(contract, policy.express_floor_seconds)
    within = (counted <= limits.express[pending.project]) & (gpus <= limits.burst[pending.project])
    return np.asarray(small & within)


def find_fundable(board: Board) -> BoolArray:
    """R7: pending workloads that could be charged to their budget now."""
    pending = board.facts.pending
    limits = board.limits()
    gpus = pending.replicas * pending.gpus_per_replica
    balance = limits.balance[pending.project] & (pending.min_runtime_seconds > 0)
    room = (gpus * pending.min_runtime_seconds <= limits.contract[pending.project]) & (
        gpus <= limits.burst[pending.project]
    )
    return np.asarray(((balance & room) | find_booked(board)) & ~board.started)


def find_heads(board: Board) -> BoolArray:
    """R7, R12: as `find_fundable`, but room under a burst cap may lack for now; without a reservation yet."""
    pending = board.facts.pending
    limits = board.limits()
    gpus = pending.replicas * pending.gpus_per_replica
    balance = limits.balance[pending.project] & (pending.min_runtime_seconds > 0)
    room = (gpus * pending.min_runtime_seconds <= limits.contract[pending.project]) & (
        gpus <= limits.cap[pending.project]
    )
    return np.asarray(balance & room & ~find_booked(board) & ~board.started)


def find_free_runners(board: Board) -> BoolArray:
    """R6, R7: pending workloads that may run unallocated now: they can't be funded and allow it.

    Minimum runtime 0 always does, resumable or not.
    """
    return np.asarray(find_allowed(board) & ~find_fundable(board))


def find_allowed(board: Board) -> BoolArray:
    """R6, R12: pending workloads that may run unallocated; none that holds a reservation.

    After the funded walk a fundable one among them could be held by reserved hosts alone, if at all.
    """
    pending = board.facts.pending
    allowed = (pending.min_runtime_seconds == 0) | (pending.resumable & pending.allow_unallocated)
    return np.asarray(allowed & ~find_booked(board) & ~board.started)


def find_booked(board: Board) -> BoolArray:
    """R12: pending workloads that hold a reservation: their funding is kept."""
    booked = np.zeros(len(board.started), dtype=bool)
    booked[list(board.book.by_row)] = True
    return booked


def gather_pending(board: Board, rows: IntArray) -> Items:
    """Pending workloads as items of a walk."""
    pending = board.facts.pending
    return Items(
        row=rows.tolist(),
        returns=[False] * len(rows),
        project=pending.project[rows].tolist(),
        author=pending.author[rows].tolist(),
        priority=pending.priority[rows].tolist(),
        first_submit_at=pending.first_submit_at[rows].tolist(),
        workload=pending.id[rows].tolist(),
        replicas=pending.replicas[rows].tolist(),
        gpus=(pending.replicas[rows] * pending.gpus_per_replica[rows]).tolist(),
        contract_seconds=pending.min_runtime_seconds[rows].tolist(),
    )


def add_returns(board: Board, items: Items) -> None:
    """Unallocated attempts with a contract, whose path is above the margin, ask to return (R6)."""
    attempts = board.facts.attempts
    rows = np.array(sorted(board.pool.unallocated), dtype=np.int64)
    rows = rows[attempts.contract_seconds[rows] > 0]
    if not len(rows):
        return
    limits = board.limits()
    # What made room under a burst cap at this instant doesn't return at it (R7).
    fresh = attempts.lapsed[rows] & (attempts.segment_at[rows] == board.now)
    if board.lapsed_now:
        fresh |= np.isin(rows, list(board.lapsed_now))
    board.unsure |= bool(fresh.any())
    rows = rows[limits.margin[attempts.project[rows]] & (attempts.contract_seconds[rows] > 0) & ~fresh]
    items.row += rows.tolist()
    items.returns += [True] * len(rows)
    items.project += attempts.project[rows].tolist()
    items.author += attempts.author[rows].tolist()
    items.priority += attempts.priority[rows].tolist()
    items.first_submit_at += attempts.first_submit_at[rows].tolist()
    items.workload += attempts.workload[rows].tolist()
    items.replicas += attempts.replicas[rows].tolist()
    items.gpus += board.facts.attempt_gpus[rows].tolist()
    items.contract_seconds += [board.remaining(row) for row in rows.tolist()]
