"""What stands between the agent and one replica: `python -m portal.agent.runner FOLDER`, in a session of its own.

It outlives the agent. It starts the command as `launch.json` says, keeps the end of its output, stops it when told
to (SIGTERM), and writes `exit.json` only when no process of the replica lives any more. Standard library alone: it
starts in a few hundredths of a second. The lock that the agent hands over is held for as long as it lives.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEGMENT_BYTES = 4 * 1024 * 1024
SEGMENTS_KEPT = 2
READ_BYTES = 64 * 1024
# What is left when the command has ended gets this long to end itself.
LEFTOVER_GRACE_SECONDS = 2.0
GRACE_DEFAULT_SECONDS = 2.0
TICK_SECONDS = 0.05
WAIT_SECONDS = 60.0
KILL_ROUNDS = 20
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
LIBC = ctypes.CDLL(None, use_errno=True)


class Output:
    """The replica's output in segments named by the offset at which each starts; old ones go as new ones come."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.offset = 0
        self.segment_start = 0
        self.file = -1
        self.segment_open()

    def segment_open(self) -> None:
        """Begin a segment at the present offset and drop the oldest."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
        self.segment_start = self.offset
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self.file = os.open(self.folder / f"output.{self.offset:020d}", flags, 0o600)
        for old in sorted(self.folder.glob("output.*"))[:-SEGMENTS_KEPT]:
            old.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Append; the offset counts on when the disk is full, and what didn't fit is lost."""
        if self.offset - self.segment_start >= self.segment_bytes:
            self.segment_open()
        rest = memoryview(data)
        with contextlib.suppress(OSError):
            while rest:
                rest = rest[os.write(self.file, rest) :]
        if rest:
            self.offset += len(data)
            with contextlib.suppress(OSError):
                self.segment_open()
            return
        self.offset += len(data)


class Replica:
    """One command and all its descendants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = Output(folder)
        self.child: subprocess.Popen[bytes] | None = None
        self.pipe = -1
        self.status: int | None = None
        self.stop_at: float | None = None
        self.kill_at: float | None = None

    def run(self) -> None:
        """Start, wait for the end of everything, say how it ended."""
        launch = json.loads((self.folder / "launch.json").read_text())
        self.folder.joinpath("launch.json").unlink()
        if (self.folder / "stop.json").exists():
            self.exit_write(None, "It was stopped before it started.")
            return
        failure = self.start(launch)
        if failure is not None:
            code, sentence = failure
            self.output.write(f"{sentence}\n".encode())
            self.exit_write(code, sentence)
            return
        self.wait()
        self.exit_write(*self.ending())

    def start(self, launch: dict[str, Any]) -> tuple[int, str] | None:
        """Start the command; else the exit code that a shell would give, and why."""
        read, write = os.pipe2(os.O_CLOEXEC)
        if launch["uid"] is not None:
            # So that the command may open /dev/stderr, which is this pipe.
            os.fchown(write, launch["uid"], launch["uid"])
        try:
            self.child = subprocess.Popen(
                launch["argv"],
                cwd=launch["work_folder"],
                env=launch["environment"],
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=write,
                start_new_session=True,
                umask=0o027,
                preexec_fn=child_limits,  # this process has one thread
                **identity(launch["uid"]),
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return start_failure(launch["argv"][0], launch["environment"].get("PATH", ""), error)
        finally:
            os.close(write)
        self.pipe = read
        facts = {"pid": os.getpid(), "pgid": self.child.pid, "started_at": started_at(os.getpid())}
        json_write(self.folder / "runner.json", facts | {"uid": launch["uid"]})
        # Whoever asks writes stop.json before it looks for runner.json: one of the two sees the other.
        if (self.folder / "stop.json").exists():
            STOP_ASKED.append(signal.SIGTERM)
        return None

    def wait(self) -> None:
        """Copy output and reap until the command has ended and none of its descendants lives."""
        wake = wakeups()
        while not self.is_over():
            wanted = [wake] if self.pipe < 0 else [wake, self.pipe]
            ready, _, _ = select.select(wanted, [], [], self.pause())
            if wake in ready:
                os.read(wake, 4096)
            if self.pipe in ready:
                self.copy()
            self.reap()
            self.stop_step()
        while self.pipe >= 0 and select.select([self.pipe], [], [], 0)[0]:
            self.copy()
        self.reap()

    def is_over(self) -> bool:
        """Whether the command has ended and nobody of its kin is left."""
        return self.status is not None and not any(descendants(os.getpid()))

    def pause(self) -> float:
        """How long to wait for the next event: short while something is being stopped."""
        return WAIT_SECONDS if self.status is None and self.stop_at is None else TICK_SECONDS

    def copy(self) -> None:
        """Move what is in the pipe to the output."""
        data = os.read(self.pipe, READ_BYTES)
        if data:
            self.output.write(data)
        else:
            os.close(self.pipe)
            self.pipe = -1

    def reap(self) -> None:
        """Collect every child that ended, adopted ones too; the command's status is the one that counts."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if self.child is not None and pid == self.child.pid:
                    self.status = os.waitstatus_to_exitcode(status)
                    self.child.returncode = self.status

    def stop_step(self) -> None:
        """1. At the command's end or the agent's word: SIGTERM to all. 2. After the grace: SIGKILL until none lives."""
        now = time.monotonic()
        if STOP_ASKED:
            STOP_ASKED.clear()
            self.stop_begin(now, grace_of(self.folder / "stop.json"))
        elif self.status is not None and self.stop_at is None:
            self.stop_begin(now, LEFTOVER_GRACE_SECONDS)
        if self.kill_at is not None and now >= self.kill_at:
            kin_kill()

    def stop_begin(self, now: float, grace_seconds: float) -> None:
        """Ask all to end; a second asking can only shorten the grace."""
        if self.stop_at is None:
            self.stop_at = now
            for pid in list(descendants(os.getpid())):
                signal_send(pid, signal.SIGTERM)
                signal_send(pid, signal.SIGCONT)
        kill_at = now + grace_seconds
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)

    def ending(self) -> tuple[int, str]:
        """Exit code as a shell gives it, and the signal's name."""
        status = self.status or 0
        if status >= 0:
            return status, ""
        return min(255, 128 - status), f"Ended by {signal_name(-status)}."

    def exit_write(self, code: int | None, detail: str) -> None:
        """The last thing: from now on the replica's GPUs are free."""
        json_write(self.folder / "exit.json", {"exit_code": code, "detail": detail[:300], "bytes": self.output.offset})


def kin_kill() -> None:
    """SIGKILL to every descendant, again at once while new ones turn up: they may fork faster than one look."""
    seen: set[int] = set()
    for _ in range(KILL_ROUNDS):
        found = set(descendants(os.getpid()))
        for pid in found:
            signal_send(pid, signal.SIGKILL)
        if found <= seen:
            return
        seen |= found


def start_failure(program: str, path: str, error: Exception) -> tuple[int, str]:
    """The exit code that a shell would give, and why. A closed folder on PATH hides that nobody has the program."""
    places = [program] if "/" in program else [os.path.join(place, program) for place in path.split(":")]
    if isinstance(error, FileNotFoundError) or not any(os.path.exists(place) for place in places):
        return 127, f"Command not found: {program}"
    reason = "permission denied" if isinstance(error, PermissionError) else str(error)
    return 126, f"Command can't be run: {program} ({reason})"


STOP_ASKED: list[int] = []


def signal_name(number: int) -> str:
    """`SIGKILL` of 9; real-time signals have numbers alone."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def wakeups() -> int:
    """A file that is readable when a child ended or a stop was asked for."""
    read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    # What was asked or ended before now is looked at in the first round.
    os.write(write, b"\0")
    return read


def signals_take() -> None:
    """A stop is noted for the loop; what a terminal or a shutdown might send is not for us."""
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGTERM, lambda number, frame: STOP_ASKED.append(number))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def child_limits() -> None:
    """In the child, before its command: dies with the runner, gains no rights, leaves no core dumps on the disk."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def identity(uid: int | None) -> dict[str, Any]:
    """Popen's arguments for a numeric user of the replica's own."""
    return {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}


def descendants(root: int) -> Iterator[int]:
    """Living processes below this one. As their reaper it is the parent of every orphan among them."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := parent_of(int(name))) is not None:
            parents[int(name)] = parent
    below = {root}
    grew = True
    while grew:
        found = {pid for pid, parent in parents.items() if parent in below}
        grew = not found <= below
        below |= found
    return iter(sorted(below - {root}))


def parent_of(pid: int) -> int | None:
    """The parent of a process that lives; None of one that is gone or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[1])


def signal_send(pid: int, number: int) -> None:
    """Signal a process that may have just gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def started_at(pid: int) -> float:
    """When a process started, in seconds since 1970, as psutil computes it."""
    ticks = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime"):
            return int(line.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return time.time()


def grace_of(path: Path) -> float:
    """The grace that the agent asks for; a short one when somebody else stops us."""
    try:
        return float(json.loads(path.read_text())["grace_seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return GRACE_DEFAULT_SECONDS


def json_write(path: Path, value: object) -> None:
    """Whole or not at all, also through a power cut."""
    partial = path.with_name(f"{path.name}.part")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def main() -> None:
    """Run the replica of the folder that is named."""
    signals_take()
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    Replica(Path(sys.argv[1])).run()


if __name__ == "__main__":
    main()
