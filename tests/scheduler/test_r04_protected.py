"""R4. Protected from the decision on until the gang has run for its minimum runtime, half-open."""

import pytest

from scheduler import events
from scheduler.types import GiveUp, Mature, Standing
from tests.scheduler.world import HOUR, T0, World, matured, preempted, started


def build_world() -> World:
    world = World()
    world.project("nlp", 50)
    world.project("vision", 50)
    return world


def test_a_funded_start_is_protected_from_its_decision_on() -> None:
    world = build_world()
    workload = world.submit("nlp")
    world.go()
    assert world.attempt_of(workload)["standing"] == Standing.PROTECTED


@pytest.mark.parametrize(("offset", "standing"), [(-1, Standing.PROTECTED), (0, Standing.FUNDED), (1, Standing.FUNDED)])
def test_exactly_at_the_minimum_runtime_it_is_protected_no_longer(offset: int, standing: Standing) -> None:
    world = build_world()
    attempt = world.run("nlp", contract=HOUR, ran=HOUR + offset)
    world.go()
    assert world.standing_of(attempt) == standing


def test_it_matures_at_the_exact_moment_whenever_the_pass_comes() -> None:
    world = build_world()
    world.run("nlp", contract=HOUR, ran=HOUR + 7)
    action = next(one for one in world.go().actions if isinstance(one, Mature))
    assert action.at == T0 - 7


def test_time_before_the_whole_gang_runs_serves_nothing() -> None:
    world = build_world()
    attempt = world.run("nlp", contract=300, ran=590, running_at=-1)
    world.go()
    assert world.standing_of(attempt) == Standing.PROTECTED


def test_protected_work_is_not_preempted_by_anybody() -> None:
    world = build_world()
    world.run("nlp", gpus=8, contract=HOUR, ran=HOUR - 1)
    world.submit("vision", gpus=1, contract=60)
    decision = world.go()
    assert started(decision) == []
    assert preempted(decision) == []


def test_a_clock_that_steps_back_serves_no_time_and_ends_no_contract() -> None:
    world = build_world()
    attempt = world.run("nlp", contract=HOUR, ran=10)
    world.wait(-HOUR)
    assert matured(world.go()) == []
    assert world.standing_of(attempt) == Standing.PROTECTED


@pytest.mark.parametrize(("waited", "failed"), [(599, False), (600, True)])
def test_a_gang_not_running_in_ten_minutes_has_failed_to_start(waited: int, failed: bool) -> None:
    world = build_world()
    attempt = world.run("nlp", contract=HOUR, ran=waited, running_at=-1)
    ended = [one.attempt for one in world.go().actions if isinstance(one, GiveUp) and not one.requeue]
    assert ended == ([attempt] if failed else [])


def test_the_start_limit_counts_from_the_segments_and_not_from_the_decision() -> None:
    world = build_world()
    world.run("nlp", contract=HOUR, ran=100, running_at=-1, decided_at=T0 - 5000)
    assert world.go().actions == ()


def test_a_failed_start_releases_its_claim_on_the_budget() -> None:
    world = World()
    world.project("nlp", 50, burst=1)
    world.run("nlp", contract=HOUR, ran=600, running_at=-1)
    workload = world.submit("nlp")
    assert started(world.go(), Standing.PROTECTED) == [workload]


def test_every_restart_begins_a_new_contract() -> None:
    world = build_world()
    attempt = world.run("nlp", contract=HOUR, ran=HOUR // 2)
    workload = world.state.attempts.row(0)["workload"]
    events.end(world.state, attempt, requeue=True)
    world.go()
    world.start_all()
    world.wait(HOUR - 1)
    world.go()
    assert world.attempt_of(workload)["standing"] == Standing.PROTECTED
