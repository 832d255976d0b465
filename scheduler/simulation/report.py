"""What a run of the simulator says: the figures of SPEC.md section 11, as plain numbers.

GPU-time in GPU-hours, times in seconds, ratios between 0 and 1 (a delivery may pass 1);
None where nothing can be said. Percentiles are nearest rank. `to_dict` is ready for JSON.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from scheduler.types import IntArray

WAIT_CLASSES = ("debug", "small", "large", "all")
"""debug: at most 8 GPUs and a minimum runtime above 0 and under 15 min; small: at most 8 GPUs; large: more."""

DEBUG_GPUS_MAX = 8
DEBUG_SECONDS_BELOW = 900


@dataclass(frozen=True, slots=True)
class Waits:
    """From the moment a workload could start to its start, or to the end of the run; of those submitted while measured.

    Leaving out those that never started would flatter a scheduler that starves them.
    """

    n: int  # asked
    started: int
    mean_s: float | None
    p50_s: int | None
    p90_s: int | None
    p99_s: int | None


@dataclass(frozen=True, slots=True)
class ProjectFigures:
    """One project, its whole subtree counted."""

    share: float  # of the cluster, at the end
    delivery: float | None
    owed_gpu_hours: float
    delivered_gpu_hours: float
    gpu_hours: dict[str, float]  # by standing: protected, funded, unallocated, stopping, refunded
    waits: dict[str, Waits]
    preemptions: int
    lost_gpu_hours: float


@dataclass(frozen=True, slots=True)
class DayRow:
    """One project on one day (counted from the start of the run), GPU-hours."""

    project: str
    day: int
    owed: float
    delivered: float
    unallocated: float
    occupied: float  # all standings
    waiting: float  # GPU-hours asked for and not running
    preemptions: int


@dataclass(frozen=True, slots=True)
class ClassMix:
    """What was submitted of one class."""

    jobs: int
    gpu_hours: float  # asked for: GPUs x duration
    gpus_mean: float
    duration_p50_s: int
    min_runtime_p50_s: int


@dataclass(frozen=True, slots=True)
class Series:
    """Hour by hour, for charts; hours from the start of the run, warm-up included."""

    hour: list[int]
    running_gpus: list[float]
    unallocated_gpus: list[float]
    waiting_gpus: list[float]
    waiting_workloads: list[float]
    unfinished_started: list[float]  # workloads begun and not ended, those that wait again included
    interrupted: list[float]  # of them: waiting again, with progress made
    free_gpus: list[float]  # neither occupied nor held
    free_unusable_gpus: list[float]  # free while something waited
    held_gpus: list[float]


@dataclass(frozen=True, slots=True)
class Report:
    """The whole answer. `wall_s` and `jobs_per_s` are added by who has a clock."""

    jobs: int  # submitted, warm-up included
    demand_ratio: float
    occupancy: float
    unallocated_fraction: float  # of what was occupied
    availability: float
    delivery: dict[str, float | None]  # of every project without budgeted children below it
    delivery_mean: float | None  # each counted up to 1
    delivery_min: float | None
    delivery_ge_95: int
    waits: dict[str, Waits]
    restart_waits: dict[str, Waits]  # of preempted or failed workloads, from requeue to restart
    preemptions: int
    lost_gpu_hours: float  # to preemption: work since the last checkpoint, grace time, and restarting
    lost_fraction: float  # of installed GPU-time
    lost_to_failures_gpu_hours: float
    squatted_gpu_hours: float  # occupied and kept idle by their authors ("priority" only)
    unfinished_started: int  # at the end
    free_unusable_gpu_hours: float
    held_gpu_hours: float
    gpu_hours: dict[str, float]  # occupied, by standing
    capacity_gpu_hours: float  # installed
    completed: int
    ended_preempted: int  # not resumable, and taken
    ended_host_failed: int  # not resumable, and their host failed
    cut_jobs: int  # submitted after the end of the run, and left out
    too_large_jobs: int  # no host, or not enough hosts, for them: left out
    rounded_jobs: int  # parts of a GPU rounded up
    class_mix: dict[str, ClassMix]
    by_project: dict[str, ProjectFigures]
    days: list[DayRow]
    series: Series
    scheduler: str
    decisions: int
    passes_skipped: int  # passes at which nothing could change
    checked: int  # decisions whose invariants were checked
    seed: int
    warmup_days: int
    measured_hours: float
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it."""
        return asdict(self)


def find_rank(values: Sequence[int] | IntArray, percent: int) -> int | None:
    """The nearest-rank percentile: the least value that at least `percent` % of them don't exceed."""
    if not len(values):
        return None
    ordered = np.sort(np.asarray(values, dtype=np.int64))
    return int(ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1])


def summarise_waits(started: int, waits: Sequence[int] | IntArray) -> Waits:
    """Mean and percentiles of all that asked; who never started counts with its wait until the end."""
    ordered = np.sort(np.asarray(waits, dtype=np.int64))
    mean = float(ordered.mean()) if len(ordered) else None
    ranks = [find_rank(ordered, percent) for percent in (50, 90, 99)]
    return Waits(len(ordered), started, mean, *ranks)


def classify(gpus: IntArray, min_runtime_seconds: IntArray) -> IntArray:
    """Index into WAIT_CLASSES for each."""
    few = gpus <= DEBUG_GPUS_MAX
    short = (min_runtime_seconds > 0) & (min_runtime_seconds < DEBUG_SECONDS_BELOW)
    return np.where(few, np.where(short, 0, 1), 2).astype(np.int64)
