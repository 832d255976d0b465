"""A cluster's policy in a scenario: every setting of section 3, in its own unit or a handier one, and who decides."""

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from portal.simulations.scenarios.values import Values, shown
from scheduler.policy import LEAF_KEYS, POLICY_BOUNDS, Policy
from scheduler.simulation.setup import Scheduler

UNITS = {
    "_seconds": {"_seconds": 1, "_s": 1, "_minutes": 60, "_hours": 3600, "_days": 86_400},
    "_ppm": {"_ppm": 1, "_percent": 10_000},
}
"""How a setting may be spelt, and what one of that unit is in its own: lookback_seconds is also lookback_days."""

LEAF_ORDER = "leaf_order"
SETTINGS = tuple(entry.name for entry in fields(Policy))
OWN_KEYS = ("scheduler", "pass_interval_s", "max_gpus_per_user", "project_limit_workloads")
DAY_SECONDS = 86_400
GPUS_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    """Who decides, and by what."""

    scheduler: Scheduler
    policy: Policy
    pass_interval_seconds: int
    max_gpus_per_user: int | None
    project_limit_workloads: int | None


def spellings(setting: str) -> dict[str, int]:
    """Every key under which a setting may be given, with its factor."""
    for ending, units in UNITS.items():
        if setting.endswith(ending):
            return {setting.removesuffix(ending) + unit: factor for unit, factor in units.items()}
    return {setting: 1}


SPELLINGS = {key: (setting, factor) for setting in SETTINGS for key, factor in spellings(setting).items()}
DOCUMENTED = (*OWN_KEYS, *SETTINGS)


def read_policy(values: Values) -> ClusterPolicy:
    """A policy with the defaults of section 3 where nothing is given."""
    _allow(values)
    chosen: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for key in values.given:
        if key in SPELLINGS:
            setting = SPELLINGS[key][0]
            if setting in keys:
                values.wrong(key, f"is {keys[setting]} under another name; give one of them")
            keys[setting] = key
            if setting != LEAF_ORDER:
                chosen[setting] = _setting(values, key, setting)
    if LEAF_ORDER in values:
        chosen[LEAF_ORDER] = _leaf_order(values)
    policy = Policy(**chosen)
    if policy.min_runtime_min_seconds > policy.min_runtime_max_seconds:
        values.wrong("min_runtime_min_seconds", "must not be above min_runtime_max_seconds")
    return ClusterPolicy(
        scheduler=Scheduler(values.text("scheduler", Scheduler.BUDGETS.value, valid=[one.value for one in Scheduler])),
        policy=policy,
        pass_interval_seconds=values.whole("pass_interval_s", 10, 1, DAY_SECONDS),
        max_gpus_per_user=values.whole_or_none("max_gpus_per_user", None, 1, GPUS_MAX),
        project_limit_workloads=values.whole_or_none("project_limit_workloads", None, 1, GPUS_MAX),
    )


def _allow(values: Values) -> None:
    """Unknown ones are answered with the list of settings, not with every spelling of each."""
    known = Values(values.place, {key: 0 for key in values.given if key not in SPELLINGS}, values.problems)
    known.allow(DOCUMENTED, more=" (for _seconds also _s, _minutes, _hours or _days; for _ppm also _percent)")


def _setting(values: Values, key: str, setting: str) -> int | None:
    """A setting in its own unit; parts of that unit round down, as budgets do."""
    given, bound, default = values.given[key], POLICY_BOUNDS[setting], getattr(Policy(), setting)
    if given is None and bound.optional:
        return None
    factor = SPELLINGS[key][1]
    if isinstance(given, bool) and setting == "save_for_head":
        return int(given)
    before = len(values.problems.found)
    number = values.number(key, 0, bound.least / factor, bound.most / factor)
    if len(values.problems.found) > before:
        return default  # type: ignore[no-any-return]
    exact = Decimal(repr(number)) * factor
    if factor == 1 and exact != int(exact):
        values.wrong(key, f"must be a whole number of {bound.unit}, not {number}")
    return int(exact)


def _leaf_order(values: Values) -> tuple[str, ...]:
    given = values.given[LEAF_ORDER]
    if not isinstance(given, list) or any(key not in LEAF_KEYS for key in given) or len(set(given)) != len(given):
        values.wrong(LEAF_ORDER, f"must be a list of some of {', '.join(LEAF_KEYS)}, each once, not {shown(given)}")
        return LEAF_KEYS
    return tuple(given)
