"""The working copy of one decision: what follows each start, return, lapse and taking.

The steps of `decide` move pieces here; nothing here chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scheduler.balance import Capacity, Funds, Tree, build_tree, compute_quotas, prepare_order
from scheduler.book import Book, Kept
from scheduler.facts import GONE, Facts, find_allocated
from scheduler.limits import Limits
from scheduler.placement import Floor, Placement
from scheduler.preemption import Pool, Victim, count_lost
from scheduler.state import is_allocated
from scheduler.types import (
    NEVER,
    Action,
    BoolArray,
    Code,
    IntArray,
    Policy,
    Release,
    Segments,
    Shift,
    Snapshot,
    Standing,
    reason,
)
from scheduler.usage import Rows, Window, clip_rows, measure_unserved, sum_groups, sum_paths


@dataclass(slots=True)
class Board:
    """Everything that a decision changes as it goes."""

    facts: Facts
    policy: Policy
    now: int
    window: Window
    tree: Tree
    funds: Funds
    unallocated_usage: list[int]  # by node: GPU-seconds, unserved minimum runtimes included
    unallocated_gpus: list[int]  # by project: running or starting now
    author_usage: dict[tuple[int, int], int]  # charged, by (project, author)
    charged: Rows  # clipped, for the recovery estimate
    charged_paths: list[tuple[int, ...]]
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
    turns: int = 0  # starts and returns so far
    made: list[Kept] = field(default_factory=list)  # reservations of this decision
    shifts: dict[int, Shift] = field(default_factory=dict)  # by workload: reservations that express starts moved
    too_large: dict[int, int] = field(default_factory=dict)  # row of Pending: longest contract that would do
    lapsed_now: set[int] = field(default_factory=set)  # made room under a cap: they don't return at once
    _limits: tuple[int, Limits] | None = None

    def limits(self) -> Limits:
        """What one more start may ask, at the balances as they are now."""
        if self._limits is None or self._limits[0] != self.funds.version:
            self._limits = self.funds.version, Limits(self.funds)
        return self._limits[1]

    def path(self, project: int) -> tuple[int, ...]:
        """The nodes that a project's own work is tested against and charged to, root excepted."""
        return self.tree.path_of[project]

    def author_total(self, project: int, author: int) -> int:
        """Charged usage of an author inside one project, GPU-seconds."""
        return self.author_usage.get((project, author), 0)

    def charge(self, project: int, author: int, gpu_seconds: int, gpus: int) -> None:
        """Balances and author usage follow a start or a return (R8)."""
        self.funds.charge(self.path(project), gpu_seconds, gpus)
        self.author_usage[project, author] = self.author_total(project, author) + gpu_seconds

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
        led: list[int] = []
        if self.pool.has_funded():
            for node in self.path(project):
                others = self.pool.led_from.get(self.tree.parent[node], ())
                led += self.funds.list_led(node, gpu_seconds, others, self.policy.licence_margin_ppm)
        return tuple(led)

    def make_victim(self, attempt: int) -> Victim:
        """The attempt as the pool knows it."""
        facts, attempts = self.facts, self.facts.attempts
        lost = count_lost(
            int(facts.attempt_gpus[attempt]),
            int(attempts.running_at[attempt]),
            int(attempts.last_checkpoint_at[attempt]),
            self.now,
            self.policy.lost_cap_seconds,
        )
        lapsed = bool(attempts.lapsed[attempt]) or int(attempts.standing[attempt]) != Standing.UNALLOCATED
        project, priority = int(attempts.project[attempt]), int(attempts.priority[attempt])
        funded = int(facts.standing[attempt]) == Standing.FUNDED
        path = self.tree.path_of[project]
        return Victim(attempt, project, priority, lapsed, lost, facts.places[attempt], path, funded)

    def ends_at(self, contract_seconds: int, taking: bool = False) -> int:
        """R12: by when a start now has surely run its minimum: a minute to start, the grace time if it takes."""
        grace = max(self.policy.grace_allocated_seconds, self.policy.grace_unallocated_seconds) if taking else 0
        return self.now + grace + self.policy.start_allowance_seconds + contract_seconds

    def remainder_ends_at(self, attempt: int) -> int:
        """The same for what is left of an attempt's minimum runtime."""
        running = int(self.facts.attempts.running_at[attempt]) != NEVER
        left = self.remaining(attempt)
        return self.now + left if running else self.ends_at(left)

    def remaining(self, attempt: int) -> int:
        """Seconds of minimum runtime that the attempt has not served yet."""
        running_at = int(self.facts.attempts.running_at[attempt])
        served = max(self.now - running_at, 0) if running_at != NEVER else 0
        return max(int(self.facts.attempts.contract_seconds[attempt]) - served, 0)


def lay_out(facts: Facts) -> Board:
    """Count usage, quotas and free GPUs once, from the facts."""
    snapshot, policy = facts.snapshot, facts.policy
    tree = build_tree(snapshot.projects, snapshot.shares)
    window = Window(facts.now - policy.lookback_seconds, facts.now, policy.half_life_seconds)
    paths = _list_paths(snapshot, tree)
    charged = _join_rows(facts, snapshot.charged, is_allocated(facts.attempts.standing), window)
    funds = _open_funds(facts, tree, window, charged, paths)
    floor = _open_floor(facts)
    largest = int((facts.pending.replicas * facts.pending.gpus_per_replica).max(initial=0))
    unallocated = facts.standing == Standing.UNALLOCATED
    board = Board(
        facts=facts,
        policy=policy,
        now=facts.now,
        window=window,
        tree=tree,
        funds=funds,
        unallocated_usage=_sum_unallocated(facts, tree, window, paths),
        unallocated_gpus=_sum_by_project(facts, unallocated, len(tree.leaf_of)),
        author_usage=_sum_authors(facts, charged, window),
        charged=charged,
        charged_paths=paths,
        share_order=prepare_order(tree, funds.shares),
        floor=floor,
        pool=Pool(floor, largest, tree.parent),
        book=Book(floor, funds, policy),
        started=np.zeros(len(facts.pending.id), dtype=bool),
        banned=find_banned(facts),
        actions=facts.actions,
    )
    for attempt in np.flatnonzero(unallocated | (facts.standing == Standing.FUNDED)).tolist():
        board.pool.add(board.make_victim(attempt))
    _open_book(board)
    return board


def _open_book(board: Board) -> None:
    """Reservations that stand; one that has lost a host is over, and may be made anew (R12)."""
    facts = board.facts
    row_of = {int(workload): row for row, workload in enumerate(facts.pending.id)}
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


def _list_paths(snapshot: Snapshot, tree: Tree) -> list[tuple[int, ...]]:
    """Nodes of every recorded path of ancestors, then of every project's present one.

    A project that no longer exists is left out; usage charged to a project itself counts for
    its own part, too, if it has children today.
    """
    index = {int(project): number for number, project in enumerate(snapshot.projects.id)}
    recorded = []
    for path in snapshot.paths:
        nodes = [index[project] for project in path if project in index]
        if path and path[-1] in index and tree.leaf_of[index[path[-1]]] != index[path[-1]]:
            nodes.append(tree.leaf_of[index[path[-1]]])
        recorded.append(tuple(nodes))
    present = [tuple(dict.fromkeys((tree.root, *path))) for path in tree.path_of]
    return recorded + present


def _join_rows(facts: Facts, closed: Segments, chosen: BoolArray, window: Window) -> Rows:
    """Closed segments and the open ones of the attempts chosen, cut to the window."""
    attempts = facts.attempts
    rows = np.flatnonzero(chosen & (attempts.segment_at != NEVER))
    first = len(facts.snapshot.paths)
    joined = Rows(
        np.concatenate([closed.path, first + attempts.project[rows]]),
        np.concatenate([closed.author, attempts.author[rows]]),
        np.concatenate([closed.start_at, attempts.segment_at[rows]]),
        np.concatenate([closed.end_at, np.full(len(rows), facts.now, dtype=np.int64)]),
        np.concatenate([closed.gpus, facts.attempt_gpus[rows]]),
    )
    return clip_rows(joined, window)


def _measure_unserved(facts: Facts, counted: BoolArray) -> IntArray:
    attempts = facts.attempts
    seconds = measure_unserved(attempts.contract_seconds, attempts.running_at, facts.now, counted)
    return seconds * facts.attempt_gpus


def _add_unserved(facts: Facts, tree: Tree, totals: list[int], counted: BoolArray) -> None:
    unserved = _measure_unserved(facts, counted)
    rows = np.flatnonzero(unserved)
    for project, amount in zip(facts.attempts.project[rows].tolist(), unserved[rows].tolist(), strict=True):
        for node in tree.path_of[project]:
            totals[node] += amount
        totals[tree.root] += amount


def _open_funds(facts: Facts, tree: Tree, window: Window, charged: Rows, paths: list[tuple[int, ...]]) -> Funds:
    snapshot = facts.snapshot
    steps = list(zip(snapshot.capacity.at.tolist(), snapshot.capacity.gpus.tolist(), strict=True))
    quotas = compute_quotas(tree, Capacity(steps, window), facts.policy)
    usage = sum_paths(charged, paths, len(tree.parent), window)
    counted = find_allocated(facts)
    _add_unserved(facts, tree, usage, facts.standing == Standing.PROTECTED)
    allocated, express = [0] * len(tree.parent), [0] * len(tree.parent)
    for project, gpus in enumerate(_sum_by_project(facts, counted, len(tree.leaf_of))):
        for node in tree.path_of[project]:
            allocated[node] += gpus
    starts = snapshot.express
    inside = (starts.decided_at >= window.since) & (starts.decided_at <= facts.now)
    for path, amount in zip(starts.path[inside].tolist(), starts.gpu_seconds[inside].tolist(), strict=True):
        for node in paths[path]:
            express[node] += amount
    funds = Funds(tree, quotas, usage, allocated, express)
    funds.set_limits(facts.now, facts.policy)
    return funds


def _sum_unallocated(facts: Facts, tree: Tree, window: Window, paths: list[tuple[int, ...]]) -> list[int]:
    running = facts.attempts.standing == Standing.UNALLOCATED
    rows = _join_rows(facts, facts.snapshot.unallocated, running, window)
    usage = sum_paths(rows, paths, len(tree.parent), window)
    _add_unserved(facts, tree, usage, facts.standing == Standing.UNALLOCATED)
    return usage


def _sum_by_project(facts: Facts, chosen: BoolArray, projects: int) -> list[int]:
    sums = np.zeros(projects, dtype=np.int64)
    np.add.at(sums, facts.attempts.project[chosen], facts.attempt_gpus[chosen])
    return [int(value) for value in sums]


AUTHOR_BITS = 40
"""An author's id is below 2^40, so that it fits into one number with a project's index."""


def _sum_authors(facts: Facts, charged: Rows, window: Window) -> dict[tuple[int, int], int]:
    """Usage by the project that the work was in and its author, unserved runtimes included."""
    snapshot = facts.snapshot
    index = {int(project): number for number, project in enumerate(snapshot.projects.id)}
    leaf = [index.get(path[-1], NEVER) if path else NEVER for path in snapshot.paths]
    leaf += list(range(len(snapshot.projects.id)))
    project = np.array(leaf, dtype=np.int64)[charged.path]
    packed, number = np.unique(project << AUTHOR_BITS | charged.author, return_inverse=True)
    sums = sum_groups(number, len(packed), charged, window)
    owners, people = packed >> AUTHOR_BITS, packed & ((1 << AUTHOR_BITS) - 1)
    totals = dict(zip(zip(owners.tolist(), people.tolist(), strict=True), sums, strict=True))
    attempts = facts.attempts
    unserved = _measure_unserved(facts, facts.standing == Standing.PROTECTED)
    rows = np.flatnonzero(unserved)
    columns = (attempts.project[rows].tolist(), attempts.author[rows].tolist(), unserved[rows].tolist())
    for owner, author, amount in zip(*columns, strict=True):
        totals[owner, author] = totals.get((owner, author), 0) + amount
    return totals


def _open_floor(facts: Facts) -> Floor:
    """Free GPUs of every host: what nothing occupies and nobody is waited for with.

    For an attempt that is held for, as many GPUs are kept free as its victims still there
    will not free themselves.
    """
    hosts = facts.hosts
    floor = Floor(hosts.gpus.tolist(), hosts.block.tolist(), facts.schedulable.tolist())
    occupied, kept = np.zeros(len(hosts.id), dtype=np.int64), np.zeros(len(hosts.id), dtype=np.int64)
    there = ((facts.standing != GONE) & ~facts.held)[facts.place_attempt]
    np.add.at(occupied, facts.place_host[there], facts.place_gpus[there])
    allocated = find_allocated(facts)[facts.place_attempt]
    np.add.at(kept, facts.place_host[allocated], facts.place_gpus[allocated])
    coming = _list_coming(facts)
    for attempt in np.flatnonzero(facts.held).tolist():
        for host, gpus in facts.places[attempt].items():
            occupied[host] += max(gpus - coming.get((int(facts.attempts.id[attempt]), host), 0), 0)
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


SHORT_TAKER_SECONDS = 300
SHORT_TAKERS = 3
TAKER_SPAN_SECONDS = 3600
"""R11: three takers in an hour that ended within 5 minutes and before their minimum runtime."""


def find_banned(facts: Facts) -> frozenset[int]:
    """R11: authors who take nothing now.

    For a ban span (policy) from the moment when they cancelled a taker before it started, or
    when the third of their takers in an hour had ended within 5 minutes and its contract.
    """
    takers, now = facts.snapshot.takers, facts.now
    span = facts.policy.taker_ban_seconds
    banned: set[int] = set()
    short: dict[int, list[int]] = {}
    columns = (takers.ended_at, takers.author, takers.running_at, takers.contract_seconds, takers.cancelled)
    for ended, author, running, contract, cancelled in sorted(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        if running == NEVER:
            if cancelled and now < ended + span:
                banned.add(author)
        elif ended - running < min(SHORT_TAKER_SECONDS, contract):
            recent = [at for at in short.get(author, []) if at > ended - TAKER_SPAN_SECONDS] + [ended]
            short[author] = recent
            if len(recent) >= SHORT_TAKERS and now < ended + span:
                banned.add(author)
    return frozenset(banned)
