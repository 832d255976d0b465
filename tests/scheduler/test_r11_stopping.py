"""R11. Signal, grace, kill; silent hosts; takers that are cancelled or wasted."""

import pytest

from scheduler import events
from scheduler.state import State
from scheduler.types import NEVER, GiveUp, Preempt, Quarantine, Standing, Start
from tests.scheduler.world import HOUR, T0, World, preempted, start_of, started

FREE = Standing.UNALLOCATED


def build_world(hosts: int = 1, **policy: int) -> World:
    world = World(hosts=hosts, **policy)
    world.project("nlp", 50)
    world.project("vision", 50)
    return world


def build_taking(hosts: int = 1) -> tuple[World, int, int]:
    """A world in which one attempt stops for a taker: (world, victim, taker's workload)."""
    world = build_world(hosts)
    victim = world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE)
    for host in range(1, hosts):
        world.run("nlp", gpus=8, contract=8 * HOUR, on={host: 1})
    taker = world.submit("vision", gpus=8)
    world.go()
    return world, victim, taker


def test_an_unallocated_victim_gets_its_grace_time() -> None:
    world = build_world(grace_unallocated_seconds=33)
    world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE)
    world.submit("vision", gpus=8)
    action = next(one for one in world.go().actions if isinstance(one, Preempt))
    assert action.grace_seconds == 33


def test_the_victims_gpus_count_as_occupied_until_its_host_says_otherwise() -> None:
    world, victim, taker = build_taking()
    world.wait(60)
    assert world.go().actions == ()
    events.free(world.state, victim, 100)
    world.go()
    assert world.attempt_of(taker)["segments_at"] == world.now


@pytest.mark.parametrize("anew", [False, True])
def test_a_victim_whose_taker_is_cancelled_stops_for_nobody(anew: bool) -> None:
    world, _, taker = build_taking()
    state = State(world.state.to_snapshot()) if anew else world.state
    events.end(state, world.attempt_of(taker)["id"], cancelled=True)
    assert state.attempts["standing"].tolist() == [Standing.STOPPING]
    assert state.attempts["taker"].tolist() == [NEVER]


def test_a_gang_frees_host_by_host() -> None:
    world = build_world(hosts=2)
    victim = world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE, on={0: 1, 1: 1})
    taker = world.submit("vision", gpus=8, replicas=2)
    world.go()
    events.free(world.state, victim, 101)
    small = world.submit("vision", contract=60)
    assert started(world.go()) == []
    events.free(world.state, victim, 100)
    world.go()
    assert world.attempt_of(taker)["segments_at"] == world.now
    assert small in world.state.pending["id"]


@pytest.mark.parametrize(("waited", "silent"), [(10 + 119, False), (10 + 120, True)])
def test_a_host_silent_two_minutes_after_the_kill_is_unhealthy(waited: int, silent: bool) -> None:
    world, _, _ = build_taking()
    world.wait(waited)
    hosts = [one.host for one in world.go().actions if isinstance(one, Quarantine)]
    assert hosts == ([100] if silent else [])


def test_the_asker_of_a_silent_host_is_decided_anew_elsewhere_at_once() -> None:
    world, _, taker = build_taking(hosts=2)
    other = int(world.state.attempts["id"][1])
    world.wait(130)
    events.end(world.state, other)
    decision = world.go()
    kinds = [type(one) for one in decision.actions]
    assert kinds == [Quarantine, GiveUp, Start]
    assert start_of(decision, taker).placement == ((101, 1),)


def test_the_asker_of_a_silent_host_waits_when_there_is_no_other() -> None:
    world, _, taker = build_taking()
    world.wait(130)
    decision = world.go()
    assert started(decision) == []
    assert taker in decision.waits.workload


def test_a_preempted_resumable_workload_keeps_its_first_submit() -> None:
    world, victim, _ = build_taking()
    first = world.state.attempts.row(world.state.attempts.find("id", victim))["first_submit_at"]
    world.wait(10)
    events.end(world.state, victim, requeue=True)
    row = world.state.pending.row(0)
    assert row["first_submit_at"] == first
    assert row["first_start"] == 0
    assert row["queued_at"] == world.now


def test_being_preempted_often_is_not_failing() -> None:
    world = build_world()
    low = world.submit("nlp", gpus=8, contract=0)
    for _ in range(20):
        world.go()
        world.start_all()
        world.wait(60)
        taker = world.submit("vision", gpus=8, contract=60, first_start=False)
        assert preempted(world.go())
        world.wait(10)
        world.free_stopped()
        world.go()
        world.start_all()
        world.wait(600)
        events.end(world.state, world.attempt_of(taker)["id"])
    assert low in started(world.go())


def test_the_signalled_stop_though_the_taker_is_cancelled_and_are_eligible_at_once() -> None:
    world, victim, taker = build_taking()
    events.end(world.state, world.attempt_of(taker)["id"], cancelled=True)
    assert world.standing_of(victim) == Standing.STOPPING
    world.wait(10)
    events.end(world.state, victim, requeue=True)
    assert len(started(world.go())) == 1


# ---------------------------------------------------------------- takers that waste


def end_taker(world: World, ran: int, ago: int, contract: int = HOUR, cancelled: bool = False) -> None:
    ended = world.now - ago
    running = NEVER if ran < 0 else ended - ran
    row = {"author": 1, "running_at": running, "ended_at": ended, "contract_seconds": contract}
    world.state.takers.add({**row, "cancelled": cancelled})


def takes(world: World, author: int = 1) -> bool:
    world.run("nlp", gpus=8, contract=0, ran=60, standing=FREE)
    world.submit("vision", gpus=8, author=author)
    return bool(preempted(world.go()))


@pytest.mark.parametrize(("ago", "may"), [(3599, False), (3600, True)])
def test_who_cancels_a_taker_before_it_starts_takes_nothing_for_an_hour(ago: int, may: bool) -> None:
    world = build_world()
    end_taker(world, ran=-1, ago=ago, cancelled=True)
    assert takes(world) == may


def test_others_may_still_take() -> None:
    world = build_world()
    end_taker(world, ran=-1, ago=10, cancelled=True)
    assert takes(world, author=2)


def test_a_taker_that_was_not_cancelled_by_its_author_bans_nobody() -> None:
    world = build_world()
    end_taker(world, ran=-1, ago=10)
    assert takes(world)


@pytest.mark.parametrize(("times", "may"), [(2, True), (3, False)])
def test_three_short_takers_in_an_hour_take_nothing_for_an_hour(times: int, may: bool) -> None:
    world = build_world()
    for number in range(times):
        end_taker(world, ran=299, ago=600 * number + 10)
    assert takes(world) == may


@pytest.mark.parametrize(("ran", "contract"), [(300, HOUR), (100, 100)])
def test_a_taker_that_ran_five_minutes_or_its_contract_is_not_wasted(ran: int, contract: int) -> None:
    world = build_world()
    for number in range(3):
        end_taker(world, ran=ran, ago=600 * number + 10, contract=contract)
    assert takes(world)


def test_short_takers_further_apart_than_an_hour_do_not_add_up() -> None:
    world = build_world(taker_ban_seconds=6 * HOUR)
    for number in range(3):
        end_taker(world, ran=10, ago=2000 * number + 10)
    assert takes(world)


def test_a_banned_author_still_starts_on_free_gpus() -> None:
    world = build_world()
    end_taker(world, ran=-1, ago=10, cancelled=True)
    workload = world.submit("vision", gpus=8)
    assert started(world.go()) == [workload]


def test_a_real_cancelled_taker_is_remembered() -> None:
    world, _, taker = build_taking()
    events.end(world.state, world.attempt_of(taker)["id"], cancelled=True)
    assert world.state.takers["ended_at"].tolist() == [T0]
    assert world.state.takers["running_at"].tolist() == [NEVER]
