"""From the ledger's pyramid to a waterfall and four ratios in words. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from portal.dashboard.chart_pyramid import Rung
from portal.dashboard.chart_words import UNKNOWN, hours_words, ratio_words
from portal.usage.selectors import Pyramid

FREE_STANDINGS = ("unallocated", "stopping", "refunded")
CHARGED_STANDINGS = ("protected", "funded")


def rungs_of(found: Pyramid) -> list[Rung]:
    """Installed to useful; what ran out its contract on hosts that took no new work joins after occupancy."""
    standing = found.occupied_by_standing
    rungs = [Rung("installed", found.installed_gpu_seconds, "there")]
    rungs += [Rung(state, lost, "unavailable", loss=True) for state, lost in found.lost_by_state.items() if lost]
    rungs.append(Rung("schedulable", found.schedulable_gpu_seconds, "there"))
    rungs.append(Rung("held", found.held_gpu_seconds, "lost", loss=True))
    rungs.append(Rung("idle", found.idle_gpu_seconds or 0, "lost", loss=True))
    rungs.append(Rung("occupied", found.occupied_schedulable_gpu_seconds, "there"))
    if found.occupied_unschedulable_gpu_seconds:
        rungs.append(Rung("on closed hosts", found.occupied_unschedulable_gpu_seconds, "lost", gain=True))
    rungs += [Rung(each, standing[each], each, loss=True) for each in FREE_STANDINGS if standing.get(each)]
    allocated = sum(standing.get(each, 0) for each in CHARGED_STANDINGS)
    rungs.append(Rung("allocated", allocated, "protected"))
    useful = None if found.utilization is None else int(found.utilization * allocated)
    rungs.append(Rung("useful", useful, "there", why=found.utilization_reason))
    return rungs


@dataclass(frozen=True)
class Ratio:
    """A level of the pyramid as a figure: its ratio, and the GPU-hours lost there, by cause."""

    name: str
    value: str
    note: str
    reason: str = ""


def ratios_of(found: Pyramid) -> list[Ratio]:
    """The four levels, from the bottom up."""
    return [
        Ratio(
            "Availability",
            ratio_words(found.schedulable_gpu_seconds, found.installed_gpu_seconds),
            _lost([(state, lost) for state, lost in found.lost_by_state.items()]),
        ),
        Ratio(
            "Occupancy",
            ratio_words(found.occupied_schedulable_gpu_seconds, found.schedulable_gpu_seconds),
            _lost([("held", found.held_gpu_seconds), ("idle", found.idle_gpu_seconds or 0)]) + closed_words(found),
        ),
        Ratio(
            "Impact",
            ratio_words(found.delivered_gpu_seconds, found.owed_gpu_seconds),
            _lost([("owed and not delivered", found.owed_gpu_seconds - found.delivered_gpu_seconds)])
            if found.owed_gpu_seconds
            else "nothing was owed: nobody asked for what a budget covers",
        ),
        Ratio(
            "Utilization",
            UNKNOWN if found.utilization is None else ratio_words(round(found.utilization * 1_000_000), 1_000_000),
            found.utilization_reason,
        ),
    ]


def closed_words(found: Pyramid) -> str:
    """What still ran on hosts that took no new work, named beside the ratio that leaves it out."""
    apart = found.occupied_unschedulable_gpu_seconds
    return f"; apart from it, {hours_words(apart)} GPU-hours ran on closed hosts" if apart else ""


def _lost(causes: Sequence[tuple[str, int]]) -> str:
    parts = [f"{hours_words(gpu_seconds)} {cause}" for cause, gpu_seconds in causes if gpu_seconds > 0]
    return f"lost, in GPU-hours: {', '.join(parts)}" if parts else "nothing lost"


def pyramid_title(found: Pyramid) -> str:
    """`Of 10,752 installed GPU-hours, 9,952 were schedulable, 9,492 occupied and 7,942 allocated`."""
    if not found.installed_gpu_seconds:
        return "No GPU was installed in this range"
    allocated = sum(found.occupied_by_standing.get(each, 0) for each in CHARGED_STANDINGS)
    return (
        f"Of {hours_words(found.installed_gpu_seconds)} installed GPU-hours, "
        f"{hours_words(found.schedulable_gpu_seconds)} were schedulable, "
        f"{hours_words(found.occupied_schedulable_gpu_seconds)} occupied and {hours_words(allocated)} allocated"
    )


def pyramid_answer(found: Pyramid) -> str:
    """`GPUs were 98 % available and 94 % occupied; projects got 97 % of the GPU-hours they were owed`."""
    if not found.schedulable_gpu_seconds:
        return "No GPU could take work in this range"
    available = ratio_words(found.schedulable_gpu_seconds, found.installed_gpu_seconds)
    occupied = ratio_words(found.occupied_schedulable_gpu_seconds, found.schedulable_gpu_seconds)
    owed = "nobody was owed GPU-hours"
    if found.owed_gpu_seconds:
        share = ratio_words(found.delivered_gpu_seconds, found.owed_gpu_seconds)
        owed = f"projects got {share} of the GPU-hours they were owed"
    return f"GPUs were {available} available and {occupied} occupied; {owed}"


def occupancy_title(found: Pyramid) -> str:
    """`GPUs were 94 % occupied; 18 % of what ran was unallocated`."""
    if not found.occupied_gpu_seconds:
        return "No GPU was occupied in this range"
    free = ratio_words(found.occupied_by_standing.get("unallocated", 0), found.occupied_gpu_seconds)
    occupied = ratio_words(found.occupied_schedulable_gpu_seconds, found.schedulable_gpu_seconds)
    return f"Schedulable GPUs were {occupied} occupied; {free} of what ran was unallocated"
