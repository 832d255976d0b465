"""Attempts of a range as columns: who asked for how many GPUs, since when, until when; and when they got them.

Of closed days from what is packed of them, of the rest from the rows themselves. What waits, or waited until it was
cancelled, without an attempt stands among them as one that never got GPUs. Demand, queue waits and the count of what
ended read them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import numpy as np

from portal.clusters.models import Cluster
from portal.common.units import epoch_seconds
from portal.usage.arrays import NEVER, BoolArray, IntArray, columns_fetch, int_array
from portal.usage.days import days_read
from portal.usage.models import LedgerDayKind
from portal.usage.packing import Packed, joined
from portal.workloads.models import WorkloadState

STATES: tuple[str, ...] = tuple(WorkloadState.values)
_STATE_NUMBER = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(STATES))

# OFFSET 0: each attempt looks its workload up. Joined freely, PostgreSQL reads every workload there ever was.
_ATTEMPTS = f"""
SELECT array_agg(w.project_id), array_agg(w.gpus), array_agg(a.min_runtime_seconds), array_agg(a.queued_at),
       array_agg(coalesce(a.assigned_at, 'infinity')), array_agg(coalesce(a.ended_at, 'infinity')),
       array_agg((a.number > 1 AND EXISTS (SELECT 1 FROM workloads_attempt e WHERE e.workload_id = a.workload_id
                                           AND e.number < a.number AND e.assigned_at IS NOT NULL))::integer),
       array_agg(CASE WHEN a.ended_at = w.ended_at THEN CASE w.state {_STATE_NUMBER} END ELSE {NEVER} END)
FROM workloads_attempt a CROSS JOIN LATERAL (
    SELECT project_id, replicas::bigint * gpus_per_replica AS gpus, state, ended_at FROM workloads_workload
    WHERE id = a.workload_id OFFSET 0
) AS w
WHERE a.cluster_id = %(cluster)s AND """  # noqa: S608 - the names of states are constants
_REACHING = """(a.ended_at IS NULL OR a.ended_at >= greatest(%(start)s, %(rows_from)s)) AND a.queued_at < %(end)s"""
_ENDED = """a.ended_at >= %(first)s AND a.ended_at < %(last)s"""
_WAITING = f"""
SELECT array_agg(w.project_id), array_agg(w.replicas::bigint * w.gpus_per_replica), array_agg(w.min_runtime_seconds),
       array_agg(w.queued_at), array_agg(coalesce(w.ended_at, 'infinity')),
       array_agg(CASE WHEN w.ended_at IS NULL THEN {NEVER} ELSE {STATES.index(WorkloadState.CANCELLED)} END)
FROM (
    SELECT id, project_id, replicas, gpus_per_replica, min_runtime_seconds, queued_at, ended_at
    FROM workloads_workload p
    WHERE p.state = 'pending' AND p.queued_at < %(end)s
      AND p.id NOT IN (SELECT workload_id FROM workloads_attempt WHERE state <> 'ended')
    UNION ALL
    SELECT id, project_id, replicas, gpus_per_replica, min_runtime_seconds, queued_at, ended_at
    FROM workloads_workload c
    WHERE c.state = 'cancelled' AND c.queued_at < %(end)s AND c.ended_at >= %(start)s
      AND NOT EXISTS (SELECT 1 FROM workloads_attempt a WHERE a.workload_id = c.id AND a.queued_at >= c.queued_at)
) AS w JOIN workloads_workload_clusters m ON m.workload_id = w.id AND m.cluster_id = %(cluster)s
"""  # noqa: S608 - as above
_NAMES = ("project", "gpus", "min_runtime_seconds", "began_at", "assigned_at", "ended_at", "restart", "final")


@dataclass(frozen=True, eq=False)
class AttemptColumns:
    """Attempts, and waits without one, that reach into a range of time, uncut; a moment that has not come is NEVER."""

    project: IntArray
    gpus: IntArray
    min_runtime_seconds: IntArray
    queued_at: IntArray
    assigned_at: IntArray
    ended_at: IntArray
    restart: BoolArray  # an earlier attempt of the workload got its GPUs
    final: IntArray  # index into STATES of how the workload ended with it; NEVER: it did not

    def where(self, rows: BoolArray) -> "AttemptColumns":
        """Some of them."""
        return AttemptColumns(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})


def window_attempts(*, cluster: Cluster, start: datetime, end: datetime, waiting: bool = True) -> AttemptColumns:
    """What was queued on the cluster before `end` and had not ended before `start`; `end` is at most now.

    Without `waiting`, only attempts: what started, and when.
    """

    def ended(first: datetime, last: datetime) -> Packed:
        return _rows_read(cluster, _ENDED, {"first": first, "last": last})

    days = days_read(cluster=cluster, kind=LedgerDayKind.ATTEMPTS, start=start, end=end, reader=ended)
    rows = _rows_read(cluster, _REACHING, {"start": start, "end": end, "rows_from": days.rows_from})
    others = [_waiting_read(cluster, start, end)] if waiting else []
    found = dict(joined([*days.parts, rows, *others], _NAMES).columns)
    restart = found.pop("restart").astype(np.bool_)
    columns = AttemptColumns(queued_at=found.pop("began_at"), restart=restart, **found)
    over = (columns.ended_at != NEVER) & (columns.ended_at < epoch_seconds(start))
    return columns.where((columns.queued_at < epoch_seconds(end)) & ~over)


def attempts_joined(parts: Sequence[AttemptColumns]) -> AttemptColumns:
    """The attempts of several clusters."""
    kinds = {"restart": np.bool_}
    empty = {each.name: np.zeros(0, dtype=kinds.get(each.name, np.int64)) for each in fields(AttemptColumns)}
    return AttemptColumns(
        **{name: np.concatenate([none, *(getattr(part, name) for part in parts)]) for name, none in empty.items()}
    )


def _rows_read(cluster: Cluster, condition: str, moments: dict[str, datetime]) -> Packed:
    columns = columns_fetch(_ATTEMPTS + condition, {"cluster": cluster.pk, **moments})
    return Packed(dict(zip(_NAMES, columns, strict=True)))


def _waiting_read(cluster: Cluster, start: datetime, end: datetime) -> Packed:
    """Workloads that wait, or waited until they were cancelled, since they were last queued without an attempt."""
    parameters = {"cluster": cluster.pk, "start": start, "end": end}
    project, gpus, seconds, queued_at, ended_at, final = columns_fetch(_WAITING, parameters)
    never = np.full_like(project, NEVER)
    columns = (project, gpus, seconds, queued_at, never, ended_at, np.zeros_like(project), final)
    return Packed(dict(zip(_NAMES, columns, strict=True)))


def endings(
    *, attempts: AttemptColumns, project_ids: Iterable[int], since: datetime, boundary: datetime
) -> dict[str, tuple[int, int]]:
    """State -> workloads of these projects that ended with it from `boundary` on, and from `since` until then."""
    mine = np.isin(attempts.project, int_array(list(project_ids))) & (attempts.final != NEVER)
    late = mine & (attempts.ended_at >= epoch_seconds(boundary))
    early = mine & (attempts.ended_at >= epoch_seconds(since)) & (attempts.ended_at < epoch_seconds(boundary))
    counts = [np.bincount(attempts.final[chosen], minlength=len(STATES)).tolist() for chosen in (late, early)]
    return {state: (now, before) for state, now, before in zip(STATES, *counts, strict=True) if now or before}
