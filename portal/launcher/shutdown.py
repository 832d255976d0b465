"""Ending a launch: portal processes, then workloads, then database and broker. The one way down for all."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import psutil

from portal.launcher.records import Record, marked_processes, records_read, same_process
from portal.launcher.waiting import until

PROCESS = "process"
BROKER = "broker"
DATABASE = "database"
PROCESS_GRACE_SECONDS = 6.0
WORKLOAD_GRACE_SECONDS = 3.0
SERVICE_GRACE_SECONDS = 15.0
KILL_SECONDS = 5.0
# PostgreSQL's fast shutdown ends sessions and writes a checkpoint; its immediate one only stops.
SERVICE_SIGNALS = {BROKER: (signal.SIGTERM, signal.SIGKILL), DATABASE: (signal.SIGINT, signal.SIGQUIT)}


def everything_stop(run_folder: Path, attempts_folder: Path | None) -> None:
    """End all that the launch started; safe to call when half of it, or nothing, runs."""
    launch_id, records = records_read(run_folder)
    processes_stop([record for record in records if record.kind == PROCESS])
    if attempts_folder is not None:
        workloads_stop(attempts_folder)
    for kind in (BROKER, DATABASE):
        for record in records:
            if record.kind == kind:
                service_stop(record)
    for process in marked_processes(launch_id):
        if process.pid != os.getpid():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


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
    """End the workloads that the agent left running, by the files that it keeps of them."""
    runners = [runner for path in attempts_folder.glob("**/runner.json") if (runner := runner_read(path)) is not None]
    alive = [(process, group) for pid, started_at, group in runners if (process := same_process(pid, started_at))]
    for _, group in alive:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGTERM)
    deadline = time.monotonic() + WORKLOAD_GRACE_SECONDS
    psutil.wait_procs([process for process, _ in alive], timeout=max(0.0, deadline - time.monotonic()))
    for _, group in alive:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def runner_read(path: Path) -> tuple[int, float, int] | None:
    """Process number, start time and group of one replica; None when the file is not whole."""
    try:
        content = json.loads(path.read_text())
        return int(content["pid"]), float(content["started_at"]), int(content["pgid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
