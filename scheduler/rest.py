"""Until when a decision that did nothing would do nothing again, if nothing happens meanwhile.

What a decision does follows from the facts and from comparisons. With the facts unchanged, only
time moves: contracts end, reservations come due, express starts leave the window (each at a
known moment), and balances drift. What flows out of the window is known for the time ahead, so
the usage of a node has a least and a largest rate; its quota moves at most by its share of the
cluster's largest difference in GPUs, and only while capacity or shares have changed inside the
window. A comparison can't turn over before the gap between its sides is used up.

Who comes first doesn't matter while nobody can start. Where it could matter (a policy that saves
for a head; more heads without a reservation than are tried), where something was left out at
this instant only, and while a new budget has no quota yet, nothing is promised.
"""

from __future__ import annotations

import numpy as np

from scheduler.board import Board
from scheduler.types import NEVER, PPM

FOREVER = 1 << 62

NEAR_RATIO = 1e-6
"""Ratios nearer than this may be equal: no time is promised."""

HORIZON_SECONDS = 600
"""How far ahead the flow out of the window is looked at: no rest is longer."""

Drift = tuple[int, int]
"""How many GPU-seconds a second a node's usage may come down and go up against its quota, at most; 0 or more."""


def find_rest(board: Board, drift: list[Drift]) -> int:
    """The moment before which the decision of `board`, which was empty, stays so; 0: not known."""
    funds = board.funds
    new = any(never and share for never, share in zip(funds.never, funds.shares, strict=True))
    if board.policy.save_for_head or board.unsure or new:
        return 0
    contracts = min(_rest_of_contracts(board, drift), _rest_of_returns(board, drift))
    seconds = min(_rest_of_limits(board, drift), contracts, _rest_of_licences(board, drift))
    moments = [kept.booking.at for kept in board.book.by_zone.values() if kept.booking.at > board.now]
    return min([board.now + min(max(seconds, 0), HORIZON_SECONDS), *moments])


def list_drifts(board: Board, rates: list[tuple[int, int]], quota_gpus: int) -> list[Drift]:
    """By node; `rates`: of its usage, least and largest; `quota_gpus`: how far the cluster's GPUs may move quotas."""
    shares = [
        -(-quota_gpus * share // PPM**depth) for share, depth in zip(board.funds.shares, board.tree.depth, strict=True)
    ]
    return [(max(-low, 0) + share, max(high, 0) + share) for (low, high), share in zip(rates, shares, strict=True)]


def _rest_of_limits(board: Board, drift: list[Drift]) -> int:
    """Balances against 0 and against the margin of returns."""
    funds, least = board.funds, FOREVER
    for node, (down, up) in enumerate(drift):
        if funds.never[node] or node == board.tree.root:
            continue
        used, booked = funds.usage[node], funds.reserved[node]
        for limit in (funds.positive_limit[node], funds.return_limit[node]):
            for value in (used, used + booked) if booked else (used,):
                if value <= limit and up:
                    least = min(least, (limit - value) // up)
                elif value > limit and down:
                    least = min(least, (value - limit - 1) // down)
    return least


def _rest_of_contracts(board: Board, drift: list[Drift]) -> int:
    """What waits, once charged, against the overdraw limit."""
    pending, limits = board.facts.pending, board.limits()
    rows = np.flatnonzero(~board.started & (pending.min_runtime_seconds > 0))
    charge = pending.replicas[rows] * pending.gpus_per_replica[rows] * pending.min_runtime_seconds[rows]
    room = limits.contract[pending.project[rows]]
    gaps = np.abs(room - charge)[room >= 0]
    fastest = max(max(pair) for pair in drift)
    return int(gaps.min()) // fastest - 1 if len(gaps) and fastest else FOREVER


def _rest_of_returns(board: Board, drift: list[Drift]) -> int:
    """What is left of the contracts of unallocated attempts, which runs down, against the overdraw limit (R6)."""
    attempts, limits = board.facts.attempts, board.limits()
    rows = np.array(list(board.pool.unallocated), dtype=np.int64)
    rows = rows[attempts.contract_seconds[rows] > 0]
    if not len(rows):
        return FOREVER
    gpus, room, began = (
        board.facts.attempt_gpus[rows],
        limits.contract[attempts.project[rows]],
        attempts.running_at[rows],
    )
    served = np.where(began == NEVER, 0, np.maximum(board.now - began, 0))
    over = gpus * np.maximum(attempts.contract_seconds[rows] - served, 0) - room
    matters = (over > 0) & (room >= 0)
    if not matters.any():
        return FOREVER
    fastest = max(max(pair) for pair in drift)
    return int((over[matters] // (gpus[matters] + fastest)).min()) - 1


def _rest_of_licences(board: Board, drift: list[Drift]) -> int:
    """R9 (c): each pair that was compared, against the margin."""
    funds, tree, least = board.funds, board.tree, float(HORIZON_SECONDS)
    inverse = [0.0 if never else bottom / top for never, (top, bottom) in zip(funds.never, funds.quotas, strict=True)]
    margin = board.policy.licence_margin_ppm / PPM
    for node, charge in funds.asked:
        mine, (down, up) = funds.ratio[node] + charge * inverse[node] + margin, drift[node]
        for other in tree.children[tree.parent[node]]:
            if other == node or funds.never[other]:
                continue
            ahead, (falls, rises) = funds.ratio[other] - mine, drift[other]
            if ahead >= 0:  # led: until the other comes down and this one goes up
                speed = falls * inverse[other] + up * inverse[node]
            else:
                speed = rises * inverse[other] + down * inverse[node]
            gap = abs(ahead) - NEAR_RATIO
            if speed and gap < least * speed:  # two that stand still stay as they are, however near
                least = gap / speed
    return int(max(least, 0))
