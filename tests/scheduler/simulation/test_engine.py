"""The event loop over the budgets' decisions: time, progress, preemption, faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler.policy import Policy
from scheduler.simulation.engine import Cancelled, run
from scheduler.simulation.setup import HostChange, HostEvent, ResearchLab, SetupRefused
from scheduler.types import NEVER, PPM, ShareSteps
from tests.scheduler.simulation.small import DAY, HOUR, jobs_make, lab_make, run_whole, setup_make

FREE = {"gpus_per_replica": 8, "duration_seconds": 4 * HOUR, "project": 2}
TAKER = {"gpus_per_replica": 8, "submit_at": 3700, "duration_seconds": HOUR, "min_runtime_seconds": HOUR}


def segments_of(loop):
    """(start, end, GPUs, standing) in order of time."""
    rows = loop.ledger.segments.read()
    return sorted(zip(*(rows[name].tolist() for name in ("start", "end", "gpus", "standing")), strict=True))


def test_a_submission_starts_in_its_own_pass_and_an_end_is_seen_at_the_next_point_of_the_grid():
    first = {"gpus_per_replica": 8, "submit_at": 3, "duration_seconds": 1001, "min_runtime_seconds": HOUR}
    second = {"gpus_per_replica": 8, "submit_at": 5, "duration_seconds": 100, "min_runtime_seconds": HOUR}
    loop, _ = run_whole(setup_make(jobs_make(first, second)))
    assert segments_of(loop) == [(3, 1004, 8, 1), (1010, 1110, 8, 1)]


def test_a_start_that_takes_gpus_waits_for_the_grace_time():
    loop, report = run_whole(setup_make(jobs_make(FREE, TAKER)))
    assert segments_of(loop)[:3] == [(0, 3700, 8, 3), (3700, 3710, 8, 4), (3710, 7310, 8, 1)]
    assert report.preemptions == 1


def test_what_was_not_saved_is_done_again_and_the_restart_costs_its_overhead():
    loop, report = run_whole(setup_make(jobs_make(FREE, TAKER)))
    saved = 3600  # two checkpoints of half an hour; 110 s and the restart's 180 s are lost
    restart = segments_of(loop)[3]
    assert restart == (7310, 7310 + 180 + 4 * HOUR - saved, 8, 3)
    assert report.lost_gpu_hours == pytest.approx(8 * (110 + 180) / HOUR)
    assert (report.completed, report.unfinished_started) == (2, 0)


def test_without_checkpoints_all_is_done_again():
    loop, _ = run_whole(setup_make(jobs_make({**FREE, "checkpoint_interval_seconds": NEVER}, TAKER)))
    assert segments_of(loop)[3] == (7310, 7310 + 180 + 4 * HOUR, 8, 3)


def test_work_that_is_not_resumable_ends_when_it_is_taken():
    _, report = run_whole(setup_make(jobs_make({**FREE, "resumable": False}, TAKER)))
    assert (report.completed, report.ended_preempted) == (1, 1)


def test_work_that_is_done_within_its_grace_time_is_not_lost():
    almost = {**FREE, "duration_seconds": 3705}
    _, report = run_whole(setup_make(jobs_make(almost, TAKER)))
    assert (report.completed, report.lost_gpu_hours) == (2, 0)


def test_contracts_mature_at_their_exact_end():
    job = {"submit_at": 7, "duration_seconds": 2 * HOUR, "min_runtime_seconds": HOUR, "gpus_per_replica": 8}
    other = {**job, "submit_at": 8, "project": 2}  # so that passes are made
    loop, _ = run_whole(setup_make(jobs_make(job, other)))
    assert segments_of(loop)[0] == (7, 7 + HOUR, 8, 1)


def test_a_failed_host_ends_what_runs_there_and_gives_the_charge_since_the_last_checkpoint_back():
    job = {"duration_seconds": 4 * HOUR, "min_runtime_seconds": 4 * HOUR}
    fault = HostEvent(0, 2000, HostChange.FAIL, 1000)
    loop, report = run_whole(setup_make(jobs_make(job), host_events=(fault,)))
    rows = [row for row in segments_of(loop) if row[1] <= 2000]
    assert rows == [(0, 2000, 1, 1), (1800, 2000, -1, 1), (1800, 2000, 1, 5)]
    assert report.gpu_hours["refunded"] == pytest.approx(200 / HOUR)
    assert report.lost_gpu_hours == 0
    assert report.lost_to_failures_gpu_hours == pytest.approx((200 + 180) / HOUR)
    assert segments_of(loop)[-1][:2] == (3000, 3000 + 180 + 4 * HOUR - 1800)


def test_a_drained_host_keeps_contracts_and_loses_the_rest_and_comes_back():
    kept = {"duration_seconds": 3 * HOUR, "min_runtime_seconds": HOUR, "gpus_per_replica": 4}
    free = {"duration_seconds": 3 * HOUR, "gpus_per_replica": 4, "project": 2}
    drain = HostEvent(0, 600, HostChange.DRAIN, 2 * HOUR)
    loop, report = run_whole(setup_make(jobs_make(kept, free), host_events=(drain,)))
    ends = sorted(end for _, end, _, standing in segments_of(loop) if standing == 4)
    assert ends == [610, HOUR + 60]
    assert (report.completed, report.preemptions) == (2, 2)
    assert report.availability < 1


def test_jobs_that_no_host_could_hold_are_left_out_and_counted():
    _, report = run_whole(setup_make(jobs_make({"gpus_per_replica": 9}, {})))
    assert (report.too_large_jobs, report.jobs) == (1, 1)


def test_jobs_after_the_end_are_cut_and_counted():
    _, report = run_whole(setup_make(jobs_make({}, {"submit_at": 2 * DAY}), days=1))
    assert (report.cut_jobs, report.jobs) == (1, 1)


def test_the_same_seed_gives_the_same_report_and_another_does_not():
    first, again, other = (run(lab_make(hosts=2, seed=seed, pass_interval_seconds=300)).to_dict() for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_run_that_is_told_to_stop_has_no_report():
    told = []
    with pytest.raises(Cancelled):
        run(lab_make(hosts=2), progress=lambda part: told.append(part) or len(told) < 3)
    assert len(told) == 3
    assert told == sorted(told)


def test_progress_reaches_the_whole():
    told = []
    run(setup_make(jobs_make({}, {"submit_at": 10000}), days=1), progress=lambda part: told.append(part) or True)
    assert told[-1] == 1.0


def step(at, percent):
    """Project 1's budget from then on."""
    one = np.array([1], dtype=np.int64)
    return ShareSteps(one, one * at, one * percent * PPM // 100, one * NEVER)


EVERY_PASS = {"skip_passes": False, "check_every": 1}
"""Every pass is made, and made in full: one that is checked is never taken for one that would do nothing."""


@pytest.mark.parametrize("percent", [50, 3])
def test_leaving_out_passes_changes_nothing(percent):
    """Work that lapses, ends, matures and restarts, with and without every pass made."""
    rows = [
        {"submit_at": 977 * n, "duration_seconds": 5 * HOUR + 61 * n, "min_runtime_seconds": n % 3 * HOUR}
        for n in range(12)
    ]
    setup = setup_make(
        jobs_make(*rows),
        shares=(percent, 10),
        host_events=(HostEvent(0, 9 * HOUR, HostChange.FAIL, 500),),
        days=2,
        pass_interval_seconds=60,
        check_every=50,
    )
    loops = [run_whole(change)[0] for change in (setup, replace(setup, **EVERY_PASS))]
    assert loops[0].decisions < loops[1].decisions / 2
    for name in ("segments", "waits", "preemptions", "lost"):
        first, second = (getattr(loop.ledger, name).read() for loop in loops)
        assert {key: first[key].tolist() for key in first} == {key: second[key].tolist() for key in second}


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        ([{}], {"policy": Policy(half_life_seconds=DAY)}),
        ([{"gpus_per_replica": 8}, {"gpus_per_replica": 4}], {"policy": Policy(unallocated_cap_gpus=4)}),
        ([{"min_runtime_seconds": HOUR}], {"host_events": (HostEvent(0, 0, HostChange.FAIL),)}),
    ],
)
def test_a_run_without_an_end_ends_when_nothing_is_left_to_happen(rows, more):
    """With a half-life, too, and where work waits that can never start."""
    loop, report = run_whole(setup_make(jobs_make(*rows), days=None, pass_interval_seconds=3600, **more))
    assert loop.now <= 11 * DAY
    assert report.completed == (0 if "host_events" in more else 1)
    assert len(loop.waiting) == len(rows) - report.completed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shares": (60, 50)}, "add up to 110 %"),
        ({"jobs": jobs_make({"duration_seconds": 0})}, "duration of 0"),
        ({"jobs": jobs_make({"submit_at": -1})}, "before the start"),
        ({"jobs": jobs_make({"id": 1}, {"id": 1})}, "stands twice"),
        ({"jobs": None}, "a trace or a generator"),
        ({"gpus": 0}, "has no GPUs"),
        ({"days": 0}, "days must be at least 1"),
        ({"pass_interval_seconds": 0}, "pass_interval_s"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_words(change, words):
    settings = {"jobs": jobs_make({}), **change}
    with pytest.raises(SetupRefused, match=words):
        run(setup_make(settings.pop("jobs"), **settings))


def test_budgets_that_pass_the_whole_later_on_are_refused_with_the_second():
    setup = setup_make(jobs_make({}), shares=(60, 40))
    steps = step(500, 80)
    both = ShareSteps(
        **{name: np.concatenate([getattr(setup.shares, name), getattr(steps, name)]) for name in steps.__slots__}
    )
    with pytest.raises(SetupRefused, match="120 %, from second 500"):
        run(replace(setup, shares=both))


def test_a_limit_on_unfinished_workloads_holds_the_next_back_until_one_is_done():
    rows = [{"submit_at": n, "duration_seconds": HOUR, "min_runtime_seconds": HOUR} for n in range(3)]
    debug = {"submit_at": 5, "duration_seconds": 60, "min_runtime_seconds": 60}
    other = {"submit_at": 6, "duration_seconds": 60, "min_runtime_seconds": HOUR, "project": 2}
    loop, report = run_whole(setup_make(jobs_make(*rows, debug, other), project_limit_workloads=2))
    waits = loop.ledger.waits.read()
    by_submit = dict(zip(waits["submit"].tolist(), (waits["end"] - waits["start"]).tolist(), strict=True))
    assert by_submit == {0: 0, 1: 0, 2: HOUR - 2, 5: 0, 6: 0}
    assert report.completed == 5


@pytest.mark.parametrize("seed", [1, 2])
def test_leaving_out_passes_changes_nothing_while_work_waits(seed):
    """A lab that always asks for too much, with every pass made and without."""
    lab = ResearchLab(teams=4, users=12, debug_per_gpu_day=0.5, host_failures_per_host_year=60.0)
    setup = lab_make(hosts=4, days=1, seed=seed, generator=lab, check_every=0)
    loops = [run_whole(change)[0] for change in (setup, replace(setup, **EVERY_PASS))]
    for name in ("segments", "waits", "preemptions", "lost", "levels"):
        first, second = (getattr(loop.ledger, name).read() for loop in loops)
        assert {key: first[key].tolist() for key in first} == {key: second[key].tolist() for key in second}


@pytest.mark.parametrize(
    "change",
    [
        {"host_events": (HostEvent(0, 60, HostChange.FAIL),)},
        {"policy": Policy(unallocated_cap_gpus=0), "shares": (0, 0)},
    ],
)
def test_a_run_without_an_end_ends_when_what_waits_does_so_for_ever(change):
    job = {"gpus_per_replica": 8, "duration_seconds": HOUR}
    loop, report = run_whole(setup_make(jobs_make(job), pass_interval_seconds=600, **change))
    assert (report.jobs, report.completed, loop.now) == (1, 0, HOUR if "host_events" in change else 0)


def test_a_run_without_an_end_waits_for_a_budget_that_is_still_to_come():
    job, policy = {"min_runtime_seconds": HOUR}, Policy(unallocated_cap_gpus=0, express_gpus=0)
    setup = setup_make(jobs_make(job), policy=policy, shares=(0,), pass_interval_seconds=600)
    loop, report = run_whole(replace(setup, shares=step(40 * DAY, 50)))
    assert (report.completed, segments_of(loop)[0][0]) == (1, 40 * DAY)


@pytest.mark.parametrize("repair", [NEVER, 20])
def test_a_host_that_fails_while_it_drains_takes_work_again_once_it_is_repaired(repair):
    first, second = {"duration_seconds": 60}, {"gpus_per_replica": 8, "submit_at": 2000, "duration_seconds": HOUR}
    faults = HostEvent(0, 5, HostChange.DRAIN, repair), HostEvent(0, 10, HostChange.FAIL, 500)
    loop, report = run_whole(setup_make(jobs_make(first, second), host_events=faults, days=1))
    assert report.completed == 2
    assert segments_of(loop)[-1][:2] == (2000, 2000 + HOUR)
