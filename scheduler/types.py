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

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduler.orders import Action as Action
from scheduler.orders import Begin as Begin
from scheduler.orders import Decision as Decision
from scheduler.orders import Drain as Drain
from scheduler.orders import GiveUp as GiveUp
from scheduler.orders import Lapse as Lapse
from scheduler.orders import Mature as Mature
from scheduler.orders import Preempt as Preempt
from scheduler.orders import ProjectBalance as ProjectBalance
from scheduler.orders import Quarantine as Quarantine
from scheduler.orders import Release as Release
from scheduler.orders import Reserve as Reserve
from scheduler.orders import Return as Return
from scheduler.orders import Shift as Shift
from scheduler.orders import Start as Start
from scheduler.orders import Wait as Wait
from scheduler.orders import Waits as Waits
from scheduler.policy import POLICY_BOUNDS as POLICY_BOUNDS
from scheduler.policy import Bound as Bound
from scheduler.policy import Policy as Policy
from scheduler.reasons import Code as Code
from scheduler.reasons import Reason as Reason
from scheduler.reasons import reason as reason
from scheduler.standing import ALLOCATED as ALLOCATED
from scheduler.standing import Standing as Standing

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NEVER = -1
"""A moment that has not come, a cap that is not set, a partner that isn't there."""

PPM = 1_000_000
"""Parts per million in a whole."""


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
class Reservations:
    """Reservations of workloads that are pending (R12). One ends when its workload starts or is cancelled."""

    id: IntArray  # rises in the order in which they were made
    workload: IntArray
    at: IntArray  # the time that it names, express shift included
    made_at: IntArray
    moved: BoolArray  # express starts have moved its time: they may do so once


@dataclass(frozen=True, slots=True, eq=False)
class ReservationPlaces:
    """The hosts of reservations, as decided."""

    reservation: IntArray  # index into Reservations
    host: IntArray  # index into Hosts
    replicas: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ReservationTakings:
    """The licence that a reservation keeps: workloads whose attempts it may take past their minimum."""

    reservation: IntArray  # index into Reservations
    workload: IntArray  # workload id, as decided


@dataclass(frozen=True, slots=True, eq=False)
class CancelledReservations:
    """Workloads that their author cancelled while they held a reservation, of the last ban span (R12)."""

    author: IntArray
    cancelled_at: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Reserved:
    """Reservations and what belongs to them."""

    reservations: Reservations
    places: ReservationPlaces
    takings: ReservationTakings
    cancelled: CancelledReservations


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
    draining: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # ids of hosts that empty (R15)
    reserved: Reserved | None = None  # None: who reads the decision keeps no reservations, so none are made


# ---------------------------------------------------------------- refusals


class InvariantBroken(Exception):
    """A decision that must never be applied; the message names the invariant and the rows."""


class SnapshotRefused(Exception):
    """Facts that can't be true, or that the core can't carry without loss."""
