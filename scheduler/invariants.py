"""What must hold of every decision before a row is written. Shares no code with the walks.

`check` raises InvariantBroken naming the invariant, by its number below, and the ids.

1. A workload starts at most once, and only if it waits or was given up for a lost host.
2. A gang is placed whole, on schedulable hosts, and no host is over-committed, even if no
   victim frees more than what it has there (R10, R13).
3. Victims are unallocated, or funded and licensed at the balances that the asker met; not
   stopping, taken once, as whole gangs, by a funded start of this decision; nobody takes lapsed
   work of its own project of like or higher priority, unless express (R9).
4. Without any one of its victims the asking gang would not fit where it is placed.
5. A charged start or return leaves every project on its path within its limits: burst cap,
   overdraw, share now above 0 (R7).
6. Standings change only as R4 to R6 allow.
7. Every pending workload starts or has exactly one reason to wait (R16).
8, 9. Reservations: see `promises` (R12).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from scheduler.balance import Capacity, Tree, build_tree, compute_quotas, list_present_shares, list_steps, value_at
from scheduler.promises import check_promises, list_kept_licences
from scheduler.recount import Ask, Recount
from scheduler.state import State
from scheduler.types import (
    ALLOCATED,
    NEVER,
    PPM,
    Decision,
    Drain,
    GiveUp,
    InvariantBroken,
    Lapse,
    Mature,
    Preempt,
    Quarantine,
    Return,
    Snapshot,
    Standing,
    Start,
)
from scheduler.usage import Window


def check(state: State | Snapshot, decision: Decision) -> None:
    """Raise InvariantBroken if the decision must not be applied to these facts."""
    _Check(state.to_snapshot() if isinstance(state, State) else state, decision).run()


class _Check:
    def __init__(self, snapshot: Snapshot, decision: Decision) -> None:
        self.snapshot, self.decision, self.policy = snapshot, decision, decision.policy
        self.attempt = {int(number): row for row, number in enumerate(snapshot.attempts.id)}
        self.pending = {int(number): row for row, number in enumerate(snapshot.pending.id)}
        self.host = {int(number): row for row, number in enumerate(snapshot.hosts.id)}
        self.starts = [action for action in decision.actions if isinstance(action, Start)]
        self.taken = {action.attempt: action for action in decision.actions if isinstance(action, Preempt)}
        self.given_up = {action.attempt: action for action in decision.actions if isinstance(action, GiveUp)}
        self.requeued = {
            int(snapshot.attempts.workload[self.attempt[number]]): self.attempt[number]
            for number, action in self.given_up.items()
            if action.requeue
        }
        self.kept = list_kept_licences(snapshot)  # R12
        self.sits: list[dict[int, int]] = [{} for _ in self.attempt]
        rows = snapshot.placements
        gpus = snapshot.attempts.gpus_per_replica[rows.attempt] * rows.replicas
        for row, host, count in zip(rows.attempt.tolist(), rows.host.tolist(), gpus.tolist(), strict=True):
            self.sits[row][host] = self.sits[row].get(host, 0) + count

    def run(self) -> None:
        self.check_started_once()
        self.check_room()
        self.check_victims()
        self.check_need()
        self.check_funds()
        self.check_standings()
        self.check_waits()
        check_promises(self.snapshot, self.decision)

    def shape(self, start: Start) -> tuple[int, int, int, int]:
        """(replicas, GPUs of each, project, priority) of what starts."""
        if start.workload in self.pending:
            table, row = self.snapshot.pending, self.pending[start.workload]
            return (
                int(table.replicas[row]),
                int(table.gpus_per_replica[row]),
                int(table.project[row]),
                int(table.priority[row]),
            )
        held, row = self.snapshot.attempts, self.requeued[start.workload]
        return int(held.replicas[row]), int(held.gpus_per_replica[row]), int(held.project[row]), int(held.priority[row])

    def check_started_once(self) -> None:
        for workload, times in Counter(start.workload for start in self.starts).items():
            if times > 1:
                raise InvariantBroken(f"1: workload {workload} starts {times} times")
            if workload not in self.pending and workload not in self.requeued:
                raise InvariantBroken(f"1: workload {workload} starts but does not wait")

    def check_room(self) -> None:
        quarantined = {self.host[a.host] for a in self.decision.actions if isinstance(a, Quarantine)}
        room = self._count_room()
        before = list(room)
        for start in self.starts:
            replicas, gpus, _, _ = self.shape(start)
            if sum(count for _, count in start.placement) != replicas:
                raise InvariantBroken(f"2: workload {start.workload} is not placed whole")
            for host_id, count in start.placement:
                host = self.host[host_id]
                if not self.snapshot.hosts.schedulable[host] or host in quarantined:
                    raise InvariantBroken(f"2: workload {start.workload} is placed on closed host {host_id}")
                room[host] -= max(count * gpus - self._count_coming(start, host), 0)
        for host_id, host in self.host.items():
            if room[host] < min(before[host], 0):
                raise InvariantBroken(f"2: host {host_id} is over-committed by {-room[host]} GPUs")

    def _count_room(self) -> list[int]:
        """By host: GPUs that nothing occupies and nobody waits for, before the starts of this decision."""
        room: list[int] = self.snapshot.hosts.gpus.tolist()
        for number, row in self.attempt.items():
            if not (number in self.given_up and self.given_up[number].requeue):
                for host, gpus in self._occupies(number, row):
                    room[host] -= gpus
        return room

    def _count_coming(self, start: Start, host: int, without: int = NEVER) -> int:
        """GPUs that the victims of a start free on a host."""
        return sum(self.sits[self.attempt[one]].get(host, 0) for one in start.victims if one != without)

    def _occupies(self, number: int, row: int) -> list[tuple[int, int]]:
        """GPUs that nobody else may use; of a held attempt: those that no victim will free for it."""
        attempts = self.snapshot.attempts
        if int(attempts.segments_at[row]) != NEVER:
            return list(self.sits[row].items())
        victims = np.flatnonzero(attempts.taker == number).tolist()
        return [
            (host, max(gpus - sum(self.sits[victim].get(host, 0) for victim in victims), 0))
            for host, gpus in self.sits[row].items()
        ]

    def check_victims(self) -> None:
        named = Counter(victim for start in self.starts for victim in start.victims)
        if set(named) != set(self.taken) or any(times > 1 for times in named.values()):
            raise InvariantBroken("3: preempted attempts and victims named by starts differ")
        lapsing = {action.attempt for action in self.decision.actions if isinstance(action, Lapse)}
        attempts = self.snapshot.attempts
        for start in self.starts:
            if start.victims and start.standing != Standing.PROTECTED:
                raise InvariantBroken(f"3: unallocated workload {start.workload} preempts")
            _, _, project, priority = self.shape(start)
            for victim in start.victims:
                row = self.attempt[victim]
                if not self._past_minimum(row) or int(attempts.standing[row]) == Standing.STOPPING:
                    raise InvariantBroken(f"3: attempt {victim} is taken but is protected or stopping")
                lapsed = victim in lapsing or bool(attempts.lapsed[row])
                own = int(attempts.project[row]) == project and int(attempts.priority[row]) >= priority
                kept = victim in self.kept.get(start.workload, ())
                if lapsed and own and not start.express and not kept:
                    raise InvariantBroken(f"3: workload {start.workload} takes its own project's attempt {victim}")
                if self.taken[victim].taker != start.workload:
                    raise InvariantBroken(f"3: attempt {victim} is taken for another workload")

        recount = Recount(self.snapshot, self.decision, self.kept) if self.taken else None
        if recount and (wrong := recount.find_unlicensed(self._list_asks())):
            raise InvariantBroken(f"3: workload {wrong[0]} takes attempt {wrong[1]} without a licence")

    def _past_minimum(self, row: int) -> bool:
        attempts, running_at = self.snapshot.attempts, int(self.snapshot.attempts.running_at[row])
        over = running_at != NEVER and running_at + int(attempts.contract_seconds[row]) <= self.snapshot.now
        return int(attempts.standing[row]) != Standing.PROTECTED or over

    def _list_asks(self) -> dict[int, Ask]:
        asks = {}
        for start in self.starts:
            replicas, gpus, project, priority = self.shape(start)
            asks[start.workload] = project, priority, replicas * gpus * self._contract(start), replicas * gpus
        return asks

    def _contract(self, start: Start) -> int:
        if start.workload in self.pending:
            return int(self.snapshot.pending.min_runtime_seconds[self.pending[start.workload]])
        return int(self.snapshot.attempts.contract_seconds[self.requeued[start.workload]])

    def check_need(self) -> None:
        room = self._count_room()
        for start in self.starts:
            gpus = self.shape(start)[1]
            needed = {self.host[host]: count * gpus for host, count in start.placement}
            for victim in start.victims:
                if all(room[host] + self._count_coming(start, host, victim) >= asked for host, asked in needed.items()):
                    raise InvariantBroken(f"4: attempt {victim} is taken for nothing")
            for host, asked in needed.items():
                room[host] -= max(asked - self._count_coming(start, host), 0)

    # ------------------------------------------------ budgets

    def check_funds(self) -> None:
        """A second reckoning of burst caps, and of shares, for what this decision charges."""
        if not any(start.standing == Standing.PROTECTED for start in self.starts) and not any(
            isinstance(action, Return) for action in self.decision.actions
        ):
            return
        tree = build_tree(self.snapshot.projects, self.snapshot.shares)
        allocated, shares = self._count_allocated(tree), list_present_shares(tree, self.snapshot.now)
        judged_now = self._list_charged(kept=False)
        for project in judged_now | self._list_charged(kept=True):
            for node in tree.path_of[project]:
                # The funding of a reservation was judged when it was made, and is kept (R12).
                self._check_node(tree, node, allocated[node], shares[node] == 0 and project in judged_now)
        self._check_overdraw(tree)

    def _list_charged(self, kept: bool) -> set[int]:
        """Projects of charged starts, of those with a reservation or of all others and of returns."""
        started = [start for start in self.starts if start.standing == Standing.PROTECTED]
        charged = {self.shape(start)[2] for start in started if (start.workload in self.kept) == kept}
        returns = [action.attempt for action in self.decision.actions if isinstance(action, Return) and not kept]
        return charged | {int(self.snapshot.attempts.project[self.attempt[number]]) for number in returns}

    def _count_allocated(self, tree: Tree) -> list[int]:
        """GPUs allocated by node, as this decision leaves them."""
        attempts, standing = self.snapshot.attempts, self._list_standings()
        allocated = [0] * len(tree.parent)
        for number, row in self.attempt.items():
            if standing[number] in ALLOCATED:
                for node in tree.path_of[int(attempts.project[row])]:
                    allocated[node] += int(attempts.replicas[row] * attempts.gpus_per_replica[row])
        for start in self.starts:
            if start.standing == Standing.PROTECTED:
                replicas, gpus, project, _ = self.shape(start)
                for node in tree.path_of[project]:
                    allocated[node] += replicas * gpus
        return allocated

    def _list_standings(self) -> dict[int, int]:
        """By attempt id, as this decision leaves them."""
        standing = {number: int(self.snapshot.attempts.standing[row]) for number, row in self.attempt.items()}
        for action in self.decision.actions:
            match action:
                case Lapse(attempt=number):
                    standing[number] = Standing.UNALLOCATED
                case Return(attempt=number):
                    standing[number] = Standing.PROTECTED
                case GiveUp(attempt=number) | Preempt(attempt=number) | Drain(attempt=number):
                    standing[number] = Standing.STOPPING
        return standing

    def _check_node(self, tree: Tree, node: int, allocated: int, missing: bool) -> None:
        project = int(self.snapshot.projects.id[tree.project_of[node]])
        if missing:
            raise InvariantBroken(f"5: project {project} has no share now and is charged")
        cap = value_at(tree.burst_steps[node], self.snapshot.now, before=NEVER)
        if cap != NEVER and allocated > cap:
            raise InvariantBroken(f"5: project {project} has {allocated} GPUs allocated, burst cap {cap}")

    def _check_overdraw(self, tree: Tree) -> None:
        """No project that a funded start is charged to is left below the overdraw limit."""
        policy, now = self.policy, self.snapshot.now
        window = Window(now - policy.lookback_seconds, now, policy.half_life_seconds)
        steps = list_steps(self.snapshot.capacity)
        quotas = compute_quotas(tree, Capacity(steps, window), policy)
        told = {(one.project, one.own): one.usage_gpu_seconds for one in self.decision.balances}
        express = Counter[int]()
        for start in self.starts:
            if start.express or start.workload in self.kept:  # funded already, or by another rule
                express.update(tree.path_of[self.shape(start)[2]])
        for start in self.starts:
            usual = start.standing == Standing.PROTECTED and not start.express and start.workload not in self.kept
            for node in tree.path_of[self.shape(start)[2]] if usual else ():
                top, bottom = quotas[node]
                name = int(self.snapshot.projects.id[tree.project_of[node]])
                used = told[name, tree.is_own(node)]
                if node not in express and used * PPM * bottom > (PPM + policy.overdraw_limit_ppm) * top:
                    raise InvariantBroken(f"5: project {name} is charged {used} GPU-seconds, beyond its overdraw limit")

    # ------------------------------------------------ standings and waits

    def check_standings(self) -> None:
        attempts, now = self.snapshot.attempts, self.snapshot.now
        matured = {action.attempt for action in self.decision.actions if isinstance(action, Mature)}
        for action in self.decision.actions:
            if not isinstance(action, Mature | Lapse | Return | Drain):
                continue
            row = self.attempt[action.attempt]
            standing, running_at = int(attempts.standing[row]), int(attempts.running_at[row])
            over = running_at != NEVER and running_at + int(attempts.contract_seconds[row]) <= now
            match action:
                case Mature():
                    right = standing == Standing.PROTECTED and over
                case Lapse():
                    right = standing == Standing.FUNDED or action.attempt in matured
                case Drain():
                    emptying = set(np.flatnonzero(np.isin(self.snapshot.hosts.id, self.snapshot.draining)).tolist())
                    right = standing in (Standing.FUNDED, Standing.UNALLOCATED) or action.attempt in matured
                    right = right and not emptying.isdisjoint(self.sits[row])
                case Return():
                    right = standing == Standing.UNALLOCATED and (action.standing == Standing.FUNDED) == over
                    right = right and action.attempt not in self.taken and int(attempts.contract_seconds[row]) > 0
            if not right:
                raise InvariantBroken(f"6: attempt {action.attempt}: {type(action).__name__} is not allowed")

    def check_waits(self) -> None:
        waiting = Counter(self.decision.waits.workload)
        started = {start.workload for start in self.starts}
        for workload in self.pending.keys() | self.requeued.keys():
            if waiting[workload] + (workload in started) != 1:
                raise InvariantBroken(f"7: workload {workload} has {waiting[workload]} reasons to wait")
