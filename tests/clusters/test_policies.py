"""The portal's table of settings and the scheduler's are one."""

import pytest

from portal.clusters.policies import LEAF_ORDER, POLICY_SETTINGS, policy_defaults, policy_problems
from scheduler.types import POLICY_BOUNDS, Policy


def test_the_portal_and_the_scheduler_have_the_same_settings_and_defaults() -> None:
    defaults = policy_defaults()
    assert Policy(**{**defaults, LEAF_ORDER: tuple(defaults[LEAF_ORDER])}) == Policy()
    assert set(defaults) == {*POLICY_BOUNDS, LEAF_ORDER}


@pytest.mark.parametrize("name", sorted(POLICY_BOUNDS))
def test_bounds_are_the_same(name: str) -> None:
    bound, setting = POLICY_BOUNDS[name], POLICY_SETTINGS[name]
    assert (setting.least, setting.most, setting.unit, setting.optional) == (
        bound.least,
        bound.most,
        bound.unit,
        bound.optional,
    )


@pytest.mark.parametrize("value", [3599, 366 * 86_400 + 1, 7.5, True, "7", None, float("nan")])
def test_a_lookback_out_of_bounds_or_no_whole_number_is_refused(value: object) -> None:
    assert [problem.attr for problem in policy_problems({"lookback_seconds": value})] == ["lookback_seconds"]


def test_the_bounds_themselves_are_allowed() -> None:
    assert policy_problems({"lookback_seconds": 3600, "half_life_seconds": None, LEAF_ORDER: ["submitted"]}) == []


def test_all_wrong_settings_are_named_together() -> None:
    problems = policy_problems({"no_such": 1, "express_gpus": -1, LEAF_ORDER: ["age"]})
    assert {problem.attr for problem in problems} == {"no_such", "express_gpus", LEAF_ORDER}


def test_a_shortest_minimum_runtime_above_the_longest_is_refused() -> None:
    assert policy_problems({"min_runtime_min_seconds": 7200, "min_runtime_max_seconds": 3600})
