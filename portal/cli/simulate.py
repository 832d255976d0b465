"""`commons simulate`: send a scenario, and a trace with it, wait for the report, print it."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.cli.client import Client
from portal.cli.errors import UsageError
from portal.cli.output import (
    MISSING,
    complaint_print,
    facts_print,
    line_print,
    moment_words,
    seconds_words,
    table_print,
)

POLL_SECONDS = 1.0
TENTH_PPM = 100_000
FINAL = {"done", "failed", "cancelled"}
CLASSES = ("debug", "small", "large", "all")


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    scenario: Path | None
    trace: Path | None
    title: str | None
    seed: int | None
    cluster: str | None
    since: str | None
    until: str | None


def run_post(client: Client, asked: Asked) -> dict[str, Any]:
    """Queue the simulation; the file of a trace goes first."""
    body = body_make(asked)
    if asked.trace is not None:
        content = _bytes(asked.trace)
        body["trace"] = client.upload("simulation-traces/", content, name=asked.trace.name).json()["id"]
    answer: dict[str, Any] = client.post_once("simulations/", body).json()
    return answer


def body_make(asked: Asked) -> dict[str, Any]:
    """The request, from files and flags; what is replayed follows from which of them are there."""
    scenario = None if asked.scenario is None else _json(asked.scenario)
    source = _source(asked, scenario)
    body = {
        "title": asked.title or (asked.scenario.stem if asked.scenario else "As it was"),
        "source": source,
        "scenario": scenario,
        "cluster": asked.cluster,
        "seed": asked.seed,
        "history_from": asked.since,
        "history_to": asked.until,
    }
    return {name: value for name, value in body.items() if value is not None}


def _source(asked: Asked, scenario: Any) -> str:
    if asked.trace is not None:
        if asked.since is not None:
            raise UsageError("Give --trace or --from, not both: a trace replaces this portal's history.")
        return "trace"
    if asked.since is not None:
        return "history"
    workload = scenario.get("workload") if isinstance(scenario, dict) else None
    if isinstance(workload, dict) and "generator" in workload:
        return "generator"
    raise UsageError("There is no work: give --trace FILE, --from MOMENT for this portal's history, or a generator.")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}.") from None


def _json(path: Path) -> Any:
    try:
        return json.loads(_bytes(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}.") from None


def end_wait(client: Client, run: int, *, show: bool) -> dict[str, Any]:
    """The simulation, once it has ended. `show`: its progress on the error stream, in place or a line a tenth."""
    said: tuple[str, int] | None = None
    while True:
        current: dict[str, Any] = client.get(f"simulations/{run}/")
        if current["state"] in FINAL:
            if show and sys.stderr.isatty():
                sys.stderr.write("\n")
            return current
        words = progress_words(current)
        if show and sys.stderr.isatty():
            sys.stderr.write(f"\r{words}\x1b[K")
            sys.stderr.flush()
        elif show and (tenth := (current["state"], current["progress_ppm"] // TENTH_PPM)) != said:
            complaint_print(words)
            said = tenth
        time.sleep(POLL_SECONDS)


def progress_words(run: dict[str, Any]) -> str:
    """`Simulation 7: 40 %, about 12 s left`."""
    if run["state"] == "queued":
        return f"Simulation {run['id']} waits."
    left = seconds_words(run["seconds_left"])
    return f"Simulation {run['id']}: {run['progress_ppm'] // 10_000} %" + (f", about {left} left" if left else "")


def run_print(run: dict[str, Any]) -> None:
    """What came out: figures, waits by class, delivery by project."""
    line_print(f"Simulation {run['id']}, {run['title']}: {run['state']}.")
    if run["error"]:
        line_print(run["error"])
    facts_print([("source", run["source"]), ("cluster", run["cluster"]), ("seed", run["seed"])])
    for note in run["notes"]:
        line_print(f"Note: {note}")
    if run["report"] is not None:
        for report in (run["report"], *run["report"]["others"]):
            report_print(report, run)


def report_print(report: dict[str, Any], run: dict[str, Any]) -> None:
    """One cluster's report."""
    facts_print(
        [
            ("cluster", report["cluster"]),
            ("workloads", report["jobs"]),
            ("delivered of owed", _percent(report["delivery_mean"])),
            ("lowest", _percent(report["delivery_min"])),
            ("occupancy", _percent(report["occupancy"])),
            ("unallocated of it", _percent(report["unallocated_fraction"])),
            ("preemptions", report["preemptions"]),
            ("lost GPU-hours", round(report["lost_gpu_hours"], 1)),
            ("begun, not ended", report["unfinished_started"]),
            ("ended", moment_words(run["ended_at"])),
            ("code", run["code_version"]),
        ]
    )
    waits = [(name, *_waits(report["waits"][name])) for name in CLASSES]
    table_print(("CLASS", "ASKED", "STARTED", "P50 WAIT", "P90 WAIT", "P99 WAIT"), waits, "No waits.")
    projects = [
        (
            path,
            _percent(figures["delivery"]),
            figures["owed_gpu_hours"],
            figures["delivered_gpu_hours"],
            seconds_words(figures["waits"]["all"]["p90_s"]),
            figures["preemptions"],
        )
        for path, figures in report["by_project"].items()
    ]
    columns = ("PROJECT", "DELIVERED", "OWED GPU-HOURS", "DELIVERED GPU-HOURS", "P90 WAIT", "PREEMPTIONS")
    table_print(columns, projects, "No projects.")


def _waits(waits: dict[str, Any]) -> tuple[Any, ...]:
    return (waits["n"], waits["started"], *(seconds_words(waits[name]) for name in ("p50_s", "p90_s", "p99_s")))


def _percent(ratio: float | None) -> str:
    return MISSING if ratio is None else f"{ratio * 100:.1f} %"
