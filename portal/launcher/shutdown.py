"""Ending a launch: portal processes, then workloads, then database and broker. The one way down for all."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from portal.launcher.records import START_TOLERANCE_SECONDS, Record, marked_processes, records_read, same_process
from portal.launcher.waiting import until

Popen = subprocess.Popen[bytes]

PROCESS = "process"
BROKER = "broker"
DATABASE = "database"
PROCESS_GRACE_SECONDS = 6.0
WORKLOAD_GRACE_SECONDS = 3.0
SERVICE_GRACE_SECONDS = 15.0
KILL_SECONDS = 5.0
# Longer than an orderly end of a busy machine takes; after it nothing is waited for.
END_SECONDS = 60.0
# PostgreSQL's fast shutdown ends sessions and writes a checkpoint; its immediate one only stops.
SERVICE_SIGNALS = {BROKER: (signal.SIGTERM, signal.SIGKILL), DATABASE: (signal.SIGINT, signal.SIGQUIT)}


def everything_stop(
    run_folder: Path, attempts_folder: Path | None, launch_id: str = "", told: Sequence[Record] = ()
) -> None:
    """End all that the launch started; safe to call when half of it, or nothing, runs, or when its list is gone.

    `told` is what the caller knows without the list. Database and broker write over the environment that would show
    their mark, so that without either they could not be found.
    """
    recorded_id, records = records_read(run_folder)
    records = list(dict.fromkeys([*records, *told]))
    processes_stop([record for record in records if record.kind == PROCESS])
    if attempts_folder is not None:
        workloads_stop(attempts_folder)
    for kind in (BROKER, DATABASE):
        for record in records:
            if record.kind == kind:
                service_stop(record)
    marked_stop(launch_id or recorded_id)
    sockets_remove(run_folder / "sockets")


def marked_stop(launch_id: str) -> None:
    """End whatever carries the launch's mark and was in no list: ask first, then kill."""
    for process in others_marked(launch_id):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    until(lambda: not others_marked(launch_id), timeout_seconds=WORKLOAD_GRACE_SECONDS)
    until(lambda: not [kill(process) for process in others_marked(launch_id)], timeout_seconds=KILL_SECONDS)


def others_marked(launch_id: str) -> list[psutil.Process]:
    """Living processes of the launch but this one, with what they have started."""
    found: dict[int, psutil.Process] = {}
    for process in marked_processes(launch_id):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.pid != os.getpid():
                found.update({kin.pid: kin for kin in [process, *process.children(recursive=True)]})
    return [process for process in found.values() if lives(process)]


def children_collect(children: Iterable[Popen], watcher: Popen) -> None:
    """Wait for our children while the watcher ends them; kill what it could not end, and it, when that takes long."""
    standing = list(children)

    def ended() -> bool:
        return all(child.poll() is not None for child in standing)

    until(lambda: ended() or watcher.poll() is not None, timeout_seconds=END_SECONDS)
    for child in standing:
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
    until(ended, timeout_seconds=KILL_SECONDS)
    if not until(lambda: watcher.poll() is not None, timeout_seconds=END_SECONDS):
        watcher.kill()
        until(lambda: watcher.poll() is not None, timeout_seconds=KILL_SECONDS)


def sockets_remove(link: Path) -> None:
    """Where sockets lie outside the data folder, remove their folder; the link says where."""
    if link.is_symlink():
        shutil.rmtree(link.readlink(), ignore_errors=True)
        link.unlink()


def processes_stop(records: list[Record]) -> None:
    """Ask every process group to end, wait for all together, then kill what is left."""
    for record in records:
        group_signal(record, signal.SIGTERM)
    until(lambda: not any(record.is_alive() for record in records), timeout_seconds=PROCESS_GRACE_SECONDS)
    for record in records:
        group_signal(record, signal.SIGKILL)
    until(lambda: not any(record.is_alive() for record in records), timeout_seconds=KILL_SECONDS)


def group_signal(record: Record, number: signal.Signals) -> None:
    """Signal the process's group while its leader is there: its number can't have passed to another then."""
    if record.is_alive():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(record.pid, number)


def service_stop(record: Record) -> None:
    """Stop database or broker so that it closes its files, harder when that takes too long."""
    for number in (*SERVICE_SIGNALS[record.kind], signal.SIGKILL):
        if not record.is_alive():
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)
        until(lambda: not record.is_alive(), timeout_seconds=SERVICE_GRACE_SECONDS)


def workloads_stop(attempts_folder: Path) -> None:
    """End the workloads that the agent left running, by the files that it keeps of them.

    Their runners are held still, so that none writes down an exit code: the next agent finds them lost, not failed,
    and the portal requeues what can be resumed.
    """
    runners = runners_read(attempts_folder)
    standing = [process for runner in runners if (process := same_process(runner.pid, runner.started_at))]
    for process in standing:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    held = {process.pid for process in standing}

    def at_work() -> list[psutil.Process]:
        return [process for process in members(runners) if process.pid not in held]

    for process in at_work():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    until(lambda: not at_work(), timeout_seconds=WORKLOAD_GRACE_SECONDS)
    # Again while any is left: what forks may slip through one look. The runners go last.
    until(lambda: not [kill(process) for process in at_work()], timeout_seconds=KILL_SECONDS)
    until(lambda: not [kill(process) for process in members(runners)], timeout_seconds=KILL_SECONDS)


class Runner(NamedTuple):
    """What stands between the agent and one replica, and the process group of the replica's command."""

    pid: int
    started_at: float
    group: int


def runners_read(attempts_folder: Path) -> list[Runner]:
    """The runners of replicas that have not ended."""
    # No deeper: below that are the workloads' own folders, in which anybody could write such a file.
    found = attempts_folder.glob("attempts/*/runner.json")
    paths = [path for path in found if not path.with_name("exit.json").exists()]
    return [runner for path in paths if (runner := runner_read(path)) is not None]


def runner_read(path: Path) -> Runner | None:
    """One replica's runner; None when the file is not whole."""
    try:
        content = json.loads(path.read_text())
        return Runner(int(content["pid"]), float(content["started_at"]), int(content["pgid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def members(runners: list[Runner]) -> list[psutil.Process]:
    """The runners that live, all below them, and whoever is left of their commands' groups."""
    found = {}
    for runner in runners:
        if process := same_process(runner.pid, runner.started_at):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.update({kin.pid: kin for kin in [process, *process.children(recursive=True)]})
    # A process older than the runner has the group's number by chance.
    since = {runner.group: runner.started_at - START_TOLERANCE_SECONDS for runner in runners}
    for process in psutil.process_iter() if runners else ():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if process.create_time() >= since.get(os.getpgid(process.pid), float("inf")):
                found[process.pid] = process
    return [process for process in found.values() if lives(process)]


def lives(process: psutil.Process) -> bool:
    """Whether it still does something; a zombie only waits to be collected."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill(process: psutil.Process) -> psutil.Process:
    """End a process that may have just gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    return process
