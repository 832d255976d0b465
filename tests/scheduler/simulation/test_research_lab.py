"""The generator: what it promises about its work."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.simulation.research_lab import ResearchLabSource, draw_failures
from scheduler.simulation.setup import ResearchLab, Scheduler
from scheduler.simulation.teams import make_teams, share_users
from tests.scheduler.simulation.small import DAY, lab_make, run_whole

ROUND = {0, 1800, 3600, 7200, 14400, 28800}


@pytest.fixture(scope="module")
def reference():
    """The source of the reference's size, not run."""
    lab = ResearchLab()
    projects, shares = make_teams(lab)
    setup = lab_make(hosts=256, days=30, warmup_days=7, generator=lab)
    assert (setup.projects, setup.shares.share_ppm.tolist()) == (projects, shares.share_ppm.tolist())
    return ResearchLabSource(setup, lab)


def draw(source, team, count):
    return [source.streams[team].next() for _ in range(count)]


def test_fifteen_teams_hold_82_percent_and_150_people(reference):
    assert (len(reference.teams), sum(reference.shares)) == (15, 820_000)
    people = [user for users in reference.users for user in users]
    assert (len(people), len(set(people))) == (150, 150)


def test_every_team_has_someone():
    assert share_users(15, [140_000] + [10] * 14) == [1] * 15


def test_debug_work_comes_at_least_once_per_gpu_and_day_in_working_hours(reference):
    works = [work for work in reference.debug if work.submit_at >= 7 * DAY]
    assert len(works) >= 2048 * 30
    hours = {work.submit_at % DAY // 3600 for work in works}
    assert hours == set(range(9, 19))
    assert all(work.gpus <= 8 and 0 < work.min_runtime < 900 for work in works)
    assert all(work.duration <= 2 * work.min_runtime for work in works)


def test_contracts_are_round_numbers_and_a_part_has_none(reference):
    jobs = draw(reference, 0, 4000)
    assert {job.min_runtime_seconds for job in jobs} == ROUND
    assert np.mean([job.min_runtime_seconds == 0 for job in jobs]) == pytest.approx(0.15, abs=0.02)


def test_gangs_are_no_larger_than_their_team(reference):
    assert max(job.gpus for job in draw(reference, 0, 4000)) == 256
    assert max(job.gpus for job in draw(reference, 14, 4000)) <= 20


def test_classes_share_the_gpu_time_as_documented(reference):
    source = ResearchLabSource(reference.setup, reference.lab)
    jobs = draw(source, 0, 40_000)
    time = np.array([job.gpus * job.duration_seconds for job in jobs], dtype=float)
    gpus = np.array([job.gpus for job in jobs])
    assert time[gpus >= 64].sum() / time.sum() == pytest.approx(0.30, abs=0.06)


def test_a_teams_jobs_are_the_same_whatever_the_policy():
    """The k-th job of each team, by its id, in two runs that decide differently."""
    seen = []
    for scheduler in (Scheduler.FIFO, Scheduler.PRIORITY):
        loop, _ = run_whole(lab_make(hosts=16, days=1, scheduler=scheduler))
        works = [*loop.waiting.values(), *(attempt.work for attempt in loop.attempts.values())]
        seen.append({work.id: (work.project, work.user, work.gpus, work.duration) for work in works})
    both = seen[0].keys() & seen[1].keys()
    assert len(both) > 10
    assert all(seen[0][number] == seen[1][number] for number in both)


def test_a_team_keeps_its_backlog_and_nothing_in_its_idle_weeks():
    loop, report = run_whole(lab_make(hosts=8, days=2, scheduler=Scheduler.FIFO))
    source = loop.source
    for number, team in enumerate(source.teams):
        waiting = loop.waiting_gpus[team] - loop.waiting_debug[team]
        missing = source.target[number] - waiting
        room = max(source.streams[number].peek().gpus, source.target[number] // 2)  # somebody looks every 20 min
        assert missing < room or source.idle[number, 0]
    lab = ResearchLab(teams=4, users=12, idle_week_fraction=1.0)
    assert run_whole(lab_make(hosts=8, days=2, generator=lab, scheduler=Scheduler.FIFO))[1].jobs == 0


def test_hosts_fail_and_come_back_at_the_documented_rate(reference):
    failures = reference.host_events
    assert len(failures) == pytest.approx(256 * 3 * 37 / 365, rel=0.4)
    assert all(event.repair_seconds >= 3600 for event in failures)
    none = ResearchLab(host_failures_per_host_year=0.0)
    assert draw_failures(reference.setup, none, np.random.default_rng(1), DAY) == []
