"""decide(facts, policy) -> Decision: one pass, as numbered steps.

Pure and deterministic: the same facts in any order give the same decision, and a decision
that was applied and is taken again at the same instant is empty.
"""

from __future__ import annotations

import gc

from scheduler.board import Board, lay_out
from scheduler.candidates import (
    find_allowed,
    find_express,
    find_fundable,
    list_booked,
    list_returns,
)
from scheduler.effects import lapse_unfunded
from scheduler.facts import read_facts, settle_time
from scheduler.placement import FREE, MOST
from scheduler.reservation import reserve_for_heads, write_orders
from scheduler.starts import ExpressTrial, Trial
from scheduler.state import State, check_facts
from scheduler.tally import Tally
from scheduler.types import Decision, Policy, Snapshot, Waits
from scheduler.unallocated import FreeTrial
from scheduler.waits import list_balances, list_waits

NO_WAITS = Waits()


def decide(state: State | Snapshot, policy: Policy, waits: bool = True) -> Decision:
    """What to do now, with a reason for every action and every wait.

    Without `waits`, as a simulation asks, neither reasons to wait nor balances are told.
    """
    # No garbage collection meanwhile: a decision makes no cycles, and looking for some took a fifth of its time.
    was = gc.isenabled()
    gc.disable()
    try:
        return _decide(state, policy, waits)
    finally:
        if was:
            if not gc.get_freeze_count():  # what was made is put among the old at once: it isn't gone through as new
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _decide(state: State | Snapshot, policy: Policy, waits: bool) -> Decision:
    # 1. End what can't go on; assign what is free; let contracts mature; empty what drains (R4, R10, R11, R15).
    # 2. Count quotas, usage and free GPUs (R1 to R3).
    if not waits and isinstance(state, State) and state.ground is not None and state.ground.stays(policy):
        return Decision(state.now, (), NO_WAITS, (), policy)
    board = _open_board(state, policy, waits)
    board.tells = waits
    # 3. Past-minimum work without balance lapses (R6).
    lapse_unfunded(board)
    # 4. Reserved workloads whose time has come (R8, R12).
    _start_reserved(board)
    # 5. Express starts, then funded starts and returns; standings and licences follow, until nothing changes (R8).
    _walk_to_rest(board)
    # 6. Hosts and times for heads that could not start (R12); who saved for them (policy) may go on.
    while reserve_for_heads(board) and policy.save_for_head:
        _walk_to_rest(board)
    # 7. Unallocated work on what is left free (R8).
    _walk_free(board)
    write_orders(board)
    # 8. Say why the others wait, and where the balances stand (R16).
    if isinstance(state, State) and state.ground is not None:
        state.ground.rest(board, bool(board.actions))
    if not waits:
        return Decision(board.now, tuple(board.actions), NO_WAITS, (), policy)
    return Decision(board.now, tuple(board.actions), list_waits(board), list_balances(board), policy)


def _open_board(state: State | Snapshot, policy: Policy, waits: bool) -> Board:
    if isinstance(state, State) and state.ground is not None:
        return state.ground.begin(policy, waits)
    if isinstance(state, Snapshot):
        check_facts(state)
    facts = read_facts(state.to_snapshot() if isinstance(state, State) else state, policy)
    settle_time(facts)
    return lay_out(facts)


def _walk_to_rest(board: Board) -> None:
    """Express starts, then funded ones, again and again, while the one makes the other possible (R8)."""
    while True:
        turns, kept, roomier = board.turns, len(board.book.by_zone), board.roomier
        _walk_express(board)
        saves = _walk_funded(board)
        licences = board.turns != turns and board.pool.has_funded() and not board.started.all()
        opened = len(board.book.by_zone) < kept  # a reservation that has started leaves its hosts to those before it
        # What was taken leaves room under its caps to work of its branch that was considered before.
        # Whom somebody saved for may be beyond its balance by now, and then nobody need save for it.
        spent = saves and board.turns != turns
        if not lapse_unfunded(board) and not licences and not opened and not spent and board.roomier == roomier:
            break


def _walk_express(board: Board) -> None:
    kinds = find_express(board, board.floor.tallies[MOST])
    if kinds:
        booked = [row for row in board.book.by_row if board.line.items.kind[row] in kinds and not board.started[row]]
        ExpressTrial(board, kinds, booked).run()


def _walk_funded(board: Board) -> bool:
    """True if work of some project wasn't considered because of a head that waits (policy)."""
    saves = board.policy.save_for_head  # a head that can't start matters, too (R12)
    tally = Tally(board.floor.gpus) if saves else board.floor.tallies[MOST]
    kinds, alone = find_fundable(board, tally), list_booked(board, tally) + list_returns(board)
    if not kinds and not alone:
        return False
    trial = Trial(board, kinds, alone)
    trial.run()
    return bool(trial.saving)


def _start_reserved(board: Board) -> None:
    """In the order in which they were made; one that can't start yet keeps its hosts."""
    for kept in list(board.book.by_zone.values()):
        if kept.booking.at <= board.now:
            Trial(board, [], [kept.row]).run()


def _walk_free(board: Board) -> None:
    free = board.floor.tallies[FREE]
    if free.largest():
        kinds = find_allowed(board, free)
        if kinds:
            FreeTrial(board, kinds).run()
