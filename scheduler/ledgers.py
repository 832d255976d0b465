"""Usage and GPUs in use, kept in step with every attempt's changes (R2, R3, R7).

A *claim* is what one attempt counts for at a moment: its GPUs under its project's path, the ledger
that its open segment flows into, and what is unserved of its minimum runtime. When something about
the attempt changes, its old claim is taken out and the new one put in; between changes only time
moves the sums (`meters.py`).
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from scheduler.balance import Tree
from scheduler.charges import Charges
from scheduler.facts import GONE, Facts
from scheduler.meters import Key, Meters, Path
from scheduler.sums import Sums, list_paths
from scheduler.types import NEVER, Policy, Standing

if TYPE_CHECKING:
    from scheduler.state import State

PROTECTED, FUNDED, UNALLOCATED = int(Standing.PROTECTED), int(Standing.FUNDED), int(Standing.UNALLOCATED)

CHARGED, FREE = 0, 1
"""The two ledgers: time that is charged, and unallocated time."""


class Claim:
    """What one attempt counts for, as of its last change."""

    __slots__ = (
        "allocated",
        "contract_seconds",
        "gpus",
        "key",
        "meter",
        "nodes",
        "owes",
        "running_at",
        "serving",
        "unallocated",
    )

    def __init__(self, key: Key, nodes: Path, gpus: int, contract_seconds: int) -> None:
        self.key = key  # its project and author
        self.nodes = nodes  # its path, the root included
        self.gpus = gpus
        self.contract_seconds = contract_seconds
        self.allocated = False
        self.unallocated = False
        self.meter = NEVER  # the ledger into which its open segment flows, or NEVER
        self.owes = NEVER  # the ledger to which its unserved minimum runtime belongs, or NEVER
        self.running_at = NEVER
        self.serving = False  # its minimum runtime runs down now

    def become(self, standing: int, started: bool, running_at: int) -> None:
        """Its standing is that now, and whether a segment of it is open."""
        self.allocated = standing in (PROTECTED, FUNDED)
        self.unallocated = standing == UNALLOCATED
        ledger = CHARGED if self.allocated else FREE if self.unallocated else NEVER
        self.meter = ledger if started else NEVER
        self.owes = NEVER if standing == FUNDED else ledger
        self.running_at = running_at

    def ends_at(self) -> int:
        """When it will have served its minimum runtime; NEVER: it doesn't run yet."""
        return NEVER if self.running_at == NEVER else self.running_at + self.contract_seconds

    def unserved(self, now: int) -> int:
        """GPU-seconds of its minimum runtime that are still to come."""
        served = max(now - self.running_at, 0) if self.running_at != NEVER else 0
        return self.gpus * max(self.contract_seconds - served, 0)


class Ledgers:
    """The sums of a kept state, as of its latest event or decision."""

    def __init__(self, state: State, policy: Policy, tree: Tree, facts: Facts) -> None:
        self.state, self.tree = state, tree
        self.paths = [(tree.root, *path) for path in tree.path_of]
        self.allocated, self.unallocated_gpus = [0] * len(tree.parent), [0] * len(tree.leaf_of)
        self.express = [0] * len(tree.parent)
        self.express_out: deque[tuple[int, tuple[int, ...], int]] = deque()  # (decided at, nodes, GPU-seconds)
        self.meters = (
            Meters(len(tree.parent), policy.lookback_seconds),
            Meters(len(tree.parent), policy.lookback_seconds),
        )
        self.claims: dict[int, Claim] = {}  # by attempt id
        self.unallocated = Charges(len(tree.leaf_of))  # contracts of unallocated attempts
        self._ends: list[tuple[int, int]] = []  # (end of a contract, attempt id)
        self._count_segments(facts, state.now - policy.lookback_seconds)
        self._count_express(facts)

    def sums(self) -> Sums:
        """What a board is laid out from; its lists are the board's own."""
        return Sums(
            usage=list(self.meters[CHARGED].level),
            unallocated_usage=list(self.meters[FREE].level),
            allocated=list(self.allocated),
            unallocated_gpus=list(self.unallocated_gpus),
            express=list(self.express),
            author_usage=self.meters[CHARGED],
        )

    def turn(self, number: int, row: int) -> None:
        """Something about the attempt in that row has changed, now."""
        claim = self.claims.get(number)
        if claim is None:
            claim = self.claims[number] = self._make_claim(row)
        self._turn(number, claim, row, self.state.now)

    def leave(self, number: int) -> None:
        """The attempt is over: it counts for nothing any longer."""
        self._become(number, self.claims.pop(number), GONE, False, NEVER, self.state.now)

    def _make_claim(self, row: int) -> Claim:
        """Of the attempt in that row, before it counts for anything."""
        columns = self.state.attempts.columns
        project = columns["project"].item(row)
        gpus = columns["replicas"].item(row) * columns["gpus_per_replica"].item(row)
        key = project, columns["author"].item(row)
        return Claim(key, self.paths[project], gpus, columns["contract_seconds"].item(row))

    def _turn(self, number: int, claim: Claim, row: int, since: int) -> None:
        columns = self.state.attempts.columns
        standing, running_at = columns["standing"].item(row), columns["running_at"].item(row)
        self._become(number, claim, standing, columns["segment_at"].item(row) != NEVER, running_at, since)

    def _become(self, number: int, claim: Claim, standing: int, started: bool, running_at: int, since: int) -> None:
        """Take out what the claim counted for, put in what it counts for now; a new segment counts since then."""
        now, meter, allocated, unallocated = self.state.now, claim.meter, claim.allocated, claim.unallocated
        rates, levels = [0, 0], [0, 0]  # by ledger: how much more it counts for, GPUs and GPU-seconds
        _weigh(claim, -1, now, rates, levels)
        known = claim.serving and claim.running_at == running_at
        claim.become(standing, started, running_at)
        claim.serving = claim.owes != NEVER and claim.ends_at() > now
        if claim.serving and not known:
            heappush(self._ends, (claim.ends_at(), number))
        _weigh(claim, 1, now, rates, levels)
        if claim.meter != meter:
            if meter != NEVER:
                self.meters[meter].leave(claim.nodes, claim.key, -claim.gpus, now)
            if claim.meter != NEVER:
                levels[claim.meter] += claim.gpus * (now - since)
                self.meters[claim.meter].leave(claim.nodes, claim.key, claim.gpus, since)
        for ledger, gpus, gpu_seconds in zip(self.meters, rates, levels, strict=True):
            if gpus or gpu_seconds:
                ledger.change(claim.nodes, claim.key, gpus, gpu_seconds)
        if claim.allocated != allocated:
            self._allocate(claim)
        if claim.unallocated != unallocated:
            self._count_unallocated(number, claim)

    def _allocate(self, claim: Claim) -> None:
        """Its GPUs are allocated from now on, or no longer."""
        for node in claim.nodes[1:]:
            self.allocated[node] += claim.gpus if claim.allocated else -claim.gpus

    def _count_unallocated(self, number: int, claim: Claim) -> None:
        """It is unallocated from now on, or no longer."""
        project, gpus = claim.key[0], claim.gpus
        self.unallocated_gpus[project] += gpus if claim.unallocated else -gpus
        tell = self.unallocated.add if claim.unallocated else self.unallocated.remove
        tell(project, gpus * claim.contract_seconds, number)

    def advance(self) -> None:
        """Time has passed."""
        now = self.state.now
        if now <= self.meters[0].now:
            return
        for ledger in self.meters:
            ledger.advance(now)
        while self._ends and self._ends[0][0] <= now:
            end, number = heappop(self._ends)
            claim = self.claims.get(number)
            if claim is not None and claim.serving and claim.ends_at() == end:
                claim.serving = False
                self.meters[claim.owes].turn(claim.nodes, claim.key, claim.gpus, end)
        since = now - self.meters[0].window_seconds
        while self.express_out and self.express_out[0][0] < since:
            _, nodes, gpu_seconds = self.express_out.popleft()
            for node in nodes:
                self.express[node] -= gpu_seconds

    def add_express(self, at: int, nodes: tuple[int, ...], gpu_seconds: int) -> None:
        """An express start counts from its decision on."""
        self.express_out.append((at, nodes, gpu_seconds))
        for node in nodes:
            self.express[node] += gpu_seconds

    def _count_segments(self, facts: Facts, since: int) -> None:
        """The two ledgers, first without and then with what is unserved, and their rates."""
        state, paths = self.state, list_paths(facts.snapshot, self.tree)
        index = {int(project): number for number, project in enumerate(state.projects.id)}
        for ledger, table in zip(self.meters, (state.charged, state.unallocated), strict=True):
            ledger.now = state.now
            columns = (table["path"], table["author"], table["start_at"], table["end_at"], table["gpus"])
            for number, author, start, end, gpus in zip(*(column.tolist() for column in columns), strict=True):
                first, last = max(start, since), min(end, state.now)
                if last > first:
                    whole = state.paths[number]
                    key = (index.get(whole[-1], NEVER) if whole else NEVER, author)
                    ledger.change(paths[number], key, 0, gpus * (last - first))
                    ledger.leave(paths[number], key, gpus, first)
                    ledger.leave(paths[number], key, -gpus, last)
            ledger.flow()
        for number, row in (state.attempts.row_of or {}).items():
            claim = self.claims[number] = self._make_claim(row)
            self._turn(number, claim, row, min(max(int(facts.attempts.segment_at[row]), since), state.now))
        for ledger in self.meters:
            ledger.flow()

    def _count_express(self, facts: Facts) -> None:
        paths, starts = list_paths(facts.snapshot, self.tree), self.state.express
        columns = (starts["decided_at"], starts["path"], starts["gpu_seconds"])
        for at, path, amount in sorted(zip(*(column.tolist() for column in columns), strict=True)):
            self.add_express(at, paths[path], amount)


def _weigh(claim: Claim, sign: int, now: int, rates: list[int], levels: list[int]) -> None:
    """Add what a claim counts for to the rates and levels of the ledgers, or take it out."""
    if claim.meter != NEVER:
        rates[claim.meter] += sign * claim.gpus
    if claim.owes != NEVER:
        levels[claim.owes] += sign * claim.unserved(now)
        if claim.serving:
            rates[claim.owes] -= sign * claim.gpus
