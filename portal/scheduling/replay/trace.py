"""A trace file to jobs. Django-free; every complaint names the file, the line and the column."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import _csv

NEEDED = ("job_id", "submit_time_s", "duration_s", "gpus")
PROJECT_NAMES = ("project", "project_or_vc")
FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
SECONDS_MAX = 10 * 366 * 86_400
GPUS_MAX = 1 << 20


class TraceError(Exception):
    """The trace can't be read; says where and why."""


@dataclass(frozen=True)
class Job:
    """One row. None: the trace doesn't say."""

    job_id: str
    user: str
    project: str
    submit_seconds: int
    duration_seconds: int
    gpus: int
    rounded: bool
    replicas: int | None
    min_runtime_seconds: int | None
    resumable: bool | None
    priority: int | None


@dataclass(frozen=True)
class Field:
    """One cell and where it stands."""

    file: str
    line: int
    column: str
    text: str

    def wrong(self, what: str) -> TraceError:
        shown = self.text if len(self.text) <= 40 else f"{self.text[:40]}…"
        return TraceError(f"{self.file}, line {self.line}, column {self.column}: {shown!r} {what}.")

    def number(self, least: float, most: float) -> float:
        """The cell as a finite number within bounds."""
        try:
            value = float(self.text)
        except ValueError:
            raise self.wrong("is not a number") from None
        if not math.isfinite(value) or not least <= value <= most:
            raise self.wrong(f"is not between {least:g} and {most:g}")
        return value

    def whole(self, least: int, most: int) -> int:
        """The cell as a whole number within bounds."""
        value = self.number(least, most)
        if value != int(value):
            raise self.wrong("is not a whole number")
        return int(value)

    def flag(self) -> bool:
        """The cell as yes or no."""
        try:
            return FLAGS[self.text.lower()]
        except KeyError:
            raise self.wrong("is not one of 1, 0, true, false, yes, no") from None


def trace_read(path: Path, *, until_seconds: int) -> list[Job]:
    """Jobs submitted before `until_seconds`, by submit time; the whole file is checked."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            jobs = list(_jobs(path.name, csv.reader(lines)))
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: not UTF-8 text (byte {error.start}).") from None
    except csv.Error as error:
        raise TraceError(f"{path}: not CSV ({error}).") from None
    if not jobs:
        raise TraceError(f"{path}: no jobs after the header.")
    return sorted((job for job in jobs if job.submit_seconds < until_seconds), key=lambda job: job.submit_seconds)


def _jobs(file: str, reader: "_csv.Reader") -> Iterator[Job]:
    header = [name.strip() for name in next(reader, [])]
    project = next((name for name in PROJECT_NAMES if name in header), None)
    missing = [name for name in NEEDED if name not in header] + ([] if project else ["project"])
    if missing:
        raise TraceError(f"{file}, line 1: no column {missing[0]} (the columns are: {', '.join(header) or 'none'}).")
    if len(set(header)) != len(header):
        raise TraceError(f"{file}, line 1: a column is named twice.")
    for row in reader:
        if not any(row):
            continue
        if len(row) != len(header):
            raise TraceError(f"{file}, line {reader.line_num}: {len(row)} fields, not {len(header)}.")
        yield _job(
            {name: Field(file, reader.line_num, name, text.strip()) for name, text in zip(header, row, strict=True)},
            project or "",
        )


def _job(cells: dict[str, Field], project: str) -> Job:
    for name in ("job_id", project):
        if not cells[name].text or "\0" in cells[name].text or len(cells[name].text) > 100:
            raise cells[name].wrong("must have 1 to 100 characters")
    gpus = cells["gpus"].number(1e-6, GPUS_MAX)

    def given(name: str) -> Field | None:
        return cells[name] if name in cells and cells[name].text else None

    replicas, minimum = given("replicas"), given("min_runtime_s")
    resumable, priority = given("resumable"), given("priority")
    return Job(
        job_id=cells["job_id"].text,
        user=cells["user"].text if "user" in cells else "",
        project=cells[project].text,
        submit_seconds=int(cells["submit_time_s"].number(0, SECONDS_MAX)),
        duration_seconds=max(math.ceil(cells["duration_s"].number(0, SECONDS_MAX)), 1),
        gpus=math.ceil(gpus),
        rounded=gpus != int(gpus),
        replicas=replicas.whole(1, GPUS_MAX) if replicas else None,
        min_runtime_seconds=minimum.whole(0, SECONDS_MAX) if minimum else None,
        resumable=resumable.flag() if resumable else None,
        priority=priority.whole(-100, 100) if priority else None,
    )
