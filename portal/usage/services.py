"""The ledger's only writer: segments open, turn to another standing, close, and are given back after a fault.

Every moment is cut to its whole second. A protected segment that outlives its contract is written exactly:
protected up to running_at + minimum runtime, funded from there on, however late somebody asks (R4). A moment
before a segment's start, after a step back of the clock, counts as no time.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection, transaction

from portal.common.bulk import ids_among, ids_array, rows_insert, rows_update
from portal.common.units import whole_second
from portal.projects.models import Project
from portal.projects.selectors import ancestor_paths
from portal.usage.models import Segment
from portal.usage.refunds import Fault, Piece, merged, pieces_faulted
from portal.workloads.models import Attempt, Standing

OPENED = """
INSERT INTO usage_segment
    (attempt_id, workload_id, cluster_id, host_id, project_id, author_id, path, gpus, standing, start_at)
SELECT a.id, a.workload_id, a.cluster_id, c.host_id, w.project_id, w.author_id, p.path::bigint[], c.gpus, o.standing,
    o.at
FROM unnest(%(attempts)s::bigint[], %(standings)s::text[], %(moments)s::timestamptz[]) AS o(attempt, standing, at)
JOIN workloads_attempt a ON a.id = o.attempt
JOIN workloads_workload w ON w.id = a.workload_id
JOIN unnest(%(projects)s::bigint[], %(paths)s::text[]) AS p(project, path) ON p.project = w.project_id
JOIN LATERAL (SELECT host_id, count(*) AS gpus FROM workloads_gpuclaim WHERE attempt_id = a.id GROUP BY host_id) c
    ON true
ORDER BY a.id, c.host_id
"""


class Turn(NamedTuple):
    """From `at` on the attempt stands as `standing`; None: its segments end then."""

    attempt: Attempt
    at: datetime
    standing: str | None


class Opening(NamedTuple):
    """All GPUs of the attempt are its from `at` on, with that standing."""

    attempt: Attempt
    at: datetime
    standing: str


def segments_open(*, attempt: Attempt, at: datetime, standing: str) -> None:
    """One open segment per host that the attempt claims GPUs of."""
    segments_open_many(openings=[Opening(attempt, at, standing)])


def segments_turn(*, attempt: Attempt, at: datetime, standing: str) -> None:
    """End what is open at `at`, and go on with another standing."""
    segments_apply_many(turns=[Turn(attempt, at, standing)])


def segments_close(*, attempt: Attempt, at: datetime, host_ids: Iterable[int] | None = None) -> None:
    """End what is open at `at`, on some hosts or (None) on all: the hosts said that the GPUs are free."""
    segments_apply_many(turns=[Turn(attempt, at, None)], host_ids=None if host_ids is None else set(host_ids))


@transaction.atomic
def segments_open_many(*, openings: Sequence[Opening]) -> None:
    """`segments_open` for many attempts in three queries."""
    if not openings:
        return
    attempts = [opening.attempt.pk for opening in openings]
    paths = _charged_paths(attempts)
    parameters: dict[str, Any] = {
        "attempts": ids_array(attempts),
        "standings": [str(opening.standing) for opening in openings],
        "moments": [whole_second(opening.at) for opening in openings],
        "projects": ids_array(paths),
        "paths": [ids_array(path) for path in paths.values()],
    }
    with connection.cursor() as cursor:
        cursor.execute(OPENED, parameters)


def _charged_paths(attempts: Sequence[int]) -> dict[int, list[int]]:
    """For each project the ids from the root down to it: who is charged, now and in this row for ever."""
    charged = Project.objects.filter(workloads__attempts__in=ids_among(attempts)).order_by().distinct()
    wanted = {pk: ancestor_paths(path) for pk, path in charged.values_list("pk", "path")}
    names = {path for paths in wanted.values() for path in paths}
    ids = dict(Project.objects.filter(path__in=names).values_list("path", "pk"))
    return {pk: [ids[path] for path in paths] for pk, paths in wanted.items()}


@transaction.atomic
def segments_apply_many(*, turns: Sequence[Turn], host_ids: set[int] | None = None) -> None:
    """`segments_turn` and `segments_close` for many attempts in four queries."""
    by_attempt = {turn.attempt.pk: turn for turn in turns}
    rows = Segment.objects.select_for_update().filter(attempt__in=ids_among(by_attempt), end_at=None)
    if host_ids is not None:
        rows = rows.filter(host__in=host_ids)
    changes = _Changes()
    for segment in rows.order_by("pk"):
        _segment_turn(segment, by_attempt[segment.attempt_id], changes)
    if changes.empty:
        Segment.objects.filter(pk__in=changes.empty).delete()
    rows_update(changes.updated, ["end_at", "standing"])
    rows_insert(changes.created)


class _Changes:
    def __init__(self) -> None:
        self.updated: list[Segment] = []
        self.created: list[Segment] = []
        self.empty: list[int] = []


def contract_end(attempt: Attempt) -> datetime | None:
    """The first second that is no longer protected; None: the gang does not run yet."""
    if attempt.running_at is None:
        return None
    return whole_second(attempt.running_at) + timedelta(seconds=attempt.min_runtime_seconds)


def _segment_turn(segment: Segment, turn: Turn, changes: _Changes) -> None:
    """Write one open segment's time up to the turn, piece by piece, then what follows."""
    at = max(whole_second(turn.at), segment.start_at)
    pieces = _pieces(segment, at, contract_end(turn.attempt))
    if turn.standing is not None:
        pieces.append(Piece(at, None, turn.standing))
    wanted = merged(piece for piece in pieces if piece.start_at != piece.end_at)
    if not wanted:
        changes.empty.append(segment.pk)
        return
    (_, first_end, first_standing), *rest = wanted
    if (segment.end_at, segment.standing) != (first_end, first_standing):
        segment.end_at, segment.standing = first_end, first_standing
        changes.updated.append(segment)
    changes.created += [_continued(segment, *piece) for piece in rest]


def _pieces(segment: Segment, at: datetime, boundary: datetime | None) -> list[Piece]:
    """The open segment's time up to `at`, cut where its protection ended."""
    start = segment.start_at
    if segment.standing != Standing.PROTECTED or boundary is None or boundary >= at:
        return [Piece(start, at, segment.standing)]
    cut = max(boundary, start)
    return [Piece(start, cut, Standing.PROTECTED), Piece(cut, at, Standing.FUNDED)]


def _continued(segment: Segment, start: datetime, end: datetime | None, standing: str) -> Segment:
    kept = {
        field.attname: getattr(segment, field.attname)
        for field in Segment._meta.concrete_fields
        if field.attname not in {"id", "start_at", "end_at", "standing"}
    }
    return Segment(**kept, start_at=start, end_at=end, standing=standing)


@transaction.atomic
def segments_fault(*, attempt: Attempt, fault: Fault, lost_hosts: Collection[int]) -> int:
    """After a fatal fault (R15): on hosts that are lost the attempt's time ends with it, elsewhere it is stopping from
    then on, and charged time since the last checkpoint is given back. Returns the GPU-seconds that are refunded."""
    fault = Fault(whole_second(fault.at), whole_second(fault.refund_since), fault.refund_seconds)
    by_host: dict[int, list[Segment]] = {}
    for segment in Segment.objects.select_for_update().filter(attempt=attempt).order_by("host", "start_at"):
        by_host.setdefault(segment.host_id, []).append(segment)
    boundary, refunded = contract_end(attempt), 0
    for host, segments in by_host.items():
        past = [piece for segment in segments for piece in _pieces_written(segment, fault.at, boundary)]
        wanted = pieces_faulted(past, fault, lost=host in lost_hosts)
        _segments_rewrite(segments, wanted)
        refunded += segments[0].gpus * (_refunded_seconds(wanted) - _refunded_seconds(past))
    return refunded


def _pieces_written(segment: Segment, at: datetime, boundary: datetime | None) -> list[Piece]:
    """A segment as pieces, an open one cut where its protection ended if that is before `at`."""
    if segment.end_at is not None:
        return [Piece(segment.start_at, segment.end_at, segment.standing)]
    known = max(at, segment.start_at)
    past = [piece for piece in _pieces(segment, known, boundary) if piece.start_at != piece.end_at]
    return [*past, Piece(known, None, past[-1].standing if past else segment.standing)]


def _segments_rewrite(segments: Sequence[Segment], wanted: Sequence[Piece]) -> None:
    """Rows that stay as they are stay; the others are written anew, so that none overlaps another meanwhile."""
    kept = {Piece(row.start_at, row.end_at, row.standing): row.pk for row in segments}
    Segment.objects.filter(pk__in={pk for piece, pk in kept.items() if piece not in set(wanted)}).delete()
    rows_insert([_continued(segments[0], *piece) for piece in wanted if piece not in kept])


def _refunded_seconds(pieces: Iterable[Piece]) -> int:
    return sum(
        int((end - start).total_seconds())
        for start, end, standing in pieces
        if standing == Standing.REFUNDED and end is not None
    )


@transaction.atomic
def segments_repath(*, projects: Collection[int], at: datetime) -> None:
    """These projects have other ancestors from `at` on: what is open is cut there, and the new ones are charged (R3).

    Time up to `at` stays with those who were ancestors then. Whoever moves projects has kept passes and reports out.
    """
    at = whole_second(at)
    rows = Segment.objects.select_for_update(of=["self"]).filter(project__in=list(projects), end_at=None)
    segments = list(rows.select_related("attempt").order_by("pk"))
    paths = _charged_paths([segment.attempt_id for segment in segments])
    updated: list[Segment] = []
    created: list[Segment] = []
    for segment in segments:
        *past, present = _pieces_written(segment, at, contract_end(segment.attempt))
        path = paths[segment.project_id]
        if not past:  # it began at this very second
            Segment.objects.filter(pk=segment.pk).update(path=path, standing=present.standing)
            continue
        onward = _continued(segment, *present)
        onward.path = path
        first, *rest = past
        segment.end_at, segment.standing = first.end_at, first.standing
        updated.append(segment)
        created += [_continued(segment, *piece) for piece in rest] + [onward]
    rows_update(updated, ["end_at", "standing"])
    rows_insert(created)
