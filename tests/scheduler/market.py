"""A small cluster with more demand than GPUs, over days: who gets what, honest or not.

Passes come at a fixed interval, two at each time: what the first one stops is gone before the
second, and what is assigned runs at once. `Habit` is how one project behaves: what it submits, and what it does
when it has seen the decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduler import events, invariants
from scheduler.decide import decide
from scheduler.types import ALLOCATED, NEVER, Decision, Preempt
from tests.scheduler.world import DAY, HOUR, T0, World

Habit = Callable[["Market", str], None]

STEP = 1800
LARGEST_CONTRACT = 2 * HOUR * 8
"""GPU-seconds of the largest contract that anybody submits, unless a test says otherwise."""


class Market:
    """Three projects at 20, 40 and 30 %; the rest is the root's own and idle but for unallocated work."""

    def __init__(self, shares: dict[str, float] | None = None, hosts: int = 3, **policy: Any) -> None:
        self.world = World(hosts=hosts, **{"lookback_seconds": DAY, **policy})
        for name, percent in (shares or {"mine": 20, "other": 40, "third": 30}).items():
            self.world.project(name.split("/")[-1], percent, parent=name.split("/")[0] if "/" in name else "root")
        self.lengths: dict[int, int] = {}
        self.habits: dict[str, Habit] = {}
        self.after: dict[str, Habit] = {}
        self.preempted_for: dict[int, int] = {}  # by taker
        self.highest_ppm: dict[str, int] = {}  # most usage seen, in ppm of the quota
        self.turn = 0

    def submit(self, project: str, length: int, **more: Any) -> int:
        """A workload that runs that long if it is left alone."""
        workload = self.world.submit(project, **more)
        self.lengths[workload] = length
        return workload

    def count_waiting(self, project: str) -> int:
        """Workloads of a project that wait."""
        return int((self.world.state.pending["project"] == self.world.names[project]).sum())

    def run(self, seconds: int, step: int = STEP) -> None:
        """Passes at the interval, for that long."""
        until = self.world.now + seconds
        while self.world.now < until:
            self.turn += 1
            self.end_finished()
            self.world.free_stopped()
            for name, habit in self.habits.items():
                habit(self, name)
            self.note(decide(self.world.state, self.world.policy))
            for name, habit in self.after.items():
                habit(self, name)
            self.world.free_stopped()  # the grace time is nothing beside the interval
            self.note(decide(self.world.state, self.world.policy))
            self.world.start_all()
            self.world.wait(min(step, until - self.world.now))

    def end_finished(self) -> None:
        """What has run as long as it was to run."""
        attempts = self.world.state.attempts
        rows = [attempts.row(index) for index in range(attempts.count)]
        for row in rows:
            running = row["running_at"] != NEVER and row["stopping_at"] == NEVER
            if running and self.world.now - row["running_at"] >= self.lengths[row["workload"]]:
                events.end(self.world.state, row["id"])

    def note(self, decision: Decision) -> None:
        """Carry it out; now and then it is checked as a live one is."""
        if self.turn % 16 == 0:
            invariants.check(self.world.state, decision)
        for action in decision.actions:
            if isinstance(action, Preempt):
                self.preempted_for[action.taker] = self.preempted_for.get(action.taker, 0) + 1
        for one in decision.balances:
            name = next(name for name, number in self.world.names.items() if number + 10 == one.project)
            if not one.own and one.quota_gpu_seconds:
                used = one.usage_gpu_seconds * 1_000_000 // one.quota_gpu_seconds
                self.highest_ppm[name] = max(self.highest_ppm.get(name, 0), used)
        events.apply(self.world.state, decision)

    def charged(self, project: str, since: int = T0) -> int:
        """GPU-seconds that a project, with all below it, was charged from then on."""
        state, name = self.world.state, self.world.names[project] + 10
        rows = state.charged
        total = 0
        for index in range(rows.count):
            row = rows.row(index)
            if name in state.paths[row["path"]]:
                total += max(row["end_at"] - max(row["start_at"], since), 0) * row["gpus"]
        for index in range(state.attempts.count):
            row = state.attempts.row(index)
            under = name in state.paths[state.path_number(row["project"])]
            if under and row["standing"] in ALLOCATED and row["segment_at"] != NEVER:
                total += (self.world.now - max(row["segment_at"], since)) * row["replicas"] * row["gpus_per_replica"]
        return total


def keep_waiting(count: int = 6, gpus: int = 4, contract: int = 2 * HOUR, length: int = 4 * HOUR, **more: Any) -> Habit:
    """An honest project: always that many workloads in the queue."""

    def habit(market: Market, project: str) -> None:
        for _ in range(count - market.count_waiting(project)):
            market.submit(project, length, gpus=gpus, contract=contract, **more)

    return habit
