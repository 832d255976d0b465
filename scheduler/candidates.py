"""Which pending workloads are worth offering to a walk, by array tests, and as its items (R6, R7).

What plainly can't start is left out at once; the walk then asks one by one.
"""

from __future__ import annotations

import numpy as np

from scheduler.board import Board
from scheduler.ordering import Items
from scheduler.types import BoolArray, IntArray


def find_express(board: Board) -> BoolArray:
    """R7: pending workloads that may start express, by size, contract, burst cap and express share."""
    line, policy = board.line, board.policy
    short = line.short & ~board.started
    if not short.any():
        return short
    project, limits = board.facts.pending.project, board.limits()
    counted = np.maximum(line.charge, line.gpus * policy.express_floor_seconds)
    return np.asarray(short & (counted <= limits.express[project]) & (line.gpus <= limits.burst[project]))


def find_fundable(board: Board) -> BoolArray:
    """R7: pending workloads that could be charged to their budget now."""
    line, project = board.line, board.facts.pending.project
    asks = line.funds & ~board.started
    if not asks.any():
        return asks
    limits = board.limits()
    room = (line.charge <= limits.contract[project]) & (line.gpus <= limits.burst[project])
    fundable = limits.balance[project] & room
    if board.book.by_row:
        fundable |= find_booked(board)
    return np.asarray(fundable & asks)


def find_heads(board: Board) -> BoolArray:
    """R7, R12: as `find_fundable`, but room under a burst cap may lack for now; without a reservation yet."""
    line, project = board.line, board.facts.pending.project
    asks = line.funds & ~board.started
    if board.book.by_row:
        asks &= ~find_booked(board)
    if not asks.any():
        return asks
    limits = board.limits()
    room = (line.charge <= limits.contract[project]) & (line.gpus <= limits.cap[project])
    return np.asarray(limits.balance[project] & room & asks)


def find_free_runners(board: Board) -> BoolArray:
    """R6, R7: pending workloads that may run unallocated now: they can't be funded and allow it."""
    return np.asarray(find_allowed(board) & ~find_fundable(board))


def find_allowed(board: Board) -> BoolArray:
    """R6, R12: pending workloads that may run unallocated; none that holds a reservation.

    After the funded walk a fundable one among them could be held by reserved hosts alone, if at all.
    """
    allowed = board.line.may_idle & ~board.started
    if board.book.by_row:
        allowed &= ~find_booked(board)
    return np.asarray(allowed)


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
        gpus=board.line.gpus[rows].tolist(),
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
    rows = rows[limits.margin[attempts.project[rows]] & ~fresh]
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
