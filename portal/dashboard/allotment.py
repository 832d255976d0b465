"""What the budgets in force at each moment allotted: share along the path x schedulable GPUs, as steps. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction

from portal.budgets.selectors import ShareStep
from portal.clusters.selectors import CapacityStep
from portal.common.units import PPM
from portal.dashboard.budget_units import percent_text
from portal.dashboard.chart_axes import moment_words
from portal.dashboard.chart_usage import Level
from portal.dashboard.charts import ChartFrame


def allotment_levels(
    path: Sequence[int], shares: Sequence[ShareStep], capacity: Sequence[CapacityStep], *, start: datetime
) -> list[Level]:
    """GPUs that `path` (project ids, root first) was allotted from `start` on, one level for each change.

    Empty if some project on the path, the root excepted, never had a budget.
    """
    wanted = set(path[1:])
    mine = [step for step in shares if step.project_id in wanted]
    if {step.project_id for step in mine} != wanted:
        return []
    moments = sorted({start, *(step.at for step in mine), *(step.at for step in capacity)})
    levels: list[Level] = []
    for moment in moments:
        if moment < start:
            continue
        gpus = _share_at(mine, wanted, moment) * _capacity_at(capacity, moment)
        if not levels or levels[-1].gpus != float(gpus):
            levels.append(Level(moment, float(gpus)))
    return levels


def capacity_levels(capacity: Sequence[CapacityStep], *, start: datetime) -> list[Level]:
    """Schedulable GPUs from `start` on."""
    begun = [Level(start, _capacity_at(capacity, start))]
    return begun + [Level(step.at, step.schedulable_gpus) for step in capacity if step.at > start]


def _share_at(steps: Sequence[ShareStep], projects: set[int], moment: datetime) -> Fraction:
    in_force: Mapping[int, int] = {
        step.project_id: step.share_ppm for step in sorted(steps, key=lambda step: step.at) if step.at <= moment
    }
    share = Fraction(1)
    for project_id in projects:
        share *= Fraction(in_force.get(project_id, 0), PPM)
    return share


def _capacity_at(capacity: Sequence[CapacityStep], moment: datetime) -> int:
    before = [step.schedulable_gpus for step in capacity if step.at <= moment]
    return before[-1] if before else 0


def budget_words(project_id: int, parent: str, shares: Sequence[ShareStep], frame: ChartFrame) -> str:
    """Which budget a chart is drawn against: `20 % of Lab until 25 Nov 2026 14:00, then 14 %`."""
    mine = sorted((step for step in shares if step.project_id == project_id), key=lambda step: step.at)
    begun = [step for step in mine if step.at <= frame.start_at][-1:]
    inside = [step for step in mine if frame.start_at < step.at < frame.end_at]
    if not begun and not inside:
        return "no budget in this range"
    parts = [f"{percent_text(begun[0].share_ppm)} % of {parent}" if begun else f"no budget of {parent}’s"]
    for step in inside:
        parts.append(f"until {moment_words(step.at, frame.zone)}, then {percent_text(step.share_ppm)} %")
    return " ".join(parts)
