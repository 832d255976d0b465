"""The event loop: simulated time, a heap, a counter that breaks ties.

At one moment ends come first, then what happens to hosts, then submissions, then the pass.
A pass is made at each submission and at every point of the grid of `pass_interval_seconds`;
points at which the decider proves that nothing can change are left out (`quiet_until`).

The loop knows workloads and attempts, time and progress; who gets GPUs is its decider's.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Protocol

from scheduler.refund import find_refunded
from scheduler.simulation.hosts import HostTable
from scheduler.simulation.ledger import REFUNDED, Ledger
from scheduler.simulation.setup import HostChange, HostEvent, Setup
from scheduler.simulation.work import HELD, Attempt, Work
from scheduler.types import NEVER, Standing

Progress = Callable[[float], bool]

FINISH, KILL, CHECKPOINT, HOST, SUBMIT = range(5)
"""What comes first at one moment."""

FOREVER = 1 << 60


class Cancelled(Exception):
    """The run was cancelled on the way: there is no report."""


class Source(Protocol):
    """Where work comes from."""

    too_large: int  # jobs left out because the hosts could never hold them
    cut: int  # jobs left out because they come after the end

    @property
    def host_events(self) -> Sequence[HostEvent]:
        """Faults that come with it."""

    def next_at(self) -> int:
        """When it has something next; FOREVER: never again."""

    def take(self, now: int) -> list[Work]:
        """What is submitted now, in order."""

    def follow(self, now: int, waiting_gpus: list[int], waiting_debug: list[int]) -> None:
        """After a pass: GPUs waiting by project, all and those of debug workloads."""


class Decider(Protocol):
    """Who decides. It calls the loop's `assign`, `signal` and `turn`."""

    at_every_event: bool
    reports_checkpoints: bool
    checked: int  # decisions whose invariants were checked

    def submit(self, work: Work) -> None:
        """It waits, or waits again."""

    def end(self, attempt: Attempt, requeue: bool) -> None:
        """It occupies nothing any more; `requeue`: its workload waits again."""

    def checkpoint(self, attempt: Attempt) -> None:
        """It has saved its progress, now."""

    def change_host(self, host: int, kind: HostChange) -> None:
        """A host fails, drains or is back."""

    def decide(self, now: int) -> None:
        """One pass."""

    def quiet_until(self) -> int:
        """Before when a pass can't change anything, if nothing is submitted; 0: not known, FOREVER: ever."""


class Loop:
    """One run on its way."""

    def __init__(self, setup: Setup, source: Source, hosts: HostTable) -> None:
        self.setup = setup
        self.source = source
        self.hosts = hosts
        self.ledger = Ledger()
        self.now = 0
        self.events: list[tuple[int, int, int, Attempt | HostEvent]] = []
        self.count = 0
        self.attempts: dict[int, Attempt] = {}
        self.holding: dict[int, Attempt] = {}
        self.waiting_gpus = [0] * len(setup.projects)
        self.waiting_debug = [0] * len(setup.projects)
        self.waiting: dict[int, Work] = {}
        self.unfinished = 0  # started and not over
        self.interrupted = 0  # of them: waiting
        self.held = 0
        self.unusable = 0
        self.submitted = self.completed = self.ended_preempted = self.ended_host_failed = 0
        self.decisions = self.grid_passes = 0
        self.overhead = setup.contracts.restart_overhead_seconds
        self._level: tuple[int, ...] = ()
        self._last_pass = -1
        self._left = False  # something has left the queue since the source was told
        self.decider: Decider
        for event in (*setup.host_events, *source.host_events):
            self.push(event.at, HOST, event)
        self.ledger.capacity.add((0, hosts.schedulable))

    def push(self, at: int, rank: int, what: Attempt | HostEvent) -> None:
        """Something happens at that moment."""
        self.count += 1
        heapq.heappush(self.events, (at, rank, self.count, what))

    # ------------------------------------------------ time

    def run(self, progress: Progress | None) -> None:
        """To the end of the run, or until nothing is left to happen."""
        end = self.setup.end_at if self.setup.end_at is not None else FOREVER
        told = 0
        while (at := self.next_at()) < end:
            self.now = at
            self._step(at)
            if progress is not None and at >= told:
                told = at + self._report_every(end)
                if not progress(min(at / end, 1.0)):
                    raise Cancelled
        if end != FOREVER:
            self.now = end
        self._close()
        if progress is not None and not progress(1.0):
            raise Cancelled

    def _report_every(self, end: int) -> int:
        return max(end // 200, 1) if end != FOREVER else 3600

    def next_at(self) -> int:
        """The next moment at which anything happens."""
        at = self.source.next_at()
        if self.events and self.events[0][0] < at:
            at = self.events[0][0]
        due = self._next_pass()
        return due if due < at else at

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
            self._submit(work)
        if self._is_due(at, bool(works), ended):
            self._pass(at)
        self._note(at)

    def _is_due(self, at: int, submitted: bool, ended: bool) -> bool:
        if self.decider.at_every_event:
            return submitted or ended
        return submitted or at >= self._next_pass()

    def _pass(self, at: int) -> None:
        self.grid_passes += at % self.setup.pass_interval_seconds == 0
        self.decisions += 1
        self.decider.decide(at)
        self._last_pass = at
        self.unusable = self.hosts.free - self.held if self.waiting else 0
        if self._left:
            self._left = False
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
            self._change_host(what)
            return True
        if what.over:
            return False
        if rank == CHECKPOINT:
            self.decider.checkpoint(what)
            self.push(self.now + what.work.checkpoint_interval, CHECKPOINT, what)
            return False  # it sways which victims are taken, not whether anything can start
        if rank == FINISH:
            self._finish(what)
        else:
            self._kill(what)
        return True

    # ------------------------------------------------ workloads

    def _submit(self, work: Work) -> None:
        self.submitted += 1
        self.ledger.submitted.add((self.now, work.project, work.gpus, work.duration, work.min_runtime, work.kind))
        self._wait(work)
        self.decider.submit(work)

    def _wait(self, work: Work) -> None:
        self.waiting[work.id] = work
        self.waiting_gpus[work.project] += work.gpus
        if work.kind == 0:
            self.waiting_debug[work.project] += work.gpus
        work.attempt = None

    def _leave_queue(self, work: Work) -> None:
        del self.waiting[work.id]
        self._left = True
        self.waiting_gpus[work.project] -= work.gpus
        if work.kind == 0:
            self.waiting_debug[work.project] -= work.gpus

    def _finish(self, attempt: Attempt) -> None:
        work = attempt.work
        self._lose(work, attempt.gpus * attempt.overhead)
        idle = self.now - attempt.began_at - attempt.overhead - work.remaining
        if idle > 0:
            self.ledger.squatted.add((self.now, work.project, attempt.gpus * idle))
        self.completed += 1
        self._leave(attempt)
        self._over(work)
        self.decider.end(attempt, False)

    def _kill(self, attempt: Attempt) -> None:
        """The grace time is over."""
        self._interrupt(attempt, fault=False)

    def _interrupt(self, attempt: Attempt, fault: bool) -> None:
        """It ends before its work is done: back to the queue with what it saved, or for good."""
        work, now = attempt.work, self.now
        if now - attempt.began_at - attempt.overhead >= work.remaining:  # its work is done: it only kept its GPUs
            self._finish(attempt)
            return
        saved = attempt.saved_seconds(now) if work.resumable else 0
        spent = now - attempt.began_at
        lost = spent - saved if work.resumable else spent
        work.fault = fault
        self._lose(work, attempt.gpus * lost)
        work.remaining -= saved
        self._leave(attempt)
        if fault:
            self._refund(attempt)
        if work.resumable:
            work.queued_at = now
            self._wait(work)
            self.interrupted += 1
        else:
            self.ended_preempted += not fault
            self.ended_host_failed += fault
            self._over(work)
        self.decider.end(attempt, work.resumable)

    def _lose(self, work: Work, gpu_seconds: int) -> None:
        if gpu_seconds > 0:
            self.ledger.lost.add((self.now, work.project, gpu_seconds, work.fault))

    def _over(self, work: Work) -> None:
        work.over = True
        work.attempt = None
        self.unfinished -= 1

    # ------------------------------------------------ attempts

    def assign(self, attempt: Attempt, standing: int, victims: list[Attempt]) -> None:
        """Decided: it starts now, or when the last of its victims is gone and `begin` is called."""
        self.attempts[attempt.number] = attempt
        attempt.standing = standing
        attempt.work.attempt = attempt
        if victims:
            self.holding[attempt.number] = attempt
            attempt.victims = list(victims)
            for victim in victims:
                victim.taker = attempt
            self._reckon_held()
        else:
            self.begin(attempt)

    def begin(self, attempt: Attempt) -> None:
        """Its GPUs are free and its; start-up takes no time here."""
        work, now = attempt.work, self.now
        attempt.began_at = attempt.segment_at = now
        self.hosts.occupy(attempt.places)
        self._leave_queue(work)
        restart = work.began > 0
        self._note_wait(work, restart, True)
        work.began += 1
        if restart:
            self.interrupted -= 1
            attempt.overhead = self.overhead
        else:
            self.unfinished += 1
        self.push(now + attempt.overhead + work.remaining + attempt.idle, FINISH, attempt)
        self._watch_checkpoints(attempt)
        if self.holding.pop(attempt.number, None) is not None:
            self._reckon_held()

    def _note_wait(self, work: Work, restart: bool, started: bool) -> None:
        row = (work.queued_at, self.now, work.gpus, work.project, work.min_runtime > 0, work.kind)
        self.ledger.waits.add((*row, restart, started, work.submit_at))

    def _watch_checkpoints(self, attempt: Attempt) -> None:
        """Only what can be taken is asked when it last saved: from the last time before its minimum runtime ends."""
        interval = attempt.work.checkpoint_interval
        if interval <= 0 or not self.decider.reports_checkpoints:
            return
        served = attempt.work.min_runtime - attempt.overhead if attempt.standing == Standing.PROTECTED else 0
        first = attempt.began_at + attempt.overhead + max(served // interval, 1) * interval
        if first < attempt.began_at + attempt.overhead + attempt.work.remaining:
            self.push(first, CHECKPOINT, attempt)

    def signal(self, attempt: Attempt, grace_seconds: int) -> None:
        """It is told to stop."""
        self.turn(attempt, Standing.STOPPING, self.now)
        attempt.kill_at = self.now + grace_seconds
        self.push(attempt.kill_at, KILL, attempt)
        self.ledger.preemptions.add((self.now, attempt.work.project, attempt.gpus))

    def turn(self, attempt: Attempt, standing: int, at: int) -> None:
        """Its standing changes at that moment."""
        if attempt.segment_at != NEVER:
            self._close_segment(attempt, at)
            attempt.segment_at = at
        attempt.standing = standing

    def give_up(self, attempt: Attempt) -> None:
        """A held attempt lost a host: its workload waits as before."""
        attempt.over = True
        del self.attempts[attempt.number]
        del self.holding[attempt.number]
        attempt.work.attempt = None
        for victim in attempt.victims:
            victim.taker = None
        attempt.victims = []
        self._reckon_held()

    def _close_segment(self, attempt: Attempt, at: int) -> None:
        if at > attempt.segment_at and attempt.standing != HELD:
            work = attempt.work
            row = (attempt.segment_at, at, attempt.gpus, work.project, attempt.standing, work.min_runtime > 0)
            self.ledger.segments.add(row)
            if attempt.standing <= Standing.FUNDED:
                attempt.charged.append((attempt.segment_at, at, attempt.standing))

    def _leave(self, attempt: Attempt) -> None:
        """It occupies nothing any more."""
        self._close_segment(attempt, self.now)
        self.hosts.release(attempt.places)
        attempt.over = True
        del self.attempts[attempt.number]
        if attempt.taker is not None:
            attempt.taker.victims.remove(attempt)
            attempt.taker = None
            self._reckon_held()

    def _reckon_held(self) -> None:
        self.held = sum(self._count_held(one) for one in self.holding.values())

    def _count_held(self, attempt: Attempt) -> int:
        """GPUs that are free and kept for it."""
        held = 0
        for host, gpus in attempt.places.items():
            if self.hosts.open[host]:
                held += max(gpus - sum(victim.places.get(host, 0) for victim in attempt.victims), 0)
        return held

    # ------------------------------------------------ hosts

    def _change_host(self, event: HostEvent) -> None:
        host = event.host
        if event.kind != HostChange.REPAIR and event.repair_seconds != NEVER:
            self.push(self.now + event.repair_seconds, HOST, HostEvent(host, self.now, HostChange.REPAIR))
        self.hosts.change(host, event.kind)
        self.decider.change_host(host, event.kind)
        if event.kind == HostChange.FAIL:
            there = [one for one in self.attempts.values() if host in one.places and one.began_at != NEVER]
            for attempt in sorted(there, key=lambda one: one.number):
                self._interrupt(attempt, fault=True)
        self.ledger.capacity.add((self.now, self.hosts.schedulable))

    def _refund(self, attempt: Attempt) -> None:
        """R15: what was charged since its last checkpoint is given back."""
        work, now = attempt.work, self.now
        saved = attempt.saved_seconds(now)
        checkpoint_at = attempt.began_at + attempt.overhead + saved if saved else NEVER
        charged = [(start, end) for start, end, _ in attempt.charged]
        for start, end in find_refunded(charged, checkpoint_at, work.min_runtime):
            standing = next(one for since, until, one in attempt.charged if since <= start and end <= until)
            for gpus, kind in ((-attempt.gpus, standing), (attempt.gpus, REFUNDED)):
                self.ledger.segments.add((start, end, gpus, work.project, kind, work.min_runtime > 0))

    # ------------------------------------------------ the end

    def _close(self) -> None:
        """What still runs or waits when the run ends."""
        for attempt in self.attempts.values():
            if attempt.began_at != NEVER:
                self._close_segment(attempt, self.now)
        for work in self.waiting.values():
            self._note_wait(work, work.began > 0, False)
