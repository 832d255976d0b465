"""The old world in the simulator: `scheduler.priority`, and what people did under it.

The habits, each as Ai2's account of its old scheduler and others' describe them; their numbers are
ours and are round:

- Inflation: everyone begins at NORMAL. Who has waited over 2 h for a start, or was preempted,
  submits one level higher from then on; who is at HIGH already opts out of preemption. Nobody goes
  back: levels cost nothing.
- Squatting: who has waited over 2 h for more than a debug workload keeps the GPUs after the work
  is done, three times in ten, for 4 h on average and 12 h at most: giving them back means queueing
  again. They are occupied, and idle; the report counts them.
- Debug workloads are like any other.

Habits are drawn from a generator of their own, so that the work itself stays the same.
"""

from __future__ import annotations

import numpy as np

from scheduler.priority import HIGH, NORMAL, Ask, Choice, Desk, Holder
from scheduler.simulation.loop import Loop
from scheduler.simulation.parts import FOREVER
from scheduler.simulation.setup import HostChange
from scheduler.simulation.work import Attempt, Work
from scheduler.types import NEVER, Standing

PATIENCE_SECONDS = 2 * 3600
SQUATTING_FRACTION = 0.3
SQUATTING_MEAN_SECONDS = 4 * 3600
SQUATTING_MOST_SECONDS = 12 * 3600
HABITS = 77
"""Sets the generator of habits apart from that of the work."""


class OldWorld:
    """The decider of `priority`. All time counts as funded: there are no budgets."""

    at_every_event = False
    reports_checkpoints = False
    checked = 0

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.desk = Desk(loop.hosts.gpus, loop.setup.max_gpus_per_user)
        self.draw = np.random.default_rng([HABITS, loop.setup.seed])
        self.levels: dict[int, int] = {}  # by user
        self.keeps: dict[int, bool] = {}  # by workload: opted out of preemption
        self.started = 0
        self.changed = True
        self.submitted_high = 0

    # ------------------------------------------------ events

    def submit(self, work: Work) -> None:
        """It waits, at the level that its author has come to by now."""
        self.changed = True
        level = self.levels.get(work.user, NORMAL)
        work.priority = min(level, HIGH)
        self.submitted_high += work.priority == HIGH
        self.keeps[work.id] = level > HIGH
        self._ask(work)

    def _ask(self, work: Work) -> None:
        self.desk.add(Ask(work.id, work.priority, work.submit_at, work.user, work.replicas, work.gpus_per_replica))

    def end(self, attempt: Attempt, requeue: bool) -> None:
        """Its GPUs are free; preempted work waits again, where it first stood."""
        self.changed = True
        self.desk.release(attempt.number)
        if requeue:
            self._ask(attempt.work)
        else:
            del self.keeps[attempt.work.id]

    def checkpoint(self, attempt: Attempt, at: int) -> None:
        """Whom it takes does not depend on it."""

    def change_host(self, host: int, kind: HostChange) -> None:
        """A host takes attempts, or no longer does. What runs on a draining one ends by itself."""
        self.changed = True
        self.desk.open[host] = kind == HostChange.REPAIR

    # ------------------------------------------------ the pass

    def quiet_until(self) -> int:
        """Nothing depends on the time."""
        return 0 if self.changed else FOREVER

    def decide(self, now: int) -> None:
        """One pass: what was held for begins, then the queue."""
        self.changed = False
        for attempt in list(self.loop.holding.values()):
            if not all(self.loop.hosts.open[host] for host in attempt.places):
                self.loop.give_up(attempt)
                self.desk.release(attempt.number)
                self._ask(attempt.work)
            elif not attempt.victims:
                self._begin(attempt)
        for choice in self.desk.choose():
            self._start(choice)

    def _start(self, choice: Choice) -> None:
        loop, work = self.loop, self.loop.waiting[choice.ask.id]
        self.started += 1
        self.desk.drop(choice.ask)
        attempt = Attempt(self.started, work, choice.places, loop.now)
        self.desk.hold(Holder(attempt.number, work.priority, work.user, choice.places, False))
        victims = [loop.attempts[victim] for victim in choice.victims]
        for victim in victims:
            self.desk.keep_from_taking(victim.number)
            self._provoke(victim.work.user)
            loop.signal(victim, loop.setup.policy.grace_allocated_seconds)
        self._consider_squatting(attempt)
        loop.assign(attempt, Standing.FUNDED, victims)
        if attempt.began_at != NEVER:
            self._settle(attempt)

    def _begin(self, attempt: Attempt) -> None:
        self.loop.begin(attempt)
        self._settle(attempt)

    def _settle(self, attempt: Attempt) -> None:
        """It runs: it can be taken, unless its author opted out."""
        if not self.keeps[attempt.work.id]:
            self.desk.make_takeable(attempt.number)

    # ------------------------------------------------ habits

    def _provoke(self, user: int) -> None:
        """One level up, and from HIGH to where nothing preempts; there is no way down."""
        self.levels[user] = min(self.levels.get(user, NORMAL) + 1, HIGH + 1)

    def _consider_squatting(self, attempt: Attempt) -> None:
        work = attempt.work
        if self.loop.now - work.queued_at <= PATIENCE_SECONDS:
            return
        self._provoke(work.user)
        if work.kind != 0 and self.draw.random() < SQUATTING_FRACTION:
            attempt.idle = min(int(self.draw.exponential(SQUATTING_MEAN_SECONDS)), SQUATTING_MOST_SECONDS)
