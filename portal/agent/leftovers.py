"""When a runner was lost (killed, or the machine went down): ending what it left, and then saying so."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import psutil

from portal.agent.launching import RUN_MARK
from portal.agent.replica import ReplicaFolder

LOST = "lost"


def lost_settle(folder: ReplicaFolder) -> bool:
    """End what a lost runner left; once nothing lives, note the end. Whether the replica is settled.

    The lock is held meanwhile, so that a runner that starts late finds the door closed.
    """
    handle = folder.lock_take()
    if handle is None:
        return False
    try:
        if folder.ending is not None:
            return True
        alive = list(leftovers(folder))
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()
        if alive:
            return False
        folder.exit_note(None, LOST)
        return True
    finally:
        os.close(handle)


def leftovers(folder: ReplicaFolder) -> Iterator[psutil.Process]:
    """Living processes of a replica: all of its numeric user, else those with its mark in their environment."""
    record = folder.record
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.status() != psutil.STATUS_ZOMBIE and belongs(process, record):
                yield process


def belongs(process: psutil.Process, record: dict[str, Any]) -> bool:
    """Whether a process is of the replica. Process numbers alone prove nothing: they pass to others."""
    if record.get("uid") is not None:
        return record["uid"] in process.uids()
    return record.get("token") is not None and process.environ().get(RUN_MARK) == record["token"]
