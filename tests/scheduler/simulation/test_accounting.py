"""GPU-seconds are neither lost nor made up, whatever happens."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.simulation.figures import read_hours
from scheduler.simulation.integrate import integrate, integrate_steps
from scheduler.simulation.setup import HostChange, HostEvent, ResearchLab, Scheduler
from tests.scheduler.simulation.small import HOUR, lab_make, run_whole

FAULTS = tuple(HostEvent(host, 5000 + 9000 * host, HostChange.FAIL, 4000) for host in range(3))


@pytest.fixture(scope="module", params=["budgets", "fifo"])
def ran(request):
    """A day of a small lab in which hosts fail."""
    lab = ResearchLab(teams=4, users=12, debug_per_gpu_day=2)
    return run_whole(
        lab_make(hosts=3, generator=lab, host_events=FAULTS, scheduler=Scheduler(request.param), check_every=5)
    )


def test_time_by_standing_is_the_time_that_hosts_were_occupied(ran):
    loop, _ = ran
    hours, levels = read_hours(loop), loop.ledger.levels.read()
    occupied = sum(rows.sum(axis=0) for rows in hours.by_standing.values())
    free, held = (integrate_steps(levels["at"], levels[name], hours.edges) for name in ("free", "held"))
    assert (occupied + free + held).tolist() == hours.schedulable.tolist()


def test_every_second_of_work_is_progress_or_lost(ran):
    loop, _ = ran
    rows, lost = loop.ledger.segments.read(), loop.ledger.lost.read()
    occupied = int(((rows["end"] - rows["start"]) * rows["gpus"]).sum())
    works = {work.id: work for work in loop.waiting.values()}
    running = [attempt for attempt in loop.attempts.values() if attempt.segment_at >= 0]
    works |= {attempt.work.id: attempt.work for attempt in running}
    done = sum(work.gpus * (work.duration - work.remaining) for work in works.values())
    under_way = sum(attempt.gpus * (loop.now - attempt.began_at) for attempt in running)
    submitted = loop.ledger.submitted.read()
    total = int((submitted["gpus"] * submitted["duration"]).sum())
    unfinished = sum(work.gpus * work.duration for work in works.values())
    assert occupied == (total - unfinished) + done + under_way + int(lost["gpu_seconds"].sum())


def test_faults_and_preemptions_did_happen(ran):
    loop, report = ran
    assert report.availability < 1
    assert report.lost_to_failures_gpu_hours > 0
    if loop.setup.scheduler == Scheduler.BUDGETS:
        assert report.preemptions > 0
        assert report.gpu_hours["refunded"] > 0
        assert report.checked > 0


def test_waits_and_segments_of_a_project_add_up_to_what_it_asked_for(ran):
    loop, report = ran
    hours = read_hours(loop)
    root = report.by_project["lab"]
    teams = [figures for path, figures in report.by_project.items() if path != "lab"]
    assert root.delivered_gpu_hours == pytest.approx(sum(team.delivered_gpu_hours for team in teams))
    assert sum(root.gpu_hours.values()) == pytest.approx(sum(report.gpu_hours.values()))
    assert hours.total(hours.asked)[0].tolist() == hours.asked.sum(axis=0).tolist()


def test_days_add_up_to_the_run(ran):
    _, report = ran
    rows = [row for row in report.days if row.project == "lab"]
    assert sum(row.occupied for row in rows) == pytest.approx(sum(report.gpu_hours.values()), abs=0.001)
    assert sum(row.preemptions for row in rows) == report.preemptions


def test_integrals_are_cut_at_the_edges_and_exact():
    edges = np.array([0, HOUR, 2 * HOUR], dtype=np.int64)
    spans = [np.array(column, dtype=np.int64) for column in ([0, 1, 0], [-5, 3000, 7000], [10, 4000, 9000], [2, 3, -1])]
    sums = integrate(*spans, groups=2, edges=edges)
    assert sums.tolist() == [[20, -200], [1800, 1200]]
