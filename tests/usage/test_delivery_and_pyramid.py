"""Owed and delivered hour by hour, the pyramid level by level, waits by class: SPEC.md section 2."""

import numpy as np
import pytest
from pytest_django import DjangoAssertNumQueries

from portal.clusters.models import Cluster, Host
from portal.clusters.services import host_cordon, host_uncordon
from portal.common.errors import Refused
from portal.projects.models import Project
from portal.usage.selectors import (
    Delivery,
    delivery,
    delivery_by_hour,
    delivery_mean,
    nearest_rank,
    pyramid,
    queue_waits,
    wait_samples,
)
from portal.workloads.models import Attempt, GpuClaim
from tests.factories import (
    START,
    after,
    attempt_make,
    budget_make,
    claims_make,
    cluster_make,
    host_make,
    project_make,
    segment_make,
    workload_make,
)

pytestmark = pytest.mark.django_db

HOUR = 3600


def scene() -> tuple[Cluster, Host, Project, Project]:
    """One host of 8; nlp has 50 %, vision 25 %."""
    nlp, vision = project_make("lab/nlp"), project_make("lab/vision")
    cluster = cluster_make()
    budget_make(cluster=cluster, parent=project_make("lab"), percent={"nlp": 50, "vision": 25})
    return cluster, host_make(cluster=cluster), nlp, vision


def ran(
    cluster: Cluster,
    host: Host,
    project: Project,
    *,
    gpus: int,
    queued: int,
    started: int,
    ended: int,
    min_runtime_seconds: int = 600,
    standing: str = "funded",
    number: int = 1,
) -> Attempt:
    """A workload that waited, ran with one standing, and ended."""
    workload = workload_make(
        project=project,
        cluster=cluster,
        gpus_per_replica=gpus,
        min_runtime_seconds=min_runtime_seconds,
        submitted_at=after(queued),
    )
    attempt = attempt_make(
        workload=workload,
        hosts=[host],
        state="ended",
        outcome="succeeded",
        decided_at=after(started),
        assigned_at=after(started),
        running_at=after(started),
        ended_at=after(ended),
        number=number,
    )
    workload.state, workload.ended_at = "succeeded", after(ended)
    workload.save()
    segment_make(
        attempt=attempt,
        host=host,
        start_at=after(started),
        end_at=after(ended),
        gpus=gpus,
        standing=standing,
    )
    return attempt


def test_owed_is_the_smaller_of_share_and_demand_hour_by_hour() -> None:
    cluster, host, nlp, _ = scene()
    ran(cluster, host, nlp, gpus=2, queued=0, started=0, ended=HOUR)  # asks for less than its 4 GPUs
    ran(cluster, host, nlp, gpus=8, queued=HOUR, started=HOUR, ended=2 * HOUR)  # asks for more
    hourly = delivery_by_hour(cluster=cluster, start=START, end=after(3 * HOUR))
    assert hourly.owed[nlp.pk] == [2 * HOUR, 4 * HOUR, 0]
    assert hourly.delivered[nlp.pk] == [2 * HOUR, 8 * HOUR, 0]


def test_waiting_work_with_a_minimum_runtime_is_demand_and_work_without_is_not() -> None:
    cluster, _, nlp, vision = scene()
    workload_make(project=nlp, cluster=cluster, gpus_per_replica=4, min_runtime_seconds=60, submitted_at=after(1800))
    workload_make(project=vision, cluster=cluster, gpus_per_replica=4, min_runtime_seconds=0)
    found = delivery(cluster=cluster, start=START, end=after(HOUR))
    assert found[nlp.pk] == Delivery(4 * 1800, 0)
    assert found[vision.pk] == Delivery(0, 0)
    assert found[vision.pk].ratio is None


def test_a_wait_that_was_cancelled_is_demand_until_then() -> None:
    cluster, _, nlp, _ = scene()
    workload_make(
        project=nlp,
        cluster=cluster,
        gpus_per_replica=4,
        min_runtime_seconds=60,
        state="cancelled",
        ended_at=after(600),
    )
    assert delivery(cluster=cluster, start=START, end=after(HOUR))[nlp.pk].owed_gpu_seconds == 4 * 600


def test_a_wait_that_led_to_an_attempt_is_counted_once() -> None:
    cluster, host, nlp, _ = scene()
    ran(cluster, host, nlp, gpus=2, queued=0, started=1800, ended=HOUR)
    assert delivery(cluster=cluster, start=START, end=after(HOUR))[nlp.pk] == Delivery(2 * HOUR, HOUR)


def test_an_attempt_that_has_its_gpus_but_does_not_run_yet_is_counted_once() -> None:
    cluster, host, nlp, _ = scene()
    workload = workload_make(project=nlp, cluster=cluster, gpus_per_replica=2, min_runtime_seconds=60)
    attempt_make(workload=workload, hosts=[host], state="assigned")
    assert workload.state == "pending"
    assert delivery(cluster=cluster, start=START, end=after(HOUR))[nlp.pk].owed_gpu_seconds == 2 * HOUR


def test_running_work_without_a_minimum_runtime_is_no_demand() -> None:
    cluster, host, nlp, _ = scene()
    ran(cluster, host, nlp, gpus=2, queued=0, started=0, ended=HOUR, min_runtime_seconds=0, standing="unallocated")
    assert delivery(cluster=cluster, start=START, end=after(HOUR))[nlp.pk] == Delivery(0, 0)


def test_unallocated_time_is_not_delivered() -> None:
    cluster, host, nlp, _ = scene()
    ran(cluster, host, nlp, gpus=2, queued=0, started=0, ended=HOUR, standing="unallocated")
    assert delivery(cluster=cluster, start=START, end=after(HOUR))[nlp.pk] == Delivery(2 * HOUR, 0)


def test_a_parent_is_owed_and_delivered_what_its_subtree_is() -> None:
    cluster, host, nlp, _ = scene()
    chat = project_make("lab/nlp/chat")
    budget_make(cluster=cluster, parent=nlp, percent={"chat": 50})
    ran(cluster, host, chat, gpus=4, queued=0, started=0, ended=HOUR)
    found = delivery(cluster=cluster, start=START, end=after(HOUR))
    assert found[chat.pk] == Delivery(2 * HOUR, 4 * HOUR)
    assert found[nlp.pk] == Delivery(4 * HOUR, 4 * HOUR)
    assert found[project_make("lab").pk] == Delivery(4 * HOUR, 4 * HOUR)


def test_a_budget_that_changes_within_the_hour_counts_for_each_part_of_it() -> None:
    cluster, _, nlp, _ = scene()
    budget_make(cluster=cluster, parent=project_make("lab"), percent={"nlp": 25}, at=after(900))
    workload_make(project=nlp, cluster=cluster, gpus_per_replica=8, min_runtime_seconds=60)
    assert delivery(cluster=cluster, start=START, end=after(HOUR))[nlp.pk].owed_gpu_seconds == 4 * 900 + 2 * 2700


def test_gpus_that_can_not_be_scheduled_are_owed_to_nobody() -> None:
    cluster, host, nlp, _ = scene()
    host_cordon(host=host, reason="repair", actor=None, now=after(1800))
    workload_make(project=nlp, cluster=cluster, gpus_per_replica=8, min_runtime_seconds=60)
    assert delivery(cluster=cluster, start=START, end=after(HOUR))[nlp.pk].owed_gpu_seconds == 4 * 1800


@pytest.mark.parametrize("cut", [1, 1800, HOUR, 5000])
def test_ranges_cut_at_any_moment_deliver_the_same_in_total(cut: int) -> None:
    cluster, host, nlp, _ = scene()
    ran(cluster, host, nlp, gpus=2, queued=100, started=900, ended=6000)
    parts = [
        delivery(cluster=cluster, start=start, end=end)[nlp.pk]
        for start, end in ((START, after(cut)), (after(cut), after(2 * HOUR)))
    ]
    whole = delivery(cluster=cluster, start=START, end=after(2 * HOUR))[nlp.pk]
    assert sum(part.delivered_gpu_seconds for part in parts) == whole.delivered_gpu_seconds == 2 * 5100
    assert sum(part.owed_gpu_seconds for part in parts) == whole.owed_gpu_seconds


def test_a_mean_counts_nobody_above_the_whole_and_leaves_out_who_asked_for_nothing() -> None:
    assert delivery_mean([Delivery(100, 300), Delivery(100, 50), Delivery(0, 0)]) == 0.75
    assert delivery_mean([Delivery(0, 10)]) is None


def test_delivery_takes_a_fixed_number_of_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    cluster, host, nlp, vision = scene()
    for project in (nlp, vision):
        ran(cluster, host, project, gpus=2, queued=0, started=0, ended=HOUR)
    with django_assert_num_queries(9):  # the days of segments and of attempts, and what waits, among them
        delivery(cluster=cluster, start=START, end=after(5 * HOUR))


def test_the_pyramid_adds_up_from_installed_to_idle() -> None:
    cluster, host, nlp, _ = scene()
    spare = host_make(cluster=cluster)
    host_cordon(host=spare, reason="repair", actor=None, now=after(1800))
    ran(cluster, host, nlp, gpus=2, queued=0, started=0, ended=HOUR, standing="protected")
    ran(cluster, host, nlp, gpus=1, queued=0, started=0, ended=1800, standing="unallocated")
    found = pyramid(cluster=cluster, start=START, end=after(HOUR))
    assert found.installed_gpu_seconds == 16 * HOUR
    assert found.lost_by_state == {"cordoned": 8 * 1800, "unhealthy": 0, "unreachable": 0}
    assert found.schedulable_gpu_seconds == 16 * HOUR - 8 * 1800
    assert found.occupied_by_standing["protected"] == 2 * HOUR
    assert found.occupied_by_standing["unallocated"] == 1800
    assert found.idle_gpu_seconds is not None
    occupied_held_idle = found.occupied_gpu_seconds + found.held_gpu_seconds + found.idle_gpu_seconds
    assert occupied_held_idle == found.schedulable_gpu_seconds
    assert (found.owed_gpu_seconds, found.delivered_gpu_seconds) == (2 * HOUR + 1800, 2 * HOUR)
    assert (found.availability, found.utilization) == (0.75, None)
    assert found.utilization_reason


def test_a_projects_surplus_does_not_hide_another_ones_want() -> None:
    cluster, host, nlp, vision = scene()
    ran(cluster, host, nlp, gpus=6, queued=0, started=0, ended=HOUR)
    workload_make(project=vision, cluster=cluster, gpus_per_replica=2, min_runtime_seconds=60)
    found = pyramid(cluster=cluster, start=START, end=after(HOUR))
    assert (found.owed_gpu_seconds, found.delivered_gpu_seconds) == (6 * HOUR, 4 * HOUR)


def test_held_gpus_are_lost_by_that_name_but_not_while_another_attempt_still_occupies_them() -> None:
    cluster, host, nlp, _ = scene()
    victim = ran(cluster, host, nlp, gpus=4, queued=0, started=0, ended=100)
    taker = attempt_make(
        workload=workload_make(project=nlp, cluster=cluster, gpus_per_replica=8),
        hosts=[host],
        state="assigned",
        assigned_at=None,
        decided_at=after(40),
        claim=False,
    )
    claims_make(attempt=taker, hosts=[host], held=True)
    assert GpuClaim.objects.filter(attempt=victim).count() == 4
    found = pyramid(cluster=cluster, start=START, end=after(200))
    assert found.held_gpu_seconds == 8 * 160 - 4 * 60


def test_what_runs_out_its_contract_on_a_cordoned_host_takes_nothing_from_idle() -> None:
    cluster, host, nlp, _ = scene()
    ran(cluster, host, nlp, gpus=2, queued=0, started=0, ended=100)
    host_cordon(host=host, reason="repair", actor=None, now=after(40))
    host_uncordon(host=host, actor=None, now=after(100))
    found = pyramid(cluster=cluster, start=START, end=after(100))
    assert found.occupied_unschedulable_gpu_seconds == 2 * 60
    assert found.idle_gpu_seconds == 8 * 40 - 2 * 40


def test_occupancy_leaves_out_what_runs_on_a_cordoned_host_so_it_never_passes_100_percent() -> None:
    cluster, host, nlp, _ = scene()
    ran(cluster, host, nlp, gpus=8, queued=0, started=0, ended=100)
    host_cordon(host=host, reason="repair", actor=None, now=after(40))
    found = pyramid(cluster=cluster, start=START, end=after(100))
    assert (found.occupied_gpu_seconds, found.schedulable_gpu_seconds) == (8 * 100, 8 * 40)
    assert (found.occupied_schedulable_gpu_seconds, found.occupancy) == (8 * 40, 1.0)


def test_the_pyramid_of_a_project_has_its_own_part_and_no_idle() -> None:
    cluster, host, nlp, vision = scene()
    ran(cluster, host, nlp, gpus=2, queued=0, started=0, ended=100)
    ran(cluster, host, vision, gpus=4, queued=0, started=0, ended=100)
    found = pyramid(cluster=cluster, start=START, end=after(100), project=nlp)
    assert (found.occupied_gpu_seconds, found.idle_gpu_seconds, found.owed_gpu_seconds) == (200, None, 200)


def test_a_cluster_without_hosts_has_no_ratios_and_no_error() -> None:
    project_make("lab")
    found = pyramid(cluster=cluster_make(), start=START, end=after(100))
    assert (found.availability, found.occupancy, found.impact) == (None, None, None)


def test_the_pyramid_takes_a_fixed_number_of_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    cluster, host, nlp, vision = scene()
    for project in (nlp, vision):
        ran(cluster, host, project, gpus=2, queued=0, started=0, ended=HOUR)
    with django_assert_num_queries(13):
        pyramid(cluster=cluster, start=START, end=after(5 * HOUR))


@pytest.mark.parametrize(("percent", "rank"), [(50, 5), (90, 9), (99, 10), (1, 1), (91, 10)])
def test_percentiles_are_nearest_rank(percent: int, rank: int) -> None:
    assert nearest_rank(np.arange(10, 0, -1), percent) == rank


def test_waits_are_told_by_class_and_restarts_apart() -> None:
    cluster, host, nlp, _ = scene()
    for wait in (10, 20, 30):
        ran(cluster, host, nlp, gpus=1, queued=0, started=wait, ended=200, min_runtime_seconds=899)
    first = ran(cluster, host, nlp, gpus=1, queued=300, started=340, ended=400, min_runtime_seconds=900)
    attempt_make(
        workload=first.workload,
        hosts=[host],
        queued_at=after(400),
        decided_at=after(450),
        assigned_at=after(450),
        running_at=after(450),
        claim=False,
    )
    found = queue_waits(cluster=cluster, start=START, end=after(1000), by="class")
    assert [(each.key, each.restart, each.count, each.p50_seconds, each.p90_seconds) for each in found] == [
        ("debug", False, 3, 20, 30),
        ("small", False, 1, 40, 40),
        ("small", True, 1, 50, 50),
    ]


@pytest.mark.parametrize(("gpus", "size_class"), [(8, "debug"), (16, "large")])
def test_debug_work_has_at_most_eight_gpus(gpus: int, size_class: str) -> None:
    cluster, host, nlp, _ = scene()
    ran(cluster, host, nlp, gpus=gpus, queued=0, started=10, ended=20)
    assert [each.key for each in queue_waits(cluster=cluster, start=START, end=after(99), by="class")] == [size_class]


def test_work_without_a_minimum_runtime_is_no_debug_work() -> None:
    cluster, host, nlp, _ = scene()
    ran(cluster, host, nlp, gpus=1, queued=0, started=10, ended=20, min_runtime_seconds=0)
    assert [each.key for each in queue_waits(cluster=cluster, start=START, end=after(100), by="class")] == ["small"]


def test_waits_are_told_by_project_and_only_of_starts_inside_the_range() -> None:
    cluster, host, nlp, vision = scene()
    ran(cluster, host, nlp, gpus=1, queued=0, started=50, ended=200)
    ran(cluster, host, vision, gpus=1, queued=0, started=100, ended=200)
    found = queue_waits(cluster=None, start=START, end=after(100), by="project")
    assert [(each.key, each.p50_seconds) for each in found] == [(nlp.pk, 50)]
    assert len(wait_samples(start=START, end=after(101), project=project_make("lab")).wait_seconds) == 2


def test_an_unknown_grouping_is_refused() -> None:
    with pytest.raises(Refused):
        queue_waits(cluster=None, start=START, end=after(1), by="author")
