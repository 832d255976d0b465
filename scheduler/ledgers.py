"""Usage and GPUs in use, kept in step with every attempt's changes (R2, R3, R7).

A *claim* is what one attempt counts for at a moment: its GPUs under its project's path, the ledger
that its open segment flows into, and what is unserved of its minimum runtime. When something about
the attempt changes, its old claim is taken out and the new one put in; between changes only time
moves the sums (`meters.py`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from scheduler.balance import Tree
from scheduler.charges import Charges
from scheduler.facts import Facts
from scheduler.meters import Meters
from scheduler.sums import Sums, list_paths
from scheduler.types import NEVER, Policy, Standing

if TYPE_CHECKING:
    from scheduler.state import State

PROTECTED, FUNDED, UNALLOCATED = int(Standing.PROTECTED), int(Standing.FUNDED), int(Standing.UNALLOCATED)

CHARGED, FREE = 0, 1
"""The two ledgers: time that is charged, and unallocated time."""


@dataclass(slots=True)
class Claim:
    """What one attempt counts for, as of its last change."""

    project: int
    author: int
    gpus: int
    nodes: tuple[int, ...]  # its path, the root included
    allocated: bool
    unallocated: bool
    meter: int  # 0: its open segment is charged, 1: it is unallocated, NEVER: none
    owes: int  # the ledger to which its unserved minimum runtime belongs, or NEVER
    contract_seconds: int
    running_at: int
    hosts: tuple[int, ...]
    serving: bool = False  # its minimum runtime runs down now

    def unserved(self, now: int) -> int:
        """GPU-seconds of its minimum runtime that are still to come."""
        served = max(now - self.running_at, 0) if self.running_at != NEVER else 0
        return self.gpus * max(self.contract_seconds - served, 0)


class Ledgers:
    """The sums of a kept state, as of its latest event or decision."""

    def __init__(self, state: State, policy: Policy, tree: Tree, facts: Facts, sums: Sums) -> None:
        self.state, self.tree = state, tree
        self.paths = [(tree.root, *path) for path in tree.path_of]
        self.allocated, self.unallocated_gpus = sums.allocated, sums.unallocated_gpus
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

    def turn(self, number: int, new: Claim | None) -> Claim | None:
        """The attempt's claim is another one now, or none; returns the old one."""
        old = self.claims.pop(number, None)
        if new is not None:
            self.claims[number] = new
        self._remeter(old, new)
        self._reserve(old, new, number)
        for claim, sign in ((old, -1), (new, 1)):
            if claim is not None:
                self._count_gpus(claim, sign)
        if old is not None and old.unallocated:
            self.unallocated.remove(old.project, old.gpus * old.contract_seconds, number)
        if new is not None and new.unallocated:
            self.unallocated.add(new.project, new.gpus * new.contract_seconds, number)
        return old

    def make_claim(self, row: int) -> Claim:
        """What the attempt in that row counts for."""
        columns = self.state.attempts.columns
        standing, started = columns["standing"].item(row), columns["segment_at"].item(row) != NEVER
        allocated, unallocated = standing in (PROTECTED, FUNDED), standing == UNALLOCATED
        project = columns["project"].item(row)
        return Claim(
            project=project,
            author=columns["author"].item(row),
            gpus=columns["replicas"].item(row) * columns["gpus_per_replica"].item(row),
            nodes=self.paths[project],
            allocated=allocated,
            unallocated=unallocated,
            meter=NEVER if not started else CHARGED if allocated else FREE if unallocated else NEVER,
            owes=CHARGED if standing == PROTECTED else FREE if unallocated else NEVER,
            contract_seconds=columns["contract_seconds"].item(row),
            running_at=columns["running_at"].item(row),
            hosts=tuple(self.state.places[columns["id"].item(row)]),
        )

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
            if claim is not None and claim.serving and claim.running_at + claim.contract_seconds == end:
                claim.serving = False
                self.meters[claim.owes].turn(claim.nodes, (claim.project, claim.author), claim.gpus, end)
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

    def _remeter(self, old: Claim | None, new: Claim | None) -> None:
        """The open segment: nothing to do where it goes on in the same ledger."""
        before, after = (NEVER if claim is None else claim.meter for claim in (old, new))
        if before == after:
            return
        if old is not None and before != NEVER:
            self.meters[before].close(old.nodes, (old.project, old.author), old.gpus)
        if new is not None and after != NEVER:
            self.meters[after].open(new.nodes, (new.project, new.author), new.gpus, self.state.now)

    def _reserve(self, old: Claim | None, new: Claim | None, number: int) -> None:
        """Unserved minimum runtimes."""
        now = self.state.now
        if old is not None and old.owes != NEVER:
            ledger, key = self.meters[old.owes], (old.project, old.author)
            ledger.add(old.nodes, key, -old.unserved(now))
            if old.serving:
                ledger.turn(old.nodes, key, old.gpus, now)
        if new is not None and new.owes != NEVER:
            self.meters[new.owes].add(new.nodes, (new.project, new.author), new.unserved(now))
            self._serve(number, new)

    def _serve(self, number: int, claim: Claim) -> None:
        """What runs serves its minimum runtime, second by second, until its end."""
        end = claim.running_at + claim.contract_seconds
        if claim.running_at != NEVER and end > self.state.now:
            claim.serving = True
            self.meters[claim.owes].turn(claim.nodes, (claim.project, claim.author), -claim.gpus, self.state.now)
            heappush(self._ends, (end, number))

    def _count_gpus(self, claim: Claim, sign: int) -> None:
        if claim.allocated:
            for node in claim.nodes[1:]:
                self.allocated[node] += sign * claim.gpus
        if claim.unallocated:
            self.unallocated_gpus[claim.project] += sign * claim.gpus

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
                    ledger.add(paths[number], key, gpus * (last - first))
                    ledger.leave(paths[number], key, gpus, first)
                    ledger.leave(paths[number], key, -gpus, last)
            ledger.flow()
        for number, row in (state.attempts.row_of or {}).items():
            claim = self.claims[number] = self.make_claim(row)
            if claim.meter != NEVER:
                at = min(max(int(facts.attempts.segment_at[row]), since), state.now)
                self.meters[claim.meter].open(claim.nodes, (claim.project, claim.author), claim.gpus, at)
            self._reserve(None, claim, number)
            if claim.unallocated:
                self.unallocated.add(claim.project, claim.gpus * claim.contract_seconds, number)
        for ledger in self.meters:
            ledger.flow()

    def _count_express(self, facts: Facts) -> None:
        paths, starts = list_paths(facts.snapshot, self.tree), self.state.express
        columns = (starts["decided_at"], starts["path"], starts["gpu_seconds"])
        for at, path, amount in sorted(zip(*(column.tolist() for column in columns), strict=True)):
            self.add_express(at, paths[path], amount)
