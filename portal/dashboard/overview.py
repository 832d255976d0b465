"""The pyramid's four figures for the overview, in words. No ORM."""

from dataclasses import dataclass
from typing import Any

from portal.common.units import PPM, gpu_hours, percent_words
from portal.dashboard.figures import Change, ratio_change
from portal.dashboard.pyramid_rungs import closed_words
from portal.dashboard.states import STATE_WORDS
from portal.dashboard.templatetags.commons import three_digits


@dataclass(frozen=True)
class Figure:
    """What components/figure.html shows."""

    what: str
    value: str
    unit: str
    note: str
    change: Change | None


def pyramid_figures(current: Any, previous: Any, before: str) -> list[Figure]:
    """Availability, occupancy, impact, utilization: each with the GPU-hours lost at its level."""
    occupied = current.occupied_by_standing
    unallocated = occupied.get("unallocated", 0)
    idle = (current.idle_gpu_seconds or 0) + current.held_gpu_seconds
    missing = current.owed_gpu_seconds - current.delivered_gpu_seconds
    return [
        _figure("Availability", current.availability, previous.availability, _lost_words(current), before),
        _figure(
            "Occupancy",
            current.occupancy,
            previous.occupancy,
            f"{_hours(idle)} GPU-hours idle or held; {_part(unallocated, current.occupied_gpu_seconds)} unallocated"
            + closed_words(current),
            before,
        ),
        _figure(
            "Impact",
            current.impact,
            previous.impact,
            f"{_hours(missing)} of {_hours(current.owed_gpu_seconds)} GPU-hours owed not delivered"
            if current.owed_gpu_seconds
            else "Nobody with a budget asked for GPU-time",
            before,
        ),
        _figure("Utilization", current.utilization, previous.utilization, current.utilization_reason, before),
    ]


def _figure(what: str, ratio: float | None, previous: float | None, note: str, before: str) -> Figure:
    if ratio is None:
        return Figure(what, "–", "", note, None)
    return Figure(what, _percent(ratio), "%", note, ratio_change(ratio, previous, before=before))


def _percent(ratio: float) -> str:
    """Without decimals from 10 % up, but never 100 while something is missing."""
    if 0.995 <= ratio < 1:
        return f"{min(ratio * 100, 99.9):.1f}"
    return percent_words(round(ratio * PPM)).removesuffix(" %")


def _lost_words(current: Any) -> str:
    lost = {state: seconds for state, seconds in current.lost_by_state.items() if seconds}
    if not lost:
        return "No GPU-hours lost to hosts" if current.installed_gpu_seconds else "No host was installed"
    if len(lost) == 1:
        state, seconds = next(iter(lost.items()))
        return f"{_hours(seconds)} GPU-hours lost to {STATE_WORDS.get(state, state).lower()} hosts"
    causes = ", ".join(f"{STATE_WORDS.get(state, state).lower()} {_hours(seconds)}" for state, seconds in lost.items())
    return f"{_hours(sum(lost.values()))} GPU-hours lost: {causes}"


def _hours(gpu_seconds: int) -> str:
    return three_digits(gpu_hours(gpu_seconds))


def _part(part: int, whole: int) -> str:
    return percent_words(round(part * PPM / whole)) if whole else "0 %"
