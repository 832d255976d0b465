"""One report of several clusters: sums, ratios of sums, and percentiles over all their waits. Pure."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.simulation.loop import Loop
from scheduler.simulation.mix import describe_mix
from scheduler.simulation.report import WAIT_CLASSES, summarise_waits

Report = dict[str, Any]
Columns = dict[str, NDArray[np.int64]]

ALL = "all"
SUMMED = (
    "jobs", "preemptions", "lost_gpu_hours", "lost_to_failures_gpu_hours", "squatted_gpu_hours", "unfinished_started",
    "free_unusable_gpu_hours", "held_gpu_hours", "capacity_gpu_hours", "completed", "ended_preempted",
    "ended_host_failed", "cut_jobs", "too_large_jobs", "rounded_jobs", "decisions", "passes_skipped", "checked",
)  # fmt: skip


def reports_merge(reports: Sequence[Report], loops: Sequence[Loop], *, idle_gpus: int = 0) -> Report:
    """All clusters together. A project counts where it has a delivery; its ancestors are left out.

    `idle_gpus` are those of clusters that had no work at all. A cluster that was done before the others stood idle
    until they were.
    """
    hours = max(report["measured_hours"] for report in reports)
    idle = [loop.setup.gpus * (hours - report["measured_hours"]) for report, loop in zip(reports, loops, strict=True)]
    merged: Report = {**reports[0], **{name: sum(report[name] for report in reports) for name in SUMMED}}
    merged["capacity_gpu_hours"] += sum(idle) + idle_gpus * hours
    schedulable = [report["availability"] * report["capacity_gpu_hours"] for report in reports]
    offered = sum(schedulable) + sum(idle) + idle_gpus * hours
    merged["cluster"] = ALL
    merged["gpu_hours"] = {
        name: sum(report["gpu_hours"][name] for report in reports) for name in reports[0]["gpu_hours"]
    }
    occupied = sum(merged["gpu_hours"].values())
    merged["availability"] = _part(offered, merged["capacity_gpu_hours"])
    merged["occupancy"] = _part(occupied, offered)
    merged["unallocated_fraction"] = _part(merged["gpu_hours"]["unallocated"], occupied)
    merged["lost_fraction"] = _part(merged["lost_gpu_hours"], merged["capacity_gpu_hours"])
    demand = sum(report["demand_ratio"] * weight for report, weight in zip(reports, schedulable, strict=True))
    merged["demand_ratio"] = _part(demand, offered)
    merged["measured_hours"] = hours
    merged["notes"] = [note for report in reports for note in report["notes"]]
    merged |= _deliveries(reports) | _waits(loops)
    merged["class_mix"] = {
        name: asdict(mix)
        for name, mix in describe_mix(_joined([loop.ledger.submitted.read() for loop in loops])).items()
    }
    merged["days"] = [row for report in reports for row in report["days"] if row["project"] in merged["by_project"]]
    merged["series"] = _series([report["series"] for report in reports])
    return merged


def _part(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _deliveries(reports: Sequence[Report]) -> Report:
    """Of each project, where it has a budget without budgets below it."""
    delivery = {path: ratio for report in reports for path, ratio in report["delivery"].items()}
    figures = {path: report["by_project"][path] for report in reports for path in report["delivery"]}
    ratios = [ratio for ratio in delivery.values() if ratio is not None]
    capped = [min(ratio, 1.0) for ratio in ratios]
    return {
        "delivery": delivery,
        "by_project": figures,
        "delivery_mean": sum(capped) / len(capped) if capped else None,
        "delivery_min": min(ratios, default=None),
        "delivery_ge_95": sum(ratio >= 0.95 for ratio in ratios),
    }


def _waits(loops: Sequence[Loop]) -> Report:
    """As each report has them: of what was submitted, or started again, while it was measured."""
    columns = [loop.ledger.waits.read() for loop in loops]
    since = [loop.setup.warmup_seconds for loop in loops]
    fresh = [
        _rows(rows, (rows["restart"] == 0) & (rows["submit"] >= at)) for rows, at in zip(columns, since, strict=True)
    ]
    again = [
        _rows(rows, (rows["restart"] == 1) & (rows["start"] >= at)) for rows, at in zip(columns, since, strict=True)
    ]
    return {"waits": _summarised(_joined(fresh)), "restart_waits": _summarised(_joined(again))}


def _rows(columns: Columns, chosen: NDArray[np.bool_]) -> Columns:
    return {name: column[chosen] for name, column in columns.items()}


def _joined(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _summarised(waits: Columns) -> Report:
    found = {}
    for kind, name in enumerate(WAIT_CLASSES):
        mine = waits["kind"] == kind if name != "all" else np.ones(len(waits["kind"]), dtype=np.bool_)
        started = int((waits["started"][mine] == 1).sum())
        found[name] = asdict(summarise_waits(started, (waits["end"] - waits["start"])[mine]))
    return found


def _series(parts: Sequence[Report]) -> Report:
    """Hour by hour, as long as the longest."""
    longest = max(parts, key=lambda part: len(part["hour"]))
    summed: Report = {"hour": longest["hour"]}
    for name in longest:
        if name != "hour":
            values = np.zeros(len(longest["hour"]))
            for part in parts:
                values[: len(part[name])] += np.asarray(part[name], dtype=np.float64)
            summed[name] = values.tolist()
    return summed
