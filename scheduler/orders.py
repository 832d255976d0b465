"""What a decision says: actions, waits and balances. Units and words as in `types`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduler.policy import Policy
from scheduler.reasons import Reason
from scheduler.standing import Standing


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A host did not free the GPUs of a stopped attempt in time (R11): it is unhealthy."""

    host: int
    attempt: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class GiveUp:
    """An attempt that never ran ends.

    `requeue` false: as failed to start (R4). True: it was held for, one of its hosts is lost,
    and its workload is pending again, decided anew in this very decision (R11).
    Its standing, and what it was charged for beyond its segments, end now.
    """

    attempt: int
    requeue: bool
    reason: Reason


@dataclass(frozen=True, slots=True)
class Begin:
    """All GPUs of a held attempt are free: assign them; its segments start now (R3, R10)."""

    attempt: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Mature:
    """protected -> funded, at the exact end of the contract, which may lie before now (R4)."""

    attempt: int
    at: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Lapse:
    """funded -> unallocated, lapsed, now: a project on its path is at balance 0 or less (R6)."""

    attempt: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Return:
    """unallocated -> protected for the rest of its minimum runtime, or funded, now (R6)."""

    attempt: int
    standing: Standing
    reason: Reason


@dataclass(frozen=True, slots=True)
class Preempt:
    """Signal the attempt to stop, now; kill after the grace time. It frees GPUs for `taker`.

    Its standing is stopping from now on. It stands before its taker's `Start`.
    """

    attempt: int
    taker: int  # workload id
    grace_seconds: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Start:
    """A new attempt. Without victims it is assigned now; with victims it is held (R10)."""

    workload: int
    standing: Standing  # PROTECTED or UNALLOCATED
    express: bool
    placement: tuple[tuple[int, int], ...]  # (host id, replicas on it), by host id
    victims: tuple[int, ...]  # attempt ids that it waits for, sorted
    reason: Reason


@dataclass(frozen=True, slots=True)
class Reserve:
    """A reservation for a pending workload: keep it with the hosts, the time and the licence (R12)."""

    workload: int
    at: int
    placement: tuple[tuple[int, int], ...]  # (host id, replicas on it), by host id
    takings: tuple[int, ...]  # workload ids that it may take once past their minimum, sorted
    reason: Reason


@dataclass(frozen=True, slots=True)
class Release:
    """The reservation of a workload is over before its start: it lost a host (R12)."""

    workload: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Shift:
    """Express starts on its hosts move a reservation's time to `at`, once (R7)."""

    workload: int
    at: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Drain:
    """An attempt leaves a host that empties (R15): signal it now, kill it after the grace time.

    Its standing is stopping from now on; resumable work is requeued, other work ends as preempted.
    """

    attempt: int
    grace_seconds: int
    reason: Reason


Action = Quarantine | GiveUp | Begin | Mature | Lapse | Return | Preempt | Start | Reserve | Release | Shift | Drain


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a pending workload was not started."""

    workload: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Waits:
    """The wait of every pending workload that was not started, by workload id.

    Kept as parallel lists: many workloads share one reason but for position and GPUs ahead.
    """

    workload: tuple[int, ...] = ()
    shared: tuple[Reason, ...] = ()  # code and the numbers that depend on the kind alone
    position: tuple[int, ...] = ()  # 1 is next in its queue; 0: not in a queue
    gpus_ahead: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.workload)

    def __iter__(self) -> Iterator[Wait]:
        rows = zip(self.workload, self.shared, self.position, self.gpus_ahead, strict=True)
        for workload, shared, position, ahead in rows:
            if position:
                queue = (("position", position), ("gpus_ahead", ahead))
                yield Wait(workload, Reason(shared.code, (*queue, *shared.numbers)))
            else:
                yield Wait(workload, shared)


@dataclass(frozen=True, slots=True)
class ProjectBalance:
    """What a page shows of a project after the decision (R1, R2).

    `own` marks what the parent holds for its own workloads, beside its children.
    """

    project: int
    own: bool
    share_ppm: int  # of the cluster, rounded down
    quota_gpu_seconds: int  # rounded down
    usage_gpu_seconds: int
    unallocated_gpu_seconds: int
    balance_ppm: int | None  # rounded down; None: no budget
    allocated_gpus: int
    burst_gpus: int | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now. `actions` are in the order in which they hold; each may rest on those before."""

    now: int
    actions: tuple[Action, ...] = ()
    waits: Waits = field(default_factory=Waits)
    balances: tuple[ProjectBalance, ...] = ()
    policy: Policy = Policy()  # under which it was taken
