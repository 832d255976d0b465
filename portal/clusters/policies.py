"""A cluster's settings: name, default, bounds, unit and words. The scheduler's Policy has the same; a test compares.

This table is the portal's own because no app below `usage` may import the scheduler.
"""

from dataclasses import dataclass
from typing import Any

from portal.common.errors import FieldError
from portal.common.units import DAY_SECONDS as DAY
from portal.common.units import HOUR_SECONDS as HOUR
from portal.common.units import PPM

LEAF_KEYS = ("priority", "author_usage", "submitted")


@dataclass(frozen=True)
class Setting:
    """A whole number between two bounds, both included; `optional` ones may be off (None)."""

    name: str
    default: int | None
    least: int
    most: int
    unit: str
    words: str
    optional: bool = False


_TABLE = (
    Setting("lookback_seconds", 7 * DAY, HOUR, 366 * DAY, "s", "How long charged usage counts (R2)."),
    Setting(
        "half_life_seconds",
        None,
        60,
        366 * DAY,
        "s",
        "Usage and quota of this age weigh half; off: all weighs alike (R2).",
        optional=True,
    ),
    Setting(
        "first_budget_seconds",
        DAY,
        0,
        366 * DAY,
        "s",
        "How much of the time before a project's first budget counts (R2).",
    ),
    Setting(
        "start_limit_seconds",
        600,
        30,
        DAY,
        "s",
        "A gang that isn't running this long after it got its GPUs has failed to start (R4).",
    ),
    Setting("return_margin_ppm", 10_000, 0, PPM, "ppm", "Balance above which unallocated work returns (R6)."),
    Setting("overdraw_limit_ppm", PPM, 0, 10 * PPM, "ppm", "How far below 0 a contract may push a balance (R7)."),
    Setting("express_gpus", 8, 0, 1024, "GPUs", "Largest express start; 0 switches express off (R7)."),
    Setting("express_seconds", 900, 0, 4 * HOUR, "s", "Longest minimum runtime of an express start (R7)."),
    Setting("express_floor_seconds", 300, 0, 4 * HOUR, "s", "What an express start counts as at least (R7)."),
    Setting("express_share_ppm", 50_000, 0, PPM, "ppm", "Part of a quota that express starts may use (R7)."),
    Setting(
        "unallocated_cap_gpus",
        None,
        0,
        1_000_000,
        "GPUs",
        "Most GPUs that one project runs unallocated (R8).",
        optional=True,
    ),
    Setting(
        "licence_floor_seconds",
        1800,
        0,
        8 * HOUR,
        "s",
        "What a contract counts as at least when it asks for another branch's funded GPUs (R9).",
    ),
    Setting(
        "licence_margin_ppm",
        20_000,
        1_000,
        PPM,
        "ppm",
        "By how much a branch must lead, once charged, to take another's funded GPUs (R9).",
    ),
    Setting("lost_cap_seconds", HOUR, 0, DAY, "s", "Most time that counts as lost by a preemption (R10)."),
    Setting("grace_allocated_seconds", 60, 0, HOUR, "s", "From the warning to the kill, allocated attempts (R11)."),
    Setting("grace_unallocated_seconds", 10, 0, HOUR, "s", "From the warning to the kill, unallocated ones (R11)."),
    Setting("silence_seconds", 120, 10, HOUR, "s", "A host that keeps killed work for this long is unhealthy (R11)."),
    Setting("host_gone_seconds", 60, 30, HOUR, "s", "A host that is unheard for this long is gone (R15)."),
    Setting("taker_ban_seconds", HOUR, 0, 7 * DAY, "s", "How long who wastes what was taken takes nothing (R11)."),
    Setting("reservations_most", 4, 0, 64, "reservations", "Most reservations at once; 0: none (R12)."),
    Setting("start_allowance_seconds", 60, 0, HOUR, "s", "What a reservation's time allows for each start (R12)."),
    Setting(
        "reservation_ban_seconds",
        DAY,
        0,
        30 * DAY,
        "s",
        "How long an author who cancels a reserved workload reserves nothing (R12).",
    ),
    Setting(
        "save_for_head",
        0,
        0,
        1,
        "0 or 1",
        "1: behind a head without a reservation, its project's work runs unallocated, to save for it (R12).",
    ),
    Setting("min_runtime_min_seconds", 0, 0, 30 * DAY, "s", "Shortest minimum runtime allowed (R14)."),
    Setting("min_runtime_max_seconds", 8 * HOUR, 0, 30 * DAY, "s", "Longest minimum runtime allowed (R14)."),
)
POLICY_SETTINGS: dict[str, Setting] = {setting.name: setting for setting in _TABLE}
LEAF_ORDER = "leaf_order"
LEAF_ORDER_WORDS = "What work inside one project is ordered by, first key first (R8)."


def policy_defaults() -> dict[str, Any]:
    """Every setting at its default."""
    return {LEAF_ORDER: list(LEAF_KEYS), **{setting.name: setting.default for setting in _TABLE}}


def policy_problems(overrides: dict[str, Any]) -> list[FieldError]:
    """A complaint for each override that is unknown or out of its bounds, all together."""
    problems = []
    for name, value in overrides.items():
        problem = _leaf_problem(value) if name == LEAF_ORDER else _number_problem(name, value)
        if problem:
            problems.append(FieldError(name, "invalid", f"{name} {problem}."))
    values = {**policy_defaults(), **overrides}
    if not problems and values["min_runtime_min_seconds"] > values["min_runtime_max_seconds"]:
        sentence = "min_runtime_min_seconds must not be above min_runtime_max_seconds."
        problems.append(FieldError("min_runtime_min_seconds", "invalid", sentence))
    return problems


def _leaf_problem(value: Any) -> str | None:
    known = isinstance(value, list | tuple) and all(key in LEAF_KEYS for key in value)
    if not known or len(set(value)) != len(value):
        return f"must be some of {', '.join(LEAF_KEYS)}, each once"
    return None


def _number_problem(name: str, value: Any) -> str | None:
    setting = POLICY_SETTINGS.get(name)
    if setting is None:
        return f"is no setting; the settings are {', '.join([LEAF_ORDER, *POLICY_SETTINGS])}"
    if value is None:
        return None if setting.optional else "must be set"
    if not isinstance(value, int) or isinstance(value, bool):
        return f"must be a whole number of {setting.unit}"
    if not setting.least <= value <= setting.most:
        return f"must be between {setting.least} and {setting.most} {setting.unit}"
    return None
