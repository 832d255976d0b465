"""The facts of a cluster as a kept state: built from a snapshot, changed by events.

A live pass builds a state from rows, decides, and throws it away; a simulation keeps one.
`to_snapshot` gives the same facts back, so a kept state and a rebuilt one decide alike.
Events are what the portal's services do to its tables, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from scheduler.bans import TAKER_SPAN_SECONDS
from scheduler.bookings import read_bookings, write_bookings
from scheduler.policy import DAY
from scheduler.types import (
    NEVER,
    Attempts,
    BoolArray,
    ExpressStarts,
    Hosts,
    IntArray,
    Pending,
    Placements,
    Policy,
    Segments,
    Snapshot,
    SnapshotRefused,
    Standing,
)

if TYPE_CHECKING:
    from scheduler.ground import Ground

Record = Any  # one of the table dataclasses of scheduler.types
T = TypeVar("T")

MOST_GPUS = 1 << 20
"""Most GPUs of a host or a workload: sums over any window stay whole in 64 bits."""

MOST_AUTHORS = 1 << 40
"""Authors' ids are below this."""

SPARE_ROWS = 64
"""Rows that a full table grows by, at least."""

LAST = (1 << 63) - 1
"""The id of a spare row: above all others."""


class Table:
    """Equally long columns that grow at the end; a removed row is filled by the last one.

    A *steady* table keeps every row where it is: removed ones stay as `dead` until `compact`,
    and rows are found by their id at once. Behind its rows there are spare ones, all 0 but for their id.
    """

    def __init__(self, record: Record) -> None:
        self.kind = type(record)
        self.columns: dict[str, IntArray | BoolArray] = {
            entry.name: np.array(getattr(record, entry.name)) for entry in fields(record)
        }
        self.count = len(next(iter(self.columns.values())))
        for name, column in self.columns.items():
            if len(column) != self.count:
                raise SnapshotRefused(f"{self.kind.__name__}.{name} has {len(column)} rows, not {self.count}")
        self.dead: set[int] = set()
        self.row_of: dict[int, int] | None = None
        self._view: Record = None

    def steady(self) -> None:
        """Rows stay where they are from now on, in order of their ids."""
        self.keep(np.argsort(self["id"], kind="stable"))
        self.row_of = {number: row for row, number in enumerate(self["id"].tolist())}

    def keep(self, rows: IntArray | BoolArray) -> None:
        """Only these rows, in this order."""
        self._view = None
        self.columns = {name: column[: self.count][rows] for name, column in self.columns.items()}
        self.count = len(next(iter(self.columns.values())))

    def compact(self) -> None:
        """A steady table forgets its dead rows; the others get new places."""
        alive = np.ones(self.count, dtype=bool)
        alive[list(self.dead)] = False
        self.keep(alive)
        self.dead.clear()
        self.row_of = {number: row for row, number in enumerate(self["id"].tolist())}

    def __getitem__(self, name: str) -> Any:
        return self.columns[name][: self.count]

    def add(self, row: Mapping[str, int | bool]) -> int:
        """Append one row, every column named; where it stands."""
        at = self.count
        if at == len(next(iter(self.columns.values()))):
            self._grow(max(at // 2, SPARE_ROWS))
        for name, column in self.columns.items():
            column[at] = row[name]
        if self.row_of is None:
            self._view = None
        else:
            self.row_of[int(row["id"])] = at
        self.count += 1
        return at

    def _grow(self, rows: int) -> None:
        self._view = None
        for name, column in self.columns.items():
            spare = np.full(rows, LAST if name == "id" else 0, dtype=column.dtype)
            self.columns[name] = np.concatenate([column, spare])

    def find(self, name: str, value: int) -> int:
        """The row whose column has that value; KeyError if there is none."""
        if self.row_of is not None and name == "id":
            return self.row_of[value]
        found = np.flatnonzero(self[name] == value)
        if not len(found):
            raise KeyError(f"{self.kind.__name__} has no {name} {value}")
        return int(found[0])

    def row(self, index: int) -> dict[str, int]:
        """One row as plain numbers."""
        return {name: column.item(index) for name, column in self.columns.items()}

    def remove(self, rows: Iterable[int]) -> None:
        """Drop rows by position."""
        if self.row_of is not None:
            for index in rows:
                self.dead.add(index)
                del self.row_of[self.columns["id"].item(index)]
            return
        self._view = None
        for index in sorted(rows, reverse=True):
            self.count -= 1
            for column in self.columns.values():
                column[index] = column[self.count]

    def to_record(self) -> Record:
        """The rows as the dataclass they came from."""
        if not self.dead:
            return self.kind(**{name: column[: self.count].copy() for name, column in self.columns.items()})
        alive = np.ones(self.count, dtype=bool)
        alive[list(self.dead)] = False
        return self.kind(**{name: column[: self.count][alive] for name, column in self.columns.items()})

    def view(self) -> Record:
        """The rows as the dataclass, without a copy: good until the next row comes.

        Those of a steady table, the dead and the spare ones among them: good until it grows or is compacted.
        """
        if self._view is None:
            end = self.count if self.row_of is None else None
            self._view = self.kind(**{name: column[:end] for name, column in self.columns.items()})
        return self._view


class State:
    """A cluster's facts, changed by events. `decide` reads it and never changes it."""

    def __init__(self, snapshot: Snapshot) -> None:
        check_facts(snapshot)
        self.now = snapshot.now
        self.projects = snapshot.projects
        self.shares = snapshot.shares
        self.capacity = Table(snapshot.capacity)
        self.hosts = Table(snapshot.hosts)
        self.pending = Table(snapshot.pending)
        self.attempts = Table(snapshot.attempts)
        self.takers = Table(snapshot.takers)
        self.express = Table(snapshot.express)
        self.charged = Table(snapshot.charged)
        self.unallocated = Table(snapshot.unallocated)
        self.bookings = None if snapshot.reserved is None else read_bookings(snapshot.reserved)
        self.draining: set[int] = set(snapshot.draining.tolist())
        self.cancelled = _list_cancelled(snapshot)
        self.paths = list(snapshot.paths)
        self._path_numbers = {path: number for number, path in enumerate(self.paths)}
        self._numbered = self.projects  # for which the next is known
        self._number_of: dict[int, int] = {}  # by project: its path's
        self.ground: Ground | None = None
        self.next_attempt = int(snapshot.attempts.id.max(initial=0)) + 1
        self.takings = _list_takings(snapshot.attempts)
        self.places: dict[int, dict[int, int]] = {int(attempt): {} for attempt in snapshot.attempts.id}
        for attempt, host, replicas in zip(
            snapshot.attempts.id[snapshot.placements.attempt].tolist(),
            snapshot.placements.host.tolist(),
            snapshot.placements.replicas.tolist(),
            strict=True,
        ):
            self.places[attempt][host] = self.places[attempt].get(host, 0) + replicas

    def keep(self) -> State:
        """From now on decisions cost by what changed: see `ground.py`. Only events may change the state."""
        from scheduler.ground import Ground  # noqa: PLC0415 - the ground is built on the board, the board on states

        ids = self.hosts["id"]
        if (ids[1:] < ids[:-1]).any():
            raise SnapshotRefused("a state that is kept must have its hosts in order of their ids")
        for table in (self.attempts, self.pending, self.hosts):
            table.steady()
        self.ground = Ground(self)
        return self

    def find_rest(self) -> int:
        """Of a kept state: before this moment decisions are empty, if nothing happens meanwhile; 0: not known."""
        return 0 if self.ground is None else self.ground.rest_until

    def find_lapse_bound(self) -> int:
        """Of a kept state: seconds from now before which no project can reach balance 0.

        Where nothing waits, is held or may return, hosts stay and quotas don't move, a decision can only
        mature contracts, which is written at their exact end whenever a pass finds it, and lapse. Usage
        grows at most by the allocated GPUs each second, since nothing starts meanwhile.
        """
        board = self.ground.board if self.ground is not None else None
        if board is None:
            return 0
        rows = zip(board.funds.positive_limit, board.funds.usage, board.funds.allocated, strict=True)
        bound = min(((limit - used) // gpus for limit, used, gpus in rows if gpus > 0), default=1 << 60)
        return max(bound - max(self.now - board.now, 0), 0)  # a decision that was left out has no board of its own

    def forget_old(self, policy: Policy) -> None:
        """Drop rows that no decision can see any longer, though the clock should step back by a day.

        Further back what was dropped stays dropped: of a window that begins before it, nothing there is
        charged to anybody and nobody is banned for it, so balances stand higher until the clock has come
        back. Decisions are those of a state made from what is left, each with its reasons. Live passes read
        their rows anew and decide for no moment before the last one's (docs/decisions/0005): that far
        back is a fault of the clock, for which a kept state does not carry its whole past.
        """
        now = self.now - DAY
        since = now - policy.lookback_seconds
        for table in (self.charged, self.unallocated):
            table.keep(table["end_at"] > since)
        self.express.keep(self.express["decided_at"] >= since)
        self.takers.keep(self.takers["ended_at"] > now - 2 * policy.taker_ban_seconds - TAKER_SPAN_SECONDS)

    def to_snapshot(self) -> Snapshot:
        """The same facts as a snapshot."""
        attempts = self.attempts.to_record()
        position = {attempt: index for index, attempt in enumerate(attempts.id.tolist())}
        rows = [
            (position[attempt], host, replicas)
            for attempt, places in self.places.items()
            for host, replicas in places.items()
        ]
        columns = np.array(rows, dtype=np.int64).reshape(len(rows), 3)
        return Snapshot(
            now=self.now,
            projects=self.projects,
            shares=self.shares,
            capacity=self.capacity.to_record(),
            hosts=self.hosts.to_record(),
            pending=self.pending.to_record(),
            attempts=attempts,
            placements=Placements(columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy()),
            paths=tuple(self.paths),
            charged=self.charged.to_record(),
            unallocated=self.unallocated.to_record(),
            express=self.express.to_record(),
            takers=self.takers.to_record(),
            draining=np.array(sorted(self.draining), dtype=np.int64),
            reserved=None if self.bookings is None else write_bookings(self.bookings, self.cancelled),
        )

    def view(self, pending: Pending, attempts: Attempts, hosts: Hosts) -> Snapshot:
        """The facts beside these three tables without a copy, and without placements: good until the next event."""
        none = np.zeros(0, dtype=np.int64)
        return Snapshot(
            now=self.now,
            projects=self.projects,
            shares=self.shares,
            capacity=self.capacity.view(),
            hosts=hosts,
            pending=pending,
            attempts=attempts,
            placements=Placements(none, none, none),
            paths=tuple(self.paths),
            charged=self.charged.view(),
            unallocated=self.unallocated.view(),
            express=self.express.view(),
            takers=self.takers.view(),
            draining=np.array(sorted(self.draining), dtype=np.int64),
            reserved=None if self.bookings is None else write_bookings(self.bookings, self.cancelled),
        )

    def path_number(self, project: int) -> int:
        """The number of the project's present path of ancestors, made if it is new."""
        if self._numbered is not self.projects:
            self._numbered, self._number_of = self.projects, {}
        number = self._number_of.get(project)
        if number is None:
            number = self._number_of[project] = self._find_path(project)
        return number

    def _find_path(self, project: int) -> int:
        ids, parents = self.projects.id, self.projects.parent
        path: list[int] = []
        while project != NEVER:
            path.append(int(ids[project]))
            project = int(parents[project])
        key = tuple(reversed(path))
        if key not in self._path_numbers:
            self._path_numbers[key] = len(self.paths)
            self.paths.append(key)
        return self._path_numbers[key]


def _list_takings(attempts: Attempts) -> dict[int, tuple[int, ...]]:
    """By taker: the attempts that stop for it, or did."""
    takings: dict[int, tuple[int, ...]] = {}
    for victim, taker in zip(attempts.id.tolist(), attempts.taker.tolist(), strict=True):
        if taker != NEVER:
            takings[taker] = (*takings.get(taker, ()), victim)
    return takings


def _list_cancelled(snapshot: Snapshot) -> list[tuple[int, int]]:
    if snapshot.reserved is None:
        return []
    table = snapshot.reserved.cancelled
    return list(zip(table.author.tolist(), table.cancelled_at.tolist(), strict=True))


def check_facts(snapshot: Snapshot) -> None:
    """Refuse facts that can't be true or can't be carried without loss (SnapshotRefused)."""
    _check_hosts(snapshot.hosts)
    for table in (snapshot.pending, snapshot.attempts):
        _check_gangs(table, len(snapshot.projects.id))
    for name, ids in (
        ("project", snapshot.projects.id),
        ("host", snapshot.hosts.id),
        ("pending workload", snapshot.pending.id),
        ("attempt", snapshot.attempts.id),
    ):
        if len(np.unique(ids)) != len(ids):
            raise SnapshotRefused(f"a {name} id stands twice")
    _check_segments(snapshot.charged)
    _check_segments(snapshot.unallocated)


def _check_hosts(hosts: Hosts) -> None:
    if len(hosts.gpus) and not (hosts.gpus.min() >= 0 and hosts.gpus.max() <= MOST_GPUS):
        raise SnapshotRefused(f"a host has fewer than 0 or more than {MOST_GPUS} GPUs")


def _check_gangs(table: Pending | Attempts, projects: int) -> None:
    if not len(table.id):
        return
    small = table.replicas.min() >= 1 and table.gpus_per_replica.min() >= 1
    large = table.replicas.max() > MOST_GPUS or table.gpus_per_replica.max() > MOST_GPUS
    if not small or large or (table.replicas * table.gpus_per_replica).max() > MOST_GPUS:
        raise SnapshotRefused(f"a gang has fewer than 1 or more than {MOST_GPUS} GPUs")
    if table.author.min() < 0 or table.author.max() >= MOST_AUTHORS:
        raise SnapshotRefused("an author's id is negative or too large")
    if table.project.min() < 0 or table.project.max() >= projects:
        raise SnapshotRefused("a workload's project is not in the tree")


def _check_segments(segments: Segments | ExpressStarts) -> None:
    if isinstance(segments, Segments) and len(segments.gpus):
        if segments.gpus.min() < 0 or segments.gpus.max() > MOST_GPUS:
            raise SnapshotRefused(f"a segment has fewer than 0 or more than {MOST_GPUS} GPUs")
        if (segments.end_at < segments.start_at).any():
            raise SnapshotRefused("a segment ends before it starts")


def is_allocated(standing: IntArray) -> BoolArray:
    """Which standings are charged to the budget."""
    return np.asarray((standing == Standing.PROTECTED) | (standing == Standing.FUNDED))
