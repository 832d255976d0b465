"""Log files of what the launcher starts, bounded in size."""

import shutil
from pathlib import Path
from typing import BinaryIO

LOG_BYTES = 10 * 1024 * 1024
TAIL_BYTES = 16 * 1024


def log_open(path: Path) -> BinaryIO:
    """Open a log for a child to append to: appending is what makes cutting it short safe."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return path.open("ab")


def log_bound(path: Path, *, limit_bytes: int = LOG_BYTES) -> None:
    """Keep at most one older copy and cut the file that children still write to."""
    if not path.exists() or path.stat().st_size <= limit_bytes:
        return
    shutil.copyfile(path, path.with_name(f"{path.name}.1"))
    with path.open("r+b") as log:
        log.truncate(0)


def last_line(path: Path) -> str:
    """The last line that is not empty, for the sentence that names what went wrong."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    except FileNotFoundError:
        return "it said nothing"
    told = [line for line in lines if line]
    return (preferred(told) or "it said nothing").rstrip(".")


def preferred(lines: list[str]) -> str | None:
    """The last line that states an error; hints after it help less."""
    for line in reversed(lines[-20:]):
        if "FATAL:" in line or "could not" in line or "rror:" in line:
            return line
    return lines[-1] if lines else None
