"""All that is counted from the facts once a decision: usage, GPUs in use, express starts (R2, R3, R7).

Counted anew from the segments for facts that were just read; a kept state carries the same
numbers from one decision to the next (`ground.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scheduler.balance import Tree
from scheduler.facts import Facts, find_allocated
from scheduler.state import is_allocated
from scheduler.types import NEVER, BoolArray, IntArray, Segments, Snapshot, Standing
from scheduler.usage import Rows, Window, clip_rows, measure_unserved, sum_groups, sum_paths


class AuthorUsage(Protocol):
    """Charged usage by (project, author), GPU-seconds."""

    def get(self, key: tuple[int, int], default: int, /) -> int:
        """The sum, or the default for one without any."""


@dataclass(slots=True)
class Sums:
    """By node, unless said; GPU-seconds of the window with unserved minimum runtimes, or GPUs."""

    usage: list[int]  # charged
    unallocated_usage: list[int]
    allocated: list[int]  # GPUs running or held as protected or funded
    unallocated_gpus: list[int]  # by project: running or starting
    express: list[int]  # express GPU-seconds
    author_usage: AuthorUsage


def count_sums(facts: Facts, tree: Tree, window: Window) -> Sums:
    """Count everything from the segments and attempts."""
    paths = list_paths(facts.snapshot, tree)
    charged = charged_rows(facts, window)
    usage = sum_paths(charged, paths, len(tree.parent), window)
    _add_unserved(facts, tree, usage, facts.standing == Standing.PROTECTED)
    return Sums(
        usage=usage,
        unallocated_usage=_sum_unallocated(facts, tree, window, paths),
        allocated=_sum_allocated(facts, tree),
        unallocated_gpus=_sum_by_project(facts, facts.standing == Standing.UNALLOCATED, len(tree.leaf_of)),
        express=_sum_express(facts, tree, window, paths),
        author_usage=_sum_authors(facts, charged, window),
    )


def charged_rows(facts: Facts, window: Window) -> Rows:
    """Everything charged in the window, closed and open segments."""
    return join_rows(facts, facts.snapshot.charged, is_allocated(facts.attempts.standing), window)


def _sum_allocated(facts: Facts, tree: Tree) -> list[int]:
    allocated = [0] * len(tree.parent)
    for project, gpus in enumerate(_sum_by_project(facts, find_allocated(facts), len(tree.leaf_of))):
        for node in tree.path_of[project]:
            allocated[node] += gpus
    return allocated


def _sum_express(facts: Facts, tree: Tree, window: Window, paths: list[tuple[int, ...]]) -> list[int]:
    express, starts = [0] * len(tree.parent), facts.snapshot.express
    inside = (starts.decided_at >= window.since) & (starts.decided_at <= facts.now)
    for path, amount in zip(starts.path[inside].tolist(), starts.gpu_seconds[inside].tolist(), strict=True):
        for node in paths[path]:
            express[node] += amount
    return express


def list_paths(snapshot: Snapshot, tree: Tree) -> list[tuple[int, ...]]:
    """Nodes of every recorded path of ancestors, then of every project's present one.

    A project that no longer exists is left out; usage charged to a project itself counts for
    its own part, too, if it has children today.
    """
    index = {int(project): number for number, project in enumerate(snapshot.projects.id)}
    recorded = []
    for path in snapshot.paths:
        nodes = [index[project] for project in path if project in index]
        if path and path[-1] in index and tree.leaf_of[index[path[-1]]] != index[path[-1]]:
            nodes.append(tree.leaf_of[index[path[-1]]])
        recorded.append(tuple(nodes))
    present = [tuple(dict.fromkeys((tree.root, *path))) for path in tree.path_of]
    return recorded + present


def join_rows(facts: Facts, closed: Segments, chosen: BoolArray, window: Window) -> Rows:
    """Closed segments and the open ones of the attempts chosen, cut to the window."""
    attempts = facts.attempts
    rows = np.flatnonzero(chosen & (attempts.segment_at != NEVER))
    first = len(facts.snapshot.paths)
    joined = Rows(
        np.concatenate([closed.path, first + attempts.project[rows]]),
        np.concatenate([closed.author, attempts.author[rows]]),
        np.concatenate([closed.start_at, attempts.segment_at[rows]]),
        np.concatenate([closed.end_at, np.full(len(rows), facts.now, dtype=np.int64)]),
        np.concatenate([closed.gpus, facts.list_gpus()[rows]]),
    )
    return clip_rows(joined, window)


def _measure_unserved(facts: Facts, counted: BoolArray) -> IntArray:
    attempts = facts.attempts
    seconds = measure_unserved(attempts.contract_seconds, attempts.running_at, facts.now, counted)
    return seconds * facts.list_gpus()


def _add_unserved(facts: Facts, tree: Tree, totals: list[int], counted: BoolArray) -> None:
    unserved = _measure_unserved(facts, counted)
    rows = np.flatnonzero(unserved)
    for project, amount in zip(facts.attempts.project[rows].tolist(), unserved[rows].tolist(), strict=True):
        for node in tree.path_of[project]:
            totals[node] += amount
        totals[tree.root] += amount


def _sum_unallocated(facts: Facts, tree: Tree, window: Window, paths: list[tuple[int, ...]]) -> list[int]:
    running = facts.attempts.standing == Standing.UNALLOCATED
    rows = join_rows(facts, facts.snapshot.unallocated, running, window)
    usage = sum_paths(rows, paths, len(tree.parent), window)
    _add_unserved(facts, tree, usage, facts.standing == Standing.UNALLOCATED)
    return usage


def _sum_by_project(facts: Facts, chosen: BoolArray, projects: int) -> list[int]:
    sums = np.zeros(projects, dtype=np.int64)
    np.add.at(sums, facts.attempts.project[chosen], facts.list_gpus()[chosen])
    return [int(value) for value in sums]


AUTHOR_BITS = 40
"""An author's id is below 2^40, so that it fits into one number with a project's index."""


def _sum_authors(facts: Facts, charged: Rows, window: Window) -> dict[tuple[int, int], int]:
    """Usage by the project that the work was in and its author, unserved runtimes included."""
    snapshot = facts.snapshot
    index = {int(project): number for number, project in enumerate(snapshot.projects.id)}
    leaf = [index.get(path[-1], NEVER) if path else NEVER for path in snapshot.paths]
    leaf += list(range(len(snapshot.projects.id)))
    project = np.array(leaf, dtype=np.int64)[charged.path]
    packed, number = np.unique(project << AUTHOR_BITS | charged.author, return_inverse=True)
    sums = sum_groups(number, len(packed), charged, window)
    owners, people = packed >> AUTHOR_BITS, packed & ((1 << AUTHOR_BITS) - 1)
    totals = dict(zip(zip(owners.tolist(), people.tolist(), strict=True), sums, strict=True))
    attempts = facts.attempts
    unserved = _measure_unserved(facts, facts.standing == Standing.PROTECTED)
    rows = np.flatnonzero(unserved)
    columns = (attempts.project[rows].tolist(), attempts.author[rows].tolist(), unserved[rows].tolist())
    for owner, author, amount in zip(*columns, strict=True):
        totals[owner, author] = totals.get((owner, author), 0) + amount
    return totals
