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
    if state.ground is not None and now < state.now:
        state.ground.forget()
    state.now = now


def submit(state: State, row: Mapping[str, int | bool]) -> None:
    """A workload waits: the columns of `Pending`."""
    place = state.pending.add(row)
    if state.ground is not None:
        state.ground.wait(place)


def withdraw(state: State, workload: int) -> None:
    """A pending workload is cancelled before any attempt; with a reservation that is remembered (R12)."""
    row = state.pending.find("id", workload)
    if unbook(state, workload):
        state.cancelled.append((int(state.pending["author"][row]), state.now))
    _unwait(state, row)


def _unwait(state: State, row: int) -> None:
    state.pending.remove([row])
    if state.ground is not None:
        state.ground.unwait(row)


def _turn(state: State, row: int) -> None:
    """Something has changed about the attempt in that row."""
    if state.ground is not None:
        state.ground.turn(row)


def _retake(state: State, row: int, taker: int) -> None:
    """The attempt in that row stops for that one."""
    state.attempts.columns["taker"][row] = taker
    if state.ground is not None:
        state.ground.retake(row)


def _rebook(state: State) -> None:
    if state.ground is not None:
        state.ground.rebook()


def unbook(state: State, workload: int) -> bool:
    """The workload's reservation, if it has one, is over."""
    kept = [booking for booking in state.bookings or [] if booking.workload != workload]
    had = len(kept) < len(state.bookings or [])
    if had:
        state.bookings = kept
        _rebook(state)
    return had


def book(state: State, action: Reserve) -> None:
    """A reservation is kept."""
    if state.bookings is not None:
        number = max((booking.id for booking in state.bookings), default=0) + 1
        places = {state.hosts.find("id", host): replicas for host, replicas in action.placement}
        takings = frozenset(action.takings)
        state.bookings.append(Booking(number, action.workload, action.at, state.now, False, places, takings))
        _rebook(state)


def shift(state: State, action: Shift) -> None:
    """Express starts have moved a reservation's time."""
    for booking in state.bookings or []:
        if booking.workload == action.workload:
            booking.at, booking.moved = action.at, True
            _rebook(state)


def run(state: State, attempt: int) -> None:
    """The hosts say that the whole gang runs, now."""
    row = state.attempts.find("id", attempt)
    state.attempts["running_at"][row] = state.now
    _turn(state, row)


def checkpoint(state: State, attempt: int, at: int | None = None) -> None:
    """The attempt reports that it saved its progress, now or at a moment before."""
    row = state.attempts.find("id", attempt)
    state.attempts.columns["last_checkpoint_at"][row] = state.now if at is None else at
    if state.ground is not None:
        state.ground.saved(row)


def cordon(state: State, host: int, schedulable: bool = False) -> None:
    """A host takes new attempts, or no longer does."""
    hosts = state.hosts
    hosts["schedulable"][hosts.find("id", host)] = schedulable
    state.capacity.add({"at": state.now, "gpus": int(hosts["gpus"][hosts["schedulable"]].sum())})
    if state.ground is not None:
        state.ground.rehost()


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
    _turn(state, index)


def free(state: State, attempt: int, host: int) -> None:
    """A host says that the attempt's GPUs on it are free again. After the last, the attempt ends."""
    places = state.places[attempt]
    del places[state.hosts.find("id", host)]
    if not places:
        end(state, attempt)
    else:
        _turn(state, state.attempts.find("id", attempt))


def end(state: State, attempt: int, requeue: bool = False, cancelled: bool = False) -> None:
    """The attempt is over and occupies nothing; `requeue` puts its workload back (R11)."""
    index, columns = state.attempts.find("id", attempt), state.attempts.columns
    segment_at = columns["segment_at"].item(index)
    if segment_at != NEVER:
        _close_segment(state, index, max(state.now, segment_at))
    took = attempt in state.takings
    if took:
        author, running_at = columns["author"].item(index), columns["running_at"].item(index)
        contract = columns["contract_seconds"].item(index)
        ended = {"author": author, "running_at": running_at, "ended_at": state.now}
        state.takers.add({**ended, "contract_seconds": contract, "cancelled": cancelled})
        if state.ground is not None:
            state.ground.count_taker(author, running_at, contract, cancelled)
    for victim in state.takings.pop(attempt, ()):
        if victim in state.places:
            _retake(state, state.attempts.find("id", victim), NEVER)
    del state.places[attempt]
    back = _list_requeued(state, index) if requeue else None
    if state.ground is not None:
        columns["standing"][index] = 0
        columns["taker"][index] = NEVER
        state.ground.turn(index, gone=True)
    state.attempts.remove([index])
    if back is not None:
        submit(state, back)


def _list_requeued(state: State, index: int) -> dict[str, int | bool]:
    """The columns of `Pending` with which the attempt's workload waits again."""
    columns = state.attempts.columns
    row: dict[str, int | bool] = {name: columns[name].item(index) for name in CARRIED}
    row["id"], row["queued_at"] = columns["workload"].item(index), state.now
    row["min_runtime_seconds"] = columns["contract_seconds"].item(index)
    row["first_start"] = columns["first_start"].item(index) and columns["segments_at"].item(index) == NEVER
    return row


def change_standing(state: State, index: int, standing: Standing, at: int) -> None:
    """Close the open segment at `at` and open one of the new standing (R3)."""
    columns = state.attempts.columns
    segment_at = columns["segment_at"].item(index)
    if segment_at != NEVER:
        at = max(at, segment_at)  # after a step of the clock: time before the segment isn't its own
        _close_segment(state, index, at)
        columns["segment_at"][index] = at
    columns["standing"][index] = standing


def _close_segment(state: State, index: int, at: int) -> None:
    """A segment goes to the ledger of its standing; stopping time is in neither."""
    columns = state.attempts.columns
    segment_at, standing = columns["segment_at"].item(index), columns["standing"].item(index)
    if at <= segment_at or standing == Standing.STOPPING:
        return
    ledger = state.unallocated if standing == Standing.UNALLOCATED else state.charged
    ledger.add(
        {
            "path": state.path_number(columns["project"].item(index)),
            "author": columns["author"].item(index),
            "start_at": segment_at,
            "end_at": at,
            "gpus": columns["replicas"].item(index) * columns["gpus_per_replica"].item(index),
        }
    )


def apply(state: State, decision: Decision, runs_at_once: bool = False) -> None:
    """Carry out every action of a decision, in its order, at the state's present moment.

    `runs_at_once`: what gets its GPUs runs in the same second, as in a simulation.
    """
    board = None if state.ground is None else state.ground.list_applying(decision.actions)
    started: dict[int, int] = {}
    for action in decision.actions:
        if isinstance(action, Start):
            started[action.workload] = _start(state, action, decision.policy, runs_at_once)
        elif isinstance(action, Begin):
            _begin(state, action, runs_at_once)
        else:
            _apply_one(state, action, decision.policy)
    _link_victims(state, decision, started)
    if state.ground is not None:
        state.ground.applied(board)


def _apply_one(state: State, action: Action, policy: Policy) -> None:
    attempts = state.attempts
    match action:
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
        case Mature(attempt=attempt, at=at):
            index = attempts.find("id", attempt)
            change_standing(state, index, Standing.FUNDED, at)
            _turn(state, index)
        case Lapse(attempt=attempt) | Return(attempt=attempt):
            index = attempts.find("id", attempt)
            standing = action.standing if isinstance(action, Return) else Standing.UNALLOCATED
            change_standing(state, index, standing, state.now)
            attempts["lapsed"][index] = isinstance(action, Lapse)
            _turn(state, index)


def _keep(state: State, action: Reserve | Release | Shift) -> None:
    match action:
        case Reserve():
            book(state, action)
        case Release(workload=workload):
            unbook(state, workload)
        case Shift():
            shift(state, action)


def _begin(state: State, action: Begin, runs_at_once: bool) -> None:
    """A held attempt gets its GPUs."""
    index, columns = state.attempts.find("id", action.attempt), state.attempts.columns
    columns["segments_at"][index] = columns["segment_at"][index] = state.now
    if runs_at_once:
        columns["running_at"][index] = state.now
    _turn(state, index)


def _start(state: State, action: Start, policy: Policy, runs_at_once: bool) -> int:
    """The attempt that it becomes."""
    pending = state.pending.find("id", action.workload)
    row = state.pending.row(pending)
    _unwait(state, pending)
    unbook(state, action.workload)
    attempt = state.next_attempt
    state.next_attempt += 1
    at = NEVER if action.victims else state.now
    contract = row["min_runtime_seconds"]
    row |= {
        "id": attempt,
        "workload": action.workload,
        "contract_seconds": contract,
        "express": action.express,
        "decided_at": state.now,
        "segments_at": at,
        "segment_at": at,
        "running_at": at if runs_at_once else NEVER,
        "stopping_at": NEVER,
        "grace_seconds": 0,
        "standing": action.standing,
        "lapsed": False,
        "last_checkpoint_at": NEVER,
        "taker": NEVER,
    }
    place = state.attempts.add(row)
    state.places[attempt] = {state.hosts.find("id", host): replicas for host, replicas in action.placement}
    if action.express:
        counted = row["replicas"] * row["gpus_per_replica"] * max(contract, policy.express_floor_seconds)
        path = state.path_number(row["project"])
        state.express.add({"path": path, "decided_at": state.now, "gpu_seconds": counted})
        if state.ground is not None:
            state.ground.count_express(row["project"], counted)
    _turn(state, place)
    return attempt


def _link_victims(state: State, decision: Decision, started: Mapping[int, int]) -> None:
    """Victims name the attempt that they stop for, which exists only now."""
    attempts = state.attempts
    for action in decision.actions:
        if isinstance(action, Start) and action.victims:
            taker = started[action.workload]
            state.takings[taker] = action.victims
            for victim in action.victims:
                row = attempts.find("id", victim)
                _retake(state, row, taker)
