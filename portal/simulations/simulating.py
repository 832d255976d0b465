"""From a run's row to its result: read what it replays, build what the engine takes, simulate, report."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from django.conf import settings

from portal.common.errors import Refused
from portal.common.units import DAY_SECONDS
from portal.simulations.checking import size_problems
from portal.simulations.history import History, history_read
from portal.simulations.merging import reports_merge
from portal.simulations.models import Run, Source
from portal.simulations.partitions import is_partitioned, rows_assigned
from portal.simulations.portal_scenario import history_begin
from portal.simulations.scenario import Built, Scenario, build, read_scenario
from portal.simulations.scenarios.parts import ClusterSpec
from portal.simulations.traces.reading import read_trace
from portal.simulations.traces.rows import TraceRows
from scheduler.simulation import engine
from scheduler.simulation.figures import build_report
from scheduler.simulation.setup import Setup

Progress = Callable[[float], bool]


def run_simulate(*, run_id: int, progress: Progress, clock: Callable[[], float]) -> dict[str, Any]:
    """The report with its notes and the time that it took: `{"report", "notes", "wall_seconds"}`."""
    began = clock()
    run = Run.objects.select_related("cluster", "trace").get(pk=run_id)
    scenario = read_scenario(run.scenario)
    rows, history = _rows_of(run)
    if scenario.days is None and rows is not None:
        _size_require(scenario, rows)
    if rows is not None and is_partitioned(run.scenario):
        rows = rows_assigned(rows, run.scenario)
    built = build(scenario, rows, run.seed)
    setups = [each.setup for each in built]
    if history is not None:
        setups = [_with_unallocated(setup, history) for setup in setups]
    worked = {setup.name for setup in setups}
    idle_gpus = sum(cluster_gpus(spec) for spec in scenario.clusters if spec.name not in worked)
    reports = _reports(setups, progress, idle_gpus)
    wall_seconds = clock() - began
    for report in reports:
        report["wall_s"] = round(wall_seconds, 3)
        report["jobs_per_s"] = round(reports[0]["jobs"] / max(wall_seconds, 1e-9), 1)
    return {
        "report": {**reports[0], "others": reports[1:]},
        "notes": _notes(history, built, reports),
        "wall_seconds": wall_seconds,
    }


def _size_require(scenario: Scenario, rows: TraceRows) -> None:
    """A scenario without days lasts as long as its trace."""
    days = int(rows.submit_at.max()) // DAY_SECONDS + 1
    if problems := size_problems(scenario, days=days):
        raise Refused.many(problems)


def _notes(history: History | None, built: Sequence[Built], reports: Sequence[dict[str, Any]]) -> list[str]:
    """What a reader must know: of the history, of what was done to the trace, of the engine. Each once."""
    notes = list(history.notes) if history else []
    notes += [note for each in built for note in each.notes]
    notes += [note for report in reports for note in report["notes"]]
    return list(dict.fromkeys(notes))


def _rows_of(run: Run) -> tuple[TraceRows | None, History | None]:
    """The workloads of a history or a trace; none where a generator makes them."""
    most = settings.SIMULATION_TRACE_ROWS
    if run.source == Source.HISTORY and run.cluster and run.history_from and run.history_to:
        begin = history_begin(run.history_from, run.scenario)
        history = history_read(cluster=run.cluster, start=begin, end=run.history_to, rows_most=most)
        return history.rows, history
    if run.trace is None:
        return None, None
    rows = read_trace(zlib.decompress(bytes(run.trace.content)), name=run.trace.name)
    if len(rows) > most:
        raise Refused(f"The trace has {len(rows)} rows; a simulation takes at most {most}.", attr="trace")
    return rows, None


def _with_unallocated(setup: Setup, history: History) -> Setup:
    """Which workloads may run unallocated is known of our own history; no trace format has it."""
    if setup.jobs is None:
        return setup
    allowed = history.allow_unallocated[setup.jobs.id]
    return replace(setup, jobs=replace(setup.jobs, allow_unallocated=np.asarray(allowed, dtype=np.bool_)))


def cluster_gpus(spec: ClusterSpec) -> int:
    """GPUs of all its hosts."""
    return sum(group.count * group.gpus for group in spec.groups)


def _reports(setups: Sequence[Setup], progress: Progress, idle_gpus: int) -> list[dict[str, Any]]:
    """One after the other; progress is over all of them. Of several, first comes the report of all together."""
    reports, loops = [], []
    for number, setup in enumerate(setups):

        def part(done: float, before: int = number) -> bool:
            return progress((before + done) / len(setups))

        loop = engine.start_run(setup)
        loop.run(part)
        loops.append(loop)
        reports.append({"cluster": setup.name, **build_report(loop).to_dict()})
    return [reports_merge(reports, loops, idle_gpus=idle_gpus), *reports] if len(reports) > 1 else reports
