"""What happens to a state: time, submissions, what hosts report, and an applied decision.

The twin in memory of what the portal's services do to its tables; tests and the simulator
drive it. Every function changes the state that it is given and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.bookings import Booking
from scheduler.state import State
from scheduler.types import (
    NEVER,
    Action,
    Begin,
    Decision,
    Drain,
    GiveUp,
    Lapse,
    Mature,
    Policy,
    Preempt,
    Quarantine,
    Release,
    Reserve,
    Return,
    Shift,
    Standing,
    Start,
)

CARRIED = (
    "project",
    "author",
    "first_submit_at",
    "replicas",
    "gpus_per_replica",
    "resumable",
    "allow_unallocated",
    "priority",
)
"""Columns that a workload keeps from pending to attempt and back."""


def advance(state: State, now: int) -> None:
    """The clock reads `now`."""
    state.now = now


def submit(state: State, row: Mapping[str, int | bool]) -> None:
    """A workload waits: the columns of `Pending`."""
    state.pending.add(row)


def withdraw(state: State, workload: int) -> None:
    """A pending workload is cancelled before any attempt; with a reservation that is remembered (R12)."""
    row = state.pending.find("id", workload)
    if unbook(state, workload):
        state.cancelled.append((int(state.pending["author"][row]), state.now))
    state.pending.remove([row])


def unbook(state: State, workload: int) -> bool:
    """The workload's reservation, if it has one, is over."""
    kept = [booking for booking in state.bookings or [] if booking.workload != workload]
    had = len(kept) < len(state.bookings or [])
    if had:
        state.bookings = kept
    return had


def book(state: State, action: Reserve) -> None:
    """A reservation is kept."""
    if state.bookings is not None:
        number = max((booking.id for booking in state.bookings), default=0) + 1
        places = {state.hosts.find("id", host): replicas for host, replicas in action.placement}
        takings = frozenset(action.takings)
        state.bookings.append(Booking(number, action.workload, action.at, state.now, False, places, takings))


def shift(state: State, action: Shift) -> None:
    """Express starts have moved a reservation's time."""
    for booking in state.bookings or []:
        if booking.workload == action.workload:
            booking.at, booking.moved = action.at, True


def run(state: State, attempt: int) -> None:
    """The hosts say that the whole gang runs, now."""
    state.attempts["running_at"][state.attempts.find("id", attempt)] = state.now


def checkpoint(state: State, attempt: int) -> None:
    """The attempt reports that it saved its progress, now."""
    state.attempts["last_checkpoint_at"][state.attempts.find("id", attempt)] = state.now


def cordon(state: State, host: int, schedulable: bool = False) -> None:
    """A host takes new attempts, or no longer does."""
    hosts = state.hosts
    hosts["schedulable"][hosts.find("id", host)] = schedulable
    state.capacity.add({"at": state.now, "gpus": int(hosts["gpus"][hosts["schedulable"]].sum())})


def drain(state: State, host: int, stop: bool = False) -> None:
    """A host is to be emptied: cordoned by a person, or unhealthy; or no longer (R15)."""
    (state.draining.discard if stop else state.draining.add)(host)
    cordon(state, host, schedulable=stop)


def stop(state: State, attempt: int, grace_seconds: int, taker: int = NEVER) -> None:
    """An attempt is told to stop, now: its charged segment ends, its GPUs stay occupied (R3)."""
    index = state.attempts.find("id", attempt)
    change_standing(state, index, Standing.STOPPING, state.now)
    attempts = state.attempts
    attempts["stopping_at"][index] = state.now
    attempts["grace_seconds"][index] = grace_seconds
    attempts["taker"][index] = taker


def free(state: State, attempt: int, host: int) -> None:
    """A host says that the attempt's GPUs on it are free again. After the last, the attempt ends."""
    places = state.places[attempt]
    del places[state.hosts.find("id", host)]
    if not places:
        end(state, attempt)


def end(state: State, attempt: int, requeue: bool = False, cancelled: bool = False) -> None:
    """The attempt is over and occupies nothing; `requeue` puts its workload back (R11)."""
    index = state.attempts.find("id", attempt)
    row = state.attempts.row(index)
    change_standing(state, index, Standing.STOPPING, state.now)
    if (state.attempts["taker"] == attempt).any() or row["id"] in state.takings:
        ended = {"author": row["author"], "running_at": row["running_at"], "ended_at": state.now}
        state.takers.add({**ended, "contract_seconds": row["contract_seconds"], "cancelled": cancelled})
    state.attempts["taker"][state.attempts["taker"] == attempt] = NEVER
    state.takings.discard(attempt)
    del state.places[attempt]
    state.attempts.remove([index])
    if requeue:
        started = row["segments_at"] != NEVER
        kept = {name: row[name] for name in CARRIED}
        contract = row["contract_seconds"]
        first = bool(row["first_start"]) and not started
        submit(
            state,
            {
                **kept,
                "id": row["workload"],
                "queued_at": state.now,
                "min_runtime_seconds": contract,
                "first_start": first,
            },
        )


def change_standing(state: State, index: int, standing: Standing, at: int) -> None:
    """Close the open segment at `at` and open one of the new standing (R3)."""
    attempts = state.attempts
    row = attempts.row(index)
    if row["segment_at"] != NEVER:
        _close_segment(state, row, at)
        attempts["segment_at"][index] = at
    attempts["standing"][index] = standing


def _close_segment(state: State, row: Mapping[str, int], at: int) -> None:
    """A segment goes to the ledger of its standing; stopping time is in neither."""
    if at <= row["segment_at"] or row["standing"] == Standing.STOPPING:
        return
    ledger = state.unallocated if row["standing"] == Standing.UNALLOCATED else state.charged
    ledger.add(
        {
            "path": state.path_number(row["project"]),
            "author": row["author"],
            "start_at": row["segment_at"],
            "end_at": at,
            "gpus": row["replicas"] * row["gpus_per_replica"],
        }
    )


def apply(state: State, decision: Decision) -> None:
    """Carry out every action of a decision, in its order, at the state's present moment."""
    for action in decision.actions:
        _apply_one(state, action, decision.policy)
    _link_victims(state, decision)


def _apply_one(state: State, action: Action, policy: Policy) -> None:
    attempts = state.attempts
    match action:
        case Start():
            _start(state, action, policy)
        case Preempt(attempt=attempt, grace_seconds=grace) | Drain(attempt=attempt, grace_seconds=grace):
            stop(state, attempt, grace)
        case Reserve() | Release() | Shift():
            _keep(state, action)
        case Quarantine(host=host):
            cordon(state, host)
        case GiveUp(attempt=attempt, requeue=True):
            end(state, attempt, requeue=True)
        case GiveUp(attempt=attempt):
            stop(state, attempt, policy.grace_allocated_seconds)
        case Begin(attempt=attempt):
            index = attempts.find("id", attempt)
            attempts["segments_at"][index] = attempts["segment_at"][index] = state.now
        case Mature(attempt=attempt, at=at):
            change_standing(state, attempts.find("id", attempt), Standing.FUNDED, at)
        case Lapse(attempt=attempt) | Return(attempt=attempt):
            index = attempts.find("id", attempt)
            standing = action.standing if isinstance(action, Return) else Standing.UNALLOCATED
            change_standing(state, index, standing, state.now)
            attempts["lapsed"][index] = isinstance(action, Lapse)


def _keep(state: State, action: Reserve | Release | Shift) -> None:
    match action:
        case Reserve():
            book(state, action)
        case Release(workload=workload):
            unbook(state, workload)
        case Shift():
            shift(state, action)


def _start(state: State, action: Start, policy: Policy) -> None:
    pending = state.pending.find("id", action.workload)
    row = state.pending.row(pending)
    state.pending.remove([pending])
    unbook(state, action.workload)
    attempt = state.next_attempt
    state.next_attempt += 1
    at = NEVER if action.victims else state.now
    contract = row["min_runtime_seconds"]
    state.attempts.add(
        {
            **{name: row[name] for name in CARRIED},
            "id": attempt,
            "workload": action.workload,
            "queued_at": row["queued_at"],
            "first_start": bool(row["first_start"]),
            "contract_seconds": contract,
            "express": action.express,
            "decided_at": state.now,
            "segments_at": at,
            "segment_at": at,
            "running_at": NEVER,
            "stopping_at": NEVER,
            "grace_seconds": 0,
            "standing": action.standing,
            "lapsed": False,
            "last_checkpoint_at": NEVER,
            "taker": NEVER,
        }
    )
    state.places[attempt] = {state.hosts.find("id", host): replicas for host, replicas in action.placement}
    if action.express:
        counted = row["replicas"] * row["gpus_per_replica"] * max(contract, policy.express_floor_seconds)
        path = state.path_number(row["project"])
        state.express.add({"path": path, "decided_at": state.now, "gpu_seconds": counted})


def _link_victims(state: State, decision: Decision) -> None:
    """Victims name the attempt that they stop for, which exists only now."""
    attempts = state.attempts
    for action in decision.actions:
        if isinstance(action, Start) and action.victims:
            taker = int(attempts["id"][attempts.find("workload", action.workload)])
            state.takings.add(taker)
            for victim in action.victims:
                attempts["taker"][attempts.find("id", victim)] = taker
