"""The teams of the generator `research-lab`, and the endless stream of jobs of each.

The numbers, and their reasons:

- Shares: from 14 % to 1 %, 82 % together, falling about geometrically, as team sizes do. The rest
  is what an organisation keeps back; it serves unallocated work.
- Classes, by GPU-time: experiments 28 %, training 42 %, large 30 %. Published traces of research
  clusters agree on the shape: nearly all jobs are small, most GPU-time is in few large ones (Jeon
  et al. 2019: 1-GPU jobs are most of the count; Hu et al. 2021: the largest 10 % of jobs hold over
  half of the time). A team never queues a gang larger than its own share of the cluster: it would
  wait for its budget, not for GPUs. So small teams run small work, and over all teams experiments
  come to about 40 %.
- GPUs: powers of two, as people ask. Experiments 1 to 8, training 8 to 32, large 64 to 256.
- Durations: log-normal (what is always found), medians 4 h, 12 h and 24 h, cut at 2, 4 and 5 days.
- Minimum runtimes: the round numbers that people type, 30 min to 8 h, longer for larger gangs,
  which take longer to load and to save, up to the cap of R14: a longer contract costs its project
  no more than it uses, so people ask for much (Ai2 names the 8 h cap as what its users run into).
  Nobody asks for more than the round number that covers the whole run. A fixed part would rather
  have 0; each of those has a contract drawn too, for when its team's queue is full of such work.
- Debug: 1 to 8 GPUs, three in four with one, minimum runtimes 2, 5 and 10 min; most end early, none
  runs longer than twice its minimum runtime.
- Users: 150, by team in proportion to the root of its share (large budgets are large jobs, not only
  more people); inside a team the k-th most active submits like 1 / k.
- Priorities: one job in ten is urgent to its team.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.simulation.setup import ProjectSetup, ResearchLab, Setup
from scheduler.types import NEVER, PPM, IntArray, ShareSteps

FloatArray = NDArray[np.float64]

HOUR, DAY, MINUTE = 3600, 86400, 60

SHARES_PERCENT = (14, 11, 9, 8, 7, 6, 5, 4.5, 4, 3.5, 3, 2.5, 2, 1.5, 1)
NAMES = (
    "foundation",
    "vision",
    "nlp",
    "robotics",
    "speech",
    "safety",
    "climate",
    "biology",
    "retrieval",
    "agents",
    "theory",
    "audio",
    "video",
    "tools",
    "teaching",
)

BLOCK = 256
"""Jobs of a stream that are drawn at once."""


@dataclass(frozen=True, slots=True)
class JobClass:
    """One class of work; weights need not add up to 1."""

    gpu_time: float  # part of a team's GPU-time
    gpus: tuple[int, ...]
    gpus_weight: tuple[float, ...]
    median_seconds: int
    sigma: float
    longest_seconds: int
    contracts: tuple[int, ...]
    contracts_weight: tuple[float, ...]

    def mean_seconds(self) -> float:
        """Of the log-normal, cut left aside."""
        return float(self.median_seconds * np.exp(self.sigma**2 / 2))


HALF = 30 * MINUTE
EXPERIMENT = JobClass(
    0.28,
    (1, 2, 4, 8),
    (0.35, 0.2, 0.2, 0.25),
    4 * HOUR,
    1.0,
    2 * DAY,
    (HALF, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR),
    (0.05, 0.1, 0.2, 0.35, 0.3),
)
TRAINING = JobClass(
    0.42,
    (8, 16, 32),
    (0.4, 0.35, 0.25),
    12 * HOUR,
    0.8,
    4 * DAY,
    (HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR),
    (0.05, 0.15, 0.4, 0.4),
)
LARGE = JobClass(
    0.30,
    (64, 128, 256),
    (0.6, 0.3, 0.1),
    24 * HOUR,
    0.7,
    5 * DAY,
    (2 * HOUR, 4 * HOUR, 8 * HOUR),
    (0.05, 0.35, 0.6),
)
CLASSES = (EXPERIMENT, TRAINING, LARGE)

DEBUG_GPUS, DEBUG_GPUS_WEIGHT = (1, 2, 4, 8), (0.75, 0.12, 0.08, 0.05)
DEBUG_CONTRACTS, DEBUG_CONTRACTS_WEIGHT = (2 * MINUTE, 5 * MINUTE, 10 * MINUTE), (0.2, 0.4, 0.4)
DEBUG_SHORTEST_SECONDS = 20
URGENT_FRACTION = 0.1


def make_teams(lab: ResearchLab) -> tuple[tuple[ProjectSetup, ...], ShareSteps]:
    """A tree of the root `lab` and its teams, with their budgets from the start on."""
    raw = np.array([SHARES_PERCENT[number % len(SHARES_PERCENT)] for number in range(lab.teams)], dtype=np.float64)
    share = np.floor(raw / raw.sum() * lab.budgets_ppm + 1e-6).astype(np.int64)
    names = [NAMES[n % len(NAMES)] + (str(n // len(NAMES) + 1) if n >= len(NAMES) else "") for n in range(lab.teams)]
    projects = (ProjectSetup("lab", NEVER), *(ProjectSetup(f"lab/{name}", 0) for name in names))
    rows = np.arange(1, lab.teams + 1, dtype=np.int64)
    return projects, ShareSteps(rows, np.zeros_like(rows), share, np.full_like(rows, NEVER))


def share_users(count: int, shares_ppm: list[int]) -> list[int]:
    """People by team, at least one each, in proportion to the root of the team's share."""
    roots = np.sqrt(np.maximum(np.array(shares_ppm, dtype=np.float64), 1))
    exact = roots / roots.sum() * max(count - len(shares_ppm), 0)
    people = np.floor(exact).astype(np.int64) + 1
    rest = max(count - int(people.sum()), 0)
    people[np.argsort(people - exact, kind="stable")[:rest]] += 1  # the largest remainders
    return [int(number) for number in people]


@dataclass(frozen=True, slots=True)
class Job:
    """One draw of a stream."""

    user: int
    gpus: int
    duration_seconds: int
    min_runtime_seconds: int
    without_contract: bool  # its author would rather ask for 0, while the team's queue allows it
    priority: int


class Stream:
    """A team's jobs but for debug, one after another: the k-th is the same whatever the policy and the time."""

    def __init__(
        self, setup: Setup, lab: ResearchLab, share_ppm: int, users: list[int], draw: np.random.Generator
    ) -> None:
        self.draw = draw
        self.users = np.array(users, dtype=np.int64)
        self.user_weight = weigh_users(len(users))
        self.zero = lab.zero_min_runtime_fraction
        room = share_ppm * setup.gpus // PPM
        self.classes = [cut for one in CLASSES if (cut := _cut_gangs(one, room, one is EXPERIMENT)) is not None]
        parts = [one.gpu_time / (_mean(one.gpus, one.gpus_weight) * one.mean_seconds()) for one in self.classes]
        self.weight = np.array(parts) / sum(parts)
        self.jobs: list[Job] = []

    def peek(self) -> Job:
        """The next job, left in its place."""
        if not self.jobs:
            self.jobs = self._draw_block()[::-1]
        return self.jobs[-1]

    def next(self) -> Job:
        """The next job."""
        self.peek()
        return self.jobs.pop()

    def _draw_block(self) -> list[Job]:
        draw = self.draw
        kinds = draw.choice(len(self.classes), BLOCK, p=self.weight)
        sizes, contracts, normal = draw.random(BLOCK), draw.random(BLOCK), draw.normal(size=BLOCK)
        zero, urgent = draw.random(BLOCK) < self.zero, draw.random(BLOCK) < URGENT_FRACTION
        users = draw.choice(self.users, BLOCK, p=self.user_weight)
        gpus, seconds, contract = (np.zeros(BLOCK, dtype=np.int64) for _ in range(3))
        for kind, one in enumerate(self.classes):
            mine = kinds == kind
            lengths = one.median_seconds * np.exp(one.sigma * normal[mine])
            seconds[mine] = np.clip(lengths, MINUTE, one.longest_seconds).astype(np.int64)
            wanted = pick(one.contracts, one.contracts_weight, contracts[mine])
            contract[mine] = np.minimum(wanted, _round_up(seconds[mine], one.contracts))
            gpus[mine] = pick(one.gpus, one.gpus_weight, sizes[mine])
        columns = (users, gpus, seconds, contract, zero, urgent)
        return [Job(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def weigh_users(count: int) -> FloatArray:
    """The k-th most active of a team submits like 1 / k."""
    weights = 1.0 / np.arange(1, count + 1, dtype=np.float64)
    return np.asarray(weights / weights.sum())


def pick(values: Sequence[int], weights: Sequence[float], draws: FloatArray) -> IntArray:
    """For each draw, between 0 and 1, the value at which the running sum of the weights passes it."""
    sums = np.cumsum(np.array(weights, dtype=np.float64))
    places = np.searchsorted(sums / sums[-1], draws, side="right")
    return np.array(values, dtype=np.int64)[np.minimum(places, len(values) - 1)]


def _round_up(seconds: IntArray, typed: tuple[int, ...]) -> IntArray:
    """The least of what people type that covers the whole run; the longest where none does."""
    places = np.searchsorted(np.array(typed, dtype=np.int64), seconds)
    return np.array(typed, dtype=np.int64)[np.minimum(places, len(typed) - 1)]


def _mean(values: tuple[int, ...], weights: tuple[float, ...]) -> float:
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)


def _cut_gangs(one: JobClass, room: int, least: bool) -> JobClass | None:
    """The class without gangs larger than the team's share; a team can always run one GPU."""
    kept = [(gpus, weight) for gpus, weight in zip(one.gpus, one.gpus_weight, strict=True) if gpus <= room]
    if not kept:
        kept = [(one.gpus[0], 1.0)] if least else []
    if not kept:
        return None
    return JobClass(
        one.gpu_time,
        tuple(gpus for gpus, _ in kept),
        tuple(weight for _, weight in kept),
        one.median_seconds,
        one.sigma,
        one.longest_seconds,
        one.contracts,
        one.contracts_weight,
    )
