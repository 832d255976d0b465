"""What a trace is after reading: equally long columns, names apart from their indexes; and how one is refused."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

MISSING = -1
"""The trace doesn't say: in columns of numbers that are never negative."""

SECONDS_MAX = 10 * 366 * 86_400
GPUS_MAX = 1 << 20
SHOWN_CHARACTERS = 40


class TraceRefused(Exception):
    """The file can't be read as a trace; says where and why. Line and column are None where the whole file is meant."""

    def __init__(self, file: str, words: str, *, line: int | None = None, column: str | None = None) -> None:
        self.file, self.line, self.column, self.words = file, line, column, words
        where = [file] + [f"line {line}"] * (line is not None) + [f"column {column}"] * (column is not None)
        super().__init__(f"{', '.join(where)}: {words}.")


def shown(text: str) -> str:
    """A cell as an error quotes it: cut where it is long."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…")


@dataclass(frozen=True, slots=True, eq=False)
class TraceRows:
    """The jobs of a trace, by submit time. Times are whole seconds from the trace's start."""

    file: str
    format: str
    ids: list[str]
    lines: IntArray  # of the file, for later complaints
    projects: tuple[str, ...]
    project: IntArray  # index into projects
    users: tuple[str, ...]  # "" is somebody unnamed
    user: IntArray  # index into users
    clusters: tuple[str, ...]
    cluster: IntArray  # index into clusters, or MISSING
    submit_at: IntArray
    duration_seconds: IntArray  # at least 1
    gpus: IntArray  # of all replicas, parts rounded up
    rounded: BoolArray  # the file asked for a part of a GPU
    replicas: IntArray  # or MISSING
    min_runtime_seconds: IntArray  # or MISSING
    resumable: IntArray  # 1, 0 or MISSING
    priority: IntArray  # 0 where the trace doesn't say
    checkpoint_interval_seconds: IntArray  # or MISSING
    instant_jobs: int = 0  # durations of 0, taken as 1 s
    ignored_columns: tuple[str, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)  # why: how many rows are no jobs

    def __len__(self) -> int:
        return len(self.ids)
