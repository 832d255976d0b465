"""A real worker of the queue of simulations: killed in the middle, told to stop, away from the queue of passes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

import psutil
import pytest
from django.db import connection, transaction
from django.utils import timezone

from portal.celery import app
from portal.common.messages import PORTAL_QUEUE, SIMULATION_SWEEP_TASK, SIMULATION_WORK_TASK, SIMULATIONS_QUEUE
from portal.launcher import table
from portal.launcher.identity import own_identity
from portal.simulations.life import SILENT_SECONDS, runs_sweep
from portal.simulations.models import Run, RunState
from portal.simulations.sending import work_request
from portal.simulations.tasks import simulations_sweep, simulations_work
from tests.simulations.portal_runs import GENERATED, run_make

pytestmark = pytest.mark.django_db(transaction=True)

LONG = {**GENERATED, "days": 300}
DEADLINE_SECONDS = 90


@pytest.fixture
def worker() -> "Iterator[subprocess.Popen[bytes]]":
    """The launcher's own command line, in a process group of its own, on the tests' database."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    database = urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))
    described = table.simulator({**os.environ, "DATABASE_URL": database}, own_identity())
    process = subprocess.Popen(
        described.argv, env=dict(described.environment), stdout=sys.stderr, stderr=sys.stderr, cwd=table.SOURCE
    )
    yield process
    for kin in [*psutil.Process(process.pid).children(recursive=True)] if process.poll() is None else []:
        kin.kill()
    process.kill()
    process.wait()


def until(condition: Callable[[], bool]) -> None:
    """Wait for it, not for a time."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.1)


def asked() -> Run:
    """A run that waits, and a worker that was told of it."""
    run = run_make(scenario=LONG)
    with transaction.atomic():
        work_request()
    return run


def simulating(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if "portal.simulations.child" in child.cmdline()]


def test_a_worker_that_is_killed_leaves_no_process_and_its_run_waits_again(worker):
    run = asked()
    until(lambda: Run.objects.get(pk=run.pk).state == RunState.RUNNING and bool(simulating(worker)))
    (child,) = simulating(worker)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    until(lambda: not child.is_running())
    assert runs_sweep(now=timezone.now() + timedelta(seconds=SILENT_SECONDS + 1)) == 1
    run.refresh_from_db()
    assert (run.state, run.report, run.tries) == (RunState.QUEUED, None, 1)


def test_a_worker_that_is_told_to_stop_gives_its_run_back_and_ends(worker):
    run = asked()
    until(lambda: Run.objects.get(pk=run.pk).state == RunState.RUNNING and bool(simulating(worker)))
    (child,) = simulating(worker)
    until(lambda: child.nice() >= 10)
    worker.send_signal(signal.SIGTERM)
    worker.wait(DEADLINE_SECONDS)
    assert not child.is_running()
    run.refresh_from_db()
    assert (run.state, run.tries) == (RunState.QUEUED, 0)


def test_simulations_wait_in_a_queue_of_their_own_and_the_beat_looks_after_them():
    scheduled = app.conf.beat_schedule["simulations"]["task"]
    assert (scheduled, app.conf.task_default_queue) == (SIMULATION_SWEEP_TASK, PORTAL_QUEUE)
    assert {simulations_sweep.name, simulations_work.name} == {SIMULATION_SWEEP_TASK, SIMULATION_WORK_TASK}
    argv = table.simulator({}, own_identity()).argv
    assert argv[argv.index("-Q") + 1] == SIMULATIONS_QUEUE != PORTAL_QUEUE
