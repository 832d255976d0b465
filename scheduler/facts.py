"""The snapshot as one decision reads it: sorted by id, plus what time alone has changed.

Nothing here weighs anybody against anybody: attempts that can't go on end, contracts that
are over mature, GPUs that are free for the attempt that they are held for are assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scheduler.bookings import Booking, read_bookings
from scheduler.state import is_allocated
from scheduler.types import (
    NEVER,
    Action,
    Attempts,
    Begin,
    BoolArray,
    Code,
    Drain,
    GiveUp,
    Hosts,
    IntArray,
    Mature,
    Pending,
    Policy,
    Quarantine,
    Snapshot,
    Standing,
    reason,
)

PROTECTED, FUNDED, STOPPING = int(Standing.PROTECTED), int(Standing.FUNDED), int(Standing.STOPPING)

GONE = 0
"""Standing, during a decision, of an attempt that was given up before it ever began."""


@dataclass(slots=True)
class Facts:
    """Sorted tables, and the standings and hosts as they stand after the first steps."""

    snapshot: Snapshot
    policy: Policy
    now: int
    hosts: Hosts
    pending: Pending
    attempts: Attempts
    places: list[dict[int, int]]  # by attempt: GPUs by host index
    seats: IntArray  # the same, flat: (attempt, host, GPUs) in columns
    standing: IntArray
    held: set[int]  # attempts that GPUs are being emptied for
    schedulable: BoolArray  # by host
    bookings: list[Booking]  # reservations, in the order made
    actions: list[Action] = field(default_factory=list)

    def gpus_of(self, attempt: int) -> int:
        """In total."""
        return self.attempts.replicas.item(attempt) * self.attempts.gpus_per_replica.item(attempt)

    def list_gpus(self) -> IntArray:
        """By attempt, in total."""
        return self.attempts.replicas * self.attempts.gpus_per_replica


def take_rows(record: Any, rows: IntArray | BoolArray) -> Any:
    """A table with these rows only, in this order."""
    columns = {name: getattr(record, name)[rows] for name in record.__dataclass_fields__}
    return replace(record, **columns)


def read_facts(snapshot: Snapshot, policy: Policy) -> Facts:
    """Sort hosts, pending workloads and attempts by id, and point the placements at them."""
    host_order = np.argsort(snapshot.hosts.id, kind="stable")
    attempt_order = np.argsort(snapshot.attempts.id, kind="stable")
    attempts = take_rows(snapshot.attempts, attempt_order)
    hosts = take_rows(snapshot.hosts, host_order)
    rows = snapshot.placements
    new_host, new_attempt = np.argsort(host_order), np.argsort(attempt_order)
    places: list[dict[int, int]] = [{} for _ in range(len(attempts.id))]
    gpus = snapshot.attempts.gpus_per_replica[rows.attempt] * rows.replicas
    seats = np.stack([new_attempt[rows.attempt], new_host[rows.host], gpus])
    for attempt, host, count in seats.T.tolist():
        places[attempt][host] = places[attempt].get(host, 0) + count
    return Facts(
        snapshot=snapshot,
        policy=policy,
        now=snapshot.now,
        hosts=hosts,
        pending=take_rows(snapshot.pending, np.argsort(snapshot.pending.id, kind="stable")),
        attempts=attempts,
        places=places,
        seats=seats,
        standing=attempts.standing.copy(),
        held=set(np.flatnonzero(attempts.segments_at == NEVER).tolist()),
        schedulable=hosts.schedulable & ~np.isin(hosts.id, snapshot.draining),  # R15
        bookings=_read_bookings(snapshot, new_host.tolist()),
    )


def _read_bookings(snapshot: Snapshot, new_host: list[int]) -> list[Booking]:
    """The reservations of workloads that wait, their hosts named as the sorted table does."""
    if snapshot.reserved is None:
        return []
    waiting = set(snapshot.pending.id.tolist())
    return [one.copy(new_host) for one in read_bookings(snapshot.reserved) if one.workload in waiting]


def settle_time(facts: Facts, rows: Iterable[int] | None = None, stopping: Iterable[int] | None = None) -> None:
    """What time alone has done, before anybody is weighed against anybody (R4, R10, R11, R15).

    `rows`: the attempts that are held or due, in order, if they are known, and `stopping`: those that stop;
    see `dues.py`.
    """
    known = list(range(len(facts.places)) if rows is None else rows)
    quarantine_silent_hosts(facts, known)
    give_up_hopeless(facts, known)
    begin_emptied(facts, known, stopping)
    mature_contracts(facts, known)
    drain_hosts(facts)


def quarantine_silent_hosts(facts: Facts, rows: Sequence[int]) -> None:
    """R11: a host that still has not freed killed work after the silence limit is unhealthy."""
    attempts, standing, limit = facts.attempts, facts.standing, facts.policy.silence_seconds
    for attempt in rows:
        stopping_at = attempts.stopping_at.item(attempt)
        if standing.item(attempt) != STOPPING or stopping_at == NEVER:
            continue
        silent = facts.now - stopping_at - attempts.grace_seconds.item(attempt)
        if silent >= limit:
            _quarantine_hosts(facts, attempt, silent)


def _quarantine_hosts(facts: Facts, attempt: int, silent_seconds: int) -> None:
    for host in sorted(facts.places[attempt]):
        if facts.schedulable[host]:
            facts.schedulable = facts.schedulable.copy()
            facts.schedulable[host] = False
            number, host_id = facts.attempts.id.item(attempt), facts.hosts.id.item(host)
            why = reason(Code.HOST_SILENT, host=host_id, attempt=number, silent_seconds=silent_seconds)
            facts.actions.append(Quarantine(host_id, number, why))


def give_up_hopeless(facts: Facts, rows: Sequence[int]) -> None:
    """R4: not running within the start limit of the segments' start. R11: held on a lost host."""
    attempts, standing, held = facts.attempts, facts.standing, facts.held
    limit = facts.policy.start_limit_seconds
    for attempt in rows:
        waited = facts.now - attempts.segments_at.item(attempt)
        if attempts.running_at.item(attempt) != NEVER or waited < limit or attempt in held:
            continue
        if standing.item(attempt) not in (GONE, STOPPING):
            why = reason(Code.NOT_RUNNING_IN_TIME, waited_seconds=waited, limit_seconds=limit)
            facts.actions.append(GiveUp(attempts.id.item(attempt), False, why))
            standing[attempt] = STOPPING
    _give_up_lost(facts, [attempt for attempt in rows if attempt in held])


def _give_up_lost(facts: Facts, held: Sequence[int]) -> None:
    lost = []
    for attempt in held:
        gone = [host for host in sorted(facts.places[attempt]) if not facts.schedulable[host]]
        if gone:
            why = reason(Code.HOST_LOST, host=facts.hosts.id.item(gone[0]))
            facts.actions.append(GiveUp(facts.attempts.id.item(attempt), True, why))
            facts.standing[attempt] = GONE
            facts.held.discard(attempt)
            lost.append(attempt)
    _requeue(facts, lost)


def _requeue(facts: Facts, lost: list[int]) -> None:
    """The workloads of given-up holds are pending again, in this very decision."""
    if not lost:
        return
    old = facts.attempts
    rows = np.array(lost, dtype=np.int64)
    back = {
        "id": old.workload[rows],
        "min_runtime_seconds": old.contract_seconds[rows],
        "queued_at": np.full(len(rows), facts.now, dtype=np.int64),
    }
    columns = {}
    for name in facts.pending.__dataclass_fields__:
        extra = back[name] if name in back else getattr(old, name)[rows]
        columns[name] = np.concatenate([getattr(facts.pending, name), extra])
    joined = replace(facts.pending, **columns)
    facts.pending = take_rows(joined, np.argsort(joined.id, kind="stable"))


def begin_emptied(facts: Facts, rows: Sequence[int], stopping: Iterable[int] | None) -> None:
    """R10: a held attempt whose victims are all gone gets its GPUs; its segments start now."""
    attempts = facts.attempts
    held = [attempt for attempt in rows if attempt in facts.held]
    if not held:
        return
    if stopping is None:
        stopping = np.flatnonzero(facts.standing == STOPPING).tolist()
    waited_for = {attempts.taker.item(attempt) for attempt in stopping}
    for attempt in held:
        number = attempts.id.item(attempt)
        if number not in waited_for:
            facts.held.discard(attempt)
            why = reason(Code.GPUS_FREE, waited_seconds=max(facts.now - attempts.decided_at.item(attempt), 0))
            facts.actions.append(Begin(number, why))


def mature_contracts(facts: Facts, rows: Sequence[int]) -> None:
    """R4, half-open: from exactly running_at + minimum runtime on, protected becomes funded."""
    attempts, standing = facts.attempts, facts.standing
    for attempt in rows:
        running_at, contract = attempts.running_at.item(attempt), attempts.contract_seconds.item(attempt)
        if standing.item(attempt) == PROTECTED and running_at != NEVER and running_at + contract <= facts.now:
            why = reason(Code.CONTRACT_DONE, min_runtime_seconds=contract)
            facts.actions.append(Mature(attempts.id.item(attempt), running_at + contract, why))
            standing[attempt] = FUNDED


def drain_hosts(facts: Facts) -> None:
    """R15: on a host that empties, protection is kept to its end; all other attempts stop now."""
    attempts, policy = facts.attempts, facts.policy
    if not len(facts.snapshot.draining):
        return
    emptying = np.isin(facts.hosts.id, facts.snapshot.draining)
    row, on_host, _ = facts.seats
    there = np.unique(row[emptying[on_host]])
    for attempt in there.tolist():
        standing = int(facts.standing[attempt])
        if standing in (Standing.FUNDED, Standing.UNALLOCATED) and attempt not in facts.held:
            host = min(host for host in facts.places[attempt] if emptying[host])
            free = standing == Standing.UNALLOCATED
            grace = policy.grace_unallocated_seconds if free else policy.grace_allocated_seconds
            why = reason(Code.DRAINED, host=int(facts.hosts.id[host]), unallocated=free)
            facts.actions.append(Drain(int(attempts.id[attempt]), grace, why))
            facts.standing[attempt] = Standing.STOPPING


def find_allocated(facts: Facts) -> BoolArray:
    """Which attempts are protected or funded now, held ones included."""
    return is_allocated(facts.standing)
