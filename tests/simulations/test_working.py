"""The process that simulates: the real engine on tiny scenarios; cancelled, killed, too slow, too large."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
from django.db import connection, connections
from django.utils import timezone
from pytest_django import Settings

from portal.simulations import working
from portal.simulations.life import run_start, runs_sweep
from portal.simulations.models import Run, RunState, Source
from portal.simulations.partitions import partitioned
from portal.simulations.services import run_cancel, trace_store
from portal.simulations.version import code_version
from tests.factories import START, after
from tests.simulations.portal_runs import GENERATED, HALVES, LAST, TINY, TINY_TRACE, lab_make, run_make

pytestmark = pytest.mark.django_db(transaction=True)

LONG = {
    **GENERATED,
    "clusters": [{"name": "gen", "hosts": 4, "gpus_per_host": 8, "policy": {"pass_interval_s": 60}}],
    "days": 100,
}
"""Minutes of work."""
DEADLINE_SECONDS = 60


@pytest.fixture(autouse=True)
def same_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that simulates reads the database of the tests."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    name = connection.settings_dict["NAME"]
    monkeypatch.setenv("DATABASE_URL", urlunsplit(parts._replace(path=f"/{name}")))


def traced(content=TINY_TRACE, scenario=TINY, **fields):
    trace = trace_store(name="tiny.csv", content=content, author=None, now=START)
    return run_make(source=Source.TRACE, trace=trace, scenario=scenario, **fields)


def work(run, *, stopping: Callable[[], bool] = lambda: False):
    """Take the run and work on it, as a worker does, until it has ended."""
    claim = uuid4()
    taken = run_start(claim=claim, now=timezone.now())
    assert taken.pk == run.pk
    working.run_work(run=taken, claim=claim, clock=timezone.now, stopping=stopping)
    return Run.objects.get(pk=run.pk)


class Worker(threading.Thread):
    """A worker of its own: it works on one run and closes its connection."""

    def __init__(self, run, *, stopping: Callable[[], bool] = lambda: False) -> None:
        super().__init__(daemon=True)
        self.of, self.stopping = run, stopping

    def run(self) -> None:
        try:
            work(self.of, stopping=self.stopping)
        finally:
            connections.close_all()


def until(condition: Callable[[], bool]) -> None:
    """Wait for it, not for a time."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)


def under_way(run):
    return Run.objects.filter(pk=run.pk, progress_ppm__gt=0).exists()


def children_of(run_id):
    """Processes that simulate that run."""
    import psutil

    here = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie has no command line any more
            if child.cmdline()[-1:] == [str(run_id)]:
                here.append(child)
    return here


def test_a_trace_is_simulated_and_its_whole_report_kept():
    run = work(traced())
    assert run.state == RunState.DONE, run.error
    assert (run.report["jobs"], run.report["cluster"], run.report["completed"]) == (4, "tiny", 4)
    assert set(run.report["by_project"]) >= {"lab/nlp", "lab/vision"}
    assert run.report["jobs_per_s"] > 0
    assert (run.code_version, run.progress_ppm, run.claim) == (code_version(), 1_000_000, None)


def test_the_same_inputs_give_the_same_report():
    reports = [work(traced()).report for _ in range(2)]
    for report in reports:
        for name in ("wall_s", "jobs_per_s"):
            del report[name]
    assert reports[0] == reports[1]


def test_this_portals_history_is_replayed():
    from portal.simulations.portal_scenario import scenario_of_history

    cluster, _ = lab_make()
    scenario = scenario_of_history(cluster=cluster, start=START, end=LAST)
    run = work(run_make(cluster=cluster, source=Source.HISTORY, scenario=scenario, history=(START, LAST), now=LAST))
    assert run.state == RunState.DONE, run.error
    assert (run.report["jobs"], run.report["completed"]) == (3, 3)
    assert run.report["waits"]["all"]["p90_s"] == 0
    assert run.notes[0] == "3 workloads ran in the range."


def test_partitions_have_a_report_each_and_one_together():
    run = work(traced(scenario=partitioned(HALVES)))
    assert run.state == RunState.DONE, run.error
    assert run.report["cluster"] == "all"
    assert [other["cluster"] for other in run.report["others"]] == ["partition-1", "partition-2"]
    assert run.report["jobs"] == sum(other["jobs"] for other in run.report["others"]) == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b"job_id,user,project,submit_time_s,duration_s,gpus\n1,ada,lab/nlp,0,x,8\n",
            "tiny.csv, line 2, column duration_s",
        ),
        (b"nothing that is known\n", "is no trace that is known"),
        (b"\xff\xfe\x00", "UTF-16"),
        (TINY_TRACE.replace(b",0,3600,8", b",0,3600,1000000"), "tiny"),
    ],
)
def test_a_trace_that_can_not_be_read_is_refused_with_its_place(content, words):
    run = work(traced(content=content))
    if run.state == RunState.DONE:
        assert run.report["too_large_jobs"] == 1
    else:
        assert (run.state, run.report) == (RunState.FAILED, None)
        assert words in run.error


def test_a_trace_with_more_rows_than_allowed_is_refused_with_the_bound(settings: Settings, monkeypatch):
    monkeypatch.setenv("SIMULATION_TRACE_ROWS", "3")
    run = work(traced())
    assert run.error == "The trace has 4 rows; a simulation takes at most 3."


def test_a_cancel_ends_it_within_seconds_and_keeps_nothing():
    run = run_make(scenario=LONG)
    worker = Worker(run)
    worker.start()
    until(lambda: under_way(run))
    assert Run.objects.get(pk=run.pk).seconds_left is not None
    began = time.monotonic()
    run_cancel(run=run, actor=None, now=timezone.now())
    worker.join(DEADLINE_SECONDS)
    assert time.monotonic() - began < 5
    run.refresh_from_db()
    assert (run.state, run.report) == (RunState.CANCELLED, None)
    assert children_of(run.pk) == []


def test_a_process_that_is_killed_leaves_its_run_failed_at_once():
    run = run_make(scenario=LONG)
    worker = Worker(run)
    worker.start()
    until(lambda: under_way(run))
    (child,) = children_of(run.pk)
    os.kill(child.pid, signal.SIGKILL)
    worker.join(DEADLINE_SECONDS)
    run.refresh_from_db()
    assert run.state == RunState.FAILED
    assert "SIGKILL" in run.error


def test_a_run_that_takes_too_long_is_ended_and_says_so(settings: Settings):
    settings.SIMULATION_SECONDS = 1
    run = work(run_make(scenario=LONG))
    assert (run.state, run.error) == (RunState.FAILED, "It took longer than 1 s, the most that one may.")
    assert children_of(run.pk) == []


def test_a_run_that_takes_too_much_memory_is_ended_and_says_so(monkeypatch):
    monkeypatch.setenv("SIMULATION_MEMORY_MB", "200")
    rows = b"".join(b"%d,ada,lab/nlp,%d,60,1\n" % (number, number) for number in range(600_000))
    run = work(traced(content=TINY_TRACE.split(b"\n")[0] + b"\n" + rows, scenario={**TINY, "days": None}))
    assert (run.state, run.report) == (RunState.FAILED, None)
    assert run.error == "It needs more than 200 MB of memory, the most that one may take."


def test_a_worker_that_is_told_to_stop_gives_its_run_back():
    stop = threading.Event()
    run = run_make(scenario=LONG)
    worker = Worker(run, stopping=stop.is_set)
    worker.start()
    until(lambda: under_way(run))
    stop.set()
    worker.join(DEADLINE_SECONDS)
    run.refresh_from_db()
    assert (run.state, run.tries) == (RunState.QUEUED, 0)
    assert children_of(run.pk) == []


def test_a_worker_that_lost_its_run_ends_its_process():
    run = run_make(scenario=LONG)
    worker = Worker(run)
    worker.start()
    until(lambda: under_way(run))
    Run.objects.filter(pk=run.pk).update(claim=uuid4())
    worker.join(DEADLINE_SECONDS)
    assert not worker.is_alive()
    assert children_of(run.pk) == []
    assert runs_sweep(now=after(86_400 * 400)) == 1


def test_two_at_once_each_do_their_own():
    runs = [traced(), traced()]
    threads = [threading.Thread(target=work_any) for _ in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    ended = Run.objects.filter(pk__in=[run.pk for run in runs]).values_list("state", "tries")
    assert list(ended) == [(RunState.DONE, 1)] * 2


def work_any():
    """Whoever comes first takes the first."""
    claim = uuid4()
    try:
        run = run_start(claim=claim, now=timezone.now())
        working.run_work(run=run, claim=claim, clock=timezone.now, stopping=lambda: False)
    finally:
        connections.close_all()


def test_the_process_runs_the_compiled_scheduler_and_answers_the_same(compiled_scheduler, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONVERBOSE", "1")  # it says what it imports
    reports = []
    for flag in ("1", "0"):
        monkeypatch.setenv("SIMULATION_COMPILED", flag)
        run = work(traced())
        assert run.state == RunState.DONE
        assert (f"{compiled_scheduler}/scheduler/policy." in capfd.readouterr().err) == (flag == "1")
        reports.append({name: value for name, value in run.report.items() if name not in ("wall_s", "jobs_per_s")})
    assert reports[0] == reports[1]
