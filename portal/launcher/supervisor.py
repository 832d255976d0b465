"""Keeping processes up: started in sessions of their own, started again when they end, with growing pauses."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from portal.launcher.logs import log_bound, log_open
from portal.launcher.services import Services
from portal.launcher.shutdown import PROCESS
from portal.launcher.table import SOURCE, Process

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
# A process that ran this long is well again: its next pause is the first one.
WELL_SECONDS = 60.0
TICK_SECONDS = 1.0

Popen = subprocess.Popen[bytes]


@dataclass
class Kept:
    """A process that is kept up: how to start it, since when it runs, when it may start again."""

    name: str
    kind: str
    start: Callable[[], Popen]
    child: Popen
    started_at: float
    pause_seconds: float = FIRST_PAUSE_SECONDS
    again_at: float | None = None


class Supervisor:
    """Starts what the table lists and restarts what ends, until told to stop."""

    def __init__(self, services: Services, logs: Path) -> None:
        self.services = services
        self.logs = logs
        self.kept: list[Kept] = []

    def process_start(self, process: Process) -> Popen:
        """Start a process of the table and keep it up."""

        def start() -> Popen:
            with log_open(self.logs / f"{process.name}.log") as log:
                return subprocess.Popen(
                    process.argv,
                    cwd=SOURCE,
                    env=dict(process.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=process.handed,
                    **process.identity.popen_arguments(),
                )

        child = start()
        self.services.add(process.name, PROCESS, child)
        self.keep(process.name, PROCESS, start, child)
        return child

    def keep(self, name: str, kind: str, start: Callable[[], Popen], child: Popen) -> None:
        """Restart `child` with `start` whenever it ends."""
        self.kept.append(Kept(name, kind, start, child, time.monotonic()))

    def tick(self) -> None:
        """One look at everything: what ended is said and planned, what is due is started, logs are bounded."""
        now = time.monotonic()
        for kept in self.kept:
            if kept.again_at is None and kept.child.poll() is not None:
                self.ended(kept, now)
            elif kept.again_at is not None and now >= kept.again_at:
                self.start_again(kept, now)
            log_bound(self.logs / f"{kept.name}.log")

    def ended(self, kept: Kept, now: float) -> None:
        """Plan the next start, later each time unless it had run well, and end what its group left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(kept.child.pid, signal.SIGKILL)
        if now - kept.started_at >= WELL_SECONDS:
            kept.pause_seconds = FIRST_PAUSE_SECONDS
        kept.again_at = now + kept.pause_seconds
        say(
            f"{kept.name} ended ({exit_words(kept.child.returncode)}); it starts again in "
            f"{kept.pause_seconds:.0f} s. Its log: {self.logs / f'{kept.name}.log'}"
        )
        kept.pause_seconds = min(kept.pause_seconds * 2, LONGEST_PAUSE_SECONDS)

    def start_again(self, kept: Kept, now: float) -> None:
        """Start it, and note its new number where whoever ends it will look."""
        kept.child = kept.start()
        kept.started_at, kept.again_at = now, None
        self.services.add(kept.name, kept.kind, kept.child)

    def run(self, wake: int, also: Callable[[], None]) -> None:
        """Look whenever a signal wakes us, and once a second; the caller's signals end it."""
        while True:
            self.tick()
            also()
            ready, _, _ = select.select([wake], [], [], TICK_SECONDS)
            if ready:
                os.read(wake, 4096)


def exit_words(code: int | None) -> str:
    """How a process ended, for people."""
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"


def say(text: str) -> None:
    """Tell the person at the terminal, who may be gone."""
    with contextlib.suppress(BrokenPipeError, OSError):
        print(text, file=sys.stderr, flush=True)
