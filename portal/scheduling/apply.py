"""A decision to rows (HOUSE.md section 3, step 6).

The rows that the decision speaks of are locked and looked at again before anything is written: an order whose
rows have moved on is skipped and counted as stale, and a start with its preemptions applies whole or not at all.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from portal.clusters.health import NOT_FREED, host_unhealthy
from portal.clusters.models import Host
from portal.common.bulk import rows_update
from portal.common.units import moment_of
from portal.scheduling.lifecycle import Stop, attempt_begin, attempt_end, attempts_locked, attempts_stop, is_held
from portal.scheduling.reservations import (
    reservations_close,
    reservations_make,
    reservations_release,
    reservations_shift,
)
from portal.scheduling.round import Round
from portal.scheduling.starts import STANDING_NAMES, Group, starts_apply
from portal.scheduling.words import Words
from portal.usage.services import Turn, segments_apply_many
from portal.workloads.models import Attempt, AttemptState, Outcome, Standing
from scheduler import types
from scheduler.types import Decision


@dataclass
class Applied:
    """What became of the decision's orders."""

    starts: int = 0
    preempts: int = 0
    lapses: int = 0
    returns: int = 0
    stale: int = 0


def decision_apply(step: Round, decision: Decision, words: Words) -> Applied:
    """Carry out every order, kind by kind as the core gives them; then starts, each with its preemptions; then what is
    kept for those that wait on."""
    applier = Applier(step, decision, words)
    by_kind: dict[type, list[types.Action]] = defaultdict(list)
    for action in decision.actions:
        by_kind[type(action)].append(action)
    for kind, handle in applier.handlers.items():
        if by_kind[kind]:
            handle(by_kind[kind])
    groups = _groups(decision)
    if groups:
        done = starts_apply(step, groups, applier.attempts, words)
        applier.applied.starts, applier.applied.preempts = done.starts, done.preempts
        applier.applied.stale += done.stale
        reservations_close(step)
    if by_kind[types.Reserve]:
        applier.applied.stale += reservations_make(step, by_kind[types.Reserve], words)  # type: ignore[arg-type]
    return applier.applied


def _groups(decision: Decision) -> list[Group]:
    """Each start with the preemptions that it rests on."""
    preempts: dict[int, list[types.Preempt]] = defaultdict(list)
    for action in decision.actions:
        if isinstance(action, types.Preempt):
            preempts[action.taker].append(action)
    starts = (action for action in decision.actions if isinstance(action, types.Start))
    return [Group(start, tuple(preempts.get(start.workload, ()))) for start in starts]


class Applier:
    """The orders to attempts that exist already, each checked against its locked row."""

    def __init__(self, step: Round, decision: Decision, words: Words) -> None:
        self.step = step
        self.words = words
        self.applied = Applied()
        bare = types.Start | types.Reserve | types.Release | types.Shift
        named = {action.attempt for action in decision.actions if not isinstance(action, bare)}
        self.attempts: dict[int, Attempt] = attempts_locked(named) if named else {}
        self.handlers: dict[type, Callable[[Any], None]] = {
            types.Quarantine: self.quarantine,
            types.GiveUp: self.give_up,
            types.Begin: self.begin,
            types.Mature: self.mature,
            types.Drain: self.drain,
            types.Lapse: self.lapse,
            types.Return: self.bring_back,
            types.Release: self.release,
            types.Shift: self.shift,
        }

    def _expected(self, pk: int, *states: AttemptState, held: bool | None = None) -> Attempt | None:
        """The attempt if it is still in one of these states; else the order is stale."""
        attempt = self.attempts.get(pk)
        if attempt is None or attempt.state not in states or held not in (None, is_held(attempt)):
            self.applied.stale += 1
            return None
        return attempt

    def quarantine(self, actions: list[types.Quarantine]) -> None:
        """These hosts keep what they were told to kill: no new work for them (R11)."""
        for action in actions:
            if self._expected(action.attempt, AttemptState.STOPPING):
                # A host that reports right now holds its row and waits for us: the next pass looks again.
                free = Host.objects.select_for_update(no_key=True, skip_locked=True)
                host = free.filter(pk=action.host).first()
                if host is None:
                    self.applied.stale += 1
                else:
                    host_unhealthy(host=host, cause=self.words.text(action.reason), code=NOT_FREED, now=self.step.now)

    def give_up(self, actions: list[types.GiveUp]) -> None:
        """They never ran: requeued if they only waited for GPUs, else told to stop as failed to start (R4)."""
        stops = []
        for action in actions:
            attempt = self._expected(action.attempt, AttemptState.ASSIGNED)
            if attempt is not None and is_held(attempt):
                outcome = Outcome.HOST_FAILED if action.requeue else Outcome.START_FAILED
                attempt_end(self.step, attempt, outcome=outcome, text=self.words.text(action.reason))
            elif attempt is not None:
                grace = self.step.policy.grace_allocated_seconds
                code, text = self.words.code(action.reason), self.words.text(action.reason)
                stops.append(Stop(attempt, Outcome.START_FAILED, grace, code=code, text=text))
        if stops:
            attempts_stop(self.step, stops)

    def begin(self, actions: list[types.Begin]) -> None:
        """All their GPUs are free."""
        for action in actions:
            if attempt := self._expected(action.attempt, AttemptState.ASSIGNED, held=True):
                attempt_begin(self.step, attempt)

    def mature(self, actions: list[types.Mature]) -> None:
        """Their minimum runtimes are over: funded from that exact second on."""
        self._turn(
            "matured",
            [
                (attempt, moment_of(action.at), Standing.FUNDED, action.reason)
                for action in actions
                if (attempt := self._expected(action.attempt, AttemptState.RUNNING))
            ],
        )

    def drain(self, actions: list[types.Drain]) -> None:
        """They leave a host that empties: nothing protects them any more (R15)."""
        stops = []
        for action in actions:
            attempt = self._expected(action.attempt, AttemptState.RUNNING, AttemptState.ASSIGNED, held=False)
            if attempt is not None:
                code, text = self.words.code(action.reason), self.words.text(action.reason)
                stops.append(Stop(attempt, Outcome.PREEMPTED, action.grace_seconds, code=code, text=text))
        if stops:
            attempts_stop(self.step, stops)

    def lapse(self, actions: list[types.Lapse]) -> None:
        """Their budgets are spent: free of charge and preemptible from now on."""
        turns = [
            (attempt, self.step.now, Standing.UNALLOCATED, action.reason)
            for action in actions
            if (attempt := self._expected(action.attempt, AttemptState.RUNNING))
        ]
        for attempt, *_ in turns:
            attempt.lapsed = True
        self.applied.lapses += len(turns)
        self._turn("lapsed", turns)

    def bring_back(self, actions: list[types.Return]) -> None:
        """Their budgets have recovered: allocated again, without a restart."""
        turns = [
            (attempt, self.step.now, STANDING_NAMES[action.standing], action.reason)
            for action in actions
            if (attempt := self._expected(action.attempt, AttemptState.RUNNING, AttemptState.ASSIGNED, held=False))
        ]
        for attempt, *_ in turns:
            attempt.lapsed = False
        self.applied.returns += len(turns)
        self._turn("returned", turns)

    def release(self, actions: list[types.Release]) -> None:
        """Reservations that have lost a host are over (R12)."""
        self.applied.stale += reservations_release(self.step, actions, self.words)

    def shift(self, actions: list[types.Shift]) -> None:
        """Express starts have moved times, as they may once (R7)."""
        self.applied.stale += reservations_shift(self.step, actions, self.words)

    def _turn(self, kind: str, turns: list[tuple[Attempt, datetime, Standing, types.Reason]]) -> None:
        segments_apply_many(turns=[Turn(attempt, at, standing) for attempt, at, standing, _ in turns])
        for attempt, _, standing, reason in turns:
            attempt.standing = standing
            code, text = self.words.code(reason), self.words.text(reason)
            self.step.note(attempt, kind, code=code, text=text, **self.words.data(reason))
        rows_update([attempt for attempt, *_ in turns], ["standing", "lapsed"])
