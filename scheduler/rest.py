"""Until when a decision that did nothing would do nothing again, if nothing happens meanwhile.

What a decision does follows from the facts and from comparisons. With the facts unchanged, only
time moves: contracts end, reservations come due, express starts leave the window (each at a
known moment), and balances drift. What flows out of the window is known for the time ahead, so
the usage of a node follows a known course; its limits move at most by its share of the difference
in GPUs between the two ends of the window. A comparison can't turn over before the gap between
its sides is used up.

Who comes first doesn't matter while nobody can start. Where it could matter (a policy that saves
for a head; more heads without a reservation than are tried), where something was left out at
this instant only, and while a new budget has no quota yet, nothing is promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.balance import has_changed, list_products, value_at
from scheduler.board import Board
from scheduler.meters import Meters
from scheduler.types import NEVER, PPM, IntArray, Standing

FOREVER = 1 << 62

NEAR_RATIO = 1e-6
"""Ratios nearer than this may be equal: no time is promised."""

HORIZON_SECONDS = 600
"""How far ahead the flow out of the window is looked at: no rest is longer."""

Bend = tuple[int, int]
"""(seconds from now, by how many GPUs usage grows faster from then on)."""


@dataclass(frozen=True, slots=True)
class Course:
    """How the usage of a node goes on while nothing happens, in GPU-seconds a second."""

    rate: int
    bends: Sequence[Bend]  # in order of time
    drift: int  # of its limits, up or down, at most
    down: int  # how fast usage may come down against a limit, at most; 0 or more
    up: int

    def find_turn(self, gaps: Sequence[int]) -> int:
        """The first second from now at which one of the gaps (limit - usage) may turn to less than 0, or back."""
        room = min((gap for gap in gaps if gap >= 0), default=FOREVER)
        excess = min((-gap for gap in gaps if gap < 0), default=FOREVER)
        moved = since = 0
        rate = self.rate
        for at, more in (*self.bends, (FOREVER, 0)):
            seconds = FOREVER
            if (rises := rate + self.drift) > 0:
                seconds = (room - moved - self.drift * since) // rises
            if (falls := self.drift - rate) > 0:
                seconds = min(seconds, (excess - 1 + moved - self.drift * since) // falls)
            if since + seconds < at:
                return since + seconds + 1
            moved += rate * (at - since)
            since, rate = at, rate + more
        return FOREVER


def chart(rates: Sequence[int], bends: Sequence[Sequence[Bend]], drifts: Sequence[int]) -> list[Course]:
    """The courses of all nodes."""
    courses = []
    for rate, turns, drift in zip(rates, bends, drifts, strict=True):
        falls, rises = (sum(gpus for _, gpus in turns if gpus * sign > 0) for sign in (-1, 1))
        courses.append(Course(rate, turns, drift, max(-rate - falls, 0) + drift, max(rate + rises, 0) + drift))
    return courses


def list_drifts(board: Board, quota_gpus: int) -> list[int]:
    """By node: how far its limits move each second, at most; `quota_gpus`: how far the cluster that quotas share does.

    No limit moves faster than its quota and what of it may be overdrawn (policy). Where a budget has changed
    inside the window its largest share counts: the time that leaves may have had it.
    """
    tree, window = board.tree, board.window
    shares = board.funds.shares
    if not quota_gpus:
        return [0] * len(shares)
    if has_changed(tree, window):
        shares = [
            max([value_at(steps, window.since, 0), *(share for at, share in steps if window.since < at <= window.now)])
            for steps in list_products(tree, board.policy)
        ]
    most = quota_gpus * (PPM + board.policy.overdraw_limit_ppm)
    return [-(-most * share // PPM ** (depth + 1)) for share, depth in zip(shares, tree.depth, strict=True)]


def find_rest(board: Board, charged: Meters, quota_gpus: int) -> int:
    """The moment before which decisions do nothing after that of `board`, empty or applied; 0: not known.

    `charged`: as of that decision; `quota_gpus`: see `list_drifts`.
    """
    funds = board.funds
    new = any(never and share for never, share in zip(funds.never, funds.shares, strict=True))
    if board.policy.save_for_head or board.unsure or board.lapsed_now or new:
        return 0
    courses = chart(charged.rate, charged.list_bends(board.now + HORIZON_SECONDS), list_drifts(board, quota_gpus))
    contracts = min(_rest_of_contracts(board, courses), _rest_of_returns(board, courses))
    seconds = min(_rest_of_limits(board, courses), contracts, _rest_of_licences(board, courses))
    moments = [kept.booking.at for kept in board.book.by_zone.values() if kept.booking.at > board.now]
    return min([board.now + min(max(seconds, 0), HORIZON_SECONDS), *moments])


def _rest_of_limits(board: Board, courses: list[Course]) -> int:
    """Balances against 0 and against the margin of returns."""
    funds, least = board.funds, FOREVER
    for node, course in enumerate(courses):
        if funds.never[node] or node == board.tree.root:
            continue
        used, booked = funds.usage[node], funds.reserved[node]
        gaps = [limit - used for limit in (funds.positive_limit[node], funds.return_limit[node])]
        gaps += [gap - booked for gap in gaps] if booked else ()
        least = min(least, course.find_turn(gaps))
    return least


def _list_fastest(board: Board, courses: list[Course]) -> tuple[IntArray, IntArray]:
    """By project: how fast what its path may still be charged grows and shrinks, at most."""
    pairs = [
        [max((getattr(courses[node], way) for node in path), default=0) for path in board.tree.path_of]
        for way in ("down", "up")
    ]
    return np.array(pairs[0], dtype=np.int64), np.array(pairs[1], dtype=np.int64)


def _rest_of_contracts(board: Board, courses: list[Course]) -> int:
    """What waits, once charged, against the overdraw limit."""
    pending, limits = board.facts.pending, board.limits()
    waits = ~board.started
    fresh = [row for row, _, standing, _ in board.fresh if standing == Standing.UNALLOCATED]
    waits[fresh] = True  # if it was applied: what started unallocated would return, once what is left of it can be paid
    rows = np.flatnonzero(waits & board.line.funds)
    project = pending.project[rows]
    room = limits.contract[project]
    grows, shrinks = (speed[project] for speed in _list_fastest(board, courses))
    gaps = room - board.line.charge[rows]
    speed = np.where(gaps < 0, grows + board.line.gpus[rows] * board.started[rows], shrinks)
    seconds = (np.abs(gaps) // np.maximum(speed, 1))[(room >= 0) & (speed > 0)]
    return int(seconds.min()) - 1 if len(seconds) else FOREVER


def _rest_of_returns(board: Board, courses: list[Course]) -> int:
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
    grows = _list_fastest(board, courses)[0][attempts.project[rows]]
    return int((over[matters] // (gpus[matters] + grows[matters])).min()) - 1


def _rest_of_licences(board: Board, courses: list[Course]) -> int:
    """R9 (c): each pair that was compared, against the margin."""
    funds, tree, least = board.funds, board.tree, float(HORIZON_SECONDS)
    inverse = [0.0 if never else bottom / top for never, (top, bottom) in zip(funds.never, funds.quotas, strict=True)]
    margin = board.policy.licence_margin_ppm / PPM
    for node, charge in funds.asked:
        charged = funds.ratio[node] + charge * inverse[node]
        mine, course = charged + margin, courses[node]
        # A ratio moves with its usage, and by itself times as much as its quota does.
        down, up = (speed + course.drift * charged for speed in (course.down, course.up))
        for other in tree.children[tree.parent[node]]:
            if other == node or funds.never[other]:
                continue
            ahead, its = funds.ratio[other] - mine, courses[other]
            turns = its.drift * funds.ratio[other]
            if ahead >= 0:  # led: until the other comes down and this one goes up
                speed = (its.down + turns) * inverse[other] + up * inverse[node]
            else:
                speed = (its.up + turns) * inverse[other] + down * inverse[node]
            gap = abs(ahead) - NEAR_RATIO
            if speed and gap < least * speed:  # two that stand still stay as they are, however near
                least = gap / speed
    return int(max(least, 0))
