"""What simulations found, in sentences. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from portal.common.units import HOUR_SECONDS, PPM, duration_words, percent_words

Report = Mapping[str, Any]
Named = Sequence[tuple[str, Report]]


def percent_text(ratio: float | None) -> str:
    """A ratio as people say it; a dash for unknown."""
    return "–" if ratio is None else percent_words(round(ratio * PPM))


def seconds_text(seconds: float | None) -> str:
    """A duration as people say it; a dash for unknown."""
    return "–" if seconds is None else duration_words(round(seconds))


def simulated_words(report: Report) -> str:
    """How much of simulated time is measured."""
    seconds, warmup = round(report["measured_hours"] * HOUR_SECONDS), report["warmup_days"]
    words = f"{seconds_text(seconds)} simulated"
    return f"{words} after {counted(warmup, 'day')} of warm-up" if warmup else words


def counted(number: int, thing: str) -> str:
    """`1 host`, `2 hosts`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def answer_words(report: Report) -> str:
    """The whole run in one sentence."""
    if report["delivery_mean"] is None:
        start = f"Half of all workloads started within {seconds_text(report['waits']['all']['p50_s'])}"
    else:
        start = f"Projects got {percent_text(report['delivery_mean'])} of what they were owed"
    debug = report["waits"]["debug"]
    if debug["started"]:
        return f"{start}; nine in ten debug workloads started within {seconds_text(debug['p90_s'])}"
    return f"{start}; {percent_text(report['occupancy'])} of the GPU-time was occupied"


def waits_title(named: Named) -> str:
    """One run: within how long nine in ten of each class started; several: of debug work."""
    if len(named) == 1:
        waits = named[0][1]["waits"]
        parts = [
            f"{name} within {seconds_text(waits[name]['p90_s'])}"
            for name in ("debug", "small", "large")
            if waits[name]["started"]
        ]
        return f"Nine in ten workloads started: {', '.join(parts)}" if parts else "No workload started"
    parts = [f"{label} {seconds_text(report['waits']['all']['p90_s'])}" for label, report in named]
    return f"Nine in ten workloads started within: {', '.join(parts)}"


def delivery_title(named: Named) -> str:
    """Who got how much of what they were owed."""
    if len(named) > 1:
        parts = [f"{label} {percent_text(report['delivery_mean'])}" for label, report in named]
        return f"Delivered of what was owed, mean of the projects: {', '.join(parts)}"
    report = named[0][1]
    owed = {name: ratio for name, ratio in report["delivery"].items() if ratio is not None}
    if not owed:
        return "No project was owed anything"
    lowest = min(owed, key=lambda name: owed[name])
    good = sum(ratio >= 0.95 for ratio in owed.values())
    whose = f"{len(owed)} projects that you may see" if report.get("hidden_projects") else f"{len(owed)} projects"
    found = f"{good} of {whose} got at least 95 % of what they were owed"
    return f"{found}; {lowest} got least, {percent_text(owed[lowest])}"


def gpus_title(report: Report) -> str:
    """How full it was."""
    return (
        f"{percent_text(report['occupancy'])} of the schedulable GPU-time was occupied, "
        f"{percent_text(report['unallocated_fraction'])} of that unallocated"
    )


def fragments_title(report: Report) -> str:
    """What capacity was dispersed over."""
    return (
        f"{report['unfinished_started']:,} workloads were begun and not ended at the end; "
        f"{report['free_unusable_gpu_hours']:,.0f} GPU-hours were free while work waited"
    )
