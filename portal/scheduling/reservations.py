"""Reservations as rows (R12): made, moved, given back, each against rows that still stand as decided."""

from collections.abc import Iterable

from django.db import connection
from django.db.models import Exists, OuterRef, QuerySet

from portal.clusters.models import Cluster, Host, HostState
from portal.common.bulk import ids_among
from portal.common.units import duration_words, moment_of
from portal.scheduling.models import Reservation, ReservationEnd
from portal.scheduling.round import Round
from portal.scheduling.starts import workloads_startable
from portal.scheduling.words import Words
from portal.workloads.models import Attempt, AttemptState, Workload, WorkloadState
from scheduler.types import Release, Reserve, Shift

# The hosts by name, beside the numbers of the reason: for pages and REST.
TOLD = """
UPDATE workloads_workload w SET reason = w.reason || d.told
FROM (
    SELECT r.workload_id, jsonb_build_object('reserved_hosts',
        jsonb_agg(jsonb_build_object('host', h.name, 'replicas', (p.place->>1)::int) ORDER BY h.name)) AS told
    FROM scheduling_reservation r CROSS JOIN jsonb_array_elements(r.placement) AS p(place)
    JOIN clusters_host h ON h.id = (p.place->>0)::bigint
    WHERE r.cluster_id = %(cluster)s AND r.ended_at IS NULL GROUP BY r.id
) AS d
WHERE w.id = d.workload_id AND w.state = 'pending' AND w.reason_code = 'reserved'
  AND w.reason->>'cluster' = %(name)s AND NOT w.reason @> d.told
"""


def reservations_close(step: Round) -> int:
    """End those whose workload waits no longer: it was cancelled, has started, or has started in another cluster."""
    active = Attempt.objects.filter(workload=OuterRef("workload")).exclude(state=AttemptState.ENDED)
    rows = (
        _standing(step)
        .select_related("workload", "workload__author")
        .annotate(is_taken=Exists(active), is_taken_here=Exists(active.filter(cluster=step.cluster)))
    )
    ended = 0
    for row in rows.defer("workload__command", "workload__script", "workload__environment", "workload__reason"):
        end = _end_of(row.workload, row.is_taken, row.is_taken_here)
        if end is not None:
            _end(step, row, end)
            _note_end(step, row, end)
            ended += 1
    return ended


def _standing(step: Round) -> QuerySet[Reservation]:
    rows = Reservation.objects.select_for_update(of=("self",), no_key=True)
    return rows.filter(cluster=step.cluster, ended_at=None).order_by("pk")


def _end_of(workload: Workload, is_taken: bool, is_taken_here: bool) -> ReservationEnd | None:
    """Why its reservation is over; None: the workload still waits."""
    if workload.cancel_requested_at is not None:
        return ReservationEnd.CANCELLED
    if is_taken_here:
        return ReservationEnd.STARTED
    is_waiting = workload.state == WorkloadState.PENDING and not is_taken
    return None if is_waiting else ReservationEnd.ELSEWHERE


def _end(step: Round, row: Reservation, end: ReservationEnd) -> None:
    row.ended_at, row.end = step.now, end
    row.save(update_fields=["ended_at", "end"])


def _note_end(step: Round, row: Reservation, end: ReservationEnd) -> None:
    """A start says so itself."""
    if end == ReservationEnd.ELSEWHERE:
        text = f"Its reservation on {step.cluster.name} is over: another cluster has started it."
        step.note_waiting(row.workload_id, "released", code=end, text=text)
    elif end == ReservationEnd.CANCELLED:
        text = "Its reservation is over: it was cancelled."
        workload, ban = row.workload, step.policy.reservation_ban_seconds
        if workload.cancelled_by_id == workload.author_id and ban:
            text += f" {workload.author.username} gets no other for {duration_words(ban)}."
        step.note_waiting(row.workload_id, "released", code=end, text=text)


def reservations_release(step: Round, actions: Iterable[Release], words: Words) -> int:
    """They have lost a host; returns how many orders are stale."""
    stale = 0
    rows = {row.workload_id: row for row in _standing(step)}
    for action in actions:
        row = rows.get(action.workload)
        if row is None:
            stale += 1
            continue
        _end(step, row, ReservationEnd.HOST_LOST)
        _note(step, action, "released", words)
    return stale


def reservations_shift(step: Round, actions: Iterable[Shift], words: Words) -> int:
    """Express starts have moved their times, as they may once; returns how many orders are stale."""
    stale = 0
    rows = {row.workload_id: row for row in _standing(step).filter(moved=False)}
    for action in actions:
        row = rows.get(action.workload)
        if row is None:
            stale += 1
            continue
        row.at, row.moved = moment_of(action.at), True
        row.save(update_fields=["at", "moved"])
        _note(step, action, "reservation_moved", words)
    return stale


def reservations_make(step: Round, actions: list[Reserve], words: Words) -> int:
    """Keep hosts and a time for workloads that still wait without one; returns how many orders are stale."""
    waiting = workloads_startable(action.workload for action in actions)
    standing = set(_standing(step).values_list("workload", flat=True))
    takeable = _schedulable(step.cluster, {host for action in actions for host, _ in action.placement})
    made = [
        action
        for action in actions
        if action.workload in waiting
        and action.workload not in standing
        and all(host in takeable for host, _ in action.placement)
    ]
    for action in made:  # one by one: their ids rise in the order of the decision
        Reservation.objects.create(
            cluster=step.cluster,
            workload_id=action.workload,
            at=moment_of(action.at),
            made_at=step.now,
            placement=[list(place) for place in action.placement],
            takings=list(action.takings),
        )
        _note(step, action, "reserved", words)
    return len(actions) - len(made)


def _schedulable(cluster: Cluster, hosts: set[int]) -> set[int]:
    rows = Host.objects.filter(pk__in=ids_among(hosts), cluster=cluster, state=HostState.SCHEDULABLE, retired_at=None)
    return set(rows.values_list("pk", flat=True))


def _note(step: Round, action: Reserve | Release | Shift, kind: str, words: Words) -> None:
    code, text = words.code(action.reason), words.text(action.reason)
    step.note_waiting(action.workload, kind, code=code, text=text, **words.data(action.reason))


def reservations_tell(cluster: Cluster) -> None:
    """Put the hosts into the reasons of those that wait for them, where they aren't there yet."""
    with connection.cursor() as cursor:
        cursor.execute(TOLD, {"cluster": cluster.pk, "name": cluster.name})
