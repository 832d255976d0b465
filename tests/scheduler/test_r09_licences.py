"""R9 (b), (c). Funded work past its minimum: who may take it, and what follows."""

import pytest

from scheduler import events
from scheduler.types import Preempt, Standing
from tests.scheduler.published_vectors import VECTORS
from tests.scheduler.world import DAY, HOUR, T0, WEEK, World, balance_of, preempted, returned, start_of, started

FUNDED = Standing.FUNDED


def build_world(hosts: int = 1, **policy: int) -> World:
    world = World(hosts=hosts, **policy)
    world.project("nlp", 50)
    world.project("vision", 50)
    return world


QUOTA = 4 * WEEK
"""GPU-seconds of each of the two, on one host of 8."""


# ---------------------------------------------------------------- (b)


@pytest.mark.parametrize(("priority", "taken"), [(0, False), (1, True)])
def test_its_own_projects_past_minimum_work_is_taken_by_higher_priority_only(priority: int, taken: bool) -> None:
    world = build_world()
    attempt = world.run("nlp", gpus=8, contract=60, ran=HOUR, standing=FUNDED)
    world.submit("nlp", gpus=8, priority=priority)
    assert preempted(world.go()) == ([attempt] if taken else [])


def test_priority_counts_for_nothing_against_another_project() -> None:
    world = build_world()
    world.charge("vision", 1000, ago=2 * HOUR)
    world.run("nlp", gpus=8, contract=60, ran=60, standing=FUNDED, priority=-9)
    world.submit("vision", gpus=8, priority=99, contract=DAY)
    assert preempted(world.go()) == []


def test_protected_work_of_its_own_project_is_never_taken() -> None:
    world = build_world()
    world.run("nlp", gpus=8, contract=DAY, ran=HOUR)
    world.submit("nlp", gpus=8, priority=9)
    assert preempted(world.go()) == []


def test_work_that_matures_in_this_very_decision_can_be_taken() -> None:
    world = build_world()
    attempt = world.run("nlp", gpus=8, contract=HOUR, ran=HOUR)
    world.submit("nlp", gpus=8, priority=9)
    assert preempted(world.go()) == [attempt]


# ---------------------------------------------------------------- (c)


def lead(margin_ppm: int, contract: int = HOUR) -> World:
    """vision, charged for a contract on 8 GPUs, would lead nlp by that margin, to the second."""
    world = build_world(overdraw_limit_ppm=0)
    used = QUOTA // 4
    world.run("nlp", gpus=8, contract=60, ran=HOUR, standing=FUNDED)
    world.charge("nlp", used + QUOTA * margin_ppm // 10**6 - 8 * HOUR, ago=2 * HOUR)
    world.charge("vision", used - 8 * contract, ago=2 * HOUR)
    return world


@pytest.mark.parametrize(("margin_ppm", "taken"), [(20_000, True), (19_999, False)])
def test_a_branch_is_taken_from_by_one_that_leads_by_the_margin_once_charged(margin_ppm: int, taken: bool) -> None:
    world = lead(margin_ppm)
    world.submit("vision", gpus=8, contract=HOUR)
    assert bool(preempted(world.go())) == taken


def test_a_contract_of_a_second_counts_as_half_an_hour() -> None:
    world = lead(20_000, contract=1800)
    world.submit("vision", gpus=8, contract=1, first_start=False)
    assert preempted(world.go()) != []
    world = lead(20_000, contract=1799)
    world.submit("vision", gpus=8, contract=1, first_start=False)
    assert preempted(world.go()) == []


def test_the_balances_are_compared_where_the_two_paths_part() -> None:
    world = World(gpus=8)
    world.project("lab", 50)
    world.project("robots", 50)
    world.project("nlp", 50, parent="lab")
    world.project("vision", 50, parent="lab")
    world.charge("vision", 2 * WEEK - 8 * HOUR, ago=2 * HOUR)  # the lab is at half, vision near 0
    world.run("robots", gpus=8, contract=60, ran=HOUR, standing=FUNDED)
    world.submit("nlp", gpus=8)  # nlp itself is untouched, but its lab has used more than robots
    assert preempted(world.go()) == []


def test_siblings_deep_in_the_tree_are_compared_with_each_other() -> None:
    world = World(gpus=8)
    world.project("lab", 50)
    world.project("nlp", 50, parent="lab")
    world.project("vision", 50, parent="lab")
    world.charge("vision", WEEK, ago=2 * HOUR)
    attempt = world.run("vision", gpus=8, contract=60, ran=HOUR, standing=FUNDED)
    world.submit("nlp", gpus=8)
    assert preempted(world.go()) == [attempt]


def test_a_victim_gets_the_grace_of_allocated_work_and_a_reason() -> None:
    world = lead(100_000)
    world.submit("vision", gpus=8, contract=HOUR)
    action = next(one for one in world.go().actions if isinstance(one, Preempt))
    assert action.grace_seconds == 60
    assert action.reason.code == "taken_less_deserving"


def test_nothing_is_refunded_and_nothing_more_is_charged() -> None:
    world = lead(100_000)
    before = balance_of(world, "nlp").usage_gpu_seconds
    world.submit("vision", gpus=8, contract=HOUR)
    world.go()
    world.wait(60)
    after = balance_of(world, "nlp")
    assert after.usage_gpu_seconds == before
    assert after.allocated_gpus == 0


def test_the_next_candidate_is_taken_when_the_first_is_protected() -> None:
    world = build_world()
    world.charge("nlp", QUOTA // 2, ago=2 * HOUR)
    world.run("nlp", gpus=4, contract=DAY, ran=60)
    second = world.run("nlp", gpus=4, contract=60, ran=HOUR, standing=FUNDED)
    world.submit("vision", gpus=4)
    assert preempted(world.go()) == [second]


def test_the_least_lost_work_goes_first_whatever_the_licence() -> None:
    world = build_world(hosts=2)
    world.charge("nlp", QUOTA, ago=2 * HOUR)
    world.run("nlp", gpus=8, contract=0, ran=3000, standing=Standing.UNALLOCATED, on={0: 1})
    saved = world.run("nlp", gpus=8, contract=60, ran=3000, standing=FUNDED, on={1: 1})
    events.checkpoint(world.state, saved)
    world.submit("vision", gpus=8)
    assert preempted(world.go()) == [saved]


def test_one_host_may_hold_victims_of_several_licences() -> None:
    world = build_world()
    world.charge("nlp", QUOTA // 2, ago=2 * HOUR)
    free = world.run("nlp", gpus=2, contract=0, ran=60, standing=Standing.UNALLOCATED)
    own = world.run("vision", gpus=2, contract=60, ran=60, standing=FUNDED)
    other = world.run("nlp", gpus=4, contract=60, ran=60, standing=FUNDED)
    asker = world.submit("vision", gpus=8, priority=1)
    assert start_of(world.go(), asker).victims == (free, own, other)


def test_a_gang_takes_over_several_hosts_by_licence() -> None:
    world = build_world(hosts=3)
    world.charge("nlp", QUOTA, ago=2 * HOUR)
    gang = world.run("nlp", gpus=8, contract=60, ran=HOUR, standing=FUNDED, on={0: 1, 1: 1})
    asker = world.submit("vision", gpus=8, replicas=3)
    assert start_of(world.go(), asker).victims == (gang,)


def test_an_express_start_needs_the_licence_too() -> None:
    world = build_world()
    world.charge("vision", QUOTA - 1, ago=2 * HOUR)
    world.run("nlp", gpus=8, contract=60, ran=HOUR, standing=FUNDED)
    world.submit("vision", gpus=8, contract=300)
    assert preempted(world.go()) == []


def test_a_licence_that_a_later_start_brings_is_used_in_the_same_decision() -> None:
    # vision asks first and does not lead yet; nlp's own start, later in the walk, changes that.
    world = build_world(hosts=2)
    attempt = world.run("nlp", gpus=8, contract=60, ran=60, standing=FUNDED, on={0: 1})
    asker = world.submit("vision", gpus=8, contract=HOUR, first_submit_at=T0 - DAY)
    world.run("vision", gpus=4, contract=HOUR, ran=60, on={1: 1})
    large = world.submit("nlp", gpus=4, contract=DAY)
    decision = world.go()
    assert set(started(decision)) == {large, asker}
    assert preempted(decision) == [attempt]


# ---------------------------------------------------------------- no loops


@pytest.mark.parametrize("asked", [6, 5, 4, 3])
def test_four_gangs_of_two_against_a_larger_one_settle(asked: int) -> None:
    world = build_world()
    world.charge("nlp", QUOTA // 10, ago=2 * HOUR)
    for _ in range(4):
        world.run("nlp", gpus=2, contract=HOUR, ran=HOUR, standing=FUNDED)
    world.submit("vision", gpus=asked, contract=2 * HOUR)
    times = 0
    for _ in range(2 * 60 - 1):
        times += len(preempted(world.go()))
        world.wait(60)
        world.free_stopped()
        world.go()
        world.start_all()
    assert times == -(-asked // 2)  # and nothing more before the minimum runtime is over


def test_two_projects_take_turns_and_never_faster_than_their_minimum_runtimes() -> None:
    world = build_world()
    for name in ("nlp", "vision"):
        world.submit(name, gpus=8, contract=HOUR)
    times = 0
    for _ in range(24 * 6):
        times += len(preempted(world.go()))
        world.free_stopped()
        world.go()
        world.start_all()
        world.wait(600)
    assert 1 <= times <= 24
    used = [balance_of(world, name).usage_gpu_seconds for name in ("nlp", "vision")]
    assert abs(used[0] - used[1]) <= QUOTA * 2 // 100 + 2 * 8 * HOUR


def test_what_returns_and_is_taken_at_one_instant_never_returned() -> None:
    world = build_world()
    world.run("nlp", gpus=8, contract=60, ran=HOUR, standing=Standing.UNALLOCATED)
    world.submit("vision", gpus=8, contract=HOUR)
    decision = world.go()
    assert len(preempted(decision)) + len(returned(decision)) == 1


# ---------------------------------------------------------------- published outcomes


def test_a_queue_below_its_guarantee_gets_it_and_preemption_stops_there() -> None:
    # 12 GPUs, two equal budgets, one holds 10 past their minimum, the other wants 10 beside its 2.
    vector = VECTORS["yunikorn_preemption"]["input"][1]
    world = World(gpus=vector["total"])
    world.project("q1", 50, burst=vector["queues"]["q1"]["max"])
    world.project("q2", 50, burst=vector["queues"]["q2"]["max"])
    for _ in range(vector["queues"]["q1"]["using"]):
        world.run("q1", gpus=1, contract=HOUR, ran=HOUR, standing=FUNDED)
    for _ in range(vector["queues"]["q2"]["using"]):
        world.run("q2", gpus=1, contract=8 * HOUR, ran=HOUR)
    for _ in range(vector["queues"]["q2"]["wants"]):
        world.submit("q2", gpus=1, contract=HOUR)
    for _ in range(vector["queues"]["q1"]["using"]):
        world.submit("q1", gpus=1, contract=HOUR)
    held = []
    for _ in range(7 * 24):
        world.free_stopped()
        world.go()
        world.start_all()
        world.wait(HOUR)
        held.append([balance_of(world, name).usage_gpu_seconds for name in ("q1", "q2")])
    # Over the window both come to their half, as there; from hour to hour they take turns.
    assert held[-1][0] == pytest.approx(held[-1][1], rel=0.05)


def test_lower_priority_never_stops_higher() -> None:
    world = World(gpus=18)
    for name in ("high", "normal", "low"):
        world.project(name, 33)
    for _ in range(6):
        world.run("normal", gpus=3, contract=HOUR, ran=HOUR, standing=FUNDED, priority=0)
    world.submit("normal", gpus=3, priority=-100)
    assert preempted(world.go()) == []
