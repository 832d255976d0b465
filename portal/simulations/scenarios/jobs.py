"""The jobs of a trace, for one cluster: gangs, and the contracts that the trace lacks, drawn with the seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt

import numpy as np

from portal.simulations.scenarios.parts import BudgetLine, ClusterSpec
from portal.simulations.traces.rows import MISSING, BoolArray, IntArray, TraceRefused, TraceRows
from scheduler.simulation.setup import Contracts, Jobs


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Minimum runtimes of the whole trace: one draw a job, in the trace's order, whatever cluster it goes to."""

    min_runtime_seconds: IntArray

    @classmethod
    def of(cls, trace: TraceRows, contracts: Contracts, seed: int) -> "Drawn":
        draw = np.random.default_rng(seed)
        drawn = contracts.draw_min_runtimes(trace.gpus, trace.duration_seconds, draw)
        given = trace.min_runtime_seconds
        return cls(np.where(given == MISSING, drawn, given))


def jobs_of(
    trace: TraceRows, rows: IntArray, drawn: Drawn, spec: ClusterSpec, contracts: Contracts, project: IntArray
) -> tuple[Jobs, int]:
    """The jobs of some rows, and how many given minimum runtimes the policy's bounds changed."""
    policy = spec.policy.policy
    gpus = trace.gpus[rows]
    replicas = trace.replicas[rows]
    gangs = gang_replicas(gpus, max(group.gpus for group in spec.groups))
    replicas = np.where(replicas == MISSING, gangs, replicas)
    minimum = drawn.min_runtime_seconds[rows]
    bounded = np.clip(minimum, policy.min_runtime_min_seconds, policy.min_runtime_max_seconds)
    given = trace.min_runtime_seconds[rows] != MISSING
    resumable, interval = trace.resumable[rows], trace.checkpoint_interval_seconds[rows]
    jobs = Jobs(
        id=rows.astype(np.int64),
        project=project[trace.project[rows]],
        user=users_of(trace)[rows],
        submit_at=trace.submit_at[rows],
        duration_seconds=trace.duration_seconds[rows],
        replicas=replicas,
        gpus_per_replica=-(-gpus // replicas),
        min_runtime_seconds=bounded,
        resumable=np.where(resumable == MISSING, contracts.resumable, resumable == 1).astype(np.bool_),
        allow_unallocated=np.ones(len(rows), dtype=np.bool_),
        priority=trace.priority[rows],
        checkpoint_interval_seconds=np.where(interval == MISSING, contracts.checkpoint_interval_seconds, interval),
    )
    return jobs, int((given & (bounded != minimum)).sum())


def rounded_rows(trace: TraceRows) -> BoolArray:
    """Where parts of a GPU are rounded up: in the total, or when it is spread over the replicas that are given."""
    spread = (trace.replicas > 0) & (trace.gpus % np.maximum(trace.replicas, 1) != 0)
    return np.asarray(trace.rounded | spread)


def gang_replicas(gpus: IntArray, gpus_per_host: int) -> IntArray:
    """Equal replicas on as few hosts as possible: one where it fits on a host, else the least count that divides."""
    sizes, where = np.unique(gpus, return_inverse=True)
    counts = np.array([_replicas(size, gpus_per_host) for size in sizes.tolist()], dtype=np.int64)
    return counts[where]


def _replicas(gpus: int, gpus_per_host: int) -> int:
    """The least divisor from so many hosts on; of it or of its partner one is at most the root."""
    least, root = -(-gpus // gpus_per_host), isqrt(gpus)
    small = next((count for count in range(least, root + 1) if gpus % count == 0), None)
    if small is not None:
        return small
    return next(gpus // each for each in range(min(root, gpus // least), 0, -1) if gpus % each == 0)


def users_of(trace: TraceRows) -> IntArray:
    """Authors as numbers. Who has no name is one author in each project."""
    nobody = trace.users.index("") if "" in trace.users else MISSING
    unnamed = trace.user == nobody
    return np.where(unnamed, len(trace.users) + trace.project, trace.user)


def clusters_of(trace: TraceRows, specs: tuple[ClusterSpec, ...], lines: tuple[BudgetLine, ...]) -> IntArray:
    """The cluster of each job (index into `specs`): the one it names, else the one where its project has a budget."""
    names = [spec.name for spec in specs]
    mapping = np.array([names.index(name) if name in names else MISSING for name in trace.clusters], dtype=np.int64)
    unknown = (trace.cluster != MISSING) & (mapping[trace.cluster] == MISSING) if len(mapping) else None
    if unknown is not None and unknown.any():
        row = int(unknown.argmax())
        words = f"{trace.clusters[int(trace.cluster[row])]!r} is no cluster of the scenario ({', '.join(names)})"
        raise TraceRefused(trace.file, words, line=int(trace.lines[row]), column="cluster")
    by_project = np.array([_home(path, names, lines) for path in trace.projects], dtype=np.int64)
    usual = by_project[trace.project]
    chosen = np.where(trace.cluster != MISSING, mapping[trace.cluster], usual) if len(mapping) else usual
    if (chosen == MISSING).any():
        row = int((chosen == MISSING).argmax())
        words = (
            f"{trace.projects[int(trace.project[row])]!r} has no cluster: give the trace a column cluster, "
            f"or the project a budget on one of {', '.join(names)} only"
        )
        raise TraceRefused(trace.file, words, line=int(trace.lines[row]), column="project")
    return chosen


def _home(path: str, names: list[str], lines: tuple[BudgetLine, ...]) -> int:
    if len(names) == 1:
        return 0
    homes = {line.cluster for line in lines if line.path == path or line.path.endswith(f"/{path}")}
    return names.index(homes.pop()) if len(homes) == 1 else MISSING


def list_skipped(trace: TraceRows, named: Mapping[str, str]) -> list[str]:
    """What the reader did to the file, a sentence each."""
    notes = [f"{count} rows of {trace.file} are left out: {reason}." for reason, count in trace.skipped.items()]
    if trace.ignored_columns:
        notes.append(f"Columns of {trace.file} that say nothing here: {', '.join(trace.ignored_columns)}.")
    if trace.instant_jobs:
        notes.append(f"{trace.instant_jobs} jobs have a duration of 0; they run for 1 s.")
    if named:
        notes.append("Projects found by their last name: " + ", ".join(f"{a} is {b}" for a, b in named.items()) + ".")
    return notes
