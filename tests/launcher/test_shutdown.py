"""Ending what a launch left, from its records alone."""

import json
import os
import subprocess
import sys

import psutil
import pytest

from portal.launcher import shutdown
from portal.launcher.records import MARKER, Record, records_write
from portal.launcher.shutdown import PROCESS, children_collect, everything_stop
from portal.launcher.waiting import until
from portal.launcher.watcher import records_tell, watcher_start

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]
# Like an agent's runner: starts the command in a session of its own and writes down that it ended.
RUNNER = """
import pathlib, subprocess, sys
child = subprocess.Popen(sys.argv[2:], start_new_session=True)
print(child.pid, flush=True)
child.wait()
pathlib.Path(sys.argv[1]).write_text("{}")
"""


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


@pytest.fixture
def replica(tmp_path, started):
    """A replica as the agent leaves it: a runner, its command, and the file that names both."""

    def start(argv):
        folder = tmp_path / "agent" / "attempts" / "7-0"
        folder.mkdir(parents=True)
        runner = started([sys.executable, "-c", RUNNER, str(folder / "exit.json"), *argv])
        command = psutil.Process(int(runner.stdout.readline()))
        created = psutil.Process(runner.pid).create_time()
        facts = {"pid": runner.pid, "pgid": command.pid, "started_at": created}
        (folder / "runner.json").write_text(json.dumps(facts))
        return folder, runner, command

    return start


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


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


def test_a_workload_and_its_runner_are_ended_by_the_agents_file(tmp_path, replica):
    _, runner, command = replica(SLEEPER)
    everything_stop(tmp_path, tmp_path / "agent")
    assert runner.wait(timeout=5) == -9
    assert gone(command)


def test_an_ended_launch_leaves_no_exit_code_so_that_the_workload_is_requeued(tmp_path, replica):
    folder, runner, _ = replica(SLEEPER)
    everything_stop(tmp_path, tmp_path / "agent")
    runner.wait(timeout=5)
    assert not (folder / "exit.json").exists()


def test_a_workload_that_ignores_the_warning_is_killed(tmp_path, replica):
    _, runner, command = replica(DEAF)
    assert runner.stdout.readline() == b"deaf\n"
    everything_stop(tmp_path, tmp_path / "agent")
    runner.wait(timeout=5)
    assert gone(command)


def test_an_ended_workloads_old_numbers_harm_nobody(tmp_path, replica):
    folder, runner, command = replica(SLEEPER)
    (folder / "exit.json").write_text("{}")
    everything_stop(tmp_path, tmp_path / "agent")
    assert runner.poll() is None
    command.kill()


def test_nothing_recorded_is_nothing_to_do(tmp_path):
    everything_stop(tmp_path, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_list_is_no_obstacle(tmp_path):
    (tmp_path / "processes.json").write_text('{"launch": "x", "processes": [{"name"')
    everything_stop(tmp_path, None)


def test_what_the_watcher_was_told_is_ended_when_the_list_is_gone(tmp_path, started):
    child = started(SLEEPER)
    watcher = watcher_start(tmp_path / "removed", "a-launch-without-marks")
    records_tell(watcher, [])
    records_tell(watcher, [Record("valkey", child.pid, psutil.Process(child.pid).create_time(), PROCESS)])
    watcher.stdin.close()
    watcher.wait(timeout=30)
    assert child.wait(timeout=5) < 0


def test_a_child_that_the_watcher_could_not_end_is_killed(started, monkeypatch):
    monkeypatch.setattr(shutdown, "END_SECONDS", 0.2)
    child = started(DEAF)
    assert child.stdout.readline() == b"deaf\n"
    stuck = started(SLEEPER)
    children_collect([child], stuck)
    assert (child.poll(), stuck.poll()) == (-9, -9)


def test_without_the_list_the_mark_alone_ends_the_launch(tmp_path, started):
    child = started(SLEEPER, env={**os.environ, MARKER: "another-launch"})
    assert until(lambda: psutil.Process(child.pid).environ().get(MARKER) == "another-launch", timeout_seconds=5)
    everything_stop(tmp_path / "removed", None, "another-launch")
    assert child.wait(timeout=5) < 0
