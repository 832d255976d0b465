"""What happens to workloads, attempts and hosts in a run, and what the ledger keeps of it.

Who gets GPUs is the decider's; when things happen is the loop's.
"""

from __future__ import annotations

import heapq

from scheduler.refund import find_refunded
from scheduler.simulation.hosts import HostTable
from scheduler.simulation.ledger import REFUNDED, Ledger
from scheduler.simulation.parts import Decider, Source
from scheduler.simulation.setup import HostChange, HostEvent, Setup
from scheduler.simulation.work import HELD, Attempt, Work
from scheduler.types import NEVER, Standing

FINISH, KILL, HOST = range(3)
"""What comes first at one moment."""


class Life:
    """The tables of a run."""

    def __init__(self, setup: Setup, source: Source, hosts: HostTable) -> None:
        self.setup = setup
        self.source = source
        self.hosts = hosts
        self.ledger = Ledger()
        self.now = 0
        self.events: list[tuple[int, int, int, Attempt | HostEvent]] = []
        self.count = 0
        self.saves: list[tuple[int, int, Attempt]] = []  # when an attempt saves its progress next, and its number
        self.attempts: dict[int, Attempt] = {}
        self.holding: dict[int, Attempt] = {}
        self.waiting: dict[int, Work] = {}
        self.waiting_gpus = [0] * len(setup.projects)
        self.waiting_debug = [0] * len(setup.projects)
        self.left_queue = False  # something has left it since the source was told
        self.unfinished = 0  # started and not over
        self.interrupted = 0  # of them: waiting
        self.held = 0
        self.submitted = self.completed = self.ended_preempted = self.ended_host_failed = 0
        self.overhead = setup.contracts.restart_overhead_seconds
        self.decider: Decider
        for event in (*setup.host_events, *source.host_events):
            self.push(event.at, HOST, event)
        self.ledger.capacity.add((0, hosts.schedulable))

    def push(self, at: int, rank: int, what: Attempt | HostEvent) -> None:
        """Something happens at that moment."""
        self.count += 1
        heapq.heappush(self.events, (at, rank, self.count, what))

    # ------------------------------------------------ workloads

    def submit(self, work: Work) -> None:
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
        self.left_queue = True
        self.waiting_gpus[work.project] -= work.gpus
        if work.kind == 0:
            self.waiting_debug[work.project] -= work.gpus

    def finish(self, attempt: Attempt) -> None:
        work = attempt.work
        self._lose(work, attempt.gpus * attempt.overhead)
        idle = self.now - attempt.began_at - attempt.overhead - work.remaining
        if idle > 0:
            self.ledger.squatted.add((self.now, work.project, attempt.gpus * idle))
        self.completed += 1
        self._leave(attempt)
        self._over(work)
        self.decider.end(attempt, False)

    def kill(self, attempt: Attempt) -> None:
        """The grace time is over."""
        self._interrupt(attempt, fault=False)

    def _interrupt(self, attempt: Attempt, fault: bool) -> None:
        """It ends before its work is done: back to the queue with what it saved, or for good."""
        work, now = attempt.work, self.now
        if now - attempt.began_at - attempt.overhead >= work.remaining:  # its work is done: it only kept its GPUs
            self.finish(attempt)
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
        served = attempt.work.min_runtime if attempt.standing == Standing.PROTECTED else 0
        first = attempt.began_at + max(served // interval, 1) * interval
        if first < attempt.began_at + attempt.overhead + attempt.work.remaining:
            heapq.heappush(self.saves, (first, attempt.number, attempt))

    def tell_saves(self) -> None:
        """Before a pass: who has saved its progress since the last one. It sways who is taken, not who can start."""
        while self.saves and self.saves[0][0] <= self.now:
            at, number, attempt = self.saves[0]
            if attempt.over:
                heapq.heappop(self.saves)
                continue
            interval = attempt.work.checkpoint_interval
            last = at + (self.now - at) // interval * interval
            self.decider.checkpoint(attempt, last)
            heapq.heapreplace(self.saves, (last + interval, number, attempt))

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
        if at <= attempt.segment_at or attempt.standing == HELD:
            return
        work, matured = attempt.work, self._find_matured(attempt, at)
        for since, until, standing in (
            (attempt.segment_at, matured, attempt.standing),
            (matured, at, int(Standing.FUNDED)),
        ):
            if since < until:
                self.ledger.segments.add((since, until, attempt.gpus, work.project, standing, work.min_runtime > 0))
                if standing <= Standing.FUNDED:
                    attempt.charged.append((since, until, standing))

    def _find_matured(self, attempt: Attempt, at: int) -> int:
        """The end of its contract, if a pass before `at` wrote that, or would have, had it been made; else `at`."""
        if attempt.standing != Standing.PROTECTED:
            return at
        over_at, step = attempt.began_at + attempt.work.min_runtime, self.setup.pass_interval_seconds
        return max(over_at, attempt.segment_at) if -(-over_at // step) * step < at else at

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

    def change_host(self, event: HostEvent) -> None:
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

    def close(self) -> None:
        """What still runs or waits when the run ends."""
        for attempt in self.attempts.values():
            if attempt.began_at != NEVER:
                self._close_segment(attempt, self.now)
        for work in self.waiting.values():
            self._note_wait(work, work.began > 0, False)
