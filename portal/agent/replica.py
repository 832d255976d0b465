"""One replica's folder, `attempts/<attempt>-<replica>/`, and what can be read from it.

record.json  what the agent started it with            launch.json  for the runner, removed by it as it starts
lock         held by the runner for as long as it lives runner.json  its process, once the command runs
output.*     segments by offset                         stop.json    the grace of a stop that was asked for
sent         how much of the output went up             exit.json    how it ended: nothing of it lives any more
work/        the command's own folder
Only `work` belongs to the workload: nothing else here can be forged by it where users are separated.
"""

import contextlib
import fcntl
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.agent.files import json_read, json_write
from portal.agent.reconcile import Key, Seen
from portal.common.messages import ReplicaReport

FOLDER_NAME = re.compile(r"(\d{1,19})-(\d{1,19})")
CHECKPOINT_NAME = "checkpoint"
AGO_SECONDS_MAX = 10 * 365 * 86_400


@dataclass(frozen=True)
class ReplicaFolder:
    """A replica by its folder; everything is read from the disk, so an agent that restarts sees the same."""

    path: Path

    @property
    def key(self) -> Key:
        """Attempt and replica, from the folder's name."""
        attempt, _, replica = self.path.name.partition("-")
        return int(attempt), int(replica)

    @property
    def record(self) -> dict[str, Any]:
        """What the agent wrote when it made the folder."""
        return json_read(self.path / "record.json") or {}

    @property
    def ending(self) -> dict[str, Any] | None:
        """How it ended; None while anything of it may live."""
        return json_read(self.path / "exit.json")

    @property
    def runner(self) -> dict[str, Any] | None:
        """The runner's process, once the command runs."""
        return json_read(self.path / "runner.json")

    def lock_take(self) -> int | None:
        """Take the lock; None while a runner holds it. Closing the number that is returned lets it go."""
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle

    def runner_lives(self) -> bool:
        """Whether a runner holds the lock."""
        handle = self.lock_take()
        if handle is None:
            return True
        os.close(handle)
        return False

    def never_began(self) -> bool:
        """Whether it was prepared and no runner ever came: nothing ran, so it may be made anew."""
        return (self.path / "launch.json").exists() or not (self.path / "record.json").exists()

    def state(self) -> str:
        """`exited` when nothing of it lives, `running` when its command was started, else `starting`."""
        if (self.path / "exit.json").exists():
            return "exited"
        return "running" if (self.path / "runner.json").exists() else "starting"

    def seen(self, *, logs_pending: bool) -> Seen:
        """What the reconciler needs to know."""
        stop = json_read(self.path / "stop.json")
        return Seen(
            state=self.state(),
            gpus=frozenset(self.record.get("gpus", ())),
            stop_grace_seconds=int(stop["grace_seconds"]) if stop else None,
            logs_pending=logs_pending,
        )

    def report(self) -> ReplicaReport:
        """What the portal is told."""
        attempt, replica = self.key
        ending = self.ending or {}
        return {
            "attempt": attempt,
            "replica": replica,
            "state": self.state(),
            "exit_code": ending.get("exit_code"),
            "detail": printable(str(ending.get("detail", "")))[:300],
            "checkpointed_ago_seconds": self.checkpointed_ago_seconds(),
        }

    def checkpointed_ago_seconds(self) -> int | None:
        """Whole seconds since the command last touched its checkpoint file; None if it never did."""
        with contextlib.suppress(OSError, KeyError):
            found = os.lstat(Path(self.record["work_folder"]) / CHECKPOINT_NAME)
            return min(max(int(time.time() - found.st_mtime), 0), AGO_SECONDS_MAX)
        return None

    def exit_note(self, exit_code: int | None, detail: str) -> None:
        """Say in the runner's stead how it ended."""
        json_write(self.path / "exit.json", {"exit_code": exit_code, "detail": detail[:300]})

    def remove(self) -> None:
        """Forget it: the work folder, then the rest, the record last so that a cut leaves what can be removed again."""
        work = self.record.get("work_folder")
        if work:
            tree_remove(Path(work))
            if Path(work).parent != self.path:
                with contextlib.suppress(OSError):  # others still work there
                    Path(work).parent.rmdir()
        tree_remove(self.path)


def tree_remove(path: Path) -> None:
    """Remove a folder that a workload wrote in. It may be nested deeper than Python's own removal can follow."""
    subprocess.run(["rm", "-rf", "--", str(path)], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def folders(attempts: Path) -> list[ReplicaFolder]:
    """Every replica's folder on this host."""
    return [ReplicaFolder(path) for path in sorted(attempts.iterdir()) if FOLDER_NAME.fullmatch(path.name)]


def folder_of(attempts: Path, key: Key) -> ReplicaFolder:
    """Where a replica's folder is, made or not."""
    return ReplicaFolder(attempts / f"{key[0]}-{key[1]}")


def printable(text: str) -> str:
    """The text with what can't be shown replaced."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
