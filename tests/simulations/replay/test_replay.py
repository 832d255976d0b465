"""A replay: the real services in virtual time, and the ledger held against what the host stubs ran."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from portal.scheduling.models import Reservation, ReservationEnd
from portal.simulations.replay.jobs import Job, jobs_of
from portal.simulations.replay.report import Report, nearest_rank, report_make
from portal.simulations.replay.run import Replay, grid
from portal.simulations.replay.stub import STOP_SECONDS, HostStub, Work
from portal.simulations.replay.world import world_make
from portal.simulations.traces.reading import read_trace
from portal.usage.models import Segment
from portal.workloads.models import Attempt, Outcome

ROOT = Path(__file__).resolve().parents[3]
PHILLY = ROOT / "examples" / "traces" / "philly_2017_oct_2w.csv"


def job(number: int, *, at: int, seconds: int, gpus: int = 8, project: str = "a", minimum: int = 7200) -> Job:
    replicas = max(gpus // 8, 1)
    return Job(f"j{number}", "", project, at, seconds, replicas, gpus // replicas, minimum, True, 0)


def replay_of(jobs: list[Job], *, hosts: int, end: int) -> tuple[Replay, Report]:
    replay = Replay(world_make(jobs, hosts=hosts), jobs, end, lambda _: None)
    replay.run()
    return replay, report_make(replay, wall_seconds=1.0)


@pytest.mark.django_db(transaction=True)
def test_a_slice_of_the_philly_trace_passes_and_the_ledger_is_what_was_run() -> None:
    jobs = jobs_of(read_trace(PHILLY), until_seconds=7200, gpus_per_host=8, seed=1)[:40]
    _, report = replay_of(jobs, hosts=4, end=8000)
    assert (report.submitted, report.refused, report.violations) == (40, 0, 0)
    assert report.ledger_gpu_seconds == report.occupancy_gpu_seconds > 0
    assert report.started > 15
    assert report.finished > 5


@pytest.mark.django_db(transaction=True)
def test_preempted_work_resumes_and_the_ledger_still_agrees() -> None:
    """An unallocated gang holds both hosts; a funded workload takes them, ends, and the gang goes on."""
    jobs = [
        job(1, at=0, seconds=9000, gpus=16, project="a", minimum=0),
        job(2, at=4005, seconds=600, gpus=16, project="b", minimum=600),
    ]
    replay, report = replay_of(jobs, hosts=2, end=20_000)
    assert (report.preempted, report.finished, report.unfinished) == (1, 2, 0)
    assert report.ledger_gpu_seconds == report.occupancy_gpu_seconds
    outcomes = list(Attempt.objects.order_by("pk").values_list("outcome", flat=True))
    assert outcomes == [Outcome.PREEMPTED, Outcome.SUCCEEDED, Outcome.SUCCEEDED]
    assert Segment.objects.filter(standing="stopping").count() == 2
    assert replay.works[Attempt.objects.earliest("pk").workload_id].saved_seconds == 3600


@pytest.mark.django_db(transaction=True)
def test_a_gang_starts_by_the_time_that_was_kept_for_it_and_nothing_is_violated() -> None:
    """Lower priorities hold both hosts; passes are made when the time comes, though nothing else happens then."""
    jobs = [
        job(1, at=0, seconds=30_000, minimum=3000),
        job(2, at=0, seconds=30_000, minimum=6000),
        replace(job(3, at=600, seconds=900, gpus=16, minimum=900), priority=5),
    ]
    _, report = replay_of(jobs, hosts=2, end=20_000)
    kept = Reservation.objects.get()
    attempt = Attempt.objects.get(workload=kept.workload)
    assert (kept.end, attempt.outcome, kept.ended_at) == (ReservationEnd.STARTED, Outcome.SUCCEEDED, attempt.decided_at)
    assert attempt.decided_at <= kept.at
    assert (report.violations, report.preempted) == (0, 2)
    assert report.ledger_gpu_seconds == report.occupancy_gpu_seconds


@pytest.mark.django_db(transaction=True)
def test_what_still_runs_at_the_end_is_cut_there_on_both_sides() -> None:
    _, report = replay_of([job(1, at=3, seconds=10_000, gpus=8)], hosts=1, end=1000)
    assert report.unfinished == 1
    assert report.ledger_gpu_seconds == report.occupancy_gpu_seconds == 8 * (1000 - 10)


@pytest.mark.django_db(transaction=True)
def test_passes_are_made_where_something_happened_and_nowhere_else() -> None:
    replay, _ = replay_of([job(1, at=3, seconds=1000, gpus=1, minimum=300)], hosts=1, end=3600)
    assert [int(done.now_at.timestamp()) % 86_400 for done in replay.passes] == [grid(3), grid(310), grid(1010)]


@pytest.mark.django_db(transaction=True)
def test_a_job_that_no_host_can_hold_is_refused_and_counted() -> None:
    _, report = replay_of([job(1, at=3, seconds=100, gpus=64), job(2, at=4, seconds=100)], hosts=1, end=600)
    assert (report.submitted, report.refused, report.finished) == (1, 1, 1)


def test_a_stub_ends_what_it_is_warned_of_and_keeps_its_own_account() -> None:
    stub = HostStub(8, {1: Work(100)})
    run = {
        "attempt": 5,
        "workload": 1,
        "action": "run",
        "grace_seconds": 0,
        "replicas": [{"replica": 0, "gpus": [0, 1]}],
    }
    assert stub.obey([run], 10)  # type: ignore[list-item]
    assert not stub.obey([{**run, "action": "stop"}], 20)  # type: ignore[list-item]
    assert stub.next_exit() == 20 + STOP_SECONDS
    assert stub.exit_due(25)
    assert stub.occupied_until(99) == 2 * 15
    assert stub.report(25)["replicas"][0]["exit_code"] == 143
    stub.obey([], 26)
    assert stub.report(26)["replicas"] == []


def test_work_resumes_from_its_last_checkpoint_with_an_overhead_told_once_by_each_gang() -> None:
    work = Work(10_000)
    for _ in range(2):
        work.interrupt(7, 4000)
    assert work.needed_seconds() == 10_000 - 3600 + 180
    work.interrupt(8, 100)
    assert work.needed_seconds() == 10_000 - 3600 + 180


@pytest.mark.parametrize(("percent", "expected"), [(50, 2), (90, 4), (1, 1)])
def test_percentiles_are_by_nearest_rank(percent: int, expected: int) -> None:
    assert nearest_rank([1, 2, 3, 4], percent) == expected
    assert nearest_rank([], percent) is None


def replay_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "manage.py", "replay", *arguments]
    return subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=300)


def test_the_command_runs_in_a_database_of_its_own_and_prints_one_line_last(tmp_path: Path) -> None:
    trace = tmp_path / "small.csv"
    trace.write_text("job_id,user,project,submit_time_s,duration_s,gpus\na,,p,5,60,2\n")
    done = replay_command(str(trace), "--hours", "1", "--hosts", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["submitted"], report["finished"], report["occupancy_gpu_seconds"]) == (1, 1, 120)
    assert report["ledger_gpu_seconds"] == 120


def test_the_command_refuses_a_bad_trace_by_file_line_and_column(tmp_path: Path) -> None:
    trace = tmp_path / "bad.csv"
    trace.write_text("job_id,user,project,submit_time_s,duration_s,gpus\na,,p,5,sixty,2\n")
    done = replay_command(str(trace), "--hours", "1", "--hosts", "1")
    assert done.returncode == 2
    assert "bad.csv, line 2, column duration_s: 'sixty' is not a number." in done.stderr
    assert "Traceback" not in done.stderr
