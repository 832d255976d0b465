"""The generator: what it promises about its work."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.simulation.research_lab import ResearchLabSource, draw_failures
from scheduler.simulation.setup import ResearchLab, Scheduler
from scheduler.simulation.teams import make_teams, share_users
from tests.scheduler.simulation.small import DAY, lab_make, run_whole

ROUND = {1800, 3600, 7200, 14400, 28800}


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


def test_contracts_are_round_numbers_and_a_part_would_rather_have_none(reference):
    jobs = draw(reference, 0, 4000)
    assert {job.min_runtime_seconds for job in jobs} == ROUND
    assert np.mean([job.without_contract for job in jobs]) == pytest.approx(0.15, abs=0.02)


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


def refill(source, team, waiting_gpus=0):
    """What the team submits when it has that many GPUs waiting."""
    source.waiting_gpus[source.teams[team]] = waiting_gpus
    return source._refill(team, 0)


@pytest.fixture
def busy():
    """A source of a few teams, none of them idle."""
    lab = ResearchLab(teams=4, users=12, idle_week_fraction=0.0)
    return ResearchLabSource(lab_make(hosts=64, days=7, generator=lab), lab)


def test_a_team_fills_its_backlog_to_what_still_fits(busy):
    target = 2.5 * busy.shares[0] * 512 / 1e6
    gpus = sum(work.gpus for work in refill(busy, 0))
    assert target - busy.streams[0].peek().gpus < gpus <= target + 1


def test_a_team_in_an_idle_week_submits_nothing():
    lab = ResearchLab(teams=4, users=12, idle_week_fraction=1.0)
    assert run_whole(lab_make(hosts=8, days=2, generator=lab, scheduler=Scheduler.FIFO))[1].jobs == 0


def test_what_a_team_runs_beyond_its_part_of_the_cluster_counts_as_backlog(busy):
    running = sum(work.gpus for work in refill(busy, 0))  # all of it starts: more than its part
    again = refill(busy, 0, waiting_gpus=0)
    part = busy.shares[0] * 512 / sum(busy.shares)
    allowed = busy.target[0] - (running - part)
    assert allowed - busy.streams[0].peek().gpus < sum(work.gpus for work in again) <= allowed


def test_what_a_team_runs_within_its_part_does_not_count(busy):
    first = refill(busy, 0)
    kept = first[0]
    for work in first[1:]:
        work.over = True
    assert kept.gpus < busy.part[0]
    assert sum(work.gpus for work in refill(busy, 0)) > busy.target[0] - busy.streams[0].peek().gpus


def list_bare(works):
    return [work for work in works if work.min_runtime == 0]


def test_work_without_a_contract_never_grows_beyond_its_part_of_the_backlog():
    """In a world where nothing of it ever starts and all else is over at once."""
    lab = ResearchLab(teams=4, users=12, idle_week_fraction=0.0)
    source = ResearchLabSource(lab_make(hosts=64, days=7, generator=lab), lab)
    waiting, counts = 0, []
    for _ in range(60):
        for work in refill(source, 0, waiting):
            work.over = work.min_runtime > 0
        bare = list_bare(source.unfinished[0])
        waiting = sum(work.gpus for work in bare)
        counts.append(waiting)
        assert waiting - bare[-1].gpus < 0.15 * source.target[0]
    assert counts[-1] == counts[-20] >= 0.15 * source.target[0]  # full, and it stays so


def test_work_without_a_contract_comes_back_when_some_is_over(busy):
    seen = []
    for _ in range(60):
        works = refill(busy, 0)
        seen += list_bare(works)
        for work in works:
            work.over = True
    assert len(seen) > 20


def test_who_takes_the_contract_after_all_has_the_one_that_was_drawn(busy):
    lab = ResearchLab(teams=4, users=12, idle_week_fraction=0.0, zero_min_runtime_fraction=0.0)
    always = ResearchLabSource(lab_make(hosts=64, days=7, generator=lab), lab)
    for mine, other in zip(refill(busy, 0), refill(always, 0), strict=True):
        assert (mine.id, mine.gpus, mine.duration, mine.user) == (other.id, other.gpus, other.duration, other.user)
        assert mine.min_runtime in (other.min_runtime, 0)


def test_hosts_fail_and_come_back_at_the_documented_rate(reference):
    failures = reference.host_events
    assert len(failures) == pytest.approx(256 * 3 * 37 / 365, rel=0.4)
    assert all(event.repair_seconds >= 3600 for event in failures)
    none = ResearchLab(host_failures_per_host_year=0.0)
    assert draw_failures(reference.setup, none, np.random.default_rng(1), DAY) == []
