"""One run from start to end: a process of its own simulates, this one watches it.

The process may take too long, too much memory, or crash on what somebody uploaded: it is ended, and the run says why.
Its own niceness and its own queue keep it from hindering passes.
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import UUID, uuid4

from django.conf import settings
from django.db import DatabaseError

from portal.common.units import PPM, duration_words
from portal.simulations.life import Heard, run_fail, run_finish, run_give_back, run_progress, run_stopped
from portal.simulations.lines import Line, line_read
from portal.simulations.models import Run
from portal.simulations.version import code_version

SOURCE = Path(__file__).resolve().parents[2]
TICK_SECONDS = 1.0
READ_BYTES = 1 << 20
SINGLE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Clock = Callable[[], datetime]


@dataclass
class Watched:
    """A simulating process, and what it has said so far."""

    run: Run
    claim: UUID
    process: "subprocess.Popen[bytes]"
    began: float = field(default_factory=time.monotonic)
    rest: bytes = b""
    progress: float = 0.0
    progress_began: float | None = None
    last: Line = field(default_factory=Line)

    @property
    def seconds(self) -> float:
        """How long it runs."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> int | None:
        """How long it will, if it goes on as it did since it began to simulate; None: nobody knows yet."""
        if self.progress_began is None or self.progress <= 0:
            return None
        spent = time.monotonic() - self.progress_began
        return round(spent * (1 - self.progress) / self.progress)

    def take_in(self, data: bytes) -> None:
        """Read whole lines; a part of one waits for the rest."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            said = line_read(line)
            if "progress" in said:
                self.progress_began = self.progress_began or time.monotonic()
                self.progress = said["progress"]
            else:
                self.last = said


def run_work(*, run: Run, claim: UUID, clock: Clock, stopping: Callable[[], bool]) -> None:
    """Simulate it in a process of its own, until it has ended, somebody cancels it, or this worker stops."""
    watched = Watched(run, claim, _process_start(run))
    try:
        _watch(watched, clock, stopping)
    finally:
        _process_end(watched.process)


def _process_start(run: Run) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "portal.simulations.child", str(run.pk)],
        cwd=SOURCE,
        env={**os.environ, **SINGLE_THREAD},
        stdin=subprocess.PIPE,  # it ends when this end closes
        stdout=subprocess.PIPE,
    )


def _process_end(process: "subprocess.Popen[bytes]") -> None:
    """It is gone afterwards, whatever it was doing: it has nothing to tidy up."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _watch(watched: Watched, clock: Clock, stopping: Callable[[], bool]) -> None:
    run, claim = watched.run, watched.claim
    while _read(watched):
        heard = _tell(watched, clock())
        if heard is Heard.NOT_YOURS:
            return
        if heard is Heard.CANCEL:
            _process_end(watched.process)
            run_stopped(run_id=run.pk, claim=claim, now=clock())
            return
        if stopping():
            _process_end(watched.process)
            run_give_back(run_id=run.pk, claim=claim, now=clock())
            return
        if watched.seconds > settings.SIMULATION_SECONDS:
            _process_end(watched.process)
            _fail(
                watched,
                f"It took longer than {duration_words(settings.SIMULATION_SECONDS)}, the most that one may.",
                clock,
            )
            return
    watched.process.wait()
    _ended(watched, clock)


def _read(watched: Watched) -> bool:
    """Take in what it said, for at most a second. False: it says no more."""
    stream = watched.process.stdout
    if stream is None:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        until = time.monotonic() + TICK_SECONDS
        while (left := until - time.monotonic()) > 0:
            if selector.select(left):
                data = os.read(stream.fileno(), READ_BYTES)
                if not data:
                    return False
                watched.take_in(data)
    return True


def _tell(watched: Watched, now: datetime) -> Heard:
    """Note how far it is. A database that is away is no reason to end it: the next second tries again."""
    try:
        return run_progress(
            run_id=watched.run.pk,
            claim=watched.claim,
            progress_ppm=int(watched.progress * PPM),
            seconds_left=watched.seconds_left,
            now=now,
        )
    except DatabaseError:
        return Heard.GO_ON


def _ended(watched: Watched, clock: Clock) -> None:
    """Keep the whole result of a process that ended well; of any other nothing but why."""
    result, code = watched.last.get("result"), watched.process.returncode
    if result is not None and code == 0:
        run_finish(
            run_id=watched.run.pk,
            claim=watched.claim,
            report=result["report"],
            notes=result["notes"],
            code_version=code_version(),
            wall_seconds=result["wall_seconds"],
            now=clock(),
        )
    else:
        _fail(watched, watched.last.get("refused") or _end_words(code), clock)


def _end_words(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        return (
            f"The process that simulated it was ended ({name}): this machine may lack memory, or somebody stopped it."
        )
    return "The simulator failed on it; the log of the simulations' worker says where."


def _fail(watched: Watched, error: str, clock: Clock) -> None:
    run_fail(run_id=watched.run.pk, claim=watched.claim, error=error, code_version=code_version(), now=clock())


def claim_new() -> UUID:
    """What tells one worker's hold on a run from another's."""
    return uuid4()
