"""What guards every decision before it is applied: each invariant refuses a decision that breaks it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler import invariants
from scheduler.types import (
    Code,
    Decision,
    InvariantBroken,
    Lapse,
    Mature,
    Preempt,
    Reserve,
    Return,
    Standing,
    Start,
    Waits,
    reason,
)
from tests.scheduler.world import HOUR, T0, WEEK, World

WHY = reason(Code.FUNDED)


def start(workload: int, *places: tuple[int, int], victims: tuple[int, ...] = (), **more: Any) -> Start:
    return Start(workload, more.pop("standing", Standing.PROTECTED), more.pop("express", False), places, victims, WHY)


def refusal(world: World, *actions: Any, **more: Any) -> str:
    """What is said against these actions; the waits and balances are as they would be."""
    decision = world.decide()
    started = {one.workload for one in actions if isinstance(one, Start)}
    waiting = tuple(sorted(set(world.state.pending["id"].tolist()) - started))
    count = len(waiting)
    waits = Waits(waiting, (reason(Code.WAITING_TURN),) * count, (1,) * count, (0,) * count)
    with pytest.raises(InvariantBroken) as caught:
        invariants.check(world.state, replace(decision, actions=actions, waits=more.get("waits", waits)))
    return str(caught.value)


@pytest.fixture
def world() -> World:
    world = World(hosts=2)
    world.project("nlp", 50)
    world.project("vision", 50)
    return world


def test_1_a_workload_starts_once_and_only_if_it_waits(world: World) -> None:
    workload = world.submit("nlp")
    assert "starts 2 times" in refusal(world, start(workload, (100, 1)), start(workload, (101, 1)))
    assert "does not wait" in refusal(world, start(workload, (100, 1)), start(999, (101, 1)))


def test_2_a_gang_is_placed_whole_on_open_hosts_with_room(world: World) -> None:
    gang = world.submit("nlp", gpus=8, replicas=2)
    assert "not placed whole" in refusal(world, start(gang, (100, 1)))
    assert "over-committed by 8" in refusal(world, start(gang, (100, 2)))
    world.state.hosts["schedulable"][1] = False
    assert "closed host 101" in refusal(world, start(gang, (100, 1), (101, 1)))


def test_3_protected_work_is_no_victim_and_nobody_is_stopped_without_a_taker(world: World) -> None:
    protected = world.run("vision", gpus=8, ran=HOUR)
    taker = world.submit("nlp", gpus=8)
    stop = Preempt(protected, taker, 60, WHY)
    assert "is protected or stopping" in refusal(world, stop, start(taker, (100, 1), victims=(protected,)))
    assert "differ" in refusal(world, stop)


def test_3_a_licence_is_reckoned_again(world: World) -> None:
    world.charge("nlp", WEEK)
    funded = world.run("vision", gpus=8, contract=HOUR, ran=HOUR, standing=Standing.FUNDED)
    taker = world.submit("nlp", gpus=8)
    stop = Preempt(funded, taker, 60, WHY)
    assert "without a licence" in refusal(world, stop, start(taker, (100, 1), victims=(funded,)))


def test_4_a_victim_that_is_not_needed_is_refused(world: World) -> None:
    victims = [world.run("vision", gpus=4, contract=0, ran=60, standing=Standing.UNALLOCATED) for _ in range(2)]
    taker = world.submit("nlp", gpus=4)
    stops = [Preempt(victim, taker, 10, WHY) for victim in victims]
    assert "taken for nothing" in refusal(world, *stops, start(taker, (100, 1), victims=tuple(victims)))


def test_5_a_burst_cap_is_reckoned_again() -> None:
    world = World()
    world.project("nlp", 50, burst=4)
    workload = world.submit("nlp", gpus=8)
    assert "burst cap 4" in refusal(world, start(workload, (100, 1)))


def test_6_standings_change_only_as_the_rules_allow(world: World) -> None:
    protected = world.run("nlp", contract=HOUR, ran=60)
    free = world.run("nlp", contract=0, ran=60, standing=Standing.UNALLOCATED, on={1: 1})
    assert "Mature is not allowed" in refusal(world, Mature(protected, T0, WHY))
    assert "Lapse is not allowed" in refusal(world, Lapse(protected, WHY))
    assert "Return is not allowed" in refusal(world, Return(free, Standing.FUNDED, WHY))


def test_7_everybody_who_waits_has_one_reason(world: World) -> None:
    workload = world.submit("nlp")
    assert f"{workload} has 0 reasons" in refusal(world, waits=Waits())


def test_8_a_reservation_is_whole_ahead_and_for_one_who_waits(world: World) -> None:
    gang = world.submit("nlp", gpus=8, replicas=2)
    places = ((100, 1), (101, 1))
    assert "not whole or not ahead" in refusal(world, Reserve(gang, T0, places, (), WHY))
    assert "not whole or not ahead" in refusal(world, Reserve(gang, T0 + HOUR, places[:1], (), WHY))
    assert "does not wait" in refusal(world, Reserve(999, T0 + HOUR, places, (), WHY))


def test_9_nobody_puts_a_reservation_off(world: World) -> None:
    world.charge("vision", WEEK)
    world.run("vision", gpus=8, contract=2 * HOUR, ran=HOUR)
    head = world.submit("nlp", gpus=8, replicas=2)
    assert any(isinstance(one, Reserve) and one.workload == head for one in world.go().actions)
    other = world.submit("vision", gpus=8, contract=2 * HOUR)
    assert "puts off the reservation" in refusal(world, start(other, (101, 1)))


def test_what_the_core_decides_itself_is_let_through(world: World) -> None:
    world.submit("nlp", gpus=8)
    assert isinstance(world.decide(), Decision)
