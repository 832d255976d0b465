"""The figures of a report, by hand."""

from __future__ import annotations

import json

import pytest

from scheduler.simulation.report import find_rank, summarise_waits
from tests.scheduler.simulation.small import DAY, HOUR, jobs_make, lab_make, run_whole, setup_make


@pytest.mark.parametrize(
    ("values", "percent", "rank"),
    [([], 50, None), ([7], 99, 7), ([1, 2, 3, 4], 50, 2), (range(1, 11), 90, 9), (range(1, 12), 90, 10)],
)
def test_percentiles_are_nearest_rank(values, percent, rank):
    assert find_rank(list(values), percent) == rank


def test_who_never_started_counts_with_its_wait():
    waits = summarise_waits(2, [4, 0, 2])
    assert (waits.n, waits.started, waits.mean_s, waits.p50_s, waits.p99_s) == (3, 2, 2, 2, 4)


def test_a_run_that_ends_before_a_start_still_tells_the_wait():
    long = {"gpus_per_replica": 8, "duration_seconds": 2 * DAY, "min_runtime_seconds": 8 * HOUR}
    _, report = run_whole(setup_make(jobs_make(long, {**long, "submit_at": HOUR}), days=1, scheduler="fifo"))
    assert (report.waits["all"].n, report.waits["all"].started, report.waits["all"].p99_s) == (2, 1, 23 * HOUR)


def test_owed_is_the_smaller_of_share_and_demand_hour_by_hour():
    """Project 1 holds 50 % of 8 GPUs, asks for 2 in the first two hours, then for 8 in the next two."""
    two = {"gpus_per_replica": 2, "duration_seconds": 2 * HOUR, "min_runtime_seconds": HOUR}
    eight = {"gpus_per_replica": 8, "submit_at": 2 * HOUR, "duration_seconds": 2 * HOUR, "min_runtime_seconds": HOUR}
    _, report = run_whole(setup_make(jobs_make(two, eight), days=1))
    mine = report.by_project["lab/1"]
    assert mine.owed_gpu_hours == pytest.approx(2 * 2 + 4 * 2)
    assert mine.delivered_gpu_hours == pytest.approx(2 * 2 + 8 * 2)
    assert report.delivery == {"lab/1": pytest.approx(20 / 12), "lab/2": None}
    assert (report.delivery_mean, report.delivery_ge_95) == (1.0, 1)


def test_work_without_a_minimum_runtime_is_owed_nothing_and_runs_unallocated():
    _, report = run_whole(setup_make(jobs_make({"duration_seconds": HOUR}), days=1))
    assert report.by_project["lab/1"].owed_gpu_hours == 0
    assert report.unallocated_fraction == 1.0


def test_occupancy_and_demand_are_ratios_of_what_could_be_used():
    long = {"gpus_per_replica": 8, "duration_seconds": DAY, "min_runtime_seconds": HOUR}
    _, report = run_whole(setup_make(jobs_make(long, {**long, "project": 2, "submit_at": DAY // 2}), days=1))
    assert report.occupancy == pytest.approx(1, abs=0.001)
    assert report.demand_ratio == pytest.approx(1.5, abs=0.001)
    assert report.waits["small"].n == 2


def test_only_what_happens_after_the_warm_up_is_measured():
    early = {"gpus_per_replica": 8, "duration_seconds": DAY, "min_runtime_seconds": HOUR}
    late = {**early, "submit_at": DAY, "gpus_per_replica": 4}
    _, report = run_whole(setup_make(jobs_make(early, late), days=1, warmup_days=1))
    assert report.occupancy == pytest.approx(0.5)
    assert report.waits["all"].n == 1
    assert report.measured_hours == 24


def test_a_report_is_ready_for_json_and_names_every_figure_of_the_format():
    _, report = run_whole(lab_make(hosts=2))
    told = json.loads(json.dumps(report.to_dict()))
    names = (
        "jobs demand_ratio occupancy unallocated_fraction availability delivery delivery_mean delivery_min "
        "delivery_ge_95 waits preemptions lost_gpu_hours unfinished_started free_unusable_gpu_hours class_mix"
    )
    assert set(names.split()) <= told.keys()
    assert set(told["waits"]) == {"debug", "small", "large", "all"}
    assert set(told["waits"]["all"]) == {"n", "started", "mean_s", "p50_s", "p90_s", "p99_s"}
    assert len(told["series"]["hour"]) == 24
