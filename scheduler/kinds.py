"""What waits alike, as columns by number of kind: a walk asks once for each kind, not for each workload.

Workloads of one kind have like chances in every walk, bans of their authors and reservations aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler.tally import Tally
from scheduler.types import BoolArray, IntArray, Policy

Name = tuple[int, int, int, int, int, bool, bool]
"""(project, priority, replicas, GPUs of each, minimum runtime, short, may idle) of one kind."""

LIKE = 5
"""So much of the name says what chance a kind has in a walk that it is offered to."""


NAMED = (
    "project",
    "priority",
    "replicas",
    "gpus_per_replica",
    "min_runtime_seconds",
    "resumable",
    "allow_unallocated",
    "first_start",
)
"""Columns of Pending that say of which kind a row is."""


def name_kinds(columns: Sequence[Any], policy: Policy) -> tuple[Any, ...]:
    """From `NAMED`, of one row or of all as columns: the `Name`, or its columns.

    Short: small, short and new enough for an express start (R7). May idle: it may run unallocated (R6, R7);
    minimum runtime 0 always does, resumable or not.
    """
    project, priority, replicas, each, seconds, resumable, allowed, first_start = columns
    small = (replicas * each <= policy.express_gpus) & (seconds > 0) & (seconds <= policy.express_seconds)
    may_idle = (seconds == 0) | (resumable & allowed)
    return project, priority, replicas, each, seconds, small & first_start, may_idle


class Kinds:
    """Lists by number of kind.

    `gpus`: in total. `charge`: its minimum runtime in GPU-seconds. `shape`: the place of its (replicas, GPUs of
    each) in `shapes`. `like`: the first of those that have like chances in one walk. `waiting`: how many wait.
    Kinds of which something waits stand in `of_project`; what may start express in `quick`, too, and what may
    run unallocated in `idle`.
    """

    def __init__(self) -> None:
        self.project: list[int] = []
        self.priority: list[int] = []
        self.replicas: list[int] = []
        self.each: list[int] = []
        self.seconds: list[int] = []
        self.short: list[bool] = []
        self.may_idle: list[bool] = []
        self.gpus: list[int] = []
        self.charge: list[int] = []
        self.shape: list[int] = []
        self.like: list[int] = []
        self.shapes: list[tuple[int, int]] = []
        self.of_project: dict[int, list[int]] = {}
        self.quick: list[int] = []
        self.idle: list[int] = []
        self.count = 0
        self.waiting: list[int] = []
        self._numbers: dict[Name, int] = {}
        self._likes: dict[tuple[int, ...], int] = {}
        self._shape_numbers: dict[tuple[int, int], int] = {}

    @classmethod
    def of(cls, columns: Sequence[IntArray | BoolArray], counts: list[int]) -> Kinds:
        """Different ones, of each of which so many wait; `columns`: those of their names."""
        kinds, names = cls(), [column.tolist() for column in columns]
        kinds.project, kinds.priority, kinds.replicas, kinds.each, kinds.seconds, kinds.short, kinds.may_idle = names
        gpus = columns[2] * columns[3]
        kinds.gpus, kinds.charge = gpus.tolist(), (gpus * columns[4]).tolist()
        kinds.shape = [kinds._find_shape(*shape) for shape in zip(kinds.replicas, kinds.each, strict=True)]
        kinds.count, kinds.waiting = len(counts), counts
        kinds._numbers = {name: kind for kind, name in enumerate(zip(*names, strict=True))}
        kinds.like = [kinds._likes.setdefault(name[:LIKE], kind) for name, kind in kinds._numbers.items()]
        for kind, project in enumerate(kinds.project):
            kinds.of_project.setdefault(project, []).append(kind)
        kinds.quick, kinds.idle = (np.flatnonzero(column).tolist() for column in columns[5:])
        return kinds

    def find(self, name: Name) -> int:
        """The number of that kind, made if it is new."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self.count
            self.count += 1
            self._append(name)
        return number

    def _append(self, name: Name) -> None:
        project, priority, replicas, each, seconds, short, may_idle = name
        self.project.append(project)
        self.priority.append(priority)
        self.replicas.append(replicas)
        self.each.append(each)
        self.seconds.append(seconds)
        self.short.append(short)
        self.may_idle.append(may_idle)
        self.gpus.append(replicas * each)
        self.charge.append(replicas * each * seconds)
        self.shape.append(self._find_shape(replicas, each))
        self.like.append(self._likes.setdefault(name[:LIKE], self.count - 1))
        self.waiting.append(0)

    def _find_shape(self, replicas: int, each: int) -> int:
        number = self._shape_numbers.setdefault((replicas, each), len(self.shapes))
        if number == len(self.shapes):
            self.shapes.append((replicas, each))
        return number

    def list_fits(self, tally: Tally) -> list[bool]:
        """By shape: whether hosts of that tally could hold such a gang."""
        return [tally.count_slots(each) >= replicas for replicas, each in self.shapes]

    def come(self, kind: int) -> None:
        """One more of it waits."""
        if not self.waiting[kind]:
            for standing in self._list_standing(kind):
                standing.append(kind)
        self.waiting[kind] += 1

    def leave(self, kind: int) -> None:
        """One of it waits no longer."""
        self.waiting[kind] -= 1
        if not self.waiting[kind]:
            for standing in self._list_standing(kind):
                standing.remove(kind)

    def _list_standing(self, kind: int) -> list[list[int]]:
        """Where it stands while something of it waits."""
        standing = [self.of_project.setdefault(self.project[kind], [])]
        if self.short[kind]:
            standing.append(self.quick)
        if self.may_idle[kind]:
            standing.append(self.idle)
        return standing
