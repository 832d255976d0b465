"""Standard Workload Format 2.2: one line a job, 18 numbers between blanks, -1 for what isn't known, `;` comments.

Processors are taken as GPUs and the group as the project. Lines that are no job are left out and counted:
jobs that never ran, jobs without processors, and the parts of checkpointed jobs (status 2 to 4), whose sum
has a line of its own.
"""

from collections.abc import Iterator

import numpy as np

from portal.simulations.traces.building import Builder
from portal.simulations.traces.columns import EXACT_INTEGERS, Column, round_up
from portal.simulations.traces.rows import GPUS_MAX, SECONDS_MAX, TraceRefused, TraceRows
from portal.simulations.traces.text import SWF_FIELDS, open_lines

FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "CPU time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable",
    "queue", "partition", "preceding job", "think time",
)  # fmt: skip
NUMBER, SUBMIT, RUN, ALLOCATED, REQUESTED, STATUS, USER, GROUP = 0, 1, 3, 4, 7, 10, 11, 12
PARTIAL = (2, 3, 4)
CHUNK_LINES = 1 << 13
NEVER_RAN, NO_PROCESSORS, PART = "jobs that never ran", "jobs without processors", "parts of checkpointed jobs"


def read_swf(file: str, data: bytes) -> TraceRows:
    """Jobs with a run time, in processors."""
    builder = Builder(file, "swf")
    for lines, rows in _chunks(file, data):
        _add(builder, lines, rows)
    return builder.rows()


def _chunks(file: str, data: bytes) -> Iterator[tuple[list[int], list[list[str]]]]:
    lines: list[int] = []
    rows: list[list[str]] = []
    for number, line in enumerate(open_lines(data), 1):
        words = line.split()
        if not words or words[0].startswith(";"):
            continue
        if len(words) != SWF_FIELDS:
            raise TraceRefused(
                file, f"{len(words)} fields, but the Standard Workload Format has {SWF_FIELDS}", line=number
            )
        lines.append(number)
        rows.append(words)
        if len(rows) == CHUNK_LINES:
            yield lines, rows
            lines, rows = [], []
    if rows:
        yield lines, rows


def _add(builder: Builder, lines: list[int], rows: list[list[str]]) -> None:
    cells = list(zip(*rows, strict=True))

    def column(index: int) -> Column:
        return Column(builder.file, FIELDS[index], lines, cells[index])

    run = column(RUN).numbers(-1, SECONDS_MAX)
    allocated = column(ALLOCATED).numbers(-1, GPUS_MAX)
    requested = column(REQUESTED).numbers(-1, GPUS_MAX)
    processors = np.where(allocated > 0, allocated, requested)
    submit = column(SUBMIT).seconds(SECONDS_MAX, up=False)
    part = np.isin(column(STATUS).numbers(-1, 100), PARTIAL)
    never_ran, none = ~part & (run < 0), ~part & (run >= 0) & (processors <= 0)
    for reason, which in ((PART, part), (NEVER_RAN, never_ran), (NO_PROCESSORS, none)):
        if which.any():
            builder.skipped[reason] += int(which.sum())
    kept = np.flatnonzero(~part & ~never_ran & ~none).tolist()
    gpus, rounded = round_up(processors[kept])
    for index in (NUMBER, USER, GROUP):
        column(index).whole(-1, EXACT_INTEGERS)
    builder.add(
        [cells[NUMBER][row] for row in kept],
        [lines[row] for row in kept],
        project=[_named("group", cells[GROUP][row]) or "ungrouped" for row in kept],
        user=[_named("user", cells[USER][row]) for row in kept],
        submit_at=submit[kept],
        duration_seconds=np.ceil(run[kept]).astype(np.int64),
        gpus=gpus,
        rounded=rounded,
    )


def _named(what: str, number: str) -> str:
    """`group-7`; empty where the file has -1."""
    return "" if number.startswith("-") else f"{what}-{number}"
