"""Segments as columns: read once and cut to many ranges, along paths that the tree has and those that it had."""

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.clusters.models import Cluster, Host
from portal.projects.models import Project
from portal.usage.arrays import NEVER, columns_fetch
from portal.usage.columns import STANDINGS, gpu_seconds_between, gpu_seconds_by_group
from portal.usage.models import Segment
from portal.usage.selectors import delivery, occupancy_by_standing, pyramid, usage_by_author, window_segments
from portal.workloads.models import Standing
from tests.factories import (
    START,
    after,
    attempt_make,
    budget_make,
    cluster_make,
    host_make,
    project_make,
    segment_make,
    workload_make,
)

HOUR = 3600

spans = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-50, 150), st.integers(0, 90), st.integers(1, 9), st.booleans()),
    max_size=12,
)


@given(spans=spans, cuts=st.lists(st.integers(0, 100), max_size=6))
def test_groups_summed_together_are_each_summed_alone(
    spans: list[tuple[int, int, int, int, bool]], cuts: list[int]
) -> None:
    group, starts, lengths, gpus, still_open = (
        np.array([span[place] for span in spans], dtype=np.int64) for place in range(5)
    )
    starts = starts + 1000
    ends = np.where(still_open == 1, NEVER, starts + lengths)
    edges = np.unique(np.array([0, 100, *cuts], dtype=np.int64)) + 1000
    found = gpu_seconds_by_group(edges, group, 3, starts, ends, gpus)
    for number in range(3):
        mine = group == number
        assert found[number].tolist() == gpu_seconds_between(edges, starts[mine], ends[mine], gpus[mine]).tolist()


def ledger_make(draw: random.Random) -> tuple[Cluster, list[Project]]:
    """Segments of every standing at random moments of six hours, some of them open."""
    cluster = cluster_make()
    hosts = [host_make(cluster=cluster) for _ in range(3)]
    projects = [project_make(path) for path in ("lab/nlp", "lab/nlp/chat", "lab/vision")]
    budget_make(cluster=cluster, parent=project_make("lab"), percent={"nlp": 30.3, "vision": 33.3333})
    budget_make(cluster=cluster, parent=projects[0], percent={"chat": 77.7}, at=after(2 * HOUR + 5))
    for _ in range(25):
        segment_anywhere(draw, cluster, draw.choice(hosts), draw.choice(projects))
    return cluster, projects


def segment_anywhere(draw: random.Random, cluster: Cluster, host: Host, project: Project) -> Segment:
    gpus = draw.randint(1, 8)
    workload = workload_make(project=project, cluster=cluster, gpus_per_replica=gpus, min_runtime_seconds=60)
    started = draw.randint(0, 6 * HOUR)
    attempt = attempt_make(workload=workload, hosts=[host], claim=False, decided_at=after(started))
    return segment_make(
        attempt=attempt,
        host=host,
        start_at=after(started),
        end_at=None if draw.random() < 0.2 else after(started + draw.randint(1, 2 * HOUR)),
        gpus=gpus,
        standing=draw.choice(list(Standing)),
    )


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(3))
def test_segments_of_a_longer_range_answer_for_any_range_inside_it(seed: int) -> None:
    draw = random.Random(seed)
    cluster, projects = ledger_make(draw)
    whole = window_segments(cluster=cluster, start=START, end=after(9 * HOUR))
    for _ in range(4):
        low = draw.randint(0, 8 * HOUR)
        start, end = after(low), after(draw.randint(low + 1, 9 * HOUR))
        assert delivery(cluster=cluster, start=start, end=end, columns=whole) == delivery(
            cluster=cluster, start=start, end=end
        )
        for project in (None, projects[0]):
            assert pyramid(cluster=cluster, start=start, end=end, project=project, columns=whole) == pyramid(
                cluster=cluster, start=start, end=end, project=project
            )
            assert occupancy_by_standing(
                cluster=cluster, start=start, end=end, step_seconds=700, project=project, columns=whole
            ) == occupancy_by_standing(cluster=cluster, start=start, end=end, step_seconds=700, project=project)


@pytest.mark.django_db
def test_usage_stays_with_the_projects_that_were_ancestors_when_it_was_charged() -> None:
    cluster = cluster_make()
    host = host_make(cluster=cluster)
    lab, chat, vision = project_make("lab"), project_make("lab/nlp/chat"), project_make("lab/vision")
    now = workload_make(project=chat, cluster=cluster)
    attempt = attempt_make(workload=now, hosts=[host])
    former = [lab.pk, vision.pk, chat.pk]
    segment_make(attempt=attempt, host=host, start_at=START, end_at=after(10), gpus=2, path=former)
    segment_make(attempt=attempt, host=host, start_at=after(10), end_at=after(15), gpus=2)
    columns = window_segments(cluster=cluster, start=START, end=after(60))
    assert set(columns.paths) == {tuple(former), (lab.pk, project_make("lab/nlp").pk, chat.pk)}
    found = delivery(cluster=cluster, start=START, end=after(60))
    delivered = {pk: each.delivered_gpu_seconds for pk, each in found.items()}
    assert delivered == {lab.pk: 30, vision.pk: 20, chat.pk: 30, project_make("lab/nlp").pk: 10}


@pytest.mark.django_db
def test_columns_hold_what_the_rows_hold() -> None:
    draw = random.Random(7)
    cluster, _ = ledger_make(draw)
    columns = window_segments(cluster=cluster, start=START, end=after(9 * HOUR))
    found = zip(
        columns.workload.tolist(),
        columns.host.tolist(),
        columns.author.tolist(),
        columns.gpus.tolist(),
        (STANDINGS[number] for number in columns.standing),
        (columns.paths[number] for number in columns.path),
        columns.start_at.tolist(),
        columns.end_at.tolist(),
        strict=True,
    )
    rows = [
        (
            row.workload_id,
            row.host_id,
            row.author_id,
            row.gpus,
            row.standing,
            tuple(row.path),
            int(row.start_at.timestamp()),
            NEVER if row.end_at is None else int(row.end_at.timestamp()),
        )
        for row in Segment.objects.all()
    ]
    assert sorted(found) == sorted(rows)


@pytest.mark.django_db
def test_who_used_it_is_told_with_charges_and_workloads_inside_the_range() -> None:
    cluster = cluster_make()
    host = host_make(cluster=cluster)
    attempt = attempt_make(workload=workload_make(project=project_make("lab/nlp"), cluster=cluster), hosts=[host])
    for start, end, standing in ((0, 50, "protected"), (50, 90, "funded"), (90, 100, "unallocated")):
        segment_make(attempt=attempt, host=host, start_at=after(start), end_at=after(end), gpus=2, standing=standing)
    other = attempt_make(workload=workload_make(project=project_make("lab/nlp"), cluster=cluster), hosts=[host])
    segment_make(attempt=other, host=host, start_at=after(95), end_at=after(96), gpus=1)
    columns = window_segments(cluster=cluster, start=START, end=after(100))
    found = usage_by_author(columns=columns, start=after(40), end=after(95))
    assert [(each.charged_gpu_seconds, each.unallocated_gpu_seconds, each.workloads) for each in found] == [
        (2 * 50, 2 * 5, 1)
    ]
    assert found[0].author_id == attempt.workload.author_id


@pytest.mark.django_db
def test_owed_is_exact_however_deep_the_tree_and_odd_the_shares() -> None:
    cluster = cluster_make()
    host_make(cluster=cluster, gpus=1_000_003)
    path, percent = "lab", 33.3331
    share = Fraction(1)
    for depth in range(5):
        parent, path = project_make(path), f"{path}/deep-{depth}"
        leaf = project_make(path)
        budget_make(cluster=cluster, parent=parent, percent={leaf.slug: percent})
        share *= Fraction(round(percent * 10_000), 1_000_000)
    workload_make(project=leaf, cluster=cluster, gpus_per_replica=1_000_003, min_runtime_seconds=60)
    owed = delivery(cluster=cluster, start=START, end=after(HOUR))[leaf.pk].owed_gpu_seconds
    assert owed == int(share * 1_000_003 * HOUR)


@pytest.mark.django_db
def test_a_null_in_a_column_is_refused_not_read_as_a_number() -> None:
    with pytest.raises(ValueError, match="null"):
        columns_fetch("SELECT array_agg(value) FROM (VALUES (1::bigint), (NULL)) AS given(value)", {})
