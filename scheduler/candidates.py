"""What is worth offering to a walk (R6, R7): kinds first, then what waits of them, in order.

What plainly can't start is left out at once; the walk then asks one by one.
"""

from __future__ import annotations

import numpy as np

from scheduler.board import Board
from scheduler.limits import (
    find_burst_room,
    find_cap,
    find_contract_room,
    find_express_room,
    list_above_margin,
    list_positive,
)
from scheduler.ordering import ALONE, Offer, rank
from scheduler.tally import Tally
from scheduler.types import BoolArray


def find_express(board: Board, tally: Tally) -> list[int]:
    """R7: kinds that may start express by size, contract, burst cap and share; hosts of `tally` could hold them."""
    kinds, funds, floor = board.line.kinds, board.funds, board.policy.express_floor_seconds
    found, rooms = [], dict[int, tuple[int, int]]()
    for kind in kinds.quick:
        project, gpus = kinds.project[kind], kinds.gpus[kind]
        if project not in rooms:
            path = board.path(project)
            rooms[project] = find_express_room(funds, path), find_burst_room(funds, path)
        share, burst = rooms[project]
        if gpus <= burst and max(kinds.charge[kind], gpus * floor) <= share:
            found.append(kind)
    return keep_fitting(board, found, tally)


def find_fundable(board: Board, tally: Tally, waits_for_room: bool = False) -> list[int]:
    """R7: kinds that could be charged to their budget now; hosts of `tally` could hold them.

    `waits_for_room`: room under a burst cap may lack for now (R12).
    """
    kinds, funds = board.line.kinds, board.funds
    charge, gpus, seconds = kinds.charge, kinds.gpus, kinds.seconds
    found, positive = list[int](), list_positive(funds)
    for project, waiting in kinds.of_project.items():
        if waiting and positive[project]:
            path = board.path(project)
            contract = find_contract_room(funds, path)
            room = find_cap(funds, path) if waits_for_room else find_burst_room(funds, path)
            found += [kind for kind in waiting if seconds[kind] and charge[kind] <= contract and gpus[kind] <= room]
    return keep_fitting(board, found, tally)


def find_allowed(board: Board, tally: Tally) -> list[int]:
    """R6, R12: kinds that may run unallocated; hosts of `tally` could hold them.

    After the funded walk a fundable one among them could be held by reserved hosts alone, if at all.
    """
    return keep_fitting(board, board.line.kinds.idle, tally)


def keep_fitting(board: Board, found: list[int], tally: Tally) -> list[int]:
    """Those kinds of which hosts of that tally could hold a gang, and of which some still wait."""
    kinds = board.line.kinds
    gone = {kind for kind, started in board.started_of.items() if kinds.waiting[kind] <= started}
    if gone:
        found = [kind for kind in found if kind not in gone]
    if not found:
        return []
    fits, shape = kinds.list_fits(tally), kinds.shape
    return [kind for kind in found if fits[shape[kind]]]


def mark_rows(board: Board, kinds: list[int]) -> BoolArray:
    """By row of Pending: whether it is of one of these kinds and waits without a reservation."""
    wanted = np.zeros(board.line.kinds.count, dtype=bool)
    wanted[kinds] = True
    marked = wanted[board.line.kind] & ~board.started
    marked[list(board.book.by_row)] = False
    return np.asarray(marked)


def offer_waiting(board: Board, kinds: list[int]) -> Offer:
    """What waits of these kinds, but for what holds a reservation (R12)."""
    line = board.line
    wanted, kind_of = set(kinds), line.items.kind
    gone = {row for row, _, _, _ in board.fresh}
    gone.update(board.book.by_row)
    offer: Offer = {}
    for project in {line.kinds.project[kind] for kind in wanted}:
        queue = [row for row in line.queues[project] if kind_of[row] in wanted and row not in gone]
        if queue:
            offer[project] = queue
    return offer


def list_booked(board: Board, tally: Tally) -> list[int]:
    """What holds a reservation and could get its GPUs: its funding is kept, whatever its balance (R12)."""
    items = board.line.items
    asking = [row for row in board.book.by_row if items.contract_seconds[row] > 0 and not board.started[row]]
    return [row for row in asking if keep_fitting(board, [items.kind[row]], tally)]


def list_returns(board: Board) -> list[int]:
    """Unallocated attempts with a contract, whose path is above the margin, ask to return (R6): items of a walk."""
    line, attempts = board.line, board.facts.attempts
    line.items.cut(line.count)
    for attempt in sorted(_list_above_margin(board)):
        if not attempts.contract_seconds.item(attempt):
            continue
        # What made room under a burst cap at this instant doesn't return at it (R7).
        lapsed = attempts.lapsed.item(attempt) and attempts.segment_at.item(attempt) == board.now
        if lapsed or attempt in board.lapsed_now:
            board.unsure = True
            continue
        line.items.add(
            row=attempt,
            returns=True,
            project=attempts.project.item(attempt),
            author=attempts.author.item(attempt),
            priority=attempts.priority.item(attempt),
            first_submit_at=attempts.first_submit_at.item(attempt),
            workload=attempts.workload.item(attempt),
            replicas=attempts.replicas.item(attempt),
            gpus=board.facts.gpus_of(attempt),
            contract_seconds=board.remaining(attempt),
            kind=ALONE,
        )
    return list(range(line.count, len(line.items)))


def _list_above_margin(board: Board) -> list[int]:
    """Unallocated attempts whose path is above the margin of a return."""
    if not board.pool.unallocated:
        return []
    found, above = list[int](), list_above_margin(board.funds)
    for project, attempts in board.pool.unallocated_of.items():
        if above[project]:
            found += attempts
    return found


def insert_item(board: Board, offer: Offer, item: int) -> None:
    """Into the queue of its project, where its keys put it."""
    items, order = board.line.items, board.line.order
    queue = offer.setdefault(items.project[item], [])
    queue.append(item)
    queue.sort(key=lambda one: rank(items, one, order, 0))
