"""R1 to R16 in the simulator: the same `decide` that runs live, over a kept state.

What the portal's services do to their tables, `scheduler.events` does here. The engine's own
table of attempts is learned from the decision's actions: new attempt ids follow the order of
the starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scheduler import events, invariants
from scheduler.bookings import write_bookings
from scheduler.decide import decide
from scheduler.policy import DAY
from scheduler.simulation.gate import Gate
from scheduler.simulation.loop import Loop
from scheduler.simulation.parts import FOREVER
from scheduler.simulation.setup import HostChange, Setup
from scheduler.simulation.tree import list_leaves, list_present_shares
from scheduler.simulation.work import Attempt, Work
from scheduler.state import State
from scheduler.types import (
    NEVER,
    PPM,
    Attempts,
    Begin,
    CapacitySteps,
    Decision,
    Drain,
    EndedTakers,
    ExpressStarts,
    GiveUp,
    Hosts,
    InvariantBroken,
    Lapse,
    Mature,
    Pending,
    Placements,
    Policy,
    Preempt,
    Projects,
    Quarantine,
    Return,
    Segments,
    ShareSteps,
    Snapshot,
    Standing,
    Start,
)

EPOCH = 1000 * DAY
"""The core's time at the start of a run, so that every lookback window lies after its zero."""

FIRST_ID = 1
"""Ids of projects and hosts in the core: index + 1."""

FLAGS = ("schedulable", "resumable", "allow_unallocated", "first_start", "express", "lapsed", "cancelled", "moved")

Decide = Callable[[State, Policy, bool], Decision]


def empty(kind: Any) -> Any:
    """A table without rows."""
    return kind(**{name: np.zeros(0, dtype=bool if name in FLAGS else np.int64) for name in kind.__dataclass_fields__})


def build_state(setup: Setup, steady: bool) -> State:
    """The cluster at the start: empty hosts, budgets in force.

    `steady`: as if it had run like this before, every project having used exactly its budget in
    the lookback window. Without that all begin with a whole window's quota unused, spend it in
    the first days, and the window repeats this swing every seven days.
    """
    hosts, shares = setup.hosts, setup.shares
    since = EPOCH - setup.policy.lookback_seconds - DAY
    paths, charged = _use_budgets(setup) if steady else ((), empty(Segments))
    at = np.where(shares.at <= 0, since if steady else EPOCH, shares.at + EPOCH)
    return State(
        Snapshot(
            now=EPOCH,
            projects=Projects(
                np.arange(len(setup.projects), dtype=np.int64) + FIRST_ID,
                np.array([project.parent for project in setup.projects], dtype=np.int64),
            ),
            shares=ShareSteps(shares.project, at.astype(np.int64), shares.share_ppm, shares.burst_gpus),
            capacity=CapacitySteps(np.array([since if steady else EPOCH]), np.array([setup.gpus])),
            hosts=Hosts(
                np.arange(len(hosts.gpus), dtype=np.int64) + FIRST_ID,
                hosts.gpus.astype(np.int64),
                np.ones(len(hosts.gpus), dtype=bool),
                hosts.block.astype(np.int64),
            ),
            pending=empty(Pending),
            attempts=empty(Attempts),
            placements=empty(Placements),
            paths=paths,
            charged=charged,
            unallocated=empty(Segments),
            express=empty(ExpressStarts),
            takers=empty(EndedTakers),
            reserved=write_bookings([], []),
        )
    )


def _use_budgets(setup: Setup) -> tuple[tuple[tuple[int, ...], ...], Segments]:
    """Charged time of one window, each leaf exactly at its share, rounded to whole GPUs."""
    shares, leaves = list_present_shares(setup, 0), list_leaves(setup)
    paths = []
    for leaf in leaves:
        path, node = [], leaf
        while node != NEVER:
            path.append(node + FIRST_ID)
            node = setup.projects[node].parent
        paths.append(tuple(reversed(path)))
    count = len(leaves)
    gpus = np.array([(shares[leaf] * setup.gpus + PPM // 2) // PPM for leaf in leaves], dtype=np.int64)
    zero = np.zeros(count, dtype=np.int64)
    start = zero + EPOCH - setup.policy.lookback_seconds
    return tuple(paths), Segments(np.arange(count, dtype=np.int64), zero, start, zero + EPOCH, gpus)


class Budgets:
    """The decider of R1 to R16."""

    at_every_event = False
    reports_checkpoints = True

    def __init__(self, loop: Loop, steady: bool, take_decision: Decide = decide) -> None:
        self.loop = loop
        self.policy = loop.setup.policy
        self.state = build_state(loop.setup, steady).keep()
        self.take_decision = take_decision
        self.drained: set[int] = set()
        self.returnable: set[int] = set()  # attempts that may return (R6)
        self.gate = Gate(len(loop.setup.projects), loop.setup.project_limit_workloads)
        self.may_skip = loop.setup.skip_passes and self.policy.half_life_seconds is None
        self.steps = sorted({int(at) for at in loop.setup.shares.at if at > 0})
        self.level_from = 0  # from when on shares and capacity have been the same in the whole window
        self.decided_at = 0
        self.lapses_at: int | None = None  # as of the latest decision, once somebody has asked
        self.checked = 0

    # ------------------------------------------------ events

    def submit(self, work: Work) -> None:
        """A workload waits; one that waits again was put back by its attempt's end."""
        if self.gate.admit(work):
            self._show(work)

    def _show(self, work: Work) -> None:
        self._tell()
        row = {
            "id": work.id,
            "project": work.project,
            "author": work.user,
            "first_submit_at": work.submit_at + EPOCH,
            "queued_at": work.queued_at + EPOCH,
            "replicas": work.replicas,
            "gpus_per_replica": work.gpus_per_replica,
            "min_runtime_seconds": work.min_runtime,
            "resumable": work.resumable,
            "allow_unallocated": work.unallocated,
            "priority": work.priority,
            "first_start": True,
        }
        events.submit(self.state, row)

    def end(self, attempt: Attempt, requeue: bool) -> None:
        """The attempt occupies nothing any more."""
        self._tell()
        self.returnable.discard(attempt.number)
        events.end(self.state, attempt.number, requeue=requeue)
        follower = None if requeue else self.gate.leave(attempt.work)
        if follower is not None:
            self._show(follower)

    def checkpoint(self, attempt: Attempt, at: int) -> None:
        """Its progress was saved at that moment."""
        events.checkpoint(self.state, attempt.number, at + EPOCH)

    def change_host(self, host: int, kind: HostChange) -> None:
        """A host fails, drains or is back."""
        self._tell()
        self.level_from = self.loop.now + self.policy.lookback_seconds
        match kind:
            case HostChange.FAIL:
                events.cordon(self.state, host + FIRST_ID)
            case HostChange.DRAIN:
                events.drain(self.state, host + FIRST_ID)
            case HostChange.REPAIR if host + FIRST_ID in self.drained:
                events.drain(self.state, host + FIRST_ID, stop=True)
            case HostChange.REPAIR:
                events.cordon(self.state, host + FIRST_ID, schedulable=True)
        if kind != HostChange.FAIL:  # one that fails while it drains is repaired from both
            (self.drained.add if kind == HostChange.DRAIN else self.drained.discard)(host + FIRST_ID)

    def _tell(self) -> None:
        events.advance(self.state, self.loop.now + EPOCH)

    # ------------------------------------------------ the pass

    def decide(self, now: int) -> None:
        """One pass: decided, checked now and then, applied, and learned from."""
        self._tell()
        every = self.loop.setup.check_every
        checked = bool(every) and self.loop.decisions % every == 0
        decision = self.take_decision(self.state, self.policy, checked)
        if checked:
            invariants.check(self.state, decision)
            self.checked += 1
        self.decided_at = now
        if self.steps and (passed := [at for at in self.steps if at <= now]):
            self.level_from = max(self.level_from, passed[-1] + self.policy.lookback_seconds)
        first = self.state.next_attempt
        self.lapses_at = None
        events.apply(self.state, decision, runs_at_once=True)
        self._learn(decision, first)

    def quiet_until(self) -> int:
        """Passes that can be left out: by the core's own bound, or where nothing waits by that on lapses."""
        loop = self.loop
        if not loop.waiting and not loop.attempts and loop.setup.skip_passes:
            return FOREVER
        if not self.may_skip:
            return 0
        rest = self.state.find_rest() - EPOCH
        if loop.waiting:
            return max(rest, 0)
        if loop.holding or self.drained or self.returnable or loop.now < self.level_from:
            return max(rest, 0)
        step = next((at for at in self.steps if at > self.decided_at), FOREVER)
        return max(rest, min(self._find_lapse(), step))

    def _find_lapse(self) -> int:
        """The moment before which no project reaches balance 0, if nothing starts."""
        if self.lapses_at is None:
            self.lapses_at = self.state.now - EPOCH + self.state.find_lapse_bound()
        return self.lapses_at

    def _learn(self, decision: Decision, next_attempt: int) -> None:
        loop = self.loop
        for action in decision.actions:
            match action:
                case Start():
                    self._start(action, next_attempt)
                    next_attempt += 1
                case Preempt(attempt=number, grace_seconds=grace) | Drain(attempt=number, grace_seconds=grace):
                    self.returnable.discard(number)
                    loop.signal(loop.attempts[number], grace)
                case Begin(attempt=number):
                    loop.begin(loop.attempts[number])
                case Mature() | Lapse() | Return():
                    self._turn(action)
                case GiveUp(attempt=number, requeue=True):
                    loop.give_up(loop.attempts[number])
                case GiveUp(attempt=number) | Quarantine(attempt=number):
                    raise InvariantBroken(f"attempt {number}: hosts here are never silent and start at once")

    def _turn(self, action: Mature | Lapse | Return) -> None:
        attempt, now = self.loop.attempts[action.attempt], self.loop.now
        if attempt.work.min_runtime > 0:
            (self.returnable.add if isinstance(action, Lapse) else self.returnable.discard)(attempt.number)
        match action:
            case Mature(at=at):
                self.loop.turn(attempt, Standing.FUNDED, at - EPOCH)
            case Lapse():
                self.loop.turn(attempt, Standing.UNALLOCATED, now)
            case Return(standing=standing):
                self.loop.turn(attempt, standing, now)

    def _start(self, action: Start, number: int) -> None:
        work = self.loop.waiting[action.workload]
        places = {host - FIRST_ID: count * work.gpus_per_replica for host, count in action.placement}
        attempt = Attempt(number, work, places, self.loop.now)
        victims = [self.loop.attempts[victim] for victim in action.victims]
        self.loop.assign(attempt, action.standing, victims)
        if action.standing == Standing.UNALLOCATED and work.min_runtime > 0:
            self.returnable.add(number)
