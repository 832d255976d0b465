"""A second reckoning of licences (R9), for `invariants`: by fractions, backwards from what was told.

The decision tells every node's usage as it leaves it; taking its charges back one by one, last
first, gives the balances that each asker met.
"""

from __future__ import annotations

from fractions import Fraction

from scheduler.balance import Capacity, Quota, Tree, build_tree, compute_quotas, list_present_shares, list_steps
from scheduler.types import ALLOCATED, NEVER, PPM, Decision, Lapse, Return, Snapshot, Standing, Start
from scheduler.usage import Window

Ask = tuple[int, int, int, int]  # (project, priority, GPU-seconds of its contract, GPUs)


class Recount:
    """Balances at each moment of a decision."""

    def __init__(self, snapshot: Snapshot, decision: Decision, kept: dict[int, set[int]]) -> None:
        self.snapshot, self.decision, self.kept = snapshot, decision, kept
        self.tree: Tree = build_tree(snapshot.projects, snapshot.shares)
        policy, now = decision.policy, snapshot.now
        window = Window(now - policy.lookback_seconds, now, policy.half_life_seconds)
        steps = list_steps(snapshot.capacity)
        self.quotas: list[Quota] = compute_quotas(self.tree, Capacity(steps, window), policy)
        self.shares = list_present_shares(self.tree, now)
        told = {(one.project, one.own): one.usage_gpu_seconds for one in decision.balances}
        ids = snapshot.projects.id
        self.usage = [
            told[int(ids[self.tree.project_of[node]]), self.tree.is_own(node)] for node in range(len(self.tree.parent))
        ]
        self.row = {int(number): row for row, number in enumerate(snapshot.attempts.id)}

    def find_unlicensed(self, asks: dict[int, Ask]) -> tuple[int, int] | None:
        """(workload, victim) of a funded victim for which its asker had no licence (b) or (c)."""
        for action in reversed(self.decision.actions):
            if isinstance(action, Start):
                project, _, contract, _ = asks[action.workload]
                if action.standing == Standing.PROTECTED:
                    self._charge(project, -contract)
                free = self.kept.get(action.workload, set())
                asked = [one for one in action.victims if one not in free]
                wrong = [one for one in asked if not self._licensed(one, asks[action.workload])]
                if wrong:
                    return action.workload, wrong[0]
            elif isinstance(action, Return):
                self._charge(self._project(action.attempt), -self._left(action.attempt))
        return None

    def _project(self, attempt: int) -> int:
        return int(self.snapshot.attempts.project[self.row[attempt]])

    def _left(self, attempt: int) -> int:
        attempts, row = self.snapshot.attempts, self.row[attempt]
        running_at = int(attempts.running_at[row])
        served = max(self.snapshot.now - running_at, 0) if running_at != NEVER else 0
        left = max(int(attempts.contract_seconds[row]) - served, 0)
        return left * int(attempts.replicas[row] * attempts.gpus_per_replica[row])

    def _charge(self, project: int, gpu_seconds: int) -> None:
        for node in self.tree.path_of[project]:
            self.usage[node] += gpu_seconds

    def _licensed(self, victim: int, ask: Ask) -> bool:
        attempts, row = self.snapshot.attempts, self.row[victim]
        lapsing = any(isinstance(one, Lapse) and one.attempt == victim for one in self.decision.actions)
        if lapsing or int(attempts.standing[row]) not in ALLOCATED:
            return True  # R9 (a) is looked at by invariant 3
        project, priority, contract, gpus = ask
        if int(attempts.project[row]) == project:
            return int(attempts.priority[row]) < priority
        counted = max(contract, gpus * self.decision.policy.licence_floor_seconds)
        mine, other = self._part(project, int(attempts.project[row]))
        margin = Fraction(self.decision.policy.licence_margin_ppm, PPM)
        return self._balance(mine, counted) - self._balance(other, 0) >= margin

    def _part(self, one: int, other: int) -> tuple[int, int]:
        """The nodes at which two projects' paths part."""
        pairs = zip(self.tree.path_of[one], self.tree.path_of[other], strict=False)
        return next((mine, theirs) for mine, theirs in pairs if mine != theirs)

    def _balance(self, node: int, charge: int) -> Fraction:
        top, bottom = self.quotas[node]
        if top == 0 or self.shares[node] == 0:
            return Fraction(-(1 << 62))
        return 1 - Fraction((self.usage[node] + charge) * bottom, top)
