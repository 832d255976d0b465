"""The working copy of one decision: what follows each start, return, lapse and taking.

The steps of `decide` move pieces here; nothing here chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scheduler.balance import Capacity, Tree, build_tree, compute_quotas, list_steps, prepare_order
from scheduler.bans import Bans, list_bans
from scheduler.book import Book, Kept
from scheduler.facts import GONE, Facts, find_allocated
from scheduler.funds import Funds
from scheduler.line import Line
from scheduler.placement import Floor, Placement
from scheduler.preemption import Clock, Pool, Victim
from scheduler.sums import AuthorUsage, Sums, count_sums
from scheduler.types import (
    NEVER,
    Action,
    BoolArray,
    Code,
    Policy,
    Release,
    Shift,
    Standing,
    reason,
)
from scheduler.usage import Window


@dataclass(slots=True)
class Board:
    """Everything that a decision changes as it goes."""

    facts: Facts
    line: Line
    policy: Policy
    now: int
    window: Window
    tree: Tree
    funds: Funds
    unallocated_usage: list[int]  # by node: GPU-seconds, unserved minimum runtimes included
    unallocated_gpus: list[int]  # by project: running or starting now
    author_usage: AuthorUsage  # charged, by (project, author), before this decision
    share_order: tuple[list[int], list[int]]
    floor: Floor
    pool: Pool
    book: Book
    started: BoolArray  # by row of Pending
    banned: frozenset[int]  # authors who take nothing now
    actions: list[Action]
    taken_for: dict[int, int] = field(default_factory=dict)  # victim index: workload id
    returned: set[int] = field(default_factory=set)  # attempts, by index, that return in this decision
    fresh: list[tuple[int, Placement, Standing, bool]] = field(default_factory=list)  # row, hosts, standing, takes
    started_of: dict[int, int] = field(default_factory=dict)  # by kind: workloads that start in this decision
    unsure: bool = False  # what was not tried, or only not at this instant, might do something a second later
    saved: set[int] = field(default_factory=set)  # attempts that would lose less than the pool knows
    tells: bool = True  # reasons to wait are asked for
    turns: int = 0  # starts and returns so far
    roomier: int = 0  # attempts taken that were charged under a burst cap
    made: list[Kept] = field(default_factory=list)  # reservations of this decision
    shifts: dict[int, Shift] = field(default_factory=dict)  # by workload: reservations that express starts moved
    too_large: dict[int, int] = field(default_factory=dict)  # row of Pending: longest contract that would do
    author_more: dict[tuple[int, int], int] = field(default_factory=dict)  # charged in this decision
    lapsed_now: set[int] = field(default_factory=set)  # made room under a cap: they don't return at once
    solvent_at: int = -1  # the version of the funds for which nothing is to lapse
    _leads_nobody: dict[int, tuple[int, int]] = field(default_factory=dict)  # by project: (version, least charge)

    def restart(self, started: BoolArray, banned: frozenset[int]) -> None:
        """Forget what the last decision chose, on a board that is kept."""
        self.actions = self.facts.actions
        self.started, self.banned = started, banned
        for chosen in (self.taken_for, self.shifts, self.too_large, self.author_more, self.started_of):
            chosen.clear()
        self.returned.clear()
        self.lapsed_now.clear()
        self.funds.asked.clear()
        self.fresh, self.made, self.unsure = [], [], False
        self.turns = self.roomier = 0

    def path(self, project: int) -> tuple[int, ...]:
        """The nodes that a project's own work is tested against and charged to, root excepted."""
        return self.tree.path_of[project]

    def author_total(self, project: int, author: int) -> int:
        """Charged usage of an author inside one project, GPU-seconds."""
        return self.author_usage.get((project, author), 0) + self.author_more.get((project, author), 0)

    def charge(self, project: int, author: int, gpu_seconds: int, gpus: int) -> None:
        """Balances and author usage follow a start or a return (R8)."""
        self.funds.charge(self.path(project), gpu_seconds, gpus)
        self.author_more[project, author] = self.author_more.get((project, author), 0) + gpu_seconds

    def charge_unallocated(self, project: int, gpu_seconds: int, gpus: int) -> None:
        """The same among unallocated work."""
        for node in self.path(project):
            self.unallocated_usage[node] += gpu_seconds
        self.unallocated_gpus[project] += gpus

    def unallocated_key(self, node: int) -> tuple[int, int]:
        """Sorts siblings by unallocated usage / share, lowest first; no share: last, as equals."""
        units, weights = self.share_order
        return (0, self.unallocated_usage[node] * units[node] // weights[node]) if weights[node] else (1, 0)

    def occupy(self, host: int, gpus: int, allocated: bool) -> None:
        """A start takes free GPUs."""
        self.floor.change(host, free=-gpus, kept=gpus if allocated else 0)
        self.pool.touch(host)

    def list_led(self, project: int, gpu_seconds: int) -> tuple[int, ...]:
        """R9 (c): branches with funded work past its minimum that the project's path leads, once charged."""
        if not self.pool.has_funded():
            return ()
        version, least = self._leads_nobody.get(project, (-1, 0))
        if version == self.funds.version and gpu_seconds >= least:
            return ()
        led: list[int] = []
        for node in self.path(project):
            others = self.pool.led_from.get(self.tree.parent[node])
            if others:
                led += self.funds.list_led(node, gpu_seconds, others, self.policy.licence_margin_ppm)
        if not led:
            self._leads_nobody[project] = self.funds.version, gpu_seconds
        return tuple(led)

    def make_victim(self, attempt: int) -> Victim:
        """The attempt as the pool knows it."""
        facts, attempts = self.facts, self.facts.attempts
        lapsed = attempts.lapsed.item(attempt) or attempts.standing.item(attempt) != Standing.UNALLOCATED
        project, priority = attempts.project.item(attempt), attempts.priority.item(attempt)
        funded = facts.standing.item(attempt) == Standing.FUNDED
        path = self.tree.path_of[project]
        gpus, places, since = facts.gpus_of(attempt), facts.places[attempt], self.saved_at(attempt)
        return Victim(attempt, project, priority, lapsed, gpus, since, self.pool.clock, places, path, funded)

    def saved_at(self, attempt: int) -> int:
        """When it last saved its progress or began to run; NEVER: it doesn't run yet."""
        attempts = self.facts.attempts
        since = attempts.running_at.item(attempt)
        return max(since, attempts.last_checkpoint_at.item(attempt)) if since != NEVER else NEVER

    def renew_saved(self) -> None:
        """Before anybody asks what an attempt would lose: what has saved its progress meanwhile loses less."""
        if not self.saved:
            return
        for attempt in self.saved:
            victim = self.pool.victims.get(attempt)
            if victim is not None:
                self.pool.renew(victim, self.saved_at(attempt))
        self.saved.clear()

    def ends_at(self, contract_seconds: int, taking: bool = False) -> int:
        """R12: by when a start now has surely run its minimum: a minute to start, the grace time if it takes."""
        grace = max(self.policy.grace_allocated_seconds, self.policy.grace_unallocated_seconds) if taking else 0
        return self.now + grace + self.policy.start_allowance_seconds + contract_seconds

    def remainder_ends_at(self, attempt: int) -> int:
        """The same for what is left of an attempt's minimum runtime."""
        running = self.facts.attempts.running_at.item(attempt) != NEVER
        left = self.remaining(attempt)
        return self.now + left if running else self.ends_at(left)

    def remaining(self, attempt: int) -> int:
        """Seconds of minimum runtime that the attempt has not served yet."""
        running_at = self.facts.attempts.running_at.item(attempt)
        served = max(self.now - running_at, 0) if running_at != NEVER else 0
        return max(self.facts.attempts.contract_seconds.item(attempt) - served, 0)


def lay_out(
    facts: Facts,
    sums: Sums | None = None,
    tree: Tree | None = None,
    started: BoolArray | None = None,
    line: Line | None = None,
    bans: Bans | None = None,
) -> Board:
    """Usage, quotas and free GPUs from the facts; `sums`, `tree`, `line` and `bans` if they are known already.

    `started`: rows of Pending that wait no longer.
    """
    snapshot, policy = facts.snapshot, facts.policy
    tree = tree or build_tree(snapshot.projects, snapshot.shares)
    window = find_window(facts.now, policy)
    sums = sums or count_sums(facts, tree, window)
    capacity = Capacity(list_steps(snapshot.capacity), window)
    funds = Funds(tree, compute_quotas(tree, capacity, policy), sums.usage, sums.allocated, sums.express)
    funds.set_limits(facts.now, policy)
    floor = _open_floor(facts)
    line = line or Line.of(facts.pending, policy)
    board = Board(
        facts=facts,
        line=line,
        policy=policy,
        now=facts.now,
        window=window,
        tree=tree,
        funds=funds,
        unallocated_usage=sums.unallocated_usage,
        unallocated_gpus=sums.unallocated_gpus,
        author_usage=sums.author_usage,
        share_order=prepare_order(tree, funds.shares),
        floor=floor,
        pool=Pool(floor, line.largest_gpus, tree.parent, Clock(facts.now, policy.lost_cap_seconds)),
        book=Book(floor, funds, policy),
        started=np.zeros(len(facts.pending.id), dtype=bool) if started is None else started,
        banned=(bans or list_bans(snapshot.takers, policy)).find_banned(facts.now),
        actions=facts.actions,
    )
    for attempt in np.flatnonzero(
        (facts.standing == Standing.UNALLOCATED) | (facts.standing == Standing.FUNDED)
    ).tolist():
        board.pool.add(board.make_victim(attempt))
    open_book(
        board, {workload: row for row, workload in enumerate(facts.pending.id.tolist()) if not board.started[row]}
    )
    return board


def find_window(now: int, policy: Policy) -> Window:
    """The lookback window that ends now."""
    return Window(now - policy.lookback_seconds, now, policy.half_life_seconds)


def open_book(board: Board, row_of: Mapping[int, int]) -> None:
    """Reservations that stand; one that has lost a host is over, and may be made anew (R12)."""
    facts = board.facts
    for booking in facts.bookings:
        lost = [host for host in sorted(booking.places) if not facts.schedulable[host]]
        if lost:
            why = reason(Code.RESERVED_HOST_LOST, host=int(facts.hosts.id[lost[0]]))
            board.actions.append(Release(booking.workload, why))
        else:
            row = row_of[booking.workload]
            pending = facts.pending
            gpus = int(pending.replicas[row] * pending.gpus_per_replica[row])
            seconds = int(pending.min_runtime_seconds[row])
            board.book.add(Kept(booking, row, board.path(int(pending.project[row])), gpus, seconds))


def _open_floor(facts: Facts) -> Floor:
    """Free GPUs of every host: what nothing occupies and nobody is waited for with.

    For an attempt that is held for, as many GPUs are kept free as its victims still there
    will not free themselves.
    """
    hosts = facts.hosts
    floor = Floor(hosts.gpus.tolist(), hosts.block.tolist(), facts.schedulable.tolist())
    occupied, kept = np.zeros(len(hosts.id), dtype=np.int64), np.zeros(len(hosts.id), dtype=np.int64)
    occupies, (row, host, gpus) = facts.standing != GONE, facts.seats
    occupies[list(facts.held)] = False
    there = occupies[row]
    np.add.at(occupied, host[there], gpus[there])
    allocated = find_allocated(facts)[row]
    np.add.at(kept, host[allocated], gpus[allocated])
    coming = _list_coming(facts)
    for attempt in facts.held:
        for place, count in facts.places[attempt].items():
            occupied[place] += max(count - coming.get((int(facts.attempts.id[attempt]), place), 0), 0)
    floor.free, floor.kept = (hosts.gpus - occupied).tolist(), kept.tolist()
    floor.free = [max(free, 0) if open_ else 0 for free, open_ in zip(floor.free, floor.schedulable, strict=True)]
    floor.index_hosts()
    return floor


def _list_coming(facts: Facts) -> dict[tuple[int, int], int]:
    """GPUs that victims will still free, by their taker's id and host."""
    coming: dict[tuple[int, int], int] = {}
    for attempt in np.flatnonzero(facts.standing == Standing.STOPPING).tolist():
        taker = int(facts.attempts.taker[attempt])
        for host, gpus in facts.places[attempt].items():
            coming[taker, host] = coming.get((taker, host), 0) + gpus
    return coming
