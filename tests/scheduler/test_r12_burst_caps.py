"""R7, R12. A head that lacks room under a burst cap reserves that room."""

from typing import Any

from scheduler import events
from scheduler.types import Standing
from tests.scheduler.reserving import carry_on, reserves
from tests.scheduler.world import (
    HOUR,
    T0,
    WEEK,
    World,
    lapsed,
    preempted,
    returned,
    start_of,
    started,
)


def build_capped(hosts: int = 2, **of_attempt: Any) -> tuple[World, int, int]:
    """lab may have 8 GPUs; vision holds them, with an hour left; nlp's head lacks the room."""
    world = World(hosts=hosts)
    world.project("lab", 80, burst=8)
    world.project("nlp", 50, parent="lab")
    world.project("vision", 50, parent="lab")
    world.charge("vision", 2 * WEEK * hosts // 2, ago=3 * HOUR)
    attempt = world.run("vision", gpus=8, **{"contract": HOUR + 60, "ran": 60, **of_attempt})
    head = world.submit("nlp", gpus=8, contract=2 * HOUR, allow_unallocated=False)
    return world, head, attempt


def test_a_head_that_lacks_room_under_a_cap_reserves_it() -> None:
    world, head, attempt = build_capped()
    assert reserves(world.go())[head].at == T0 + HOUR
    decisions = carry_on(world, HOUR)
    assert lapsed(decisions[-1]) == [attempt]
    assert start_of(decisions[-1], head).victims == ()


def test_room_that_can_be_made_now_is_reserved_for_the_next_second() -> None:
    # It was told that the cluster is full of protected work, for as long as vision went on.
    world, head, attempt = build_capped(ran=2 * HOUR, contract=HOUR, standing=Standing.FUNDED)
    decision = world.go()
    assert reserves(decision)[head].at == T0 + 1
    assert lapsed(decision) == []
    world.wait(1)
    decision = world.go()
    assert lapsed(decision) == [attempt]
    assert start_of(decision, head).victims == ()


def test_what_is_in_the_way_under_the_cap_and_on_the_host_is_taken_at_that_time() -> None:
    world, head, attempt = build_capped(hosts=1, ran=2 * HOUR, contract=HOUR, standing=Standing.FUNDED)
    assert preempted(world.go()) == []  # `go` decides twice: before its time it makes no room
    world.wait(1)
    decision = world.go()
    assert start_of(decision, head).victims == (attempt,)
    assert lapsed(decision) == []


def test_later_work_under_the_cap_starts_allocated_only_if_it_ends_in_time() -> None:
    world = World(hosts=3)
    world.project("lab", 80, burst=12)
    world.project("nlp", 50, parent="lab")
    world.project("vision", 50, parent="lab")
    world.charge("vision", 2 * WEEK, ago=3 * HOUR)
    world.run("vision", gpus=8, contract=HOUR + 60, ran=60)
    head = world.submit("nlp", gpus=8, contract=2 * HOUR)
    assert reserves(world.go())[head].at == T0 + HOUR
    short = world.submit("vision", gpus=4, contract=HOUR - 60)
    long_one = world.submit("vision", gpus=4, contract=2 * HOUR)
    decision = world.go()
    assert started(decision, Standing.PROTECTED) == [short]
    assert started(decision, Standing.UNALLOCATED) == [long_one]


def test_what_is_taken_leaves_room_under_its_cap_at_once() -> None:
    # It was found by the next decision at the same instant, which must be empty (R10).
    world = World(hosts=2)
    world.project("nlp", 40, burst=8)
    world.project("vision", 40)
    world.charge("nlp", 2 * WEEK, ago=3 * HOUR)
    world.run("vision", gpus=4, on={0: 1})
    victim = world.run("nlp", gpus=8, contract=HOUR, ran=2 * HOUR, standing=Standing.FUNDED, on={1: 1})
    small = world.submit("nlp", gpus=2)
    large = world.submit("vision", gpus=8)
    decision = world.go()
    assert preempted(decision) == [victim]
    assert started(decision, Standing.PROTECTED) == [large, small]


def build_own_cap() -> World:
    """nlp may have 8 GPUs; vision has 4 of host 0 for long."""
    world = World(hosts=2)
    world.project("nlp", 40, burst=8)
    world.project("vision", 40)
    world.run("vision", gpus=4, contract=8 * HOUR, ran=60)
    return world


def test_what_started_under_the_cap_since_lapses_wherever_it_runs_and_whatever_its_priority() -> None:
    # Only what came since on its hosts counted: the head missed the time that it had named.
    world = build_own_cap()
    old = world.run("nlp", gpus=2, contract=HOUR + 60, ran=60)
    head = world.submit("nlp", gpus=8, priority=1)
    made = reserves(world.go())[head]
    assert (made.at, made.placement) == (T0 + HOUR, ((101, 1),))
    world.submit("nlp", gpus=2, contract=600, priority=2)
    assert start_of(world.go(), world.next_workload).placement == ((100, 1),)
    new = world.attempt_of(world.next_workload)["id"]
    decisions = carry_on(world, HOUR)
    assert sorted(lapsed(decisions[-1])) == [old, new]
    assert start_of(decisions[-1], head).victims == ()


def test_what_returned_under_the_cap_since_lapses_too() -> None:
    world = build_own_cap()
    more = {"standing": Standing.UNALLOCATED, "lapsed": True, "priority": 2, "contract": HOUR, "ran": 2 * HOUR}
    idle = world.run("nlp", gpus=2, **more)
    old = world.run("nlp", gpus=7, contract=HOUR + 60, ran=60, on={1: 1})
    head = world.submit("nlp", gpus=8, priority=1)
    assert reserves(world.go())[head].at == T0 + HOUR
    world.wait(600)
    events.end(world.state, old)
    assert returned(world.go()) == {idle: Standing.FUNDED}
    decisions = carry_on(world, HOUR - 600)
    assert lapsed(decisions[-1]) == [idle]
    assert started(decisions[-1]) == [head]
