"""R2. Quota, usage and balance over the lookback window."""

import math

import pytest

from scheduler import events
from tests.scheduler.world import DAY, HOUR, T0, WEEK, World, balance_of, started, wait_of


def build_one(percent: float | None = 50, hosts: int = 1, at: int = T0 - 2 * WEEK, **policy: int) -> World:
    world = World(hosts=hosts, **policy)
    world.project("nlp", percent, at=at)
    return world


def test_the_quota_is_share_times_schedulable_gpus_over_the_window() -> None:
    assert balance_of(build_one(), "nlp").quota_gpu_seconds == 4 * WEEK


def test_the_quota_follows_the_capacity_at_each_moment() -> None:
    world = build_one(hosts=2)
    world.capacity.append({"at": T0 - DAY, "gpus": 8})
    assert balance_of(world, "nlp").quota_gpu_seconds == (6 * DAY * 16 + DAY * 8) // 2


def test_the_quota_follows_the_share_at_each_moment() -> None:
    world = build_one()
    world.budget("nlp", 25, at=T0 - DAY)
    assert balance_of(world, "nlp").quota_gpu_seconds == 6 * DAY * 4 + DAY * 2


def test_a_young_cluster_has_the_quota_of_a_whole_window() -> None:
    world = build_one(at=T0 - HOUR)
    world.capacity = [{"at": T0 - HOUR, "gpus": 8}]
    assert balance_of(world, "nlp").quota_gpu_seconds == 4 * WEEK


def test_a_cluster_without_a_past_uses_present_values() -> None:
    world = build_one(at=T0)
    world.capacity = [{"at": T0, "gpus": 8}]
    assert balance_of(world, "nlp").quota_gpu_seconds == 4 * WEEK


def test_time_without_a_schedulable_gpu_does_not_count_against_anybody() -> None:
    world = build_one()
    world.capacity += [{"at": T0 - 3 * DAY, "gpus": 0}, {"at": T0 - DAY, "gpus": 8}]
    assert balance_of(world, "nlp").quota_gpu_seconds == 4 * WEEK


def test_of_the_time_before_the_first_budget_one_day_counts() -> None:
    assert balance_of(build_one(at=T0), "nlp").quota_gpu_seconds == 4 * DAY
    assert balance_of(build_one(at=T0 - DAY), "nlp").quota_gpu_seconds == 4 * 2 * DAY


def test_the_day_before_the_first_budget_is_a_policy() -> None:
    assert balance_of(build_one(at=T0, first_budget_seconds=2 * DAY), "nlp").quota_gpu_seconds == 8 * DAY


def test_balance_is_what_is_left_of_the_quota() -> None:
    world = build_one()
    world.charge("nlp", 3 * WEEK, ago=0)
    assert balance_of(world, "nlp").balance_ppm == 250_000


def test_usage_includes_the_unserved_minimum_runtime_of_running_work() -> None:
    world = build_one()
    world.run("nlp", gpus=2, contract=2 * HOUR, ran=HOUR // 2)
    assert balance_of(world, "nlp").usage_gpu_seconds == 2 * 2 * HOUR


def test_usage_includes_the_whole_minimum_runtime_of_starting_and_held_work() -> None:
    world = build_one()
    world.run("nlp", gpus=1, contract=HOUR, running_at=-1)
    world.run("nlp", gpus=2, contract=HOUR, running_at=-1, segments_at=-1, segment_at=-1)
    assert balance_of(world, "nlp").usage_gpu_seconds == 3 * HOUR


def test_unallocated_work_is_not_in_the_usage() -> None:
    world = build_one()
    world.run("nlp", gpus=8, contract=0, ran=10 * HOUR, standing=3)
    assert balance_of(world, "nlp").usage_gpu_seconds == 0
    assert balance_of(world, "nlp").unallocated_gpu_seconds == 80 * HOUR


def test_usage_is_exactly_zero_once_outside_the_window() -> None:
    world = build_one()
    world.charge("nlp", 1_000_000, ago=HOUR)
    world.wait(365 * DAY)
    assert balance_of(world, "nlp").usage_gpu_seconds == 0


def test_no_budget_is_never_funded_and_is_not_a_number() -> None:
    world = build_one(percent=None)
    workload = world.submit("nlp", allow_unallocated=False, contract=2 * HOUR)
    decision = world.decide()
    assert balance_of(world, "nlp").balance_ppm is None
    assert started(decision) == []
    assert wait_of(decision, workload).code == "no_budget"


def test_no_share_now_is_never_funded_even_with_a_quota() -> None:
    world = build_one()
    world.budget("nlp", 0, at=T0)
    workload = world.submit("nlp", allow_unallocated=False)
    assert wait_of(world.decide(), workload).code == "no_budget"


def test_a_cut_budget_makes_no_debt_for_the_time_under_the_old_one() -> None:
    world = build_one()
    world.charge("nlp", 4 * DAY * 3, ago=0)
    world.budget("nlp", 25, at=T0)
    balance = balance_of(world, "nlp")
    assert balance.quota_gpu_seconds == 4 * WEEK
    assert balance.usage_gpu_seconds == 4 * DAY * 3


def test_the_past_of_a_deleted_project_stays_with_its_ancestors() -> None:
    world = World()
    world.project("lab", 50)
    world.project("nlp", 50, parent="lab")
    state = world.state
    state.paths.append((10, 10 + world.names["lab"], 999))
    state.charged.add({"path": 0, "author": 1, "start_at": T0 - HOUR, "end_at": T0, "gpus": 2})
    assert balance_of(world, "lab").usage_gpu_seconds == 2 * HOUR
    assert balance_of(world, "lab", own=True).usage_gpu_seconds == 0


def test_with_a_half_life_a_second_weighs_less_with_its_age() -> None:
    half = 300
    world = build_one(half_life_seconds=half, lookback_seconds=DAY)
    world.state.charged.add(
        {
            "path": world.state.path_number(1),
            "author": 1,
            "start_at": T0 - half - 1000,
            "end_at": T0 - half,
            "gpus": 1000,
        }
    )
    weight = half / math.log(2)
    expected = 1000 * weight * (0.5 - 2 ** (-(half + 1000) / half))
    assert balance_of(world, "nlp").usage_gpu_seconds == pytest.approx(expected, abs=0.51)
    whole = weight * (1 - 2 ** (-DAY / half))
    assert balance_of(world, "nlp").quota_gpu_seconds == pytest.approx(4 * whole, abs=0.51)


def test_with_a_half_life_time_without_a_gpu_leaves_the_quota_as_it_was_however_long_it_lasts() -> None:
    # It ended in an error: what weighs 2^-1440 is no number that a machine holds.
    quotas = []
    for away in (HOUR, DAY):
        world = build_one(half_life_seconds=60)
        world.capacity.append({"at": T0 - away, "gpus": 0})
        quotas.append(balance_of(world, "nlp").quota_gpu_seconds)
    assert quotas == [math.floor(4 * 60 / math.log(2) + 0.5)] * 2


def test_with_a_half_life_the_unserved_remainder_weighs_one() -> None:
    world = build_one(half_life_seconds=300)
    world.run("nlp", gpus=2, contract=HOUR, running_at=-1, segments_at=-1, segment_at=-1)
    assert balance_of(world, "nlp").usage_gpu_seconds == 2 * HOUR


def test_decay_follows_the_clock_and_not_the_number_of_passes() -> None:
    often, once = build_one(half_life_seconds=900), build_one(half_life_seconds=900)
    for world in (often, once):
        world.charge("nlp", 100_000, ago=0)
    for _ in range(3):
        often.wait(60)
        often.go()
    once.wait(180)
    assert balance_of(often, "nlp").usage_gpu_seconds == balance_of(once, "nlp").usage_gpu_seconds


def test_a_clock_that_steps_back_makes_nothing_grow() -> None:
    world = build_one()
    world.run("nlp", gpus=2, contract=HOUR, ran=600)
    before = balance_of(world, "nlp").usage_gpu_seconds
    world.wait(-300)
    assert balance_of(world, "nlp").usage_gpu_seconds <= before
    world.wait(-3000)
    assert balance_of(world, "nlp").usage_gpu_seconds == 2 * HOUR


def test_capacity_that_comes_and_goes_is_remembered_by_a_kept_state() -> None:
    world = build_one()
    world.wait(DAY)
    events.cordon(world.state, 100)
    world.wait(DAY)
    # Six of seven days with 8 GPUs, none since: scaled up to the whole window.
    assert balance_of(world, "nlp").quota_gpu_seconds == 4 * WEEK
