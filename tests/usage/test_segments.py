"""The ledger's writer: segments begin and end at exact seconds, leave no gap, and turn at the end of a contract."""

from datetime import datetime
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from pytest_django import DjangoAssertNumQueries

from portal.usage.models import Segment
from portal.usage.services import (
    Opening,
    Turn,
    segments_apply_many,
    segments_close,
    segments_open,
    segments_open_many,
    segments_turn,
)
from portal.workloads.models import Attempt, Standing
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

pytestmark = pytest.mark.django_db

PROTECTED, FUNDED, UNALLOCATED, STOPPING = (
    Standing.PROTECTED,
    Standing.FUNDED,
    Standing.UNALLOCATED,
    Standing.STOPPING,
)


def running(*, hosts: int = 1, min_runtime_seconds: int = 600, running_at: datetime | None = START) -> Attempt:
    cluster = cluster_make()
    workload = workload_make(
        project=project_make("lab/nlp"),
        cluster=cluster,
        replicas=hosts,
        gpus_per_replica=2,
        min_runtime_seconds=min_runtime_seconds,
    )
    return attempt_make(
        workload=workload, hosts=[host_make(cluster=cluster) for _ in range(hosts)], running_at=running_at
    )


def seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int((moment - START).total_seconds())


def ledger(attempt: Attempt) -> list[tuple[Any, ...]]:
    rows = Segment.objects.filter(attempt=attempt).order_by("host", "start_at")
    return [(row.standing, seconds(row.start_at), seconds(row.end_at)) for row in rows]


def test_segments_open_with_the_gpus_of_each_host_and_the_path_of_those_charged() -> None:
    attempt = running(hosts=2)
    segments_open(attempt=attempt, at=START, standing=PROTECTED)
    rows = list(Segment.objects.filter(attempt=attempt))
    assert [(row.gpus, row.end_at) for row in rows] == [(2, None), (2, None)]
    assert rows[0].path == [project_make("lab").pk, project_make("lab/nlp").pk]


def test_moments_are_cut_to_whole_seconds() -> None:
    attempt = running()
    segments_open(attempt=attempt, at=START.replace(microsecond=700_000), standing=UNALLOCATED)
    segments_close(attempt=attempt, at=after(20).replace(microsecond=900_000))
    assert ledger(attempt) == [(UNALLOCATED, 0, 20)]


@pytest.mark.parametrize(
    ("closed_at", "rows"),
    [
        (599, [(PROTECTED, 0, 599)]),
        (600, [(PROTECTED, 0, 600)]),
        (601, [(PROTECTED, 0, 600), (FUNDED, 600, 601)]),
    ],
)
def test_protection_ends_at_exactly_the_minimum_runtime(closed_at: int, rows: list[tuple[Any, ...]]) -> None:
    attempt = running(min_runtime_seconds=600)
    segments_open(attempt=attempt, at=START, standing=PROTECTED)
    segments_close(attempt=attempt, at=after(closed_at))
    assert ledger(attempt) == rows


def test_the_minimum_runtime_counts_from_the_moment_at_which_the_whole_gang_runs() -> None:
    attempt = running(min_runtime_seconds=600, running_at=after(30))
    segments_open(attempt=attempt, at=START, standing=PROTECTED)
    segments_turn(attempt=attempt, at=after(1000), standing=STOPPING)
    assert ledger(attempt) == [(PROTECTED, 0, 630), (FUNDED, 630, 1000), (STOPPING, 1000, None)]


def test_turning_to_funded_late_is_written_at_the_exact_second() -> None:
    attempt = running(min_runtime_seconds=600)
    segments_open(attempt=attempt, at=START, standing=PROTECTED)
    segments_turn(attempt=attempt, at=after(607), standing=FUNDED)
    assert ledger(attempt) == [(PROTECTED, 0, 600), (FUNDED, 600, None)]


def test_an_attempt_that_never_ran_stays_protected_until_it_is_closed() -> None:
    attempt = running(running_at=None)
    segments_open(attempt=attempt, at=START, standing=PROTECTED)
    segments_close(attempt=attempt, at=after(900))
    assert ledger(attempt) == [(PROTECTED, 0, 900)]


def test_turning_to_the_same_standing_changes_nothing() -> None:
    attempt = running()
    segments_open(attempt=attempt, at=START, standing=UNALLOCATED)
    segments_turn(attempt=attempt, at=after(10), standing=UNALLOCATED)
    assert ledger(attempt) == [(UNALLOCATED, 0, None)]


def test_what_lapses_and_returns_within_its_minimum_runtime_is_protected_for_the_rest_of_it() -> None:
    attempt = running(min_runtime_seconds=600)
    segments_open(attempt=attempt, at=START, standing=UNALLOCATED)
    segments_turn(attempt=attempt, at=after(100), standing=PROTECTED)
    segments_close(attempt=attempt, at=after(700))
    assert ledger(attempt) == [(UNALLOCATED, 0, 100), (PROTECTED, 100, 600), (FUNDED, 600, 700)]


def test_turning_within_the_first_second_leaves_one_segment() -> None:
    attempt = running()
    segments_open(attempt=attempt, at=START, standing=UNALLOCATED)
    segments_turn(attempt=attempt, at=START, standing=STOPPING)
    assert ledger(attempt) == [(STOPPING, 0, None)]


def test_what_ends_within_its_first_second_leaves_nothing() -> None:
    attempt = running()
    segments_open(attempt=attempt, at=START, standing=PROTECTED)
    segments_close(attempt=attempt, at=START)
    assert ledger(attempt) == []


def test_a_step_back_of_the_clock_counts_as_no_time() -> None:
    attempt = running()
    segments_open(attempt=attempt, at=after(300), standing=UNALLOCATED)
    segments_close(attempt=attempt, at=START)
    assert ledger(attempt) == []


def test_hosts_close_one_by_one_as_each_says_that_its_gpus_are_free() -> None:
    attempt = running(hosts=2)
    segments_open(attempt=attempt, at=START, standing=STOPPING)
    first, second = Segment.objects.filter(attempt=attempt).order_by("host_id")
    segments_close(attempt=attempt, at=after(5), host_ids=[first.host_id])
    segments_close(attempt=attempt, at=after(9), host_ids=[second.host_id])
    assert ledger(attempt) == [(STOPPING, 0, 5), (STOPPING, 0, 9)]


def test_closing_again_changes_nothing() -> None:
    attempt = running()
    segments_open(attempt=attempt, at=START, standing=FUNDED)
    segments_close(attempt=attempt, at=after(5))
    segments_close(attempt=attempt, at=after(50))
    assert ledger(attempt) == [(FUNDED, 0, 5)]


def test_many_attempts_are_written_in_a_fixed_number_of_queries(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    attempts = [running(hosts=2) for _ in range(4)]
    with django_assert_num_queries(5):  # savepoint, claims, projects, segments, release
        segments_open_many(openings=[Opening(attempt, START, PROTECTED) for attempt in attempts])
    with django_assert_num_queries(5):  # savepoint, read, update, create, release
        segments_apply_many(turns=[Turn(attempt, after(700), STOPPING) for attempt in attempts])
    assert ledger(attempts[0])[:3] == [(PROTECTED, 0, 600), (FUNDED, 600, 700), (STOPPING, 700, None)]


def test_the_database_itself_refuses_a_gap() -> None:
    attempt = running()
    host = attempt.claims.first().host  # type: ignore[union-attr]
    segment_make(attempt=attempt, host=host, start_at=START, end_at=after(10))
    with pytest.raises(IntegrityError, match="gap"), transaction.atomic():
        segment_make(attempt=attempt, host=host, start_at=after(11), end_at=after(20))
        connection.check_constraints()


def test_the_database_itself_refuses_an_overlap() -> None:
    attempt = running()
    host = attempt.claims.first().host  # type: ignore[union-attr]
    segment_make(attempt=attempt, host=host, start_at=START, end_at=after(10))
    with pytest.raises(IntegrityError, match="segment_no_overlap"), transaction.atomic():
        segment_make(attempt=attempt, host=host, start_at=after(9), end_at=after(20))


class TurnsInAnyOrder(TestCase):
    """Whatever turns are asked for, the ledger covers exactly the time between open and close."""

    @settings(max_examples=25, deadline=None)
    @given(
        contract=st.integers(0, 100),
        turns=st.lists(
            st.tuples(st.integers(0, 120), st.sampled_from([PROTECTED, FUNDED, UNALLOCATED, STOPPING])), max_size=6
        ),
        closed=st.integers(0, 150),
    )
    def test_no_second_is_lost_or_written_twice(
        self, contract: int, turns: list[tuple[int, Standing]], closed: int
    ) -> None:
        attempt = running(min_runtime_seconds=contract)
        segments_open(attempt=attempt, at=START, standing=PROTECTED)
        for at, standing in sorted(turns):
            segments_turn(attempt=attempt, at=after(at), standing=standing)
        end = max([closed, *(at for at, _ in turns)])
        segments_close(attempt=attempt, at=after(end))
        rows = ledger(attempt)
        moments = [0, *(end_at for _, _, end_at in rows)]
        assert [start_at for _, start_at, _ in rows] == moments[:-1]
        assert moments[-1] == end
        assert all(start_at < contract for standing, start_at, _ in rows if standing == PROTECTED)
