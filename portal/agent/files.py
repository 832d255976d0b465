"""Small JSON files that are whole or not there, and the agent's memory across restarts."""

import contextlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portal.common.messages import DesiredAttempt


def json_write(path: Path, value: object) -> None:
    """Replace a file, readable to its owner alone, also through a power cut."""
    partial = path.with_name(f"{path.name}.part")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def json_read(path: Path) -> dict[str, Any] | None:
    """The file's object; None when there is none, or not a whole one."""
    with contextlib.suppress(OSError, ValueError):
        value = json.loads(path.read_text())
        if isinstance(value, dict):
            return value
    return None


@dataclass
class Memory:
    """What the agent must not forget: the last desired state it took in, and its own sequence."""

    path: Path
    desired_sequence: int = 0
    desired: list[DesiredAttempt] | None = None
    report_sequence: int = 0
    last_uid: int = 0
    _fields: tuple[str, ...] = field(
        default=("desired_sequence", "desired", "report_sequence", "last_uid"), init=False, repr=False
    )

    @classmethod
    def read(cls, path: Path) -> "Memory":
        """What was kept, or a blank one."""
        memory = cls(path)
        for name, value in (json_read(path) or {}).items():
            if name in memory._fields:
                setattr(memory, name, value)
        return memory

    def write(self) -> None:
        """Keep it."""
        json_write(self.path, {name: getattr(self, name) for name in self._fields})

    def report_sequence_next(self) -> int:
        """A sequence above every earlier one, also when this file was lost: then the clock is ahead of them."""
        self.report_sequence = max(self.report_sequence + 1, int(time.time() * 1000))
        self.write()
        return self.report_sequence
