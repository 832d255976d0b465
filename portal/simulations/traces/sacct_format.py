"""The output of Slurm's `sacct --parsable2`: fields between bars, named in the first line, in any order.

The account is the project. Steps (`123.batch`), jobs that never ran and jobs without GPUs are left out and
counted. Times are local and without a zone, as sacct prints them; the first submission is second 0.
"""

import re
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from portal.simulations.traces.building import Builder
from portal.simulations.traces.columns import Column
from portal.simulations.traces.rows import GPUS_MAX, MISSING, SECONDS_MAX, TraceRows
from portal.simulations.traces.tables import Table

ELAPSED = re.compile(r"^(?:(\d{1,5})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d\d)(?:\.\d+)?$")
GPU_TOTAL = re.compile(r"(?:^|,)gres/gpu=(\d{1,9})(?:,|$)")
GPU_TYPED = re.compile(r"(?:^|,)gres/gpu:[^=,]+=(\d{1,9})(?=,|$)")
NEEDED = {"jobid": "JobID", "account": "Account", "submit": "Submit"}
ELAPSED_NAMES = {"elapsedraw": "ElapsedRaw", "elapsed": "Elapsed"}
TRES_NAMES = {"alloctres": "AllocTRES", "reqtres": "ReqTRES"}
OTHERS = {"user", "nnodes", "allocnodes", "cluster"}
STEP, NEVER_RAN, NO_GPUS = "steps of jobs", "jobs that never ran", "jobs without GPUs"


def read_sacct(file: str, data: bytes) -> TraceRows:
    """Jobs that ran on GPUs."""
    table = Table(file, data, delimiter="|", quoted=False)
    names = {name.lower(): name for name in table.header}
    if "jobid" not in names and "jobidraw" in names:
        names["jobid"] = names["jobidraw"]
    table.require(*(names.get(name, shown) for name, shown in NEEDED.items()))
    elapsed = _one_of(table, names, ELAPSED_NAMES)
    tres = [names[name] for name in TRES_NAMES if name in names]
    if not tres:
        table.require("AllocTRES")
    builder = Builder(file, "sacct")
    used = {*NEEDED, "jobidraw", *ELAPSED_NAMES, *TRES_NAMES, *OTHERS}
    builder.ignored_columns = tuple(name for name in table.header if name and name.lower() not in used)
    for chunk in table.chunks():
        columns = {name: chunk[header] for name, header in names.items()}
        _add(builder, chunk.lines, columns, columns[elapsed.lower()], [columns[name.lower()] for name in tres])
    rows = builder.rows()
    rows.submit_at[:] -= rows.submit_at.min()
    return rows


def _one_of(table: Table, names: dict[str, str], wanted: dict[str, str]) -> str:
    found = next((names[name] for name in wanted if name in names), None)
    if found is None:
        table.require(next(iter(wanted.values())))
    return found or ""


def _add(
    builder: Builder, lines: Sequence[int], columns: dict[str, Column], elapsed: Column, tres: list[Column]
) -> None:
    kept, durations, gpus, submits = [], [], [], []
    for row, job in enumerate(columns["jobid"].cells):
        reason = STEP if "." in job else None
        seconds = 0 if reason else _elapsed(elapsed, row)
        reason = reason or (NEVER_RAN if seconds == 0 else None)
        count = 0 if reason else next((found for found in (gpu_count(one, row) for one in tres) if found), 0)
        reason = reason or (NO_GPUS if count == 0 else None)
        if reason:
            builder.skipped[reason] += 1
            continue
        kept.append(row)
        durations.append(seconds)
        gpus.append(count)
        submits.append(_moment(columns["submit"], row))
    for name in ("account", "user", "cluster", "jobid"):
        if name in columns:
            columns[name].check_names(needed=False)
    nodes = columns.get("nnodes") or columns.get("allocnodes")
    more = {name: [columns[name].cells[row] for row in kept] for name in ("user", "cluster") if name in columns}
    builder.add(
        [columns["jobid"].cells[row].strip() for row in kept],
        [lines[row] for row in kept],
        project=[columns["account"].cells[row].strip() or "none" for row in kept],
        submit_at=np.array(submits, dtype=np.int64),
        duration_seconds=np.array(durations, dtype=np.int64),
        gpus=np.array(gpus, dtype=np.int64),
        replicas=_replicas(nodes, kept, gpus),
        **more,
    )


def _replicas(nodes: Column | None, kept: list[int], gpus: list[int]) -> list[int]:
    """One replica a node where the GPUs divide; else the file doesn't say."""
    if nodes is None:
        return [MISSING] * len(kept)
    counts = [int(cell) if (cell := nodes.cells[row].strip()).isdecimal() and len(cell) < 8 else 0 for row in kept]
    return [count if count and total % count == 0 else MISSING for count, total in zip(counts, gpus, strict=True)]


def gpu_count(column: Column, row: int) -> int:
    """`gres/gpu=8` of a list of trackable resources; without it the sum over models."""
    text = column.cells[row]
    total = GPU_TOTAL.search(text)
    count = int(total[1]) if total else sum(map(int, GPU_TYPED.findall(text)))
    if count > GPUS_MAX:
        raise column.refusal(row, f"asks for more than {GPUS_MAX} GPUs")
    return count


def _elapsed(column: Column, row: int) -> int:
    """Seconds of `ElapsedRaw`, or of `1-02:03:04`."""
    text = column.cells[row].strip()
    if text.isdecimal() and len(text) < 12:
        seconds = int(text)
    elif found := ELAPSED.match(text):
        days, hours, minutes, rest = (int(part or 0) for part in found.groups())
        seconds = ((days * 24 + hours) * 60 + minutes) * 60 + rest
    else:
        raise column.refusal(row, "is no elapsed time (write seconds or 1-02:03:04)")
    if seconds > SECONDS_MAX:
        raise column.refusal(row, "is longer than ten years")
    return seconds


def _moment(column: Column, row: int) -> int:
    """Whole seconds of `2026-01-31T08:00:00` on a calendar without a zone, or since 1970 as sacct prints with %s."""
    text = column.cells[row].strip()
    if text.isdecimal() and len(text) < 12:
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise column.refusal(row, "is no moment (write 2026-01-31T08:00:00)") from None
    return (at.toordinal() * 24 + at.hour) * 3600 + at.minute * 60 + at.second
