"""R8. The walk from the root; ties; the order inside a leaf; unallocated work."""

import pytest

from scheduler.types import Standing
from tests.scheduler.world import DAY, HOUR, T0, WEEK, World, preempted, returned, started


def build_world(gpus: int = 8, **policy: object) -> World:
    world = World(gpus=gpus, **policy)
    world.project("nlp", 50)
    world.project("vision", 50)
    return world


def test_the_child_with_the_highest_balance_starts_first() -> None:
    world = build_world(gpus=1)
    world.charge("nlp", 1000)
    world.submit("nlp", first_submit_at=T0 - DAY, priority=9)
    behind = world.submit("vision")
    assert started(world.go()) == [behind]


def test_balances_follow_each_start() -> None:
    world = build_world(gpus=4)
    nlp = [world.submit("nlp", first_submit_at=T0 - 100 + n) for n in range(4)]
    vision = [world.submit("vision", first_submit_at=T0 - 50 + n) for n in range(4)]
    assert started(world.go()) == [nlp[0], vision[0], nlp[1], vision[1]]


def test_the_walk_compares_siblings_and_not_leaves() -> None:
    world = World(gpus=1)
    world.project("lab", 50)
    world.project("robots", 50)
    world.project("nlp", 50, parent="lab")
    world.project("vision", 50, parent="lab")
    world.charge("vision", WEEK // 8)
    world.charge("robots", WEEK // 16)
    world.submit("nlp")  # untouched itself, but below lab, which has used more than robots
    robots = world.submit("robots")
    assert started(world.go()) == [robots]


def test_a_child_with_nothing_that_can_start_is_passed_over() -> None:
    world = build_world(gpus=4)
    world.submit("nlp", gpus=8)
    world.charge("vision", 1000)
    behind = world.submit("vision")
    assert started(world.go()) == [behind]


def test_equal_balances_fall_to_the_earlier_first_submit_of_what_would_start() -> None:
    world = build_world(gpus=1)
    world.submit("nlp", gpus=2, first_submit_at=T0 - 900)  # earliest, but it can't start
    world.submit("nlp", first_submit_at=T0 - 100)
    earlier = world.submit("vision", first_submit_at=T0 - 200)
    assert started(world.go()) == [earlier]


def test_equal_first_submits_fall_to_the_lower_id() -> None:
    world = build_world(gpus=1)
    first = world.submit("vision", first_submit_at=T0)
    world.submit("nlp", first_submit_at=T0)
    assert started(world.go()) == [first]


@pytest.mark.parametrize("seed", range(20))
def test_exactly_proportional_balances_tie(seed: int) -> None:
    # Shares in any proportion, use in the same proportion: unequal as floats more often than not.
    world = World(gpus=1)
    share = 7 + seed * 3
    world.project("nlp", share / 10)
    world.project("vision", 3 * share / 10)
    world.charge("nlp", 12_345 + seed)
    world.charge("vision", 3 * (12_345 + seed))
    world.submit("nlp", first_submit_at=T0 - 100)
    earlier = world.submit("vision", first_submit_at=T0 - 200)
    assert started(world.go()) == [earlier]


def test_siblings_at_40_20_50_25_and_50_25_tie_and_30_10_leads() -> None:
    world = World(gpus=1)
    for name, share in (("a", 40), ("b", 50), ("c", 50), ("d", 30)):
        world.project(name, share / 2)
    for name, used in (("a", 20), ("b", 25), ("c", 25), ("d", 10)):
        world.charge(name, used * 1000)
    order = []
    submitted = {name: world.submit(name, first_submit_at=T0 - n) for n, name in enumerate("abcd")}
    for _ in range(4):
        (workload,) = started(world.decide())
        order.append(next(name for name, number in submitted.items() if number == workload))
        row = world.state.pending.find("id", workload)
        world.state.pending.remove([row])
    assert order == ["d", "c", "b", "a"]


# ---------------------------------------------------------------- inside a leaf


def test_priority_orders_work_inside_a_project() -> None:
    world = build_world(gpus=1)
    world.submit("nlp", first_submit_at=T0 - DAY)
    urgent = world.submit("nlp", priority=5)
    assert started(world.go()) == [urgent]


def test_priority_comes_before_what_its_author_has_used() -> None:
    world = build_world(gpus=1)
    world.charge("nlp", 1000, author=2)
    world.submit("nlp", author=1, first_submit_at=T0 - DAY)
    urgent = world.submit("nlp", author=2, priority=5)
    assert started(world.go()) == [urgent]


def test_then_the_author_with_the_least_usage() -> None:
    world = build_world(gpus=1)
    world.charge("nlp", 1000, author=1)
    world.submit("nlp", author=1, first_submit_at=T0 - DAY)
    modest = world.submit("nlp", author=2)
    assert started(world.go()) == [modest]


def test_author_usage_follows_each_start() -> None:
    world = build_world(gpus=3)
    first = [world.submit("nlp", author=1, first_submit_at=T0 - 100 + n) for n in range(3)]
    second = world.submit("nlp", author=2)
    assert started(world.go()) == [first[0], second, first[1]]


def test_the_keys_inside_a_leaf_are_a_policy() -> None:
    world = build_world(gpus=1, leaf_order=("submitted",))
    world.submit("nlp", priority=9)
    oldest = world.submit("nlp", first_submit_at=T0 - DAY)
    assert started(world.go()) == [oldest]


def test_another_projects_usage_of_an_author_does_not_matter() -> None:
    world = build_world(gpus=1)
    world.charge("vision", 1000, author=1)
    older = world.submit("nlp", author=1, first_submit_at=T0 - DAY)
    world.submit("nlp", author=2)
    assert started(world.go()) == [older]


# ---------------------------------------------------------------- returns and the repeated walk


def test_a_return_takes_its_turn_like_a_start() -> None:
    world = World(gpus=8)
    world.project("nlp", 50, burst=4)
    attempt = world.run("nlp", gpus=4, contract=HOUR, ran=60, standing=Standing.UNALLOCATED)
    urgent = world.submit("nlp", gpus=4, priority=1)
    decision = world.go()
    assert started(decision, Standing.PROTECTED) == [urgent]
    assert returned(decision) == {}
    assert world.standing_of(attempt) == Standing.UNALLOCATED


def test_work_that_lapses_by_a_start_can_be_taken_in_the_same_decision() -> None:
    world = World(hosts=2)
    world.project("nlp", 50)
    world.project("vision", 50)
    world.charge("nlp", 8 * WEEK - HOUR, ago=3 * HOUR)
    past = world.run("nlp", gpus=8, contract=60, ran=60, standing=Standing.FUNDED, on={1: 1})
    world.state.hosts["schedulable"][0] = True
    small = world.submit("nlp", gpus=1, contract=2 * HOUR)
    world.charge("vision", 8 * WEEK - 2000, ago=3 * HOUR)
    large = world.submit("vision", gpus=8, contract=2 * HOUR)
    decision = world.go()
    assert started(decision, Standing.PROTECTED) == [small, large]
    assert preempted(decision) == [past]


# ---------------------------------------------------------------- unallocated work


def test_unallocated_work_comes_after_all_funded_work() -> None:
    world = build_world(gpus=1)
    world.submit("nlp", contract=0, first_submit_at=T0 - DAY)
    funded = world.submit("vision")
    assert started(world.go()) == [funded]


def test_unallocated_work_goes_by_unallocated_usage_over_share() -> None:
    world = World(gpus=1)
    world.project("nlp", 20)
    world.project("vision", 60)
    world.charge("nlp", 1000, standing="unallocated")
    world.charge("vision", 2900, standing="unallocated")
    world.submit("nlp", contract=0, first_submit_at=T0 - DAY)
    lighter = world.submit("vision", contract=0)
    assert started(world.go()) == [lighter]


def test_charged_usage_does_not_order_unallocated_work() -> None:
    world = build_world(gpus=1)
    world.charge("nlp", 10_000)
    older = world.submit("nlp", contract=0, first_submit_at=T0 - DAY)
    world.submit("vision", contract=0)
    assert started(world.go()) == [older]


def test_unallocated_usage_does_not_order_funded_work() -> None:
    world = build_world(gpus=1)
    world.charge("nlp", 10 * HOUR, standing="unallocated")
    older = world.submit("nlp", first_submit_at=T0 - DAY)
    world.submit("vision")
    assert started(world.go()) == [older]


def test_projects_without_a_share_come_last_as_equals() -> None:
    world = World(gpus=2)
    world.project("poor", None)
    world.project("bare", None)
    world.project("nlp", 1)
    world.charge("poor", 1000, standing="unallocated")
    world.charge("nlp", 9000, standing="unallocated")
    first = world.submit("poor", contract=0, first_submit_at=T0 - DAY)
    world.submit("bare", contract=0)
    shared = world.submit("nlp", contract=0)
    assert started(world.go()) == [shared, first]


def test_two_projects_without_a_budget_take_turns_by_first_submit_and_preempt_nobody() -> None:
    world = World()
    world.project("poor", None)
    world.project("bare", None)
    world.submit("poor", gpus=8)
    first = world.submit("bare", gpus=8, first_submit_at=T0 - 1)
    decision = world.go()
    assert started(decision, Standing.UNALLOCATED) == [first]
    assert started(decision, Standing.PROTECTED) == []
    world.wait(HOUR)
    assert preempted(world.go()) == []


def test_the_cap_on_unallocated_gpus_is_per_project() -> None:
    world = build_world(unallocated_cap_gpus=3)
    nlp = [world.submit("nlp", gpus=2, contract=0) for _ in range(2)]
    vision = [world.submit("vision", gpus=2, contract=0) for _ in range(2)]
    decision = world.go()
    assert sorted(started(decision)) == [nlp[0], vision[0]]
    assert {wait.reason.code for wait in decision.waits} == {"unallocated_cap"}
