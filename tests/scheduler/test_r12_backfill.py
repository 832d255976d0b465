"""R12. Who uses reserved hosts meanwhile, and that nobody puts a reservation off."""

import pytest

from scheduler import events
from scheduler.types import Standing
from tests.scheduler.reserving import build_world, carry_on, keep_one, reserves
from tests.scheduler.world import (
    DAY,
    HOUR,
    T0,
    WEEK,
    World,
    balance_of,
    preempted,
    returned,
    start_of,
    started,
)


@pytest.mark.parametrize(("spare", "standing"), [(0, Standing.PROTECTED), (1, Standing.UNALLOCATED)])
def test_others_start_there_only_if_their_minimum_ends_in_time(spare: int, standing: Standing) -> None:
    world = build_world()
    world.project("robots", 10)
    _, at = keep_one(world)
    other = world.submit("robots", gpus=8, contract=at - T0 - 60 + spare)
    assert start_of(world.go(), other).standing == standing


def test_unallocated_work_may_use_its_hosts_meanwhile() -> None:
    world = build_world()
    keep_one(world)
    other = world.submit("vision", gpus=8, contract=0)
    assert started(world.go()) == [other]


def test_what_may_not_run_unallocated_waits() -> None:
    world = build_world()
    world.project("robots", 10)
    keep_one(world)
    world.submit("robots", gpus=8, contract=8 * HOUR, allow_unallocated=False)
    world.submit("robots", gpus=8, contract=8 * HOUR, resumable=False)
    assert started(world.go()) == []


def test_a_stream_of_small_work_fills_the_gap_and_does_not_delay_it() -> None:
    world = build_world()
    world.project("robots", 10)
    head, at = keep_one(world)
    ran = 0
    while head in world.state.pending["id"]:
        for _ in range(8):
            world.submit("robots", gpus=1, contract=HOUR)
        decision = carry_on(world, 60)[-1]
        ran += len(started(decision, Standing.PROTECTED))
        assert world.now <= at
    assert ran > 8


def test_what_would_return_on_its_hosts_must_end_in_time() -> None:
    world = build_world()
    world.project("robots", 10)
    _, at = keep_one(world)
    rows = world.state.charged.count
    world.charge("robots", 2 * WEEK, ago=3 * HOUR)
    long_one = world.submit("robots", gpus=4, contract=8 * HOUR)
    short = world.submit("robots", gpus=4, contract=HOUR)
    assert sorted(started(world.go(), Standing.UNALLOCATED)) == [long_one, short]
    world.start_all()
    world.state.charged.remove(range(rows, world.state.charged.count))  # robots recovers
    world.wait(60)
    assert list(returned(world.go())) == [world.attempt_of(short)["id"]]
    assert world.standing_of(world.attempt_of(long_one)["id"]) == Standing.UNALLOCATED
    assert at > world.now


def test_the_reservation_of_a_large_gang_beats_an_endless_stream_of_small_work() -> None:
    world = World(hosts=8)
    world.project("nlp", 40)
    world.project("vision", 40)
    world.charge("vision", 20 * WEEK, ago=3 * HOUR)
    for _ in range(64):
        world.submit("vision", gpus=1, contract=HOUR)
    carry_on(world, 600)
    gang = world.submit("nlp", gpus=8, replicas=8, contract=2 * HOUR)
    began = world.now
    while gang in world.state.pending["id"]:
        for _ in range(4):
            world.submit("vision", gpus=1, contract=HOUR)
        carry_on(world, 60)
        assert world.now <= began + HOUR + 60
    assert balance_of(world, "nlp").usage_gpu_seconds > 0
    assert preempted(world.decide()) == []


def test_behind_a_head_without_a_reservation_work_runs_unallocated_if_the_policy_says_so() -> None:
    for saving, standing in ((0, Standing.PROTECTED), (1, Standing.UNALLOCATED)):
        world = build_world(save_for_head=saving)
        world.run("vision", gpus=8, contract=HOUR, ran=60, on={0: 1})
        world.submit("nlp", gpus=8, replicas=2, contract=8 * HOUR, first_submit_at=T0 - DAY)
        small = world.submit("nlp", gpus=1, contract=HOUR)
        assert start_of(world.go(), small).standing == standing


def test_hosts_of_a_reservation_that_starts_elsewhere_are_open_to_those_considered_before_it() -> None:
    world = World(hosts=2)
    world.project("nlp", 50)
    world.project("vision", 30)
    world.project("robots", 20)
    world.charge("robots", 2 * WEEK, ago=3 * HOUR)
    world.charge("vision", HOUR, ago=3 * HOUR)  # so nlp is considered first
    whole = world.run("robots", gpus=8, contract=HOUR, ran=60, on={0: 1})
    half = [world.run("robots", gpus=4, contract=2 * HOUR, ran=60, on={1: 1}) for _ in range(2)]
    head = world.submit("vision", gpus=4, contract=HOUR)
    assert reserves(world.go())[head].placement == ((100, 1),)
    long_one = world.submit("nlp", gpus=8, contract=4 * HOUR, allow_unallocated=False)
    for attempt in (whole, half[0]):
        events.end(world.state, attempt)
    assert sorted(started(world.go(), Standing.PROTECTED)) == [head, long_one]
