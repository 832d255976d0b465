"""From when on GPUs are certain to be free, or takeable by one asker (R12).

Certain are the ends of minimum runtimes, of grace times and of earlier reservations' contracts;
that work ends early, or that balances change, is a guess and counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.board import Board
from scheduler.placement import ROOM
from scheduler.preemption import Asker
from scheduler.state import is_allocated
from scheduler.tally import Tally
from scheduler.types import NEVER, Attempts, BoolArray, IntArray, Standing

Terms = tuple[int, int, tuple[int, ...]]
"""(project, priority, branches led): askers alike in these have like claims."""

NOT_EVER = 1 << 60
"""Later than any moment: the asker has no claim on these GPUs."""


@dataclass(frozen=True, slots=True, eq=False)
class Holds:
    """What holds GPUs: a row for each gang and host."""

    host: IntArray
    gpus: IntArray
    until_at: IntArray  # the end of its minimum runtime, or of its grace time
    project: IntArray
    priority: IntArray
    workload: IntArray
    leaving: BoolArray  # it goes by itself
    allocated: BoolArray
    lapsed: BoolArray


def list_led(board: Board, project: int, gpu_seconds: int) -> list[int]:
    """R9 (c): every branch that the project's path leads by the margin, once charged, where the paths part."""
    funds, tree, margin = board.funds, board.tree, board.policy.licence_margin_ppm
    led: list[int] = []
    for node in board.path(project):
        led += funds.list_led(node, gpu_seconds, tree.children[tree.parent[node]], margin)
    return led


class Timeline:
    """The holds of a cluster as one decision leaves them so far, and what an asker can count on."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.holds = _gather_holds(board)
        self.free = np.array(board.floor.free, dtype=np.int64)
        self.below = board.tree.list_below()
        self._claims: dict[Terms, IntArray] = {}
        self._takeable: dict[tuple[int, Terms], tuple[IntArray, IntArray]] = {}  # by node: (from when, GPUs until then)
        self._ever: dict[tuple[Terms, int], Tally] = {}  # with the number of reservations

    def find_claims(self, asker: Asker) -> IntArray:
        """For every hold: from when on the asker may count on its GPUs; NOT_EVER without a licence (R9)."""
        terms = asker.project, asker.priority, asker.led
        claims = self._claims.get(terms)
        if claims is None:
            claims = self._claims[terms] = self._find_claims(asker)
        return claims

    def could_hold(self, asker: Asker) -> bool:
        """Whether the whole gang would be certain to fit sooner or later."""
        return self.count_ever(asker).count_slots(asker.gpus) >= asker.replicas

    def count_ever(self, asker: Asker) -> Tally:
        """Hosts by the GPUs that are certain for the asker sooner or later."""
        name = (asker.project, asker.priority, asker.led), len(self.board.book.by_zone)
        ever = self._ever.get(name)
        if ever is None:
            room = self.count_room(NOT_EVER - 1, self.find_claims(asker), self.find_open(asker))
            ever = self._ever[name] = Tally(room.tolist())
        return ever

    def find_takeable(self, node: int, gpus: int, asker: Asker) -> int | None:
        """From when on the asker may take so many GPUs of allocated work below the node; None: never."""
        terms = asker.project, asker.priority, asker.led
        known = self._takeable.get((node, terms))
        if known is None:
            holds, claims = self.holds, self.find_claims(asker)
            under = np.isin(holds.project, self.below[node]) & holds.allocated & (claims < NOT_EVER)
            order = np.argsort(claims[under], kind="stable")
            known = self._takeable[node, terms] = claims[under][order], np.cumsum(holds.gpus[under][order])
        enough = int(np.searchsorted(known[1], gpus))
        return int(known[0][enough]) if enough < len(known[0]) else None

    def _find_claims(self, asker: Asker) -> IntArray:
        holds = self.holds
        own = holds.project == asker.project
        led = np.zeros(len(self.board.tree.leaf_of), dtype=bool)
        led[[project for node in asker.led for project in self.below.get(node, ())]] = True
        barred = holds.lapsed & own & (holds.priority >= asker.priority)
        licensed = np.where(holds.allocated, led[holds.project] | (own & (holds.priority < asker.priority)), ~barred)
        return np.where(holds.leaving | licensed, np.maximum(holds.until_at, self.board.now), NOT_EVER)

    def find_open(self, asker: Asker) -> IntArray:
        """For every host: from when on no earlier reservation keeps it from this asker."""
        board, policy = self.board, self.board.policy
        open_at = np.full(len(self.free), board.now, dtype=np.int64)
        for kept in board.book.by_zone.values():
            project = int(board.facts.pending.project[kept.row])
            over = kept.ends_at + policy.start_allowance_seconds + policy.grace_allocated_seconds
            led = any(project in self.below.get(node, ()) for node in asker.led)
            hosts = list(kept.booking.places)
            open_at[hosts] = np.maximum(open_at[hosts], over if led else NOT_EVER)
        return open_at

    def count_room(self, moment: int, claims: IntArray, open_at: IntArray) -> IntArray:
        """GPUs of every host that are certain at that moment."""
        room = np.where(open_at <= moment, self.free, 0)
        usable = (claims <= moment) & (open_at[self.holds.host] <= moment)
        np.add.at(room, self.holds.host[usable], self.holds.gpus[usable])
        return room

    def find_earliest(self, asker: Asker, claims: IntArray, open_at: IntArray) -> int | None:
        """The first moment at which the whole gang is certain to fit, by bisection; None: never."""
        if not self.could_hold(asker):
            return None
        moments = np.maximum(claims, open_at[self.holds.host])
        moments = np.unique(np.concatenate([moments, open_at]))
        moments = moments[moments < NOT_EVER]
        low, high = 0, len(moments)
        while low < high:
            middle = (low + high) // 2
            room = self.count_room(int(moments[middle]), claims, open_at)
            if int((room // asker.gpus).sum()) >= asker.replicas:
                high = middle
            else:
                low = middle + 1
        return int(moments[low]) if low < len(moments) else None


def _gather_holds(board: Board) -> Holds:
    rows: list[tuple[int, ...]] = []
    for one, host, spare in _list_spare(board):
        rows.append((host, spare, _find_gone_at(board, one), 0, 0, NEVER, 1, 0, 0))
    for row, placement, standing, takes in board.fresh:
        rows += _hold_of_start(board, row, placement, standing, takes)
    table = np.concatenate([np.array(rows, dtype=np.int64).reshape(len(rows), 9).T, _holds_of_attempts(board)], axis=1)
    return Holds(*table[:6], *(column.astype(bool) for column in table[6:]))


def _list_spare(board: Board) -> list[tuple[int, int, int]]:
    """(attempt, host, GPUs): what stops leaves so many there that nobody waits for, where they can be used."""
    facts, attempts = board.facts, board.facts.attempts
    stopping = np.flatnonzero(facts.standing == Standing.STOPPING).tolist()
    needed = _list_needed(board) if stopping else {}
    coming: dict[tuple[int, int], int] = {}  # GPUs still to be freed, by the workload that waits for them and host
    found = []
    for one in stopping:
        taker = board.taken_for[one] if one in board.taken_for else _find_workload(attempts, int(attempts.taker[one]))
        for host, gpus in facts.places[one].items():
            coming[taker, host] = coming.get((taker, host), 0) + gpus
            spare = min(gpus, max(coming[taker, host] - needed.get((taker, host), 0), 0))
            if spare and facts.schedulable[host]:
                found.append((one, host, spare))
    return found


def count_for_all(board: Board) -> Tally:
    """GPUs of every host that no reservation keeps which everybody can count on, sooner or later, without a licence.

    They are free, or unallocated work has them, or they are left by what stops: as `Timeline.could_hold` counts
    for an asker that is barred from nothing (R9 a) and can take nothing that is allocated.
    """
    floor, room = board.floor, board.floor.tallies[ROOM].copy()
    sizes: dict[int, int] = {}  # of the hosts that are other than the floor has them
    for _, host, spare in _list_spare(board):
        sizes[host] = sizes.get(host, floor.free[host] + floor.takeable[host]) + spare
    sizes.update(dict.fromkeys(board.book.list_hosts(), 0))
    for host, size in sizes.items():
        room.move(floor.free[host] + floor.takeable[host], size)
    return room


def find_allocated_below(board: Board, priority: IntArray) -> BoolArray:
    """Projects whose allocated work, or some of it, has a lower priority than is given here for them (R9 b)."""
    facts, pending = board.facts, board.facts.pending
    found = np.zeros(len(priority), dtype=bool)
    lower = facts.attempts.priority < priority[facts.attempts.project]
    if lower.any():
        found[facts.attempts.project[lower & is_allocated(facts.standing)]] = True
    for row in [row for row, _, standing, _ in board.fresh if standing != Standing.UNALLOCATED]:
        project = pending.project.item(row)
        found[project] |= pending.priority.item(row) < priority.item(project)
    return found


def _find_gone_at(board: Board, attempt: int) -> int:
    """When what is told to stop is certain to be gone: at the end of its grace time.

    Past that its GPUs are still not free (R11): certain is only that its host has said so when the
    silence limit ends, or is unhealthy then and counted on by nobody.
    """
    attempts, policy, now = board.facts.attempts, board.policy, board.now
    if int(attempts.stopping_at[attempt]) == NEVER:  # told to stop in this decision
        return now + policy.grace_allocated_seconds
    killed_at = int(attempts.stopping_at[attempt]) + int(attempts.grace_seconds[attempt])
    return killed_at if killed_at > now else killed_at + policy.silence_seconds


def _find_workload(attempts: Attempts, number: int) -> int:
    """The workload of an attempt by its id; NEVER without one. Attempts are sorted by id."""
    row = int(np.searchsorted(attempts.id, number))
    return int(attempts.workload[row]) if row < len(attempts.id) and int(attempts.id[row]) == number else NEVER


def _list_needed(board: Board) -> dict[tuple[int, int], int]:
    """GPUs that held attempts and starts of this decision wait for, by workload id and host."""
    facts, needed = board.facts, {}
    for one in facts.held:
        for host, gpus in facts.places[one].items():
            needed[int(facts.attempts.workload[one]), host] = gpus
    for row, placement, _, takes in board.fresh:
        for host, replicas in placement if takes else ():
            needed[int(facts.pending.id[row]), host] = replicas * int(facts.pending.gpus_per_replica[row])
    return needed


def _holds_of_attempts(board: Board) -> IntArray:
    """What holds or occupies GPUs and is not stopping: one column for each attempt and host."""
    facts, attempts, policy = board.facts, board.facts.attempts, board.policy
    there = ((facts.standing > 0) & (facts.standing != Standing.STOPPING))[facts.seats[0]]
    there &= facts.schedulable[facts.seats[1]]
    one, host, gpus = facts.seats[:, there]
    standing, running_at, contract = facts.standing[one], attempts.running_at[one], attempts.contract_seconds[one]
    allocated = is_allocated(standing)
    began = attempts.segments_at[one]
    began = np.where(began != NEVER, began, board.now + policy.grace_allocated_seconds)
    starting = np.maximum(began, board.now) + policy.start_allowance_seconds + contract
    until = np.where(running_at != NEVER, running_at + contract, starting)
    until = np.where(standing == Standing.PROTECTED, until, board.now)
    lapsed = allocated | attempts.lapsed[one] | (attempts.standing[one] != Standing.UNALLOCATED)
    numbers = attempts.project[one], attempts.priority[one], attempts.workload[one]
    return np.stack([host, gpus, until, *numbers, np.zeros(len(one), dtype=np.int64), allocated, lapsed])


def _hold_of_start(
    board: Board, row: int, placement: tuple[tuple[int, int], ...], standing: Standing, takes: bool
) -> list[tuple[int, ...]]:
    pending = board.facts.pending
    allocated = standing != Standing.UNALLOCATED
    until = board.ends_at(int(pending.min_runtime_seconds[row]), takes) if allocated else board.now
    numbers = until, int(pending.project[row]), int(pending.priority[row]), int(pending.id[row])
    gpus = int(pending.gpus_per_replica[row])
    return [(host, replicas * gpus, *numbers, 0, int(allocated), 0) for host, replicas in placement]
