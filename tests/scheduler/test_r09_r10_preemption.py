"""R9 (a), R10. Who may be taken, and which victims."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import events
from scheduler.types import NEVER, Preempt, Standing
from scheduler.victims import MANY, solve_cover
from tests.scheduler.world import DAY, HOUR, WEEK, World, preempted, returned, start_of, started

FREE = Standing.UNALLOCATED


def build_world(hosts: int = 1, **policy: int) -> World:
    world = World(hosts=hosts, **policy)
    world.project("nlp", 40)
    world.project("vision", 40)
    return world


def test_a_funded_start_takes_unallocated_work() -> None:
    world = build_world()
    attempt = world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE)
    workload = world.submit("vision", gpus=8)
    decision = world.go()
    assert preempted(decision) == [attempt]
    assert start_of(decision, workload).victims == (attempt,)


def test_an_unallocated_start_takes_nothing() -> None:
    world = build_world()
    world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE)
    world.submit("vision", gpus=8, contract=0)
    assert world.go().actions == ()


def test_funded_work_past_its_minimum_is_not_taken_under_a() -> None:
    world = build_world()
    world.run("nlp", gpus=8, contract=60, ran=HOUR, standing=Standing.FUNDED)
    world.submit("vision", gpus=8)
    assert world.go().actions == ()


@pytest.mark.parametrize(("priority", "taken"), [(1, False), (0, False), (-1, True)])
def test_lapsed_work_of_its_own_project_is_taken_only_if_it_has_lower_priority(priority: int, taken: bool) -> None:
    world = build_world()
    world.charge("nlp", 8 * WEEK * 4 // 10 - 15_000)  # a little balance, below the margin of a return
    world.run("nlp", gpus=8, contract=60, ran=HOUR, standing=FREE, lapsed=True, priority=priority)
    world.submit("nlp", gpus=8, contract=1000, first_start=False)
    decision = world.go()
    assert returned(decision) == {}
    assert bool(preempted(decision)) == taken


def test_unallocated_work_of_its_own_project_that_never_was_funded_can_be_taken() -> None:
    world = build_world()
    attempt = world.run("nlp", gpus=8, contract=0, ran=HOUR, standing=FREE, priority=9)
    world.submit("nlp", gpus=8)
    assert preempted(world.go()) == [attempt]


def test_an_express_start_may_take_lapsed_work_of_its_own_project() -> None:
    world = build_world()
    world.charge("nlp", 8 * WEEK)
    attempt = world.run("nlp", gpus=8, contract=60, ran=HOUR, standing=FREE, lapsed=True, priority=9)
    world.submit("nlp", gpus=8, contract=60)
    assert preempted(world.go()) == [attempt]


# ---------------------------------------------------------------- R10


def test_nothing_is_preempted_unless_the_whole_gang_then_fits() -> None:
    world = build_world(hosts=2)
    world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE, on={0: 1})
    world.run("nlp", gpus=1, contract=DAY, ran=60, on={1: 1})
    world.submit("vision", gpus=8, replicas=2)
    assert preempted(world.go()) == []


def test_idle_and_taken_hosts_are_combined() -> None:
    world = build_world(hosts=2)
    attempt = world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE, on={1: 1})
    workload = world.submit("vision", gpus=8, replicas=2)
    decision = world.go()
    assert start_of(decision, workload).placement == ((100, 1), (101, 1))
    assert preempted(decision) == [attempt]


def test_free_gpus_come_before_taken_ones() -> None:
    world = build_world(hosts=2)
    world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE, on={0: 1})
    workload = world.submit("vision", gpus=8)
    assert start_of(world.go(), workload).placement == ((101, 1),)


def test_victims_are_chosen_by_where_they_sit() -> None:
    world = build_world(hosts=2)
    world.run("nlp", gpus=7, contract=DAY, ran=60, on={0: 1})
    world.run("nlp", gpus=6, contract=DAY, ran=60, on={1: 1})
    world.run("nlp", gpus=1, contract=0, ran=1, standing=FREE, on={0: 1})
    here = world.run("nlp", gpus=2, contract=0, ran=HOUR, standing=FREE, on={1: 1})
    world.submit("vision", gpus=2)
    assert preempted(world.go()) == [here]


def test_the_least_lost_work_goes_first() -> None:
    world = build_world(hosts=2)
    world.run("nlp", gpus=8, contract=0, ran=3000, standing=FREE, on={0: 1})
    fresh = world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE, on={1: 1})
    world.submit("vision", gpus=8)
    assert preempted(world.go()) == [fresh]


def test_a_checkpoint_makes_a_victim_cheap() -> None:
    world = build_world(hosts=2)
    saved = world.run("nlp", gpus=8, contract=0, ran=3000, standing=FREE, on={0: 1})
    world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE, on={1: 1})
    events.checkpoint(world.state, saved)
    world.submit("vision", gpus=8)
    assert preempted(world.go()) == [saved]


def test_lost_time_counts_for_at_most_an_hour() -> None:
    world = build_world(hosts=2)
    older = world.run("nlp", gpus=8, contract=0, ran=50 * HOUR, standing=FREE, on={0: 1})
    world.run("nlp", gpus=8, contract=0, ran=2 * HOUR, standing=FREE, on={1: 1})
    world.submit("vision", gpus=8)
    assert preempted(world.go()) == [older]  # equal losses: the lower host


def test_whole_gangs_and_each_counted_once() -> None:
    world = build_world(hosts=3)
    gang = world.run("nlp", gpus=8, contract=0, ran=100, standing=FREE, on={0: 1, 1: 1})
    world.run("nlp", gpus=8, contract=0, ran=150, standing=FREE, on={2: 1})
    workload = world.submit("vision", gpus=8, replicas=2)
    decision = world.go()
    assert preempted(decision) == [gang]
    assert start_of(decision, workload).placement == ((100, 1), (101, 1))


def test_victims_that_turn_out_needless_are_dropped() -> None:
    world = build_world(hosts=3)
    world.run("nlp", gpus=8, contract=0, ran=10, standing=FREE, on={2: 1})
    gang = world.run("nlp", gpus=8, contract=0, ran=12, standing=FREE, on={0: 1, 1: 1})
    world.submit("vision", gpus=8, replicas=2)
    assert preempted(world.go()) == [gang]


def test_the_first_candidate_protected_goes_on_to_the_second() -> None:
    world = build_world()
    world.run("nlp", gpus=4, contract=DAY, ran=60)
    second = world.run("nlp", gpus=4, contract=0, ran=HOUR, standing=FREE)
    world.submit("vision", gpus=4)
    assert preempted(world.go()) == [second]


def test_freed_gpus_are_held_for_the_asker() -> None:
    world = build_world()
    first = world.run("nlp", gpus=4, contract=0, ran=60, standing=FREE)
    world.run("nlp", gpus=4, contract=0, ran=60, standing=FREE)
    asker = world.submit("vision", gpus=8)
    world.go()
    world.wait(10)
    events.end(world.state, first)
    thief = world.submit("nlp", gpus=4, contract=60)
    free_rider = world.submit("nlp", gpus=1, contract=0)
    decision = world.go()
    assert started(decision) == []
    assert {wait.workload for wait in decision.waits} == {thief, free_rider}
    assert world.attempt_of(asker)["segments_at"] == NEVER


def test_the_asker_begins_when_the_last_victim_is_gone() -> None:
    world = build_world()
    world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE)
    asker = world.submit("vision", gpus=8)
    world.go()
    world.wait(12)
    world.free_stopped()
    world.go()
    row = world.attempt_of(asker)
    assert row["segments_at"] == world.now
    assert row["standing"] == Standing.PROTECTED


def test_what_a_victim_frees_beyond_the_need_is_free_for_others() -> None:
    world = build_world()
    world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE)
    world.submit("vision", gpus=6)
    world.go()
    world.free_stopped()
    small = world.submit("nlp", gpus=2)
    assert small in started(world.go())


def test_free_gpus_beside_a_victim_that_the_asker_does_not_need_are_free_for_others() -> None:
    world = build_world()
    attempt = world.run("nlp", gpus=4, contract=0, ran=60, standing=FREE)
    large, small = world.submit("vision", gpus=6), world.submit("vision", gpus=2)
    decision = world.go()
    assert preempted(decision) == [attempt]
    assert started(decision, Standing.PROTECTED) == [large, small]


def test_what_was_taken_is_not_taken_back_before_the_takers_minimum() -> None:
    world = build_world()
    world.run("nlp", gpus=8, contract=60, ran=60, standing=FREE, lapsed=True)
    world.charge("nlp", 8 * WEEK)
    taker = world.submit("vision", gpus=8, contract=2 * HOUR)
    world.go()
    world.free_stopped()
    world.go()
    world.start_all()
    for _ in range(2 * 60 - 1):
        world.wait(60)
        world.submit("nlp", gpus=8, contract=60)
        assert preempted(world.go()) == []
    assert world.attempt_of(taker)["standing"] == Standing.PROTECTED


def test_two_askers_do_not_block_each_other() -> None:
    world = build_world()
    attempt = world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE)
    first = world.submit("vision", gpus=8)
    world.submit("vision", gpus=8)
    decision = world.go()
    assert started(decision) == [first]
    assert preempted(decision) == [attempt]


@pytest.mark.parametrize("asked", [6, 5, 4, 3])
def test_gangs_of_two_against_a_larger_one_make_no_loop(asked: int) -> None:
    world = World(gpus=8)
    world.project("nlp", 50)
    world.project("vision", 50)
    world.charge("nlp", 4 * WEEK)
    for _ in range(4):
        world.run("nlp", gpus=2, contract=HOUR, ran=HOUR, standing=Standing.FUNDED)
    world.submit("vision", gpus=asked, contract=2 * HOUR)
    times = 0
    for _ in range(30):
        times += len(preempted(world.go()))
        world.wait(10)
        world.free_stopped()
        world.start_all()
    assert times == -(-asked // 2)


def test_nobody_stops_many_for_little() -> None:
    world = build_world(hosts=11)
    for host in range(11):
        world.run("nlp", gpus=8, contract=0, ran=HOUR, standing=FREE, on={host: 1})
    for _ in range(2):
        world.submit("vision", gpus=1)
    assert len(preempted(world.go())) <= 2


def test_gpus_preempted_are_at_most_what_was_asked_and_the_rounding_of_gangs() -> None:
    world = build_world(hosts=20)
    for host in range(20):
        world.run("nlp", gpus=8, contract=0, ran=HOUR + host, standing=FREE, on={host: 1})
    world.submit("vision", gpus=8, replicas=6)
    assert len(preempted(world.go())) == 6


def test_a_project_at_balance_zero_takes_nothing() -> None:
    world = World(hosts=10, gpus=11)
    world.project("A", 90)
    world.project("B", 10)
    world.project("A1", 20, parent="A")
    world.project("A2", 80, parent="A")
    for host in range(4):
        world.run("A1", gpus=10, contract=HOUR, ran=HOUR, standing=Standing.FUNDED, on={host: 1})
    world.charge("A1", 110 * WEEK * 18 // 100)
    world.charge("B", 11 * WEEK)
    for host in range(4, 10):
        world.run("A2", gpus=11, contract=DAY, on={host: 1})
    world.submit("B", gpus=8)
    assert preempted(world.go()) == []


def test_were_it_funded_it_could_take_only_lapsed_work() -> None:
    world = World(hosts=2, gpus=8)
    world.project("A", 90)
    world.project("B", 10)
    world.project("A1", 20, parent="A")
    world.project("A2", 80, parent="A")
    spent = world.run("A1", gpus=8, contract=HOUR, ran=HOUR, standing=Standing.FUNDED, on={0: 1})
    world.run("A2", gpus=8, contract=HOUR, ran=HOUR, standing=Standing.FUNDED, on={1: 1})
    world.charge("A1", 16 * WEEK * 18 // 100)
    world.charge("B", 16 * WEEK * 5 // 100)
    world.submit("B", gpus=8)
    world.submit("B", gpus=8)
    assert preempted(world.go()) == [spent]


def test_a_starting_unallocated_attempt_can_be_taken_and_loses_nothing() -> None:
    world = build_world()
    attempt = world.run("nlp", gpus=8, contract=0, running_at=NEVER, standing=FREE)
    world.submit("vision", gpus=8)
    action = next(one for one in world.go().actions if isinstance(one, Preempt))
    assert action.attempt == attempt
    assert action.reason.as_dict()["lost_gpu_seconds"] == 0


def test_a_returning_attempt_is_not_taken_by_a_later_one() -> None:
    world = build_world()
    attempt = world.run("nlp", gpus=8, contract=HOUR, ran=60, standing=FREE)
    world.charge("vision", 1000)
    world.submit("vision", gpus=8)
    decision = world.go()
    assert returned(decision) == {attempt: Standing.PROTECTED}
    assert preempted(decision) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 50)), max_size=7), st.integers(0, 20))
def test_on_one_host_the_choice_is_exact(items: list[tuple[int, int]], need: int) -> None:
    coded = [(gpus, lost * MANY + 1) for gpus, lost in items]
    table = solve_cover(coded, limit=20)
    best = None
    for mask in range(1 << len(items)):
        chosen = [one for bit, one in enumerate(coded) if mask >> bit & 1]
        if sum(gpus for gpus, _ in chosen) >= need:
            cost = sum(cost for _, cost in chosen)
            best = cost if best is None else min(best, cost)
    if best is None:
        assert need >= len(table)
    else:
        assert table[need][0] == best
