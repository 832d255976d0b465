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

    __slots__ = ("contract_seconds", "flows", "gpus", "key", "ledger", "nodes", "owes", "running_at", "serving")

    def __init__(self, key: Key, nodes: Path, gpus: int, contract_seconds: int) -> None:
        self.key = key  # its project and author
        self.nodes = nodes  # its path, the root included
        self.gpus = gpus
        self.contract_seconds = contract_seconds
        self.ledger = NEVER  # in which it counts: CHARGED if it is allocated, FREE if unallocated, or NEVER
        self.flows = False  # a segment of it is open there
        self.owes = False  # its unserved minimum runtime counts there
        self.serving = False  # and runs down now
        self.running_at = NEVER

    def become(self, standing: int, started: bool, running_at: int, now: int) -> None:
        """Its standing is that now, and whether a segment of it is open."""
        self.ledger = CHARGED if standing in (PROTECTED, FUNDED) else FREE if standing == UNALLOCATED else NEVER
        self.flows = started and self.ledger != NEVER
        self.owes = standing in (PROTECTED, UNALLOCATED)
        self.running_at = running_at
        self.serving = self.owes and running_at != NEVER and self.ends_at() > now

    def ends_at(self) -> int:
        """When it has served its minimum runtime, once it runs."""
        return self.running_at + self.contract_seconds

    def unserved(self, now: int) -> int:
        """GPU-seconds of its minimum runtime that are still to come."""
        served = max(now - self.running_at, 0) if self.running_at != NEVER else 0
        return self.gpus * max(self.contract_seconds - served, 0)

    def owed(self, now: int) -> int:
        """Those of them that count in its ledger."""
        return self.unserved(now) if self.owes else 0

    def rate(self) -> int:
        """GPU-seconds a second by which it counts for more: what it serves it is charged for, and no longer owes."""
        return self.gpus * (self.flows - self.serving)


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
        now, old, flowed = self.state.now, claim.ledger, claim.flows
        rate, owed, served_from = claim.rate(), claim.owed(now), claim.running_at if claim.serving else NEVER
        claim.become(standing, started, running_at, now)
        if claim.serving and served_from != running_at:
            heappush(self._ends, (claim.ends_at(), number))
        new, moves, before = claim.ledger, claim.ledger != old, 0
        if flowed and (moves or not claim.flows):
            self.meters[old].leave(claim.nodes, claim.key, -claim.gpus, now)
        if claim.flows and (moves or not flowed):
            self.meters[new].leave(claim.nodes, claim.key, claim.gpus, since)
            before = claim.gpus * (now - since)
        if moves:
            self._count_gpus(number, claim, old, -claim.gpus)
            self._count_gpus(number, claim, new, claim.gpus)
            if old != NEVER:
                self.meters[old].change(claim.nodes, claim.key, -rate, -owed)
            rate = owed = 0
        if new != NEVER:
            self.meters[new].change(claim.nodes, claim.key, claim.rate() - rate, claim.owed(now) - owed + before)

    def _count_gpus(self, number: int, claim: Claim, ledger: int, gpus: int) -> None:
        """So many more are allocated, or run unallocated."""
        if ledger == CHARGED:
            for node in claim.nodes[1:]:
                self.allocated[node] += gpus
        elif ledger == FREE:
            project = claim.key[0]
            self.unallocated_gpus[project] += gpus
            tell = self.unallocated.add if gpus > 0 else self.unallocated.remove
            tell(project, claim.gpus * claim.contract_seconds, number)

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
                self.meters[claim.ledger].turn(claim.nodes, claim.key, claim.gpus, end)
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
