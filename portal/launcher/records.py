"""The list of what runs, on disk: whoever ends it (launcher, watcher, next start) reads the same file."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

RECORDS_NAME = "processes.json"
MARKER = "COMMONS_LAUNCH"
# psutil derives start times from the clock at boot, which may be corrected by a little.
START_TOLERANCE_SECONDS = 2.0


@dataclass(frozen=True)
class Record:
    """One process that was started in a session of its own, so that its id is also its group's."""

    name: str
    pid: int
    started_at: float
    kind: str

    def is_alive(self) -> bool:
        """Whether this very process, not a later one with its number, still runs."""
        return same_process(self.pid, self.started_at) is not None


def record_of(name: str, pid: int, kind: str) -> Record:
    """Describe a process that was just started."""
    try:
        started_at = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        started_at = 0.0
    return Record(name, pid, started_at, kind)


def same_process(pid: int, started_at: float) -> psutil.Process | None:
    """The running process with that number and start time; a zombie counts as gone."""
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - started_at) > START_TOLERANCE_SECONDS:
            return None
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.NoSuchProcess:
        return None


def records_write(folder: Path, launch_id: str, records: list[Record]) -> None:
    """Replace the list, whole or not at all."""
    target = folder / RECORDS_NAME
    partial = folder / f"{RECORDS_NAME}.{os.getpid()}"
    partial.write_text(records_text(launch_id, records))
    partial.rename(target)


def records_read(folder: Path) -> tuple[str, list[Record]]:
    """The launch's mark and what it started; empty when there is no list."""
    try:
        return records_parse((folder / RECORDS_NAME).read_text())
    except OSError:
        return "", []


def records_text(launch_id: str, records: list[Record]) -> str:
    """The launch's mark and what it started, as one line."""
    return json.dumps({"launch": launch_id, "processes": [asdict(record) for record in records]})


def records_parse(text: str) -> tuple[str, list[Record]]:
    """The same back; empty when the text is not whole."""
    try:
        content = json.loads(text)
        return str(content["launch"]), [Record(**entry) for entry in content["processes"]]
    except (ValueError, KeyError, TypeError):
        return "", []


def marked_processes(launch_id: str) -> Iterator[psutil.Process]:
    """Every process that carries the launch's mark in its environment, listed or not."""
    if not launch_id:
        return
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == launch_id:
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
