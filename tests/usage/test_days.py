"""Closed days that are packed say exactly what the rows say, however rows change between two readings (R3)."""

import random
import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries

from portal.clusters.models import Cluster
from portal.projects.models import Project
from portal.usage.arrays import NEVER
from portal.usage.attempts import STATES, endings, window_attempts
from portal.usage.columns import STANDINGS
from portal.usage.models import LedgerDay, Segment
from portal.usage.segments import window_segments
from portal.workloads.models import Attempt, Standing, Workload
from tests.factories import (
    START,
    after,
    attempt_make,
    cluster_make,
    host_make,
    project_make,
    segment_make,
    workload_make,
)

DAY = 86_400
SPAN = 5 * DAY


def seconds_of(moment: datetime | None) -> int:
    return NEVER if moment is None else int(moment.timestamp())


def segments_read(cluster: Cluster, start: datetime, end: datetime) -> list[tuple[object, ...]]:
    """As the columns give them."""
    found = window_segments(cluster=cluster, start=start, end=end)
    return sorted(
        zip(
            found.workload.tolist(),
            found.host.tolist(),
            found.author.tolist(),
            found.gpus.tolist(),
            (STANDINGS[number] for number in found.standing),
            (found.paths[number] for number in found.path),
            found.start_at.tolist(),
            found.end_at.tolist(),
            strict=True,
        )
    )


def segments_true(cluster: Cluster, start: datetime, end: datetime) -> list[tuple[object, ...]]:
    """As the rows say, one by one."""
    return sorted(
        (
            row.workload_id,
            row.host_id,
            row.author_id,
            row.gpus,
            row.standing,
            tuple(row.path),
            seconds_of(row.start_at),
            seconds_of(row.end_at),
        )
        for row in Segment.objects.filter(cluster=cluster)
        if row.start_at < end and (row.end_at is None or row.end_at > start)
    )


def attempts_read(cluster: Cluster, start: datetime, end: datetime) -> list[tuple[object, ...]]:
    found = window_attempts(cluster=cluster, start=start, end=end, waiting=False)
    columns = (found.project, found.gpus, found.min_runtime_seconds, found.queued_at, found.assigned_at, found.ended_at)
    return sorted(zip(*(column.tolist() for column in (*columns, found.restart, found.final)), strict=True))


def attempts_true(cluster: Cluster, start: datetime, end: datetime) -> list[tuple[object, ...]]:
    rows = Attempt.objects.filter(cluster=cluster).select_related("workload")
    return sorted(
        (
            row.workload.project_id,
            row.workload.gpus,
            row.min_runtime_seconds,
            seconds_of(row.queued_at),
            seconds_of(row.assigned_at),
            seconds_of(row.ended_at),
            row.workload.attempts.filter(number__lt=row.number).exclude(assigned_at=None).exists(),
            STATES.index(row.workload.state) if row.ended_at and row.ended_at == row.workload.ended_at else NEVER,
        )
        for row in rows
        if row.queued_at < end and (row.ended_at is None or row.ended_at >= start)
    )


def ran(draw: random.Random, cluster: Cluster, project: Project) -> None:
    """A workload with one or two attempts at random moments of five days, some of them still there."""
    host = draw.choice(list(cluster.hosts.all()))
    workload = workload_make(
        project=project, cluster=cluster, gpus_per_replica=draw.randint(1, 8), min_runtime_seconds=draw.choice([0, 60])
    )
    begun = draw.randint(0, SPAN)
    for number in range(draw.randint(1, 2)):
        ended = begun + draw.randint(1, 2 * DAY)
        is_open = number and draw.random() < 0.5
        attempt = attempt_make(
            workload=workload,
            hosts=[host],
            claim=False,
            queued_at=after(begun),
            decided_at=after(begun),
            assigned_at=None if draw.random() < 0.1 else after(begun),
            running_at=None,
            **({} if is_open else {"state": "ended", "outcome": "failed", "ended_at": after(ended)}),
        )
        turn = draw.randint(begun + 1, ended)
        for first, last in ((begun, turn), (turn, ended)):
            if first < last:
                end_at = None if is_open and last == ended else after(last)
                segment_make(
                    attempt=attempt,
                    host=host,
                    start_at=after(first),
                    end_at=end_at,
                    gpus=workload.gpus_per_replica,
                    standing=draw.choice(list(Standing)),
                )
        begun = ended + draw.randint(0, DAY)
    if not is_open and draw.random() < 0.7:
        workload.state, workload.ended_at = "failed", attempt.ended_at
        workload.save()


def change_one(draw: random.Random, cluster: Cluster, projects: list[Project]) -> None:
    """Anything that may happen to rows that are there, also to those of days long closed."""
    row = draw.choice(list(Segment.objects.filter(cluster=cluster)))
    later = Segment.objects.filter(attempt=row.attempt_id, start_at__gt=row.start_at)
    is_last = row.end_at is not None and not later.exists()  # no gap may be left
    attempt = draw.choice(list(Attempt.objects.filter(cluster=cluster)))
    change = draw.randrange(7)
    if change == 0:
        ran(draw, cluster, draw.choice(projects))
    elif change == 1:
        Segment.objects.filter(pk=row.pk).update(standing=draw.choice(list(Standing)))
    elif change == 2 and is_last and row.end_at - row.start_at > timedelta(seconds=1):
        Segment.objects.filter(pk=row.pk).update(end_at=row.start_at + timedelta(seconds=1))
    elif change == 3 and is_last:
        row.delete()
    elif change == 4 and attempt.ended_at is not None:
        Attempt.objects.filter(pk=attempt.pk).update(ended_at=attempt.ended_at + timedelta(days=1))
    elif change == 5:
        Workload.objects.filter(pk=attempt.workload_id).update(project=draw.choice(projects), gpus_per_replica=7)
    elif change == 6:
        Segment.objects.filter(pk=row.pk).update(path=[draw.choice(projects).pk, row.project_id])


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(6))
def test_packed_days_say_what_the_rows_say_whatever_changes_between_two_readings(seed: int) -> None:
    draw = random.Random(seed)
    cluster, other = cluster_make(), cluster_make()
    for each in (cluster, other):
        host_make(cluster=each)
        host_make(cluster=each)
    projects = [project_make(path) for path in ("lab", "lab/nlp", "lab/nlp/chat", "lab/vision")]
    for _ in range(12):
        ran(draw, draw.choice([cluster, other]), draw.choice(projects))
    ran(draw, cluster, projects[1])
    for _ in range(25):
        low = draw.randint(0, SPAN)
        start, end = after(low), after(draw.randint(low + 1, SPAN + 3 * DAY))
        assert segments_read(cluster, start, end) == segments_true(cluster, start, end)
        assert attempts_read(cluster, start, end) == attempts_true(cluster, start, end)
        change_one(draw, cluster, projects)
    assert LedgerDay.objects.filter(rows__gt=0).exists()


def scene() -> tuple[Cluster, Attempt]:
    """An attempt of 100 seconds on the first day."""
    cluster = cluster_make()
    host = host_make(cluster=cluster)
    workload = workload_make(project=project_make("lab/nlp"), cluster=cluster, state="failed", ended_at=after(100))
    attempt = attempt_make(
        workload=workload, hosts=[host], state="ended", outcome="failed", ended_at=after(100), claim=False
    )
    segment_make(attempt=attempt, host=host, start_at=START, end_at=after(100))
    return cluster, attempt


@pytest.mark.django_db
def test_a_closed_day_is_read_as_one_row_and_packed_but_once(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    cluster, _ = scene()
    window_segments(cluster=cluster, start=START, end=after(3 * DAY))
    days = LedgerDay.objects.filter(kind="segments").values_list("day", "rows", "first_at")
    assert [(day.day, rows, first_at) for day, rows, first_at in days.order_by("day")] == [
        (2, 1, START),
        (3, 0, None),
        (4, 0, None),
    ]
    with django_assert_num_queries(3):  # the tree, the days, what is not in one
        window_segments(cluster=cluster, start=START, end=after(3 * DAY))


@pytest.mark.django_db
def test_the_day_in_which_a_range_ends_is_not_packed() -> None:
    cluster, _ = scene()
    window_segments(cluster=cluster, start=START, end=after(DAY - 1))
    assert not LedgerDay.objects.exists()


@pytest.mark.django_db
def test_no_day_is_packed_before_it_is_over() -> None:
    cluster, _ = scene()
    now = timezone.now()
    window_segments(cluster=cluster, start=now - timedelta(days=2), end=now + timedelta(days=400))
    today = now.astimezone(UTC).date()
    assert max(LedgerDay.objects.values_list("day", flat=True)) == today - timedelta(days=1)


@pytest.mark.django_db
def test_a_change_drops_the_day_of_its_row_and_no_other() -> None:
    cluster, _ = scene()
    window_segments(cluster=cluster, start=START, end=after(3 * DAY))
    Segment.objects.update(standing="unallocated")
    assert sorted(LedgerDay.objects.values_list("day__day", flat=True)) == [3, 4]
    found = window_segments(cluster=cluster, start=START, end=after(3 * DAY))
    assert [STANDINGS[number] for number in found.standing] == ["unallocated"]


@pytest.mark.django_db
def test_what_ended_is_counted_by_state_and_range_for_the_projects_asked_for() -> None:
    cluster, attempt = scene()
    nlp, vision = attempt.workload.project_id, project_make("lab/vision")
    workload_make(project=vision, cluster=cluster, state="cancelled", ended_at=after(2 * DAY))
    attempts = window_attempts(cluster=cluster, start=START, end=after(3 * DAY))
    every = {"attempts": attempts, "since": START}
    assert endings(project_ids=[nlp, vision.pk], boundary=after(DAY), **every) == {
        "failed": (0, 1),
        "cancelled": (1, 0),
    }
    assert endings(project_ids=[vision.pk], boundary=after(3 * DAY), **every) == {"cancelled": (0, 1)}
    assert endings(project_ids=[nlp], boundary=START, **every) == {"failed": (1, 0)}


@pytest.mark.django_db(transaction=True)
def test_a_day_that_somebody_is_changing_is_not_packed() -> None:
    cluster, _ = scene()
    changed, read = threading.Event(), threading.Event()

    def change() -> None:
        try:
            with transaction.atomic():
                Segment.objects.update(standing="unallocated")
                changed.set()
                assert read.wait(20)
        finally:
            connection.close()

    writer = threading.Thread(target=change)
    writer.start()
    assert changed.wait(20)
    before = window_segments(cluster=cluster, start=START, end=after(2 * DAY))
    packed = set(LedgerDay.objects.values_list("day__day", flat=True))
    read.set()
    writer.join()
    assert [STANDINGS[number] for number in before.standing] == ["funded"]  # what is committed
    assert packed == {3}
    later = window_segments(cluster=cluster, start=START, end=after(2 * DAY))
    assert [STANDINGS[number] for number in later.standing] == ["unallocated"]


@pytest.mark.django_db(transaction=True)
def test_who_changes_a_day_while_it_is_packed_drops_it_afterwards() -> None:
    cluster, _ = scene()

    def change() -> None:
        try:
            Segment.objects.update(standing="unallocated")
        finally:
            connection.close()

    with transaction.atomic():
        window_segments(cluster=cluster, start=START, end=after(2 * DAY))
        writer = threading.Thread(target=change)
        writer.start()
        with connection.cursor() as cursor:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"
            count = 0
            while writer.is_alive() and not count:
                cursor.execute("SELECT pg_stat_clear_snapshot()")
                cursor.execute(waiting)
                (count,) = cursor.fetchone()
        assert count == 1
    writer.join()
    found = window_segments(cluster=cluster, start=START, end=after(2 * DAY))
    assert [STANDINGS[number] for number in found.standing] == ["unallocated"]
