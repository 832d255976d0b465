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

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from scheduler.board import Board
from scheduler.charges import Waiting, count_within
from scheduler.ledgers import CHARGED, Ledgers
from scheduler.limits import find_express_room
from scheduler.meters import Bend, Meters
from scheduler.types import NEVER, PPM

FOREVER = 1 << 62

NEAR_RATIO = 1e-6
"""Ratios nearer than this may be equal: no time is promised."""

HORIZON_SECONDS = 600
"""How far ahead the flow out of the window is looked at: no rest is longer."""


class Ahead:
    """How usage and what limits leave may move from now up to a moment, while nothing happens but time.

    By node. `rate`: GPU-seconds a second by which its usage grows now. `drift`: how far its limits move each
    second, up or down, at most. `down`, `up`: how fast its usage may come down or rise against a limit at most,
    0 or more. `room`: what one more contract may charge on its path, below 0 if none may. `grows`, `shrinks`:
    how fast that does, at most.
    """

    def __init__(self, board: Board, charged: Meters, drift: list[int], until: int) -> None:
        tree, funds, nodes = board.tree, board.funds, len(drift)
        falls, rises = charged.sum_bends(until)
        self.charged, self.until = charged, until
        self.rate, self.drift, self.down, self.up = charged.rate, drift, [0] * nodes, [0] * nodes
        self.room, self.grows, self.shrinks = [FOREVER] * nodes, [0] * nodes, [0] * nodes
        for node in tree.top_down:
            rate, drifts = self.rate[node], drift[node]
            self.down[node] = down = max(falls[node] - rate, 0) + drifts
            self.up[node] = up = max(rises[node] + rate, 0) + drifts
            if node != tree.root:
                above = tree.parent[node]
                left = funds.contract_limit[node] - funds.usage[node] - funds.reserved[node]
                self.room[node] = min(left, self.room[above])
                self.grows[node] = max(down, self.grows[above])
                self.shrinks[node] = max(up, self.shrinks[above])

    def find_turn(self, node: int, room: int, excess: int, least: int) -> int:
        """The first second at which usage may be up by more than `room`, or down by `excess`; at most `least`."""
        if self.up[node] * least <= room and self.down[node] * least < excess:
            return least
        bends = self.charged.list_bends(node, self.until)
        return min(least, find_turn(room, excess, self.rate[node], bends, self.drift[node]))


def find_turn(room: int, excess: int, rate: int, bends: Sequence[Bend], drift: int) -> int:
    """The first second from now at which usage may have risen by more than `room`, or come down by `excess`.

    Against limits that move by `drift` each second. Usage grows by `rate`; `bends`: in order of time.
    """
    moved = since = 0
    for at, more in (*bends, (FOREVER, 0)):
        seconds = FOREVER
        if (rises := rate + drift) > 0:
            seconds = (room - moved - drift * since) // rises
        if (falls := drift - rate) > 0:
            seconds = min(seconds, (excess - 1 + moved - drift * since) // falls)
        if since + seconds < at:
            return since + seconds + 1
        moved += rate * (at - since)
        since, rate = at, rate + more
    return FOREVER


def list_drifts(board: Board, drifts: Sequence[int]) -> list[int]:
    """By node: how far its limits move each second, at most, in GPU-seconds; `drifts`: how far its quota does.

    No limit moves faster than the quota and what of it may be overdrawn (policy).
    """
    times, depths = PPM + board.policy.overdraw_limit_ppm, board.tree.depth
    return [-(-drift * times // PPM ** (depth + 1)) for drift, depth in zip(drifts, depths, strict=True)]


def find_rest(board: Board, ledgers: Ledgers, waiting: Waiting, drifts: Sequence[int], until: int) -> int:
    """The moment before which decisions do nothing after that of `board`, empty or applied; 0: not known.

    `ledgers`, `waiting`: as that decision left them; the latter are the contracts of all that wait.
    `drifts`: of the quotas, see `Supply.list_drifts`. `until`: the answer is at most that.
    """
    funds, now = board.funds, board.now
    new = any(never and share for never, share in zip(funds.never, funds.shares, strict=True))
    if board.policy.save_for_head or board.unsure or board.lapsed_now or new:
        return 0
    moments = [kept.booking.at for kept in board.book.by_zone.values() if kept.booking.at > now]
    until = min([until, now + HORIZON_SECONDS, *moments])
    if until <= now:
        return until
    ahead = Ahead(board, ledgers.meters[CHARGED], list_drifts(board, drifts), until)
    seconds = _rest_of_limits(board, ahead, until - now)
    seconds = _rest_of_contracts(board, ahead, waiting, seconds)
    seconds = _rest_of_returns(board, ahead, ledgers, seconds)
    seconds = _rest_of_express(board, drifts, seconds)
    return now + max(_rest_of_licences(board, ahead, seconds), 0)


def _rest_of_limits(board: Board, ahead: Ahead, seconds: int) -> int:
    """Balances against 0 and against the margin of returns, with and without what is reserved."""
    funds = board.funds
    for node, used in enumerate(funds.usage):
        if funds.never[node] or node == board.tree.root:
            continue
        booked, room, excess = funds.reserved[node], FOREVER, FOREVER
        for limit in (funds.positive_limit[node], funds.return_limit[node]):
            for gap in (limit - used, limit - used - booked) if booked else (limit - used,):
                if gap < 0:
                    excess = min(excess, -gap)
                else:
                    room = min(room, gap)
        seconds = ahead.find_turn(node, room, excess, seconds)
    return seconds


def _rest_of_contracts(board: Board, ahead: Ahead, waiting: Waiting, seconds: int) -> int:
    """What waits, once charged, against the overdraw limit: the largest that fits, and the smallest that doesn't."""
    for leaf, charges in zip(board.tree.leaf_of, waiting.by_project, strict=True):
        room = ahead.room[leaf]
        if not charges or room < 0:
            continue
        fit = bisect_right(charges, room)
        if fit and ahead.shrinks[leaf]:
            seconds = min(seconds, (room - charges[fit - 1]) // ahead.shrinks[leaf] - 1)
        if fit < len(charges) and ahead.grows[leaf]:
            seconds = min(seconds, (charges[fit] - room) // ahead.grows[leaf] - 1)
    return seconds


def _rest_of_returns(board: Board, ahead: Ahead, ledgers: Ledgers, seconds: int) -> int:
    """What is left of the contracts of unallocated attempts, which runs down, against the overdraw limit (R6)."""
    for leaf, charges in zip(board.tree.leaf_of, ledgers.unallocated.by_project, strict=True):
        room = ahead.room[leaf]
        if room < 0:
            continue
        for _, number in charges[count_within(charges, room) :]:  # the others fit, whatever they have served
            claim = ledgers.claims[number]
            over = claim.unserved(board.now) - room
            if over > 0:
                seconds = min(seconds, over // (claim.gpus + ahead.grows[leaf]) - 1)
    return seconds


def _rest_of_express(board: Board, drifts: Sequence[int], seconds: int) -> int:
    """What may start express, against its share of quotas that move (R7); what leaves the window is a known moment.

    Who could not start with room for it starts no sooner without.
    """
    kinds, funds, policy, depths = board.line.kinds, board.funds, board.policy, board.tree.depth
    for kind in kinds.quick if any(drifts) else ():
        path = board.path(kinds.project[kind])
        counted = max(kinds.charge[kind], kinds.gpus[kind] * policy.express_floor_seconds)
        over = counted - find_express_room(funds, path)
        if over <= 0 or any(funds.never[node] for node in path):
            continue
        grows = max(-(-drifts[node] * policy.express_share_ppm // PPM ** (depths[node] + 1)) for node in path)
        if grows:
            seconds = min(seconds, over // grows)
    return seconds


def _rest_of_licences(board: Board, ahead: Ahead, seconds: int) -> int:
    """R9 (c): each pair that was compared, against the margin."""
    if seconds <= 0 or not board.funds.asked:
        return seconds
    ratios, least = Ratios(board, ahead), float(seconds)
    for node, charge in board.funds.asked:
        least = ratios.find_turn(node, charge, least)
    return int(max(least, 0))


class Ratios:
    """How fast usage / quota may come down and rise, by node: with its usage, and by itself as its quota drifts."""

    def __init__(self, board: Board, ahead: Ahead) -> None:
        self.tree, self.funds, self.ahead = board.tree, board.funds, ahead
        self.margin = board.policy.licence_margin_ppm / PPM
        pairs = zip(self.funds.never, self.funds.quotas, strict=True)
        self.inverse = [0.0 if never else bottom / top for never, (top, bottom) in pairs]
        self.falls, self.rises = [0.0] * len(self.inverse), [0.0] * len(self.inverse)
        for node, never in enumerate(self.funds.never):
            if not never:
                self.falls[node], self.rises[node] = self._find_speeds(node, self.funds.ratio[node])
        self.fastest = max(*self.falls, *self.rises)
        self.siblings: dict[int, list[tuple[float, int]]] = {}  # by parent: the ratios of its children, in order

    def find_turn(self, node: int, charge: int, least: float) -> float:
        """After how many seconds at the earliest an asker may lead a sibling, or no longer; at most `least`.

        Only siblings are looked at that it could meet by then.
        """
        charged = self.funds.ratio[node] + charge * self.inverse[node]
        down, up = self._find_speeds(node, charged)
        mine, reach = charged + self.margin, NEAR_RATIO + least * (self.fastest + max(down, up))
        others = self._list_siblings(self.tree.parent[node])
        for place in range(bisect_left(others, (mine - reach, NEVER)), len(others)):
            ratio, other = others[place]
            if ratio > mine + reach:
                break
            # Led: until the other comes down and this one goes up. Else the other way round.
            speed = self.falls[other] + up if ratio >= mine else self.rises[other] + down
            gap = abs(ratio - mine) - NEAR_RATIO
            if other != node and speed and gap < least * speed:  # two that stand still stay as they are, however near
                least = gap / speed
        return least

    def _find_speeds(self, node: int, ratio: float) -> tuple[float, float]:
        moves, inverse = self.ahead.drift[node] * ratio, self.inverse[node]
        return (self.ahead.down[node] + moves) * inverse, (self.ahead.up[node] + moves) * inverse

    def _list_siblings(self, parent: int) -> list[tuple[float, int]]:
        known = self.siblings.get(parent)
        if known is None:
            never, ratio = self.funds.never, self.funds.ratio
            known = self.siblings[parent] = sorted(
                (ratio[one], one) for one in self.tree.children[parent] if not never[one]
            )
        return known
