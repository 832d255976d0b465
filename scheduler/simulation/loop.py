"""The event loop: simulated time, a heap, a counter that breaks ties.

At one moment ends come first, then what happens to hosts, then submissions, then the pass.
A pass is made at each submission and at every point of the grid of `pass_interval_seconds`;
points at which the decider proves that nothing can change are left out (`quiet_until`).

The loop knows workloads and attempts, time and progress; who gets GPUs is its decider's.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from scheduler.policy import DAY
from scheduler.simulation.hosts import HostTable
from scheduler.simulation.life import FINISH, Life
from scheduler.simulation.parts import FOREVER, Source
from scheduler.simulation.setup import HostEvent, Setup
from scheduler.simulation.work import Attempt

Progress = Callable[[float], bool]
"""Told the part of the run that is done, 0 to 1; False cancels."""


class Cancelled(Exception):
    """The run was cancelled on the way: there is no report."""


class Loop(Life):
    """One run on its way."""

    def __init__(self, setup: Setup, source: Source, hosts: HostTable) -> None:
        super().__init__(setup, source, hosts)
        self.decisions = self.grid_passes = 0
        self.unusable = 0
        self._level: tuple[int, ...] = ()
        self._last_pass = -1
        self._due = 0  # the next pass of the grid, as of the last look
        self._stirred_at = 0  # the last moment at which anything but a pass was to come
        self._settled_seconds = _find_settled(setup)

    # ------------------------------------------------ time

    def run(self, progress: Progress | None) -> None:
        """To the end of the run, or until nothing is left to happen."""
        end = self.setup.end_at if self.setup.end_at is not None else FOREVER
        told = 0
        while (at := self.next_at()) < end and not self._waits_for_ever(at):
            self.now = at
            self._step(at)
            if progress is not None and at >= told:
                told = at + self._report_every(end)
                if not progress(min(at / end, 1.0)):
                    raise Cancelled
        if at < FOREVER:
            self.now = end if end < FOREVER else self._stirred_at
        self.close()
        if progress is not None and not progress(1.0):
            raise Cancelled

    def _waits_for_ever(self, at: int) -> bool:
        """In a run without an end: nothing is to come but passes, and none of them can start what waits."""
        if self.setup.days is not None:
            return False
        if self.events or self.source.next_at() < FOREVER:
            self._stirred_at = at
            return False
        return at - self._stirred_at > self._settled_seconds

    def _report_every(self, end: int) -> int:
        return max(end // 200, 1) if end != FOREVER else 3600

    def next_at(self) -> int:
        """The next moment at which anything happens."""
        at = self.source.next_at()
        if self.events and self.events[0][0] < at:
            at = self.events[0][0]
        self._due = self._next_pass()
        return min(self._due, at)

    def _next_pass(self) -> int:
        """The next point of the grid at which a pass is due; FOREVER: none until something happens."""
        if self.decider.at_every_event:
            return FOREVER
        quiet = self.decider.quiet_until()
        if quiet >= FOREVER:
            return FOREVER
        step = self.setup.pass_interval_seconds
        earliest = max(quiet, self._last_pass + 1, self.now if self.now > self._last_pass else 0)
        return -(-earliest // step) * step

    def _step(self, at: int) -> None:
        events, ended = self.events, False
        while events and events[0][0] == at:
            _, rank, _, what = heapq.heappop(events)
            ended |= self._happen(rank, what)
        works = self.source.take(at) if self.source.next_at() <= at else ()
        for work in works:
            self.submit(work)
        if self._is_due(at, bool(works), ended):
            self._pass(at)
        self._note(at)

    def _is_due(self, at: int, submitted: bool, ended: bool) -> bool:
        if self.decider.at_every_event:
            return submitted or ended
        return submitted or at >= (self._next_pass() if ended else self._due)

    def _pass(self, at: int) -> None:
        self.grid_passes += at % self.setup.pass_interval_seconds == 0
        self.decisions += 1
        self.tell_saves()
        self.decider.decide(at)
        self._last_pass = at
        self.unusable = self.hosts.free - self.held if self.waiting else 0
        if self.left_queue:
            self.left_queue = False
            self.source.follow(at, self.waiting_gpus, self.waiting_debug)

    def _note(self, at: int) -> None:
        """The level of things from now on, where it has changed."""
        free = self.hosts.free - self.held
        self.unusable = min(self.unusable, free)
        level = (free, self.unusable, self.held, len(self.waiting), self.unfinished, self.interrupted)
        if level != self._level:
            self._level = level
            self.ledger.levels.add((at, *level))

    def _happen(self, rank: int, what: Attempt | HostEvent) -> bool:
        """One event; whether a decision may differ because of it."""
        if isinstance(what, HostEvent):
            self.change_host(what)
            return True
        if what.over:
            return False
        if rank == FINISH:
            self.finish(what)
        else:
            self.kill(what)
        return True


def _find_settled(setup: Setup) -> int:
    """How long after the last event, or budget to come, what was can still sway a decision: windows, bans."""
    policy = setup.policy
    bans = max(policy.reservation_ban_seconds, 2 * policy.taker_ban_seconds)
    budgets = max(int(setup.shares.at.max(initial=0)), 0)
    return budgets + max(policy.lookback_seconds, policy.first_budget_seconds, bans) + DAY
