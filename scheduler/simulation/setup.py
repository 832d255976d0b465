"""What one run of the simulator is given: ONE cluster, its projects and budgets, its work, its faults.

Units as in `scheduler.types`, but moments count in whole seconds from the start of the run
(0): the engine has no calendar. `check_setup` lists what can't be simulated, in words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from scheduler.policy import DAY, HOUR, Policy, list_problems
from scheduler.types import NEVER, PPM, BoolArray, IntArray, ShareSteps

MINUTE = 60


class Scheduler(StrEnum):
    """Who decides."""

    BUDGETS = "budgets"  # R1 to R16
    PRIORITY = "priority"  # the old world: scheduler.priority
    FIFO = "fifo"  # first come, first served: strict order, nothing backfilled or preempted
    SJF = "sjf"  # shortest job first: the same, by duration


class HostChange(StrEnum):
    """What happens to a host."""

    FAIL = "fail"  # everything there ends at once; back after `repair_seconds`
    DRAIN = "drain"  # no new attempts, and it empties (R15); back after `repair_seconds`, NEVER: at a REPAIR
    REPAIR = "repair"  # it takes attempts again


@dataclass(frozen=True, slots=True, eq=False)
class HostSetup:
    """The hosts, one row each. One host with many GPUs is a flat pool."""

    names: tuple[str, ...]
    gpus: IntArray
    block: IntArray  # topology block


@dataclass(frozen=True, slots=True)
class ProjectSetup:
    """A project of the tree; parents stand before their children, and the first one is the root."""

    path: str  # as people write it: lab/nlp
    parent: int  # index into Setup.projects; NEVER for the root


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """The work, one row a workload, in any order."""

    id: IntArray  # unique; ties in time fall to the lower one
    project: IntArray  # index into Setup.projects
    user: IntArray
    submit_at: IntArray
    duration_seconds: IntArray  # of useful work; above 0
    replicas: IntArray
    gpus_per_replica: IntArray
    min_runtime_seconds: IntArray  # 0: always unallocated
    resumable: BoolArray
    allow_unallocated: BoolArray
    priority: IntArray
    checkpoint_interval_seconds: IntArray  # NEVER: it saves nothing before its end

    def __len__(self) -> int:
        return len(self.id)

    def take(self, rows: IntArray | BoolArray) -> Jobs:
        """These rows only, in this order."""
        return Jobs(**{name: getattr(self, name)[rows] for name in self.__dataclass_fields__})


@dataclass(frozen=True, slots=True)
class HostEvent:
    """Something happens to a host."""

    host: int  # index into Setup.hosts
    at: int
    kind: HostChange
    repair_seconds: int = NEVER


@dataclass(frozen=True, slots=True)
class Contracts:
    """What a workload is given that names no contract of its own. Defaults: SPEC.md section 11."""

    min_runtime_seconds: int = 2 * HOUR
    debug_max_gpus: int = 8
    debug_max_duration_seconds: int = 15 * MINUTE
    debug_min_runtime_seconds: int = 5 * MINUTE
    zero_min_runtime_fraction: float = 0.15
    resumable: bool = True
    restart_overhead_seconds: int = 180
    checkpoint_interval_seconds: int = 30 * MINUTE

    def draw_min_runtimes(self, gpus: IntArray, duration_seconds: IntArray, draw: np.random.Generator) -> IntArray:
        """The minimum runtime of each job: 0 for a part of them, else by its size and length. One draw a job."""
        debug = (gpus <= self.debug_max_gpus) & (duration_seconds <= self.debug_max_duration_seconds)
        usual = np.where(debug, self.debug_min_runtime_seconds, self.min_runtime_seconds)
        return np.where(draw.random(len(gpus)) < self.zero_min_runtime_fraction, 0, usual).astype(np.int64)


@dataclass(frozen=True, slots=True)
class ResearchLab:
    """The generator `research-lab`, a laboratory that asks for more than there is (SPEC.md section 11).

    Its numbers and their reasons stand in `scheduler.simulation.research_lab`. It makes its own
    projects (one a team below the root) when the scenario lists none.
    """

    teams: int = 15
    users: int = 150
    budgets_ppm: int = 820_000  # of the cluster, all teams together
    backlog_factor: float = 2.5  # GPUs waiting, over the team's share of the cluster
    idle_week_fraction: float = 0.04
    zero_min_runtime_fraction: float = 0.15
    debug_per_gpu_day: float = 1.05
    host_failures_per_host_year: float = 3.0
    host_repair_seconds: int = 8 * HOUR


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """One cluster's run. Either `jobs` or `generator`."""

    hosts: HostSetup
    projects: tuple[ProjectSetup, ...]
    shares: ShareSteps  # budget steps: project index, at (0: from the start; may lie before it), ppm of the parent
    jobs: Jobs | None = None
    generator: ResearchLab | None = None
    name: str = "cluster"
    scheduler: Scheduler = Scheduler.BUDGETS
    policy: Policy = field(default_factory=Policy)
    contracts: Contracts = field(default_factory=Contracts)
    host_events: tuple[HostEvent, ...] = ()
    pass_interval_seconds: int = 10
    max_gpus_per_user: int | None = None  # scheduler "priority" only
    project_limit_workloads: int | None = None  # a remedy to try: most unfinished started workloads of a project
    days: int | None = 30  # measured, after the warm-up; None: until nothing is left to happen
    warmup_days: int = 0
    seed: int = 1
    rounded_jobs: int = 0  # of the trace: parts of a GPU that were rounded up
    skip_passes: bool = True  # leave out passes that provably change nothing; False: for the test of that proof
    check_every: int = 1999  # invariants on every so manieth decision: dear ones; 0: never, 1: on all

    @property
    def gpus(self) -> int:
        """Installed GPUs."""
        return int(self.hosts.gpus.sum())

    @property
    def warmup_seconds(self) -> int:
        """Where measuring starts."""
        return self.warmup_days * DAY

    @property
    def end_at(self) -> int | None:
        """Where the run ends; None: when nothing is left to happen."""
        return None if self.days is None else (self.warmup_days + self.days) * DAY


class SetupRefused(Exception):
    """A setup that can't be simulated; `problems` are sentences."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


def check_setup(setup: Setup) -> list[str]:
    """What can't be simulated, a sentence each; empty when the setup is sound."""
    problems = [f"policy.{name} {words}." for name, words in list_problems(setup.policy)]
    if not len(setup.hosts.gpus) or setup.gpus <= 0:
        problems.append(f"Cluster {setup.name} has no GPUs.")
    if setup.pass_interval_seconds < 1:
        problems.append("pass_interval_s must be at least 1.")
    if setup.days is not None and setup.days < 1:
        problems.append("days must be at least 1.")
    if (setup.jobs is None) == (setup.generator is None):
        problems.append("There must be a trace or a generator, and not both.")
    problems += _check_tree(setup) + _check_shares(setup)
    if not problems and setup.jobs is not None:
        problems += _check_jobs(setup, setup.jobs)
    return problems


def _check_tree(setup: Setup) -> list[str]:
    parents = [project.parent for project in setup.projects]
    if not parents or parents[0] != NEVER:
        return ["The first project must be the root."]
    wrong = [number for number, parent in enumerate(parents[1:], start=1) if not 0 <= parent < number]
    return [f"Project {setup.projects[number].path} has no parent before it." for number in wrong]


def _check_shares(setup: Setup) -> list[str]:
    """At every step, the children of a parent hold at most 100 % (R1)."""
    steps = setup.shares
    if len(steps.project) and not (steps.project.min() >= 0 and steps.project.max() < len(setup.projects)):
        return ["A budget names a project that isn't there."]
    shares = [0] * len(setup.projects)
    order = np.argsort(steps.at, kind="stable").tolist()
    for place, row in enumerate(order):
        shares[int(steps.project[row])] = int(steps.share_ppm[row])
        last = place + 1 == len(order) or steps.at[order[place + 1]] != steps.at[row]
        if last and (problem := _find_excess(setup, shares)):
            return [f"{problem}, from second {int(steps.at[row])} on."]
    return []


def _find_excess(setup: Setup, shares: list[int]) -> str | None:
    totals = [0] * len(setup.projects)
    for number, project in enumerate(setup.projects):
        if project.parent != NEVER:
            totals[project.parent] += shares[number]
    for number, total in enumerate(totals):
        if total > PPM:
            return f"The budgets of the children of {setup.projects[number].path} add up to {total / 10_000:g} %"
    return None


def _check_jobs(setup: Setup, jobs: Jobs) -> list[str]:
    if not len(jobs):
        return ["The trace has no jobs."]
    problems = []
    for wrong, words in (
        (jobs.submit_at < 0, "is submitted before the start"),
        (jobs.duration_seconds <= 0, "has a duration of 0 or less"),
        ((jobs.replicas < 1) | (jobs.gpus_per_replica < 1), "asks for no GPU"),
        ((jobs.project < 0) | (jobs.project >= len(setup.projects)), "names a project that isn't there"),
        (jobs.min_runtime_seconds < 0, "has a negative minimum runtime"),
    ):
        if wrong.any():
            problems.append(f"Job {int(jobs.id[np.argmax(wrong)])} {words}.")
    if len(np.unique(jobs.id)) != len(jobs):
        problems.append("A job's id stands twice.")
    return problems
