"""The snapshot as one decision reads it: sorted by id, plus what time alone has changed.

Nothing here weighs anybody against anybody: attempts that can't go on end, contracts that
are over mature, GPUs that are free for the attempt that they are held for are assigned.
"""

from __future__ import annotations

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
    attempt_gpus: IntArray  # in total
    places: list[dict[int, int]]  # by attempt: GPUs by host index
    place_attempt: IntArray  # the same as flat columns
    place_host: IntArray
    place_gpus: IntArray
    standing: IntArray
    held: BoolArray  # GPUs are being emptied for it
    schedulable: BoolArray  # by host
    bookings: list[Booking]  # reservations, in the order made
    actions: list[Action] = field(default_factory=list)


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
    columns = (new_attempt[rows.attempt], new_host[rows.host], gpus)
    for attempt, host, count in zip(*(column.tolist() for column in columns), strict=True):
        places[attempt][host] = places[attempt].get(host, 0) + count
    return Facts(
        snapshot=snapshot,
        policy=policy,
        now=snapshot.now,
        hosts=hosts,
        pending=take_rows(snapshot.pending, np.argsort(snapshot.pending.id, kind="stable")),
        attempts=attempts,
        attempt_gpus=attempts.replicas * attempts.gpus_per_replica,
        places=places,
        place_attempt=columns[0],
        place_host=columns[1],
        place_gpus=columns[2],
        standing=attempts.standing.copy(),
        held=attempts.segments_at == NEVER,
        schedulable=hosts.schedulable & ~np.isin(hosts.id, snapshot.draining),  # R15
        bookings=_read_bookings(snapshot, new_host.tolist()),
    )


def _read_bookings(snapshot: Snapshot, new_host: list[int]) -> list[Booking]:
    """The reservations of workloads that wait, their hosts named as the sorted table does."""
    if snapshot.reserved is None:
        return []
    waiting = set(snapshot.pending.id.tolist())
    return [one.copy(new_host) for one in read_bookings(snapshot.reserved) if one.workload in waiting]


def settle_time(facts: Facts) -> None:
    """What time alone has done, before anybody is weighed against anybody (R4, R10, R11, R15)."""
    quarantine_silent_hosts(facts)
    give_up_hopeless(facts)
    begin_emptied(facts)
    mature_contracts(facts)
    drain_hosts(facts)


def quarantine_silent_hosts(facts: Facts) -> None:
    """R11: a host that still has not freed killed work after the silence limit is unhealthy."""
    attempts, limit = facts.attempts, facts.policy.silence_seconds
    stopping = facts.standing == Standing.STOPPING
    overdue = stopping & (attempts.stopping_at + attempts.grace_seconds + limit <= facts.now)
    for attempt in np.flatnonzero(overdue & (attempts.stopping_at != NEVER)).tolist():
        for host in sorted(facts.places[attempt]):
            if facts.schedulable[host]:
                facts.schedulable[host] = False
                silent = facts.now - int(attempts.stopping_at[attempt] + attempts.grace_seconds[attempt])
                number, host_id = int(attempts.id[attempt]), int(facts.hosts.id[host])
                why = reason(Code.HOST_SILENT, host=host_id, attempt=number, silent_seconds=silent)
                facts.actions.append(Quarantine(host_id, number, why))


def give_up_hopeless(facts: Facts) -> None:
    """R4: not running within the start limit of the segments' start. R11: held on a lost host."""
    attempts, limit = facts.attempts, facts.policy.start_limit_seconds
    under_way = (facts.standing != Standing.STOPPING) & (facts.standing != GONE)
    started = under_way & ~facts.held & (attempts.running_at == NEVER)
    for attempt in np.flatnonzero(started & (attempts.segments_at + limit <= facts.now)).tolist():
        waited = facts.now - int(attempts.segments_at[attempt])
        why = reason(Code.NOT_RUNNING_IN_TIME, waited_seconds=waited, limit_seconds=limit)
        facts.actions.append(GiveUp(int(attempts.id[attempt]), False, why))
        facts.standing[attempt] = Standing.STOPPING
    lost = []
    for attempt in np.flatnonzero(facts.held).tolist():
        gone = [host for host in sorted(facts.places[attempt]) if not facts.schedulable[host]]
        if gone:
            why = reason(Code.HOST_LOST, host=int(facts.hosts.id[gone[0]]))
            facts.actions.append(GiveUp(int(attempts.id[attempt]), True, why))
            facts.standing[attempt] = GONE
            facts.held[attempt] = False
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


def begin_emptied(facts: Facts) -> None:
    """R10: a held attempt whose victims are all gone gets its GPUs; its segments start now."""
    attempts, held = facts.attempts, np.flatnonzero(facts.held).tolist()
    if not held:
        return
    waited_for = set(attempts.taker[facts.standing == Standing.STOPPING].tolist())
    for attempt in held:
        number = int(attempts.id[attempt])
        if number not in waited_for:
            facts.held[attempt] = False
            why = reason(Code.GPUS_FREE, waited_seconds=max(facts.now - int(attempts.decided_at[attempt]), 0))
            facts.actions.append(Begin(number, why))


def mature_contracts(facts: Facts) -> None:
    """R4, half-open: from exactly running_at + minimum runtime on, protected becomes funded."""
    attempts = facts.attempts
    ends_at = attempts.running_at + attempts.contract_seconds
    over = (facts.standing == Standing.PROTECTED) & (attempts.running_at != NEVER) & (ends_at <= facts.now)
    for attempt in np.flatnonzero(over).tolist():
        why = reason(Code.CONTRACT_DONE, min_runtime_seconds=int(attempts.contract_seconds[attempt]))
        facts.actions.append(Mature(int(attempts.id[attempt]), int(ends_at[attempt]), why))
        facts.standing[attempt] = Standing.FUNDED


def drain_hosts(facts: Facts) -> None:
    """R15: on a host that empties, protection is kept to its end; all other attempts stop now."""
    attempts, policy = facts.attempts, facts.policy
    if not len(facts.snapshot.draining):
        return
    emptying = np.isin(facts.hosts.id, facts.snapshot.draining)
    there = np.unique(facts.place_attempt[emptying[facts.place_host]])
    for attempt in there.tolist():
        standing = int(facts.standing[attempt])
        if standing in (Standing.FUNDED, Standing.UNALLOCATED) and not facts.held[attempt]:
            host = min(host for host in facts.places[attempt] if emptying[host])
            free = standing == Standing.UNALLOCATED
            grace = policy.grace_unallocated_seconds if free else policy.grace_allocated_seconds
            why = reason(Code.DRAINED, host=int(facts.hosts.id[host]), unallocated=free)
            facts.actions.append(Drain(int(attempts.id[attempt]), grace, why))
            facts.standing[attempt] = Standing.STOPPING


def find_unallocated(facts: Facts) -> IntArray:
    """Attempts that run or start unallocated now."""
    return np.flatnonzero(facts.standing == Standing.UNALLOCATED)


def find_allocated(facts: Facts) -> BoolArray:
    """Which attempts are protected or funded now, held ones included."""
    return is_allocated(facts.standing)
