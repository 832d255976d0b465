"""Rows to a Snapshot: one query a table, whatever the size, each column an array (HOUSE.md section 3, step 4)."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from itertools import compress
from typing import Any

import numpy as np
from django.db import connection

from portal.budgets.selectors import share_history
from portal.clusters.models import Cluster
from portal.clusters.selectors import capacity_steps, policy_values
from portal.clusters.services import DRAINED_STATES
from portal.common.units import epoch_seconds
from portal.scheduling import queries
from portal.scheduling.models import Reservation
from portal.workloads.models import CHARGED_STANDINGS
from portal.workloads.models import Standing as StandingName
from scheduler import types
from scheduler.bookings import Booking, write_bookings
from scheduler.types import NEVER, Policy, Snapshot

STANDING_NUMBERS = {
    StandingName.PROTECTED: types.Standing.PROTECTED,
    StandingName.FUNDED: types.Standing.FUNDED,
    StandingName.UNALLOCATED: types.Standing.UNALLOCATED,
    StandingName.STOPPING: types.Standing.STOPPING,
}
TAKER_BAN_SPANS = 2

Columns = dict[str, list[Any]]


def policy_of(*, cluster: Cluster) -> Policy:
    """The cluster's policy in the core's words; settings that the core doesn't know are not its business."""
    known = {entry.name for entry in fields(Policy)}
    values = {name: value for name, value in policy_values(cluster=cluster).items() if name in known}
    if "leaf_order" in values:
        values["leaf_order"] = tuple(values["leaf_order"])
    return Policy(**values)


def snapshot_read(*, cluster: Cluster, policy: Policy, now: datetime) -> Snapshot:
    """All that a decision depends on, read in a fixed number of queries."""
    window_start = now - timedelta(seconds=policy.lookback_seconds)
    projects = _columns(queries.PROJECTS, {})
    project_index = _index_of(projects["id"])
    hosts = _columns(queries.HOSTS, {"cluster": cluster.pk, "drained": [str(state) for state in DRAINED_STATES]})
    attempts = _columns(queries.ATTEMPTS, {"cluster": cluster.pk})
    placements = _columns(queries.PLACEMENTS, {"cluster": cluster.pk})
    pending = _columns(queries.PENDING, {"cluster": cluster.pk})
    paths = PathTable(projects)
    charged, unallocated = _segments(cluster, window_start, paths)
    express = _columns(
        queries.EXPRESS, {"cluster": cluster.pk, "since": window_start, "floor": policy.express_floor_seconds}
    )
    ban = timedelta(seconds=TAKER_BAN_SPANS * policy.taker_ban_seconds)
    takers = _columns(queries.TAKERS, {"cluster": cluster.pk, "since": now - ban})
    return Snapshot(
        now=epoch_seconds(now),
        projects=types.Projects(id=_ints(projects["id"]), parent=_indexes(projects["parent"], project_index)),
        shares=_shares(cluster, window_start, project_index),
        capacity=_capacity(cluster, window_start),
        hosts=_hosts(hosts),
        pending=_table(types.Pending, pending, project_index),
        attempts=_table(types.Attempts, attempts, project_index),
        placements=types.Placements(
            attempt=_indexes(placements["attempt"], _index_of(attempts["id"])),
            host=_indexes(placements["host"], _index_of(hosts["id"])),
            replicas=_ints(placements["replicas"]),
        ),
        paths=paths.paths,
        charged=charged,
        unallocated=unallocated,
        express=types.ExpressStarts(
            path=_ints([paths.of_project(project) for project in express["project"]]),
            decided_at=_ints(express["decided_at"]),
            gpu_seconds=_ints(express["gpu_seconds"]),
        ),
        takers=_table(types.EndedTakers, takers, project_index),
        draining=_ints(list(compress(hosts["id"], hosts["draining"]))),
        reserved=_reserved(cluster, policy, now, _index_of(hosts["id"])),
    )


class PathTable:
    """The paths that the snapshot speaks of, each once: present ones from the tree, past ones from segments."""

    def __init__(self, projects: Columns) -> None:
        self._parents = dict(zip(projects["id"], projects["parent"], strict=True))
        self._positions: dict[tuple[int, ...], int] = {}
        self._of_project: dict[int, int] = {}

    @property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self._positions)

    def position(self, path: tuple[int, ...]) -> int:
        """Where the path stands in the table; a new one is added."""
        return self._positions.setdefault(path, len(self._positions))

    def of_project(self, project: int) -> int:
        """The position of a project's present path."""
        if project not in self._of_project:
            self._of_project[project] = self.position(self._walk_up(project))
        return self._of_project[project]

    def _walk_up(self, project: int) -> tuple[int, ...]:
        path = [project]
        while (parent := self._parents[path[-1]]) != NEVER:
            path.append(parent)
        return tuple(reversed(path))


def _columns(query: queries.Table, parameters: dict[str, Any]) -> Columns:
    """One row of arrays: the table's columns, in the order of the query."""
    with connection.cursor() as cursor:
        cursor.execute(query.sql, parameters)
        row = cursor.fetchone()
    return {name: column or [] for name, column in zip(query.columns, row, strict=True)}


def _ints(values: Sequence[int]) -> types.IntArray:
    return np.array(values, dtype=np.int64)


def _index_of(ids: Iterable[int]) -> dict[int, int]:
    return {key: position for position, key in enumerate(ids)}


def _indexes(ids: Iterable[int], index: dict[int, int]) -> types.IntArray:
    return _ints([NEVER if key == NEVER else index[key] for key in ids])


def _table(table: Any, columns: Columns, project_index: dict[int, int]) -> Any:
    """A table of the core whose fields are named as the query's columns; projects become indexes."""
    arrays = {}
    for entry in fields(table):
        values = columns[entry.name]
        if entry.name == "project":
            arrays[entry.name] = _indexes(values, project_index)
        elif entry.name == "standing":
            arrays[entry.name] = _ints([STANDING_NUMBERS[StandingName(name)] for name in values])
        elif "BoolArray" in str(entry.type):
            arrays[entry.name] = np.array(values, dtype=np.bool_)
        else:
            arrays[entry.name] = _ints(values)
    return table(**arrays)


def _hosts(columns: Columns) -> types.Hosts:
    blocks: dict[str, int] = {}
    return types.Hosts(
        id=_ints(columns["id"]),
        gpus=_ints(columns["gpus"]),
        schedulable=np.array(columns["schedulable"], dtype=np.bool_),
        block=_ints([blocks.setdefault(name, len(blocks)) for name in columns["block"]]),
    )


def _reserved(cluster: Cluster, policy: Policy, now: datetime, host_index: dict[int, int]) -> types.Reserved:
    """Reservations that stand, as decided, and whose authors cancelled one in the last ban span (R12)."""
    names = ("pk", "workload_id", "at", "made_at", "moved", "placement", "takings")
    standing = Reservation.objects.filter(cluster=cluster, ended_at=None).order_by("pk").values_list(*names)
    bookings = [
        Booking(
            pk,
            workload,
            epoch_seconds(at),
            epoch_seconds(made_at),
            moved,
            {host_index[host]: replicas for host, replicas in placement},
            frozenset(takings),
        )
        for pk, workload, at, made_at, moved, placement, takings in standing
    ]
    since = now - timedelta(seconds=policy.reservation_ban_seconds)
    cancelled = _columns(queries.CANCELLED_RESERVATIONS, {"cluster": cluster.pk, "since": since})
    return write_bookings(bookings, zip(cancelled["author"], cancelled["cancelled_at"], strict=True))


def _shares(cluster: Cluster, since: datetime, project_index: dict[int, int]) -> types.ShareSteps:
    steps = share_history(cluster=cluster, since=since)
    return types.ShareSteps(
        project=_ints([project_index[project] for project, _, _, _ in steps]),
        at=_ints([epoch_seconds(at) for _, at, _, _ in steps]),
        share_ppm=_ints([share for _, _, share, _ in steps]),
        burst_gpus=_ints([NEVER if burst is None else burst for _, _, _, burst in steps]),
    )


def _capacity(cluster: Cluster, since: datetime) -> types.CapacitySteps:
    steps = capacity_steps(cluster=cluster, since=since)
    return types.CapacitySteps(
        at=_ints([epoch_seconds(at) for at, _, _ in steps]), gpus=_ints([gpus for _, gpus, _ in steps])
    )


def _segments(cluster: Cluster, since: datetime, paths: PathTable) -> tuple[types.Segments, types.Segments]:
    """Closed segments of the window, charged and unallocated: a row for each path and standing."""
    with connection.cursor() as cursor:
        cursor.execute(queries.SEGMENTS, {"cluster": cluster.pk, "since": since})
        rows = cursor.fetchall()
    charged = [row for row in rows if row[1] in CHARGED_STANDINGS]
    unallocated = [row for row in rows if row[1] == StandingName.UNALLOCATED]
    return _segment_table(charged, paths), _segment_table(unallocated, paths)


def _segment_table(rows: list[tuple[Any, ...]], paths: PathTable) -> types.Segments:
    def column(position: int) -> types.IntArray:
        return np.concatenate([_ints(row[position]) for row in rows]) if rows else _ints([])

    positions = _ints([paths.position(tuple(row[0])) for row in rows])
    return types.Segments(
        path=np.repeat(positions, _ints([len(row[2]) for row in rows])),
        author=column(2),
        start_at=column(3),
        end_at=column(4),
        gpus=column(5),
    )
