"""The portal's own CSV, which the Philly and Alibaba files follow too (there `project_or_vc` is the project)."""

from typing import Any

from portal.simulations.traces.building import Builder
from portal.simulations.traces.columns import Column, round_up
from portal.simulations.traces.rows import GPUS_MAX, SECONDS_MAX, IntArray, TraceRows
from portal.simulations.traces.tables import Chunk, Table

NEEDED = ("job_id", "submit_time_s", "duration_s", "gpus")
PROJECT_NAMES = ("project", "project_or_vc")
OPTIONAL = ("user", "replicas", "min_runtime_s", "resumable", "priority", "cluster", "checkpoint_interval_s")
LEAST_GPUS = 1e-6
PRIORITY_MOST = 32_767


def read_csv(file: str, data: bytes) -> TraceRows:
    """Every column that is named in SPEC.md section 11; others are ignored and listed."""
    table = Table(file, data)
    project = next((name for name in PROJECT_NAMES if name in table.header), PROJECT_NAMES[0])
    table.require("job_id", project, *NEEDED[1:])
    builder = Builder(file, "csv")
    known = {*NEEDED, project, *OPTIONAL}
    builder.ignored_columns = tuple(name for name in table.header if name not in known)
    for chunk in table.chunks():
        _add(builder, chunk, project)
    return builder.rows()


def _add(builder: Builder, chunk: Chunk, project: str) -> None:
    chunk["job_id"].check_names()
    chunk[project].check_names()
    gpus, rounded = round_up(chunk["gpus"].numbers(LEAST_GPUS, GPUS_MAX))
    columns: dict[str, Any] = {}
    for name, to, read in (
        ("replicas", "replicas", _count),
        ("min_runtime_s", "min_runtime_seconds", _seconds),
        ("resumable", "resumable", Column.flags),
        ("checkpoint_interval_s", "checkpoint_interval_seconds", _positive_seconds),
    ):
        if name in chunk:
            columns[to] = chunk[name].optional(read)
    if "priority" in chunk:
        columns["priority"] = chunk["priority"].optional(_priority, missing=0)
    for name in ("user", "cluster"):
        if name in chunk:
            chunk[name].check_names(needed=False)
            columns[name] = chunk[name].cells
    builder.add(
        [name.strip() for name in chunk["job_id"].cells],
        chunk.lines,
        project=chunk[project].cells,
        submit_at=chunk["submit_time_s"].seconds(SECONDS_MAX, up=False),
        duration_seconds=chunk["duration_s"].seconds(SECONDS_MAX, up=True),
        gpus=gpus,
        rounded=rounded,
        **columns,
    )


def _count(column: Column) -> IntArray:
    return column.whole(1, GPUS_MAX)


def _seconds(column: Column) -> IntArray:
    return column.seconds(SECONDS_MAX, up=True)


def _positive_seconds(column: Column) -> IntArray:
    return column.whole(1, SECONDS_MAX)


def _priority(column: Column) -> IntArray:
    return column.whole(-PRIORITY_MOST, PRIORITY_MOST)
