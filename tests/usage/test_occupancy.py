"""Exact GPU-seconds over any cut of time; the ledger over all standings is what was occupied."""

import random
from datetime import datetime

import numpy as np
import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from portal.clusters.models import Cluster, Host
from portal.usage.columns import gpu_seconds_between
from portal.usage.models import Segment
from portal.usage.selectors import (
    NEVER,
    STANDINGS,
    charged_by_workload,
    charged_gpu_seconds,
    occupancy_by_standing,
    window_segments,
)
from portal.usage.services import segments_close, segments_open, segments_turn
from portal.workloads.models import Attempt, GpuClaim, Standing
from tests.factories import (
    START,
    after,
    attempt_make,
    claims_make,
    cluster_make,
    host_make,
    project_make,
    segment_make,
    workload_make,
)

spans = st.lists(st.tuples(st.integers(-50, 150), st.integers(0, 90), st.integers(1, 9), st.booleans()), max_size=12)


@given(spans=spans, cuts=st.lists(st.integers(0, 100), max_size=6))
def test_gpu_seconds_are_what_counting_each_second_gives(
    spans: list[tuple[int, int, int, bool]], cuts: list[int]
) -> None:
    starts = np.array([start for start, _, _, _ in spans], dtype=np.int64)
    ends = np.array(
        [NEVER if still_open else start + length + 200 for start, length, _, still_open in spans], dtype=np.int64
    )
    gpus = np.array([count for _, _, count, _ in spans], dtype=np.int64)
    edges = np.unique(np.array([0, 100, *cuts], dtype=np.int64))
    found = gpu_seconds_between(edges + 1000, starts + 1000, np.where(ends == NEVER, NEVER, ends + 1000), gpus)
    last = [100 if end == NEVER else min(int(end), 100) for end in ends]
    for position, total in enumerate(found):
        low, high = int(edges[position]), int(edges[position + 1])
        counted = sum(
            count
            for start, end, count in zip(starts, last, gpus, strict=True)
            for second in range(low, high)
            if start <= second < end
        )
        assert total == counted


@settings(max_examples=50)
@given(spans=spans, cut=st.integers(1, 99))
def test_a_cut_anywhere_changes_no_total(spans: list[tuple[int, int, int, bool]], cut: int) -> None:
    starts = np.array([start for start, _, _, _ in spans], dtype=np.int64)
    ends = np.array([start + length for start, length, _, _ in spans], dtype=np.int64)
    gpus = np.array([count for _, _, count, _ in spans], dtype=np.int64)
    whole = gpu_seconds_between(np.array([0, 100]), starts, ends + 300, gpus).sum()
    parts = gpu_seconds_between(np.array([0, cut, 100]), starts, ends + 300, gpus).sum()
    assert whole == parts


def attempt_on(host: Host, cluster: Cluster, gpus: int = 2, path: str = "lab/nlp") -> Attempt:
    workload = workload_make(project=project_make(path), cluster=cluster, gpus_per_replica=gpus)
    return attempt_make(workload=workload, hosts=[host])


@pytest.mark.django_db
def test_charges_are_the_protected_and_funded_seconds_only() -> None:
    cluster = cluster_make()
    host = host_make(cluster=cluster)
    attempt = attempt_on(host, cluster)
    lengths = [("protected", 100), ("funded", 50), ("unallocated", 30), ("stopping", 7), ("refunded", 5)]
    at = 0
    for standing, length in lengths:
        segment_make(
            attempt=attempt, host=host, start_at=after(at), end_at=after(at + length), gpus=2, standing=standing
        )
        at += length
    assert charged_gpu_seconds(workload=attempt.workload) == 2 * 150


@pytest.mark.django_db
def test_an_open_segment_is_charged_up_to_the_moment_asked_for() -> None:
    cluster = cluster_make()
    host = host_make(cluster=cluster)
    attempt = attempt_on(host, cluster)
    segment_make(attempt=attempt, host=host, start_at=START, gpus=2)
    assert charged_gpu_seconds(workload=attempt.workload, at=after(20)) == 40
    assert charged_gpu_seconds(workload=attempt.workload) > 0


@pytest.mark.django_db
def test_a_workload_that_never_started_is_charged_nothing() -> None:
    workload = workload_make(project=project_make())
    assert charged_by_workload(workload_ids=[workload.pk]) == {workload.pk: 0}


@pytest.mark.django_db
def test_charges_of_many_workloads_are_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    ids = [workload_make(project=project_make()).pk for _ in range(3)]
    with django_assert_num_queries(1):
        charged_by_workload(workload_ids=ids, at=START)


@pytest.mark.django_db
def test_occupancy_by_standing_in_steps_beside_what_was_schedulable() -> None:
    cluster = cluster_make()
    host = host_make(cluster=cluster)
    attempt = attempt_on(host, cluster)
    segment_make(attempt=attempt, host=host, start_at=after(30), end_at=after(90), gpus=2, standing="protected")
    segment_make(attempt=attempt, host=host, start_at=after(90), gpus=2, standing="unallocated")
    found = occupancy_by_standing(cluster=cluster, start=START, end=after(150), step_seconds=60)
    assert found.edges == [after(0), after(60), after(120), after(150)]
    assert found.by_standing["protected"] == [60, 60, 0]
    assert found.by_standing["unallocated"] == [0, 60, 60]
    assert found.schedulable == [480, 480, 240]


@pytest.mark.django_db
def test_occupancy_of_a_project_is_that_of_its_subtree() -> None:
    cluster = cluster_make()
    host = host_make(cluster=cluster)
    for path, gpus in (("lab/robotics/arms", 1), ("lab/robotics", 2), ("lab/nlp", 4)):
        attempt = attempt_on(host, cluster, gpus, path)
        segment_make(attempt=attempt, host=host, start_at=START, end_at=after(10), gpus=gpus)
    found = occupancy_by_standing(
        cluster=cluster, start=START, end=after(10), step_seconds=10, project=project_make("lab/robotics")
    )
    assert found.by_standing["funded"] == [30]


@pytest.mark.django_db
def test_an_empty_ledger_gives_zeros() -> None:
    cluster = cluster_make()
    found = occupancy_by_standing(cluster=cluster, start=START, end=after(60), step_seconds=60)
    assert found.by_standing == {standing: [0] for standing in STANDINGS}
    assert found.installed == [0]


@pytest.mark.django_db
def test_columns_say_who_was_charged() -> None:
    cluster = cluster_make()
    host = host_make(cluster=cluster)
    attempt = attempt_on(host, cluster)
    segment_make(attempt=attempt, host=host, start_at=START, gpus=2)
    columns = window_segments(cluster=cluster, start=START, end=after(1))
    assert columns.paths == ((project_make("lab").pk, project_make("lab/nlp").pk),)
    assert (columns.end_at[0], columns.gpus[0], columns.author[0]) == (NEVER, 2, attempt.workload.author_id)


def occupied_by_claims(start: datetime, end: datetime) -> int:
    """Occupancy counted GPU by GPU from the claims, not from the ledger."""
    total = 0
    for claim in GpuClaim.objects.exclude(occupied=None).exclude(occupied__isempty=True):
        upper = min(claim.occupied.upper or end, end)
        total += max(int((upper - max(claim.occupied.lower, start)).total_seconds()), 0)
    return total


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(5))
def test_the_ledger_over_all_standings_is_the_occupancy_of_claims_over_any_range(seed: int) -> None:
    draw = random.Random(seed)
    cluster = cluster_make()
    host = host_make(cluster=cluster)
    clock = 0
    for _ in range(12):
        workload = workload_make(
            project=project_make("lab/nlp"),
            cluster=cluster,
            gpus_per_replica=draw.randint(1, 8),
            min_runtime_seconds=draw.choice([0, 10, 40]),
        )
        started, ran, ended = clock, clock + draw.randint(0, 5), clock + draw.randint(6, 120)
        attempt = attempt_make(workload=workload, hosts=[host], assigned_at=after(started), running_at=after(ran))
        segments_open(attempt=attempt, at=after(started), standing=draw.choice(list(Standing)))
        for at in sorted(draw.randint(started, ended) for _ in range(3)):
            segments_turn(attempt=attempt, at=after(at), standing=draw.choice(list(Standing)))
        segments_close(attempt=attempt, at=after(ended))
        Attempt.objects.filter(pk=attempt.pk).update(state="ended", ended_at=after(ended), outcome="succeeded")
        GpuClaim.objects.filter(attempt=attempt).delete()
        attempt.ended_at = after(ended)
        claims_make(attempt=attempt, hosts=[host])
        clock = ended
    connection.check_constraints()
    assert Segment.objects.filter(end_at=None).count() == 0
    for _ in range(10):
        low = draw.randint(0, clock - 1)
        start, end = after(low), after(draw.randint(low + 1, clock))
        step = draw.randint(1, 500)
        found = occupancy_by_standing(cluster=cluster, start=start, end=end, step_seconds=step)
        assert sum(map(sum, found.by_standing.values())) == occupied_by_claims(start, end)
