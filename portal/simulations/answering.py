"""One scenario to its answer: every cluster simulated, one after the other, with the time that it took. Django-free."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

from portal.simulations.scenario import Scenario, build
from portal.simulations.traces.rows import TraceRows
from scheduler.simulation import engine

Progress = Callable[[float], bool]
DIGITS = 6


def answer(
    scenario: Scenario,
    trace: TraceRows | None,
    seed: int | None,
    *,
    progress: Progress | None = None,
    started: float | None = None,
) -> dict[str, Any]:
    """The report of the first cluster, with those of further ones in `others`; ready for JSON.

    `started` is the `perf_counter` at which reading the files began: that counts as time of the run.
    """
    began = perf_counter() if started is None else started
    built = build(scenario, trace, seed)
    reports = []
    for number, one in enumerate(built):
        report = engine.run(one.setup, progress=_part(progress, number, len(built))).to_dict()
        notes = list(dict.fromkeys([*one.notes, *report["notes"]]))
        reports.append({"cluster": one.setup.name, **report, "notes": notes})
    wall = perf_counter() - began
    jobs = sum(report["jobs"] for report in reports)
    for report in reports:
        report["wall_s"] = round(wall, 3)
        report["jobs_per_s"] = round(jobs / max(wall, 1e-9), 1)
    result: dict[str, Any] = _rounded({**reports[0], "others": reports[1:]})
    return result


def _part(progress: Progress | None, number: int, clusters: int) -> Progress | None:
    """Progress of one cluster as progress of all."""
    if progress is None:
        return None
    return lambda done: progress((number + done) / clusters)


def _rounded(value: Any) -> Any:
    """Numbers without the digits that say nothing."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value
