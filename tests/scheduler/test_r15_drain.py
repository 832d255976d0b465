"""R15. Hosts that empty, and what a fault gives back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import events
from scheduler.refund import find_refunded
from scheduler.types import NEVER, Code, Drain, Standing
from tests.scheduler.world import HOUR, T0, World, started

FUNDED, FREE = Standing.FUNDED, Standing.UNALLOCATED


def build_world(hosts: int = 2) -> World:
    world = World(hosts=hosts)
    world.project("nlp", 80)
    return world


def drained(world: World) -> dict[int, int]:
    """Attempts told to leave, and their grace times."""
    return {one.attempt: one.grace_seconds for one in world.go().actions if isinstance(one, Drain)}


def test_unallocated_work_leaves_at_once_and_protected_work_at_its_own_time() -> None:
    world = build_world()
    short = world.run("nlp", gpus=2, contract=2 * HOUR, ran=HOUR)
    long_one = world.run("nlp", gpus=2, contract=6 * HOUR, ran=HOUR)
    free = world.run("nlp", gpus=2, contract=0, ran=HOUR, standing=FREE)
    events.drain(world.state, 100)
    assert drained(world) == {free: 10}
    world.free_stopped()
    world.wait(HOUR - 1)
    assert drained(world) == {}
    world.wait(1)
    assert drained(world) == {short: 60}
    world.free_stopped()
    world.wait(4 * HOUR)
    assert drained(world) == {long_one: 60}
    world.free_stopped()
    assert world.state.attempts.count == 0 or 0 not in world.state.places  # ready for repair


def test_work_past_its_minimum_leaves_at_once() -> None:
    world = build_world()
    past = world.run("nlp", gpus=2, contract=60, ran=HOUR, standing=FUNDED)
    events.drain(world.state, 100)
    assert drained(world) == {past: 60}


def test_no_new_attempts_come_to_it_and_what_left_starts_elsewhere() -> None:
    world = build_world()
    world.run("nlp", gpus=8, contract=0, ran=HOUR, standing=FREE)
    events.drain(world.state, 100)
    world.go()
    world.free_stopped()
    world.go()
    assert [list(places) for places in world.state.places.values()] == [[1]]


def test_a_host_that_drains_takes_no_new_attempts_though_the_facts_call_it_schedulable() -> None:
    world = build_world()
    events.drain(world.state, 100)
    events.cordon(world.state, 100, schedulable=True)
    waiting = [world.submit("nlp", gpus=8) for _ in range(2)]
    assert started(world.go()) == waiting[:1]
    assert [list(places) for places in world.state.places.values()] == [[1]]


def test_a_host_that_is_only_silent_ends_nothing() -> None:
    world = build_world()
    world.run("nlp", gpus=2, contract=0, ran=HOUR, standing=FREE)
    events.cordon(world.state, 100)
    assert drained(world) == {}


def test_a_drain_that_is_cancelled_stops_every_later_step() -> None:
    world = build_world()
    world.run("nlp", gpus=2, contract=2 * HOUR, ran=HOUR)
    events.drain(world.state, 100)
    world.go()
    events.drain(world.state, 100, stop=True)
    world.wait(2 * HOUR)
    assert drained(world) == {}
    world.submit("nlp", gpus=8, replicas=1, contract=HOUR)
    assert len(started(world.go())) == 1


def test_a_gang_leaves_whole_when_one_of_its_hosts_drains() -> None:
    world = build_world(hosts=3)
    gang = world.run("nlp", gpus=8, contract=0, ran=HOUR, standing=FREE, on={0: 1, 1: 1})
    events.drain(world.state, 101)
    decision = world.go()
    assert [one.attempt for one in decision.actions if isinstance(one, Drain)] == [gang]
    action = next(one for one in decision.actions if isinstance(one, Drain))
    assert action.reason.code == Code.DRAINED
    assert action.reason.as_dict()["host"] == 101


# ---------------------------------------------------------------- refunds


@pytest.mark.parametrize(
    ("charged", "checkpoint", "contract", "refunded"),
    [
        ([(T0, T0 + 600)], NEVER, 0, [(T0, T0 + 600)]),
        ([(T0, T0 + 600)], T0 + 500, 0, [(T0 + 500, T0 + 600)]),
        ([(T0, T0 + 5 * HOUR)], NEVER, 0, [(T0 + 4 * HOUR, T0 + 5 * HOUR)]),
        ([(T0, T0 + 5 * HOUR)], NEVER, 3 * HOUR, [(T0 + 2 * HOUR, T0 + 5 * HOUR)]),
        ([(T0, T0 + HOUR), (T0 + 9 * HOUR, T0 + 9 * HOUR + 600)], NEVER, 0, None),
        ([], NEVER, HOUR, []),
    ],
)
def test_a_fault_gives_back_what_was_charged_since_the_last_checkpoint(
    charged: list[tuple[int, int]], checkpoint: int, contract: int, refunded: list[tuple[int, int]] | None
) -> None:
    expected = [(T0 + 600, T0 + HOUR), (T0 + 9 * HOUR, T0 + 9 * HOUR + 600)] if refunded is None else refunded
    assert find_refunded(charged, checkpoint, contract) == expected


@given(st.integers(0, 20_000), st.integers(0, 20_000), st.integers(0, 20_000), st.integers(0, 20_000))
def test_a_cut_of_the_segments_changes_nothing(length: int, cut: int, checkpoint: int, contract: int) -> None:
    whole = find_refunded([(0, length)], checkpoint, contract)
    parts = find_refunded([(0, min(cut, length)), (min(cut, length), length)], checkpoint, contract)
    assert sum(end - start for start, end in parts) == sum(end - start for start, end in whole)
    assert sum(end - start for start, end in whole) <= max(contract, HOUR)
