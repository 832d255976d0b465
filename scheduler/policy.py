"""The bounded settings of a cluster: every "(policy)" of R1 to R16 that is in force."""

from __future__ import annotations

from dataclasses import dataclass, fields

HOUR = 3600
DAY = 24 * HOUR

LEAF_KEYS = ("priority", "author_usage", "submitted")
"""What work inside one project can be ordered by (R8)."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The range of one setting, both ends included, and what it does."""

    least: int
    most: int
    unit: str
    sentence: str
    optional: bool = False  # None is allowed and switches it off


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings with SPEC.md's defaults. None switches an optional one off."""

    lookback_seconds: int = 7 * DAY
    half_life_seconds: int | None = None
    first_budget_seconds: int = DAY
    start_limit_seconds: int = 600
    return_margin_ppm: int = 10_000
    overdraw_limit_ppm: int = 1_000_000
    express_gpus: int = 8
    express_seconds: int = 900
    express_floor_seconds: int = 300
    express_share_ppm: int = 50_000
    leaf_order: tuple[str, ...] = LEAF_KEYS
    unallocated_cap_gpus: int | None = None
    licence_floor_seconds: int = 1800
    licence_margin_ppm: int = 20_000
    lost_cap_seconds: int = HOUR
    grace_allocated_seconds: int = 60
    grace_unallocated_seconds: int = 10
    silence_seconds: int = 120
    host_gone_seconds: int = 60
    taker_ban_seconds: int = HOUR
    reservations_most: int = 4
    start_allowance_seconds: int = 60
    reservation_ban_seconds: int = DAY
    save_for_head: int = 0
    min_runtime_min_seconds: int = 0
    min_runtime_max_seconds: int = 8 * HOUR


POLICY_BOUNDS: dict[str, Bound] = {
    "lookback_seconds": Bound(HOUR, 366 * DAY, "s", "Lookback window: how long charged usage counts (R2)."),
    "half_life_seconds": Bound(
        60,
        366 * DAY,
        "s",
        "Half-life: usage and quota of that age weigh half; off: all weigh 1 (R2).",
        optional=True,
    ),
    "first_budget_seconds": Bound(
        0, 366 * DAY, "s", "How much of the time before a project's first budget counts (R2)."
    ),
    "start_limit_seconds": Bound(
        30, DAY, "s", "A gang not running this long after its segments' start has failed (R4)."
    ),
    "return_margin_ppm": Bound(0, 1_000_000, "ppm", "Balance above which unallocated work returns to the budget (R6)."),
    "overdraw_limit_ppm": Bound(
        0, 10_000_000, "ppm", "How far below 0 a contract, once charged, may push a balance (R7)."
    ),
    "express_gpus": Bound(0, 1024, "GPUs", "Largest express start; 0 switches express off (R7)."),
    "express_seconds": Bound(0, 4 * HOUR, "s", "Longest minimum runtime of an express start (R7)."),
    "express_floor_seconds": Bound(0, 4 * HOUR, "s", "What an express start counts as at least (R7)."),
    "express_share_ppm": Bound(0, 1_000_000, "ppm", "Part of a project's quota that express starts may use (R7)."),
    "unallocated_cap_gpus": Bound(
        0, 1_000_000, "GPUs", "Most GPUs that one project runs unallocated (R8).", optional=True
    ),
    "licence_floor_seconds": Bound(
        0, 8 * HOUR, "s", "What a contract counts as at least when it asks for another branch's funded GPUs (R9)."
    ),
    "licence_margin_ppm": Bound(
        1_000, 1_000_000, "ppm", "By how much balance it must lead, once charged, to take them (R9)."
    ),
    "lost_cap_seconds": Bound(0, DAY, "s", "Most time since a checkpoint that counts as lost by a preemption (R10)."),
    "grace_allocated_seconds": Bound(
        0, HOUR, "s", "From the warning signal to the kill, for allocated attempts (R11)."
    ),
    "grace_unallocated_seconds": Bound(
        0, HOUR, "s", "From the warning signal to the kill, for unallocated attempts (R11)."
    ),
    "silence_seconds": Bound(10, HOUR, "s", "A host that has not freed killed work for this long is unhealthy (R11)."),
    "host_gone_seconds": Bound(30, HOUR, "s", "A host that is unheard for this long is gone (R15)."),
    "taker_ban_seconds": Bound(0, 7 * DAY, "s", "How long an author who wastes what was taken takes nothing (R11)."),
    "reservations_most": Bound(0, 64, "reservations", "Most reservations at once; 0 switches them off (R12)."),
    "start_allowance_seconds": Bound(0, HOUR, "s", "What a reservation's time allows for each start (R12)."),
    "reservation_ban_seconds": Bound(
        0, 30 * DAY, "s", "How long an author who cancels a reserved workload reserves nothing (R12)."
    ),
    "save_for_head": Bound(
        0, 1, "0 or 1", "1: behind a head without a reservation, its project's work runs unallocated (R12)."
    ),
    "min_runtime_min_seconds": Bound(0, 30 * DAY, "s", "Shortest minimum runtime allowed (R14)."),
    "min_runtime_max_seconds": Bound(0, 30 * DAY, "s", "Longest minimum runtime allowed (R14)."),
}
"""Range, unit and sentence of every numeric setting, by field name."""


def list_problems(policy: Policy) -> list[tuple[str, str]]:
    """(field, sentence) of each setting outside its bounds; empty when the policy is sound."""
    problems = []
    for entry in fields(policy):
        bound = POLICY_BOUNDS.get(entry.name)
        if bound is not None:
            problem = _check_number(getattr(policy, entry.name), bound)
            if problem:
                problems.append((entry.name, problem))
    if not set(policy.leaf_order) <= set(LEAF_KEYS) or len(set(policy.leaf_order)) != len(policy.leaf_order):
        problems.append(("leaf_order", f"must be some of {', '.join(LEAF_KEYS)}, each once"))
    if policy.min_runtime_min_seconds > policy.min_runtime_max_seconds:
        problems.append(("min_runtime_min_seconds", "must not be above min_runtime_max_seconds"))
    return problems


def _check_number(value: object, bound: Bound) -> str | None:
    if value is None:
        return None if bound.optional else "must be set"
    if not isinstance(value, int) or isinstance(value, bool):
        return f"must be a whole number of {bound.unit}"
    if not bound.least <= value <= bound.most:
        return f"must be between {bound.least} and {bound.most} {bound.unit}"
    return None
