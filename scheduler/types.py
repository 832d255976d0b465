"""The words that the core speaks: facts in (Snapshot, Policy), orders out (Decision).

Units, everywhere in this package:

- a moment (`_at`) is whole seconds since the epoch, UTC; `NEVER` (-1) stands for
  "has not happened" in arrays
- a span (`_seconds`) is whole seconds; GPU-time is whole GPU-seconds
- a share is whole parts per million (`_ppm`) of the parent's share
- ids are the portal's own; an *index* is a position in a table of the snapshot
- tables are frozen dataclasses of equally long one-dimensional arrays: `int64`
  for numbers, `bool` for flags. The order of rows never changes a decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from scheduler.policy import POLICY_BOUNDS as POLICY_BOUNDS
from scheduler.policy import Bound as Bound
from scheduler.policy import Policy as Policy
from scheduler.reasons import Code as Code
from scheduler.reasons import Reason as Reason
from scheduler.reasons import reason as reason

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NEVER = -1
"""A moment that has not come, a cap that is not set, a partner that isn't there."""

PPM = 1_000_000
"""Parts per million in a whole."""


class Standing(IntEnum):
    """What an attempt's present time counts as (SPEC.md section 3, R4 to R6, R11)."""

    PROTECTED = 1
    FUNDED = 2
    UNALLOCATED = 3
    STOPPING = 4


ALLOCATED = (Standing.PROTECTED, Standing.FUNDED)
"""The standings that are charged to the budget."""


# ---------------------------------------------------------------- facts


@dataclass(frozen=True, slots=True, eq=False)
class Projects:
    """The project tree. Exactly one row has no parent: the root, whose share is 100 %."""

    id: IntArray
    parent: IntArray  # index into this table; NEVER for the root


@dataclass(frozen=True, slots=True, eq=False)
class ShareSteps:
    """The history of budgets on this cluster: from `at` on, until the project's next step.

    All steps ever made belong here (they are few), future ones may be left out.
    A project without a step has no budget. The root needs none.
    """

    project: IntArray  # index into Projects
    at: IntArray
    share_ppm: IntArray  # of the parent's share, 0 to PPM
    burst_gpus: IntArray  # cap on allocated GPUs from this step on; NEVER: none


@dataclass(frozen=True, slots=True, eq=False)
class CapacitySteps:
    """Schedulable GPUs of the cluster: from `at` on, until the next step; before the first: 0.

    Must hold the last step at or before the start of the lookback window.
    """

    at: IntArray
    gpus: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Hosts:
    """The hosts of the cluster, whatever their state."""

    id: IntArray
    gpus: IntArray  # that it has; 0 is allowed
    schedulable: BoolArray  # takes new attempts: enabled, healthy, not cordoned
    block: IntArray  # topology block; hosts of like number are near each other


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """Workloads that wait for a start: submitted or requeued, with no attempt under way."""

    id: IntArray  # workload id
    project: IntArray  # index into Projects
    author: IntArray
    first_submit_at: IntArray  # kept over requeues
    queued_at: IntArray  # since when it could start
    replicas: IntArray  # at least 1
    gpus_per_replica: IntArray  # at least 1
    min_runtime_seconds: IntArray  # 0: always unallocated
    resumable: BoolArray
    allow_unallocated: BoolArray
    priority: IntArray  # higher first, inside one project only
    first_start: BoolArray  # no attempt of it has ever started (R7, express)


@dataclass(frozen=True, slots=True, eq=False)
class Attempts:
    """Attempts that hold or occupy GPUs, or are held for: everything not ended.

    - held: `segments_at` is NEVER; its GPUs are being emptied for it
    - starting: `segments_at` is set and `running_at` is NEVER
    - running: `running_at` is set: the moment the whole gang ran
    - stopping: `stopping_at` is set and `standing` is STOPPING
    """

    id: IntArray
    workload: IntArray
    project: IntArray  # index into Projects
    author: IntArray
    priority: IntArray
    first_submit_at: IntArray
    queued_at: IntArray
    first_start: BoolArray  # as it was when it was decided
    replicas: IntArray
    gpus_per_replica: IntArray
    contract_seconds: IntArray  # its minimum runtime
    resumable: BoolArray
    allow_unallocated: BoolArray
    express: BoolArray  # it was decided as an express start
    decided_at: IntArray
    segments_at: IntArray  # its first segment's start, or NEVER: held
    segment_at: IntArray  # its open segment's start, or NEVER; cut at each change of standing
    running_at: IntArray
    stopping_at: IntArray
    grace_seconds: IntArray  # of a stopping one: from signal to kill; else 0
    standing: IntArray  # a Standing
    lapsed: BoolArray  # unallocated because it lapsed (R6), not from its start
    last_checkpoint_at: IntArray  # last reported in this attempt, or NEVER
    taker: IntArray  # of a stopping one: attempt id that it stops for, or NEVER


@dataclass(frozen=True, slots=True, eq=False)
class Placements:
    """Where attempts sit or will sit: one row for each attempt and host.

    A stopping attempt keeps a row only while that host has not said that the GPUs are free.
    """

    attempt: IntArray  # index into Attempts
    host: IntArray  # index into Hosts
    replicas: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Closed attempt segments that reach into the lookback window (R3).

    Uncut or cut anywhere, in any order: the usage is the same. The open segment of
    an attempt under way is not here: `Attempts.segment_at` says where it starts.
    """

    path: IntArray  # index into Snapshot.paths: the ancestors when it was charged
    author: IntArray
    start_at: IntArray
    end_at: IntArray
    gpus: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ExpressStarts:
    """Express starts decided inside the lookback window, ended ones included (R7)."""

    path: IntArray  # index into Snapshot.paths
    decided_at: IntArray
    gpu_seconds: IntArray  # GPUs x max(minimum runtime, the express floor)


@dataclass(frozen=True, slots=True, eq=False)
class EndedTakers:
    """Attempts that took GPUs and have ended, of the last two ban spans (R11)."""

    author: IntArray
    running_at: IntArray  # NEVER: it never ran
    ended_at: IntArray
    contract_seconds: IntArray
    cancelled: BoolArray  # by its author


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """All that a decision depends on, for one cluster at one moment."""

    now: int
    projects: Projects
    shares: ShareSteps
    capacity: CapacitySteps
    hosts: Hosts
    pending: Pending
    attempts: Attempts
    placements: Placements
    paths: tuple[tuple[int, ...], ...]  # project *ids*, root first, the workload's own last
    charged: Segments  # protected and funded time
    unallocated: Segments  # orders unallocated work among itself (R8)
    express: ExpressStarts
    takers: EndedTakers


# ---------------------------------------------------------------- orders


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


Action = Quarantine | GiveUp | Begin | Mature | Lapse | Return | Preempt | Start


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


class InvariantBroken(Exception):
    """A decision that must never be applied; the message names the invariant and the rows."""


class SnapshotRefused(Exception):
    """Facts that can't be true, or that the core can't carry without loss."""
