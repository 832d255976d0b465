"""Hosts and a time for a head that can't start (R12).

After the funded walk the same walk is made once more, over what could be funded and did not
start: the first in each child of the root for which a place is certain gets a reservation.
One child tries at most MOST_TRIES different heads in a decision, so that the pass stays short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.board import Board
from scheduler.book import Kept, starts_by
from scheduler.bookings import Booking
from scheduler.candidates import find_fundable
from scheduler.limits import ENDLESS
from scheduler.ordering import Items
from scheduler.placement import spread_gang
from scheduler.preemption import Asker
from scheduler.starts import Trial
from scheduler.tally import Tally
from scheduler.timeline import NOT_EVER, Timeline, count_for_all, find_allocated_below, list_led
from scheduler.types import NEVER, Code, IntArray, Reserve, reason

MOST_TRIES = 8
"""Different heads that one child of the root tries in one decision."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A certain place: when, where, and what must go."""

    at: int
    places: dict[int, int]  # replicas by host
    takings: frozenset[int]  # workloads


def reserve_for_heads(board: Board) -> bool:
    """R12: one reservation for each child of the root, at most as many as the policy says. True if any was made."""
    if board.facts.snapshot.reserved is None or len(board.book.by_zone) >= board.policy.reservations_most:
        return False
    heads = _list_heads(board)
    if not heads or _is_vain(board, heads):
        return False
    made = len(board.made)
    HeadTrial(board, heads).run()
    return len(board.made) > made


def _is_vain(board: Board, heads: list[int]) -> bool:
    """Whether it is known without asking each that no head can get a reservation: then nothing changes on the way.

    Reasons to wait tell what would do, and who saves for a head matters, too: then all are asked.
    """
    if board.tells or board.policy.save_for_head:
        return False
    hopeful = find_hopeful(board, heads)
    if len(hopeful) == len(heads):
        return False
    return not hopeful or HeadTrial(board, hopeful).is_vain()


def _list_heads(board: Board) -> list[int]:
    """Kinds that may reserve: by their funding, size and child of the root."""
    heads, project = find_fundable(board, board.floor.sizes, waits_for_room=True), board.line.kinds.project
    if not heads or not board.book.by_row:
        return heads
    taken = {branch_of(board, board.line.items.project[row]) for row in board.book.by_row}
    return [kind for kind in heads if branch_of(board, project[kind]) not in taken]


def find_hopeful(board: Board, heads: list[int]) -> list[int]:
    """Which of these kinds may find a place: of all others it is certain that none will.

    None finds more room under burst caps than there is and what it may take leaves there (R7); and who could take
    nothing that is allocated finds no more GPUs than everybody can count on. Of a project the highest priority and
    the least contract answer for all: a lower priority takes no more, a larger charge leads nobody else (R9).
    """
    kinds, floor = board.line.kinds, board.policy.licence_floor_seconds
    highest = np.full(len(board.tree.leaf_of), -NOT_EVER, dtype=np.int64)
    least, rooms = dict[int, int](), dict[int, int]()
    for kind in heads:
        project, charge = kinds.project[kind], max(kinds.seconds[kind], floor) * kinds.gpus[kind]
        highest[project] = max(highest.item(project), kinds.priority[kind])
        least[project] = min(least.get(project, charge), charge)
    licensed = find_allocated_below(board, highest).tolist()
    for project, charge in least.items():
        led = list_led(board, project, charge)
        rooms[project] = _find_most_room(board, project, led, licensed[project])
        licensed[project] = licensed[project] or _has_some(board, led)
    roomy = [kind for kind in heads if kinds.gpus[kind] <= rooms[kinds.project[kind]]]
    if all(licensed[kinds.project[kind]] for kind in roomy):
        return roomy
    fits = kinds.list_fits(count_for_all(board))
    return [kind for kind in roomy if licensed[kinds.project[kind]] or fits[kinds.shape[kind]]]


def _find_most_room(board: Board, project: int, led: list[int], has_lower: bool) -> int:
    """GPUs under every burst cap of its path, with all that it could take there: below `led`, or its own work."""
    funds, tree = board.funds, board.tree
    path, room = board.path(project), ENDLESS
    takeable = funds.allocated[path[-1]] if path and has_lower else 0
    for node in reversed(path):
        if funds.burst[node] != NEVER:
            reserved = sum([gpus for _, gpus in funds.reserved_gpus.get(node, ())])
            room = min(room, funds.burst[node] - funds.allocated[node] - reserved + takeable)
        takeable += sum([funds.allocated[one] for one in led if tree.parent[one] == tree.parent[node]])
    return room


def _has_some(board: Board, nodes: list[int]) -> bool:
    """Whether one of these branches has allocated work or a reservation."""
    return any(board.funds.allocated[node] or board.funds.reserved_gpus.get(node) for node in nodes)


def branch_of(board: Board, project: int) -> int:
    """The child of the root that a project belongs to; the root itself if it has no children."""
    path = board.path(project)
    return path[0] if path else board.tree.root


def list_banned(board: Board) -> set[int]:
    """R12: who cancels a reserved workload reserves nothing for a day (policy; 0: none, wherever the clock stands)."""
    reserved = board.facts.snapshot.reserved
    if reserved is None or not board.policy.reservation_ban_seconds:
        return set()
    recent = reserved.cancelled.cancelled_at + board.policy.reservation_ban_seconds > board.now
    return set(reserved.cancelled.author[recent].tolist())


class HeadTrial(Trial):
    """The walk that reserves instead of starting."""

    def __init__(self, board: Board, kinds: list[int]) -> None:
        self.done: set[int] = set()  # children of the root that are served or have tried enough
        self.cut: set[int] = set()  # of them: those that have tried enough
        self.tried: dict[int, set[tuple[int, ...]]] = {}
        self.longest: dict[tuple[int, ...], int] = {}  # by name: the longest contract that would do, 0: none
        super().__init__(board, kinds, barred=board.banned | list_banned(board))
        self.timeline = Timeline(board)

    def run(self) -> None:
        """As every walk; then like heads hear alike what would do."""
        super().run()
        self._look_further()
        for row in self.list_offered() if self.longest else ():
            if row not in self.board.book.by_row and (longest := self.longest.get(self._name(row))) is not None:
                self.board.too_large[row] = longest

    def _look_further(self) -> None:
        """Whether any of the heads that were not tried would find a place, so that a later pass might reserve for it.

        Only a decision that did nothing is asked how long that stays so: then all are looked at,
        once, instead of making the same decision at every point of the grid.
        """
        board, items = self.board, self.items
        if not self.cut:
            return
        board.unsure |= bool(board.turns or board.made)
        for item in self.list_offered() if not board.unsure else ():
            branch, name = branch_of(board, items.project[item]), self._name(item)
            if branch not in self.cut or name in self.tried[branch] or not self.can_pay(item):
                continue
            self.tried[branch].add(name)
            if find_spot(self.timeline, self._make_head(item, items.contract_seconds[item]), items, item) is not None:
                board.unsure = True
                return

    def is_vain(self) -> bool:
        """Whether nobody can get a reservation; reasons to wait tell what would do, and so ask all."""
        return not self.board.tells and super().is_vain()

    def has_way(self, item: int) -> bool:
        """Whether enough GPUs, and enough room under its burst caps, are certain for it sooner or later."""
        head = self._make_head(item, self.items.contract_seconds[item])
        return self.timeline.could_hold(head) and find_burst_time(self.timeline, head, self.items, item) is not None

    def count_most(self, project: int, kinds: list[int]) -> Tally:
        """Hosts by the GPUs that are certain for some of a project's kinds, sooner or later."""
        return self.timeline.count_ever(self.make_widest(project, kinds))

    def list_led(self, project: int, gpu_seconds: int) -> tuple[int, ...]:
        """Branches that the project leads, once charged, whoever has work there."""
        return tuple(list_led(self.board, project, gpu_seconds))

    def is_hopeless(self, item: int) -> bool:
        """Its child of the root is done with, or it is like one that was tried, or can't be funded."""
        project = self.items.project[item]
        branch = branch_of(self.board, project)
        if branch in self.done or project in self.saving or self._name(item) in self.tried.get(branch, ()):
            return True
        return not self.can_pay(item)

    def can_pay(self, item: int) -> bool:
        """R7, burst room aside, of which enough must exist beside what is reserved there."""
        board, items = self.board, self.items
        path, funds = board.path(items.project[item]), board.funds
        if not funds.can_fund(path, 0, items.gpus[item] * items.contract_seconds[item], board.now):
            obstacle = funds.find_obstacle(path, 0, items.gpus[item] * items.contract_seconds[item], board.now)
            if obstacle is not None and obstacle[1] != Code.BURST_CAP:
                return False
        return all(
            funds.burst[node] == NEVER
            or items.gpus[item] + sum(gpus for _, gpus in funds.reserved_gpus.get(node, ())) <= funds.burst[node]
            for node in path
        )

    def _name(self, item: int) -> tuple[int, ...]:
        """Like heads of one project have like chances."""
        items = self.items
        return items.project[item], items.priority[item], *self.shape(item), items.contract_seconds[item]

    def try_item(self, item: int) -> None:
        """Reserve for the item, or remember what would do."""
        if self.is_hopeless(item):
            return
        board, items = self.board, self.items
        branch = branch_of(board, items.project[item])
        spot = find_spot(self.timeline, self._make_head(item, items.contract_seconds[item]), items, item)
        if spot is None:
            path = board.path(items.project[item])
            capped = any(board.funds.find_lack(node, items.gpus[item], NOT_EVER) for node in path)
            if board.tells and not capped and self._would_do(item, items.contract_seconds[item], leading=True):
                self.longest[self._name(item)] = self.find_longest(item)
            if board.policy.save_for_head:  # later work of its project isn't served before it
                self.saving.add(items.project[item])
            tried = self.tried.setdefault(branch, set())
            tried.add(self._name(item))
            if len(tried) >= MOST_TRIES:
                self.done.add(branch)
                self.cut.add(branch)
            return
        if spot.at <= board.now:
            return  # it is held back by a policy, not by want of GPUs
        self.done.add(branch)
        booking = Booking(NEVER, items.workload[item], spot.at, board.now, False, spot.places, spot.takings)
        path = board.path(items.project[item])
        kept = Kept(booking, items.row[item], path, items.gpus[item], items.contract_seconds[item])
        board.book.add(kept)
        board.made.append(kept)
        if len(board.book.by_zone) >= board.policy.reservations_most:
            self.done.update(branch_of(board, project) for project in self.offer)

    def _make_head(self, item: int, contract_seconds: int, leading: bool = False) -> Asker:
        """As an asker with that contract; `leading`: as if it led every other branch."""
        items, tree, project = self.items, self.board.tree, self.items.project[item]
        led = self.list_led(project, self.count_asked(contract_seconds, items.gpus[item]))
        if leading:
            path = self.board.path(project)
            led = tuple(one for node in path for one in tree.children[tree.parent[node]] if one != node)
        return Asker(project, items.priority[item], False, *self.shape(item), led)

    def find_longest(self, item: int) -> int:
        """R12: the longest minimum runtime with which it would be deserving enough; 0: no shorter one would do."""
        board, contract = self.board, self.items.contract_seconds[item]
        low, high = board.policy.licence_floor_seconds, contract - 1
        if low > high or not self._would_do(item, low):
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._would_do(item, middle) else (low, middle - 1)
        return low

    def _would_do(self, item: int, contract_seconds: int, leading: bool = False) -> bool:
        """Whether a place would become certain sooner or later."""
        return self.timeline.could_hold(self._make_head(item, contract_seconds, leading))


def find_spot(timeline: Timeline, head: Asker, items: Items, item: int) -> Spot | None:
    """The earliest certain place for the gang, with room under every burst cap; None if there is none."""
    if not timeline.could_hold(head):
        return None
    room_at = find_burst_time(timeline, head, items, item)
    if room_at is None:
        return None
    claims, open_at = timeline.find_claims(head), timeline.find_open(head)
    at = timeline.find_earliest(head, claims, open_at)
    if at is None:
        return None
    at = max(at, room_at)
    slots = timeline.count_room(at, claims, open_at) // head.gpus
    places = choose_hosts(timeline, slots, head)
    holds = timeline.holds
    going = (claims <= at) & ~holds.leaving & np.isin(holds.host, list(places))
    takings = set(holds.workload[going].tolist())
    takings |= set(holds.workload[_under_caps(timeline, items, item) & (claims <= at)].tolist())
    return Spot(at, places, frozenset(takings))


def choose_hosts(timeline: Timeline, slots: IntArray, head: Asker) -> dict[int, int]:
    """One host if one can hold it all, the one with the least room that is enough; else as R13 spreads a gang."""
    whole = np.flatnonzero(slots >= head.replicas)
    if len(whole):
        return {min(whole.tolist(), key=lambda host: (int(slots[host]), host)): head.replicas}
    block = np.array(timeline.board.floor.block, dtype=np.int64)
    return dict(spread_gang(slots, block, np.zeros(len(slots), dtype=np.int64), head.replicas))


def find_burst_time(timeline: Timeline, head: Asker, items: Items, item: int) -> int | None:
    """R7: when enough allocated work under its burst caps is certain to be takeable by it; None: never.

    Room that could be made now is made in the next second: by a reservation whose time has come, and none
    is made for a moment that is over.
    """
    board = timeline.board
    latest = board.now
    for node in board.path(items.project[item]):
        lack = board.funds.find_lack(node, items.gpus[item], NOT_EVER)
        if lack:
            at = timeline.find_takeable(node, lack, head)
            if at is None:
                return None
            latest = max(latest, at, board.now + 1)
    return latest


def _under_caps(timeline: Timeline, items: Items, item: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """What it may have to lapse: allocated now, or returned by then."""
    board, holds = timeline.board, timeline.holds
    chosen = np.zeros(len(holds.host), dtype=bool)
    for node in board.path(items.project[item]):
        if board.funds.burst[node] != NEVER:
            chosen |= np.isin(holds.project, timeline.below[node])
    return chosen & ~holds.leaving


def write_orders(board: Board) -> None:
    """Last, the orders to keep what was reserved and moved."""
    ids = board.facts.hosts.id
    old = {kept.booking.workload for kept in board.book.by_zone.values() if kept not in board.made}
    board.actions += [order for workload, order in sorted(board.shifts.items()) if workload in old]
    for kept in board.made:
        if kept.row not in board.book.by_row:
            continue  # it has started in this very decision
        booking = kept.booking
        placement = tuple(sorted((int(ids[host]), count) for host, count in booking.places.items()))
        told_at = starts_by(booking.at, board.policy)
        why = reason(Code.RESERVED_HEAD, at=booking.at, starts_by_at=told_at, hosts=len(placement), gpus=kept.gpus)
        takings = tuple(sorted(booking.takings))
        board.actions.append(Reserve(booking.workload, booking.at, placement, takings, why))
