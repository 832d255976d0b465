"""The simulator's old world: habits, and the same choices as `scheduler.priority` takes on facts."""

from __future__ import annotations

from collections import Counter

import pytest

from scheduler.priority import HIGH
from scheduler.simulation.setup import ResearchLab, Scheduler
from scheduler.types import Standing
from tests.scheduler.simulation.small import DAY, HOUR, jobs_make, lab_make, run_whole, setup_make


def old_world(*rows, **more):
    return run_whole(setup_make(jobs_make(*rows), scheduler=Scheduler.PRIORITY, **more))


def test_who_waits_long_comes_back_at_a_higher_level_and_then_opts_out():
    day = {"gpus_per_replica": 8, "duration_seconds": 3 * HOUR, "user": 1}
    rows = [{**day, "submit_at": n * 600} for n in range(3)] + [{**day, "submit_at": n * DAY} for n in (1, 2)]
    loop, _ = old_world(*rows)
    assert loop.decider.levels[1] == HIGH + 1
    assert loop.decider.submitted_high == 2


def test_a_higher_level_takes_a_lower_one():
    patient = {"gpus_per_replica": 8, "duration_seconds": 3 * HOUR, "user": 1}
    rows = [patient, {**patient, "submit_at": 1}]  # the second waits for three hours: user 1 is provoked
    late = [{**patient, "user": 2, "submit_at": DAY}, {**patient, "submit_at": DAY + HOUR}]
    _, report = old_world(*rows, *late)
    assert report.preemptions == 1
    assert report.completed == 4


def test_squatters_hold_gpus_that_do_nothing():
    row = {"gpus_per_replica": 8, "duration_seconds": 3 * HOUR, "user": 1}
    _, report = old_world(*({**row, "submit_at": n} for n in range(20)))
    assert report.squatted_gpu_hours > 0
    occupied = sum(report.gpu_hours.values())
    assert occupied == pytest.approx(20 * 8 * 3 + report.squatted_gpu_hours)


def test_in_a_busy_lab_debug_work_waits_for_hours_and_everyone_ends_up_high():
    lab = ResearchLab(teams=6, users=40)
    loop, report = run_whole(
        lab_make(
            hosts=16,
            days=7,
            warmup_days=7,
            generator=lab,
            scheduler=Scheduler.PRIORITY,
            pass_interval_seconds=10,
            max_gpus_per_user=16,
        )
    )
    assert report.waits["debug"].p90_s >= 3600
    levels = Counter(loop.decider.levels.get(user, 1) for users in loop.source.users for user in users)
    assert levels[HIGH] + levels[HIGH + 1] > sum(levels.values()) * 0.8
    assert set(loop.ledger.segments.read()["standing"].tolist()) <= {
        int(Standing.FUNDED),
        int(Standing.STOPPING),
        5,
    }
