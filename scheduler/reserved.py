"""The way of a workload with a reservation to its GPUs (R8, R12): its licence is kept, its room under caps too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.board import Board
from scheduler.book import Kept
from scheduler.bookings import Booking
from scheduler.preemption import Licence, Plan
from scheduler.types import NEVER, Standing

if TYPE_CHECKING:
    from scheduler.starts import Trial

Way = tuple[Plan, list[int]]
"""A plan, and the attempts that must lapse first to make room under burst caps."""


def find_reserved_way(trial: Trial, item: int, kept: Kept) -> Way | None:
    """Free GPUs anywhere; else its own hosts, by the licence that it keeps; else as everybody.

    Asked of what may have one, once its reservation is put aside.
    """
    board, items = trial.board, trial.items
    lacks = _lacks_room(trial, item)
    plan = trial.find_way(item)
    if (plan is None or plan.victims) and items.author[item] not in board.banned and _is_open(trial, item, kept):
        plan = _take_on_own_hosts(trial, item, kept, list_kept(board, kept)) or plan
    if plan is None or not lacks:
        return None if plan is None else (plan, [])
    lapses = list_lapses(board, items.project[item], items.gpus[item], plan, list_kept(board, kept, anywhere=True))
    return None if lapses is None else (plan, lapses)


def may_have_way(trial: Trial, item: int, kept: Kept) -> bool:
    """Whether a way is worth looking for: all that it could have is enough. Its reservation is still in place.

    Before its time it does not make room under caps, be it by what it takes: nor could it without a reservation.
    """
    board, (replicas, gpus) = trial.board, trial.shape(item)
    if kept.booking.at > board.now and _lacks_room(trial, item):
        return False
    room = board.pool.count_room(board.pool.judge(trial.make_asker(item)), frozenset())
    return room.count_slots(gpus) >= replicas or _is_open(trial, item, kept)


def _lacks_room(trial: Trial, item: int) -> bool:
    """R7: under some burst cap; a reservation for later takes no room there yet."""
    board, items = trial.board, trial.items
    path, gpus = board.path(items.project[item]), items.gpus[item]
    return any(board.funds.find_lack(node, gpus, board.now) for node in path)


def _is_open(trial: Trial, item: int, kept: Kept) -> bool:
    """Whether its own hosts could hold it if it might take all that can be taken there by anybody."""
    replicas, gpus = trial.shape(item)
    tables = trial.board.pool.tables
    return sum(tables.most(host) // gpus for host in kept.booking.places) >= replicas


def list_kept(board: Board, kept: Kept, anywhere: bool = False) -> frozenset[int]:
    """Attempts past their minimum that its licence covers: those named when it was made, and what came since.

    Of what came since: on its hosts, to be taken; anywhere, to make room under its burst caps (R7). Whatever
    their balance or priority (R12).
    """
    booking, pool = kept.booking, board.pool
    workload = board.facts.attempts.workload.tolist() if booking.takings else []
    found = {one for one in pool.victims if workload[one] in booking.takings} if workload else set()
    found.update(
        one
        for one in (pool.victims if anywhere else pool.list_on(booking.places))
        if has_come_since(board, one, booking)
    )
    return frozenset(found)


def has_come_since(board: Board, attempt: int, booking: Booking) -> bool:
    """Whether it was decided on or has returned since, and has run its minimum by the clock as it is now.

    What starts in the very second in which the reservation was made counts as since: passes are told
    apart by the second alone. Where the clock has stepped back, moments ahead of it would all be since,
    and what was found in the way could be taken at once; but no contract decided on since is over yet.
    What returned before its minimum was over was named.
    """
    attempts = board.facts.attempts
    running_at, segment_at = int(attempts.running_at[attempt]), int(attempts.segment_at[attempt])
    over_at = running_at + int(attempts.contract_seconds[attempt])
    if running_at == NEVER or over_at > board.now:
        return False
    returned = board.facts.standing[attempt] == Standing.FUNDED and over_at < segment_at <= board.now
    return int(attempts.decided_at[attempt]) >= booking.made_at or bool(returned and segment_at > booking.made_at)


def _take_on_own_hosts(trial: Trial, item: int, kept: Kept, own: frozenset[int]) -> Plan | None:
    board, contract = trial.board, trial.items.contract_seconds[item]
    asker = trial.make_asker(item)
    usual = board.pool.judge(asker)
    funded = frozenset(one for one in own if board.pool.victims[one].funded)
    licence = Licence(usual.barred - own, usual.led, usual.named | funded)
    # Later reservations on its hosts were timed by its own: a pass that comes late must not shut it out.
    later = [zone for zone, other in board.book.by_zone.items() if other.booking.at >= kept.booking.at]
    zones = tuple(dict.fromkeys((*board.book.list_open(board.ends_at(contract, taking=True)), *later)))
    shut = board.book.list_closed(zones)
    among = sorted(kept.booking.places.keys() - shut)
    board.renew_saved()
    return board.pool.find_plan(asker, licence, frozenset(range(len(board.floor.gpus))).difference(among), among)


def list_lapses(board: Board, project: int, gpus: int, plan: Plan, own: frozenset[int]) -> list[int] | None:
    """R7: just enough of what it may take lapses to make room under every burst cap; None: there is not enough."""
    pool, funds = board.pool, board.funds
    lapses: list[int] = []
    for node in board.path(project):
        gone = {*plan.victims, *lapses}
        under = [one for one in sorted(pool.funded_below.get(node, ())) if one not in gone]
        freed = sum(board.facts.gpus_of(one) for one in gone if pool.is_under(one, node))
        lack = funds.find_lack(node, gpus, board.now) - freed
        chosen = _choose_least([(one, board.facts.gpus_of(one)) for one in under if one in own], lack)
        if chosen is None:
            return None
        lapses += chosen
    return lapses


def _choose_least(candidates: list[tuple[int, int]], lack: int) -> list[int] | None:
    """Attempts with at least `lack` GPUs, largest first, without any that turns out needless."""
    chosen: list[tuple[int, int]] = []
    for one in sorted(candidates, key=lambda pair: (-pair[1], pair[0])):
        if sum(gpus for _, gpus in chosen) >= lack:
            break
        chosen.append(one)
    spare = sum(gpus for _, gpus in chosen) - lack
    if spare < 0:
        return None
    for one in sorted(chosen, key=lambda pair: pair[1]):
        if one[1] <= spare:
            spare -= one[1]
            chosen.remove(one)
    return [one for one, _ in chosen]
