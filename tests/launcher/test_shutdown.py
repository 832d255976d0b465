"""Ending what a launch left, from its records alone."""

import json
import os
import subprocess
import sys

import psutil
import pytest

from portal.launcher.records import MARKER, Record, records_write
from portal.launcher.shutdown import PROCESS, everything_stop
from portal.launcher.waiting import until

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]


@pytest.fixture
def started():
    """Start processes in sessions of their own; none outlives the test."""
    children = []

    def start(argv, **options):
        child = subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE, **options)
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def runner_file(folder, child, *, started_at=None):
    folder.mkdir(parents=True)
    facts = {"pid": child.pid, "pgid": child.pid, "started_at": psutil.Process(child.pid).create_time()}
    (folder / "runner.json").write_text(json.dumps(facts | ({"started_at": started_at} if started_at else {})))


def test_a_recorded_process_is_ended(tmp_path, started):
    child = started(SLEEPER)
    record = Record("web", child.pid, psutil.Process(child.pid).create_time(), PROCESS)
    records_write(tmp_path, "launch", [record])
    everything_stop(tmp_path, None)
    assert child.wait(timeout=5) < 0


def test_a_process_with_a_recorded_number_that_started_later_is_spared(tmp_path, started):
    child = started(SLEEPER)
    record = Record("web", child.pid, psutil.Process(child.pid).create_time() - 60, PROCESS)
    records_write(tmp_path, "launch", [record])
    everything_stop(tmp_path, None)
    assert child.poll() is None


def test_a_marked_process_that_nobody_recorded_is_ended(tmp_path, started):
    child = started(SLEEPER, env={**os.environ, MARKER: "the-launch"})
    assert until(lambda: psutil.Process(child.pid).environ().get(MARKER) == "the-launch", timeout_seconds=5)
    records_write(tmp_path, "the-launch", [])
    everything_stop(tmp_path, None)
    assert child.wait(timeout=5) < 0


def test_a_workload_is_ended_by_its_agents_file(tmp_path, started):
    child = started(SLEEPER)
    runner_file(tmp_path / "local" / "attempts" / "7" / "0", child)
    everything_stop(tmp_path, tmp_path)
    assert child.wait(timeout=5) < 0


def test_a_workload_that_ignores_the_warning_is_killed(tmp_path, started):
    child = started(DEAF)
    assert child.stdout.readline() == b"deaf\n"
    runner_file(tmp_path / "local" / "attempts" / "7" / "0", child)
    everything_stop(tmp_path, tmp_path)
    assert child.wait(timeout=5) == -9


def test_an_ended_workloads_old_numbers_harm_nobody(tmp_path, started):
    child = started(SLEEPER)
    folder = tmp_path / "local" / "attempts" / "7" / "0"
    runner_file(folder, child)
    (folder / "exit.json").write_text("{}")
    everything_stop(tmp_path, tmp_path)
    assert child.poll() is None


def test_nothing_recorded_is_nothing_to_do(tmp_path):
    everything_stop(tmp_path, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_list_is_no_obstacle(tmp_path):
    (tmp_path / "processes.json").write_text('{"launch": "x", "processes": [{"name"')
    everything_stop(tmp_path, None)
