"""What charts of queue waits found, in a sentence. Pure."""

from collections.abc import Mapping, Sequence

from portal.common.units import duration_words
from portal.dashboard.chart_waits import nearest_rank


def waits_title(series: Mapping[str, Sequence[int]], whose: str = "", *, what: str = "workloads") -> str:
    """`Nine in ten workloads of vision started: debug within 30 s, large within 1 h 48 min`."""
    p90s = {name: nearest_rank(waits, 90) for name, waits in series.items() if waits}
    of = f" of {whose}" if whose else ""
    if not p90s:
        return f"No {what}{of} in this range" if what != "workloads" else f"No workload{of} started in this range"
    parts = [f"{name} within {duration_words(seconds or 0)}" for name, seconds in p90s.items()]
    return f"Nine in ten {what}{of} started: {', '.join(parts)}"


def over_time_title(series: Mapping[str, Sequence[int]]) -> str:
    """The class that waits longest at p90."""
    p90s = {name: seconds for name, waits in series.items() if (seconds := nearest_rank(waits, 90)) is not None}
    if not p90s:
        return "No workload started in this range"
    longest = max(p90s, key=lambda name: p90s[name])
    return f"{longest.capitalize()} workloads waited longest: half started within {_half(series[longest])}, " + (
        f"nine in ten within {duration_words(p90s[longest])}"
    )


def _half(waits: Sequence[int]) -> str:
    return duration_words(nearest_rank(waits, 50) or 0)


def projects_title(series: Mapping[str, Sequence[int]]) -> str:
    """The project that waited longest at p90."""
    p90s = {name: seconds for name, waits in series.items() if (seconds := nearest_rank(waits, 90)) is not None}
    if not p90s:
        return "No workload started in this range"
    longest = max(p90s, key=lambda name: p90s[name])
    return f"{longest} waited longest: nine in ten of its workloads started within {duration_words(p90s[longest])}"
