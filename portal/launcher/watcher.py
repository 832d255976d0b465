"""The process that outlives the launcher: `python -m portal.launcher.watcher RUN_FOLDER LAUNCH`.

Its standard input is a pipe whose other end only the launcher holds. When that end closes, for
whatever reason (an orderly stop, a kill), the watcher ends everything and then itself. Through the
pipe it is told what runs, a line for each change: the list on disk may be gone with its folder.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from portal.launcher.records import Record, records_parse, records_text
from portal.launcher.shutdown import everything_stop


def watcher_start(
    run_folder: Path,
    launch_id: str,
    *,
    attempts_folder: Path | None = None,
    remove: Path | None = None,
    keep: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start a watcher; close its `stdin` to have everything ended. `keep` stays open (the folder's lock)."""
    command = [sys.executable, "-m", "portal.launcher.watcher", str(run_folder), launch_id]
    if attempts_folder is not None:
        command += ["--attempts", str(attempts_folder)]
    if remove is not None:
        command += ["--remove", str(remove)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=keep,
        cwd=Path(__file__).resolve().parents[2],
    )


def records_tell(watcher: "subprocess.Popen[bytes]", records: list[Record]) -> None:
    """One line with all that runs."""
    if watcher.stdin is not None and not watcher.stdin.closed:
        with contextlib.suppress(BrokenPipeError):
            os.write(watcher.stdin.fileno(), records_text("", records).encode() + b"\n")


def records_hear() -> list[Record]:
    """Read lines until the pipe closes; the last whole one counts."""
    heard = b""
    while part := os.read(0, 65536):
        lines = (heard + part).rsplit(b"\n", 2)
        heard = b"\n".join(lines[-2:])
    return records_parse(heard.partition(b"\n")[0].decode())[1]


class Guard:
    """A watcher that is replaced when it is killed, so that a launch is never without one for long."""

    def __init__(self, run_folder: Path, launch_id: str, attempts_folder: Path, lock: int) -> None:
        self.run_folder = run_folder
        self.launch_id = launch_id
        self.attempts_folder = attempts_folder
        self.lock = lock
        self.records: list[Record] = []
        self.watcher = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """A watcher of this launch."""
        kept = (self.lock,)
        return watcher_start(self.run_folder, self.launch_id, attempts_folder=self.attempts_folder, keep=kept)

    def check(self) -> None:
        """Replace a watcher that is gone."""
        if self.watcher.poll() is not None:
            self.pipe_close()
            self.watcher = self.start()
            self.records_tell(self.records)

    def records_tell(self, records: list[Record]) -> None:
        """Tell the watcher what runs now; one that is gone is replaced at the next check, and told then."""
        self.records = records
        records_tell(self.watcher, records)

    def end(self) -> None:
        """Have everything ended. Returns at once."""
        self.check()
        self.pipe_close()

    def pipe_close(self) -> None:
        """Let go of the pipe."""
        if self.watcher.stdin is not None:
            self.watcher.stdin.close()


def main() -> None:
    """Wait for the launcher's end, then clear up after it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run_folder", type=Path)
    parser.add_argument("launch_id")
    parser.add_argument("--attempts", type=Path)
    parser.add_argument("--remove", type=Path)
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = records_hear()
    everything_stop(options.run_folder, options.attempts, options.launch_id, told)
    if options.remove is not None:
        shutil.rmtree(options.remove, ignore_errors=True)


if __name__ == "__main__":
    main()
