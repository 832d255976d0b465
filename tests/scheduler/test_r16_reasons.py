"""R16. Every decision has its reason, and every pending workload always has one."""

import pytest

from scheduler import events
from scheduler.decide import decide
from scheduler.explain import words
from scheduler.sentences import SENTENCES, say_percent, say_span
from scheduler.types import Code, Preempt, Reason, Standing
from tests.scheduler.world import DAY, HOUR, T0, WEEK, World, shuffle, wait_of

QUOTA = 4 * WEEK


def build_world(hosts: int = 1, **policy: int) -> World:
    world = World(hosts=hosts, **policy)
    world.project("nlp", 50)
    world.project("vision", 50)
    return world


def fill(world: World, contract: int = 2 * HOUR, **more: int) -> int:
    return world.run("vision", gpus=8, contract=contract, **more)


def test_unfunded_names_the_project_its_balance_and_when_it_recovers() -> None:
    world = build_world()
    world.charge("nlp", QUOTA, ago=6 * DAY)
    workload = world.submit("nlp", resumable=False)
    told = wait_of(world.decide(), workload)
    assert told.code == "unfunded"
    assert told.as_dict()["project"] == 11
    assert told.as_dict()["balance_ppm"] <= 0
    assert T0 < told.as_dict()["recovers_at"] < T0 + DAY
    assert "recovers about" in words(told)


def test_waiting_its_turn_tells_position_and_gpus_ahead() -> None:
    world = build_world()
    world.reserves = False
    fill(world)
    queue = [world.submit("nlp", gpus=gpus, first_submit_at=T0 + gpus) for gpus in (1, 2, 4)]
    decision = world.decide()
    assert wait_of(decision, queue[0]).code == "full_of_protected"
    told = wait_of(decision, queue[2])
    assert told.code == "waiting_turn"
    assert told.as_dict() == {"position": 3, "gpus_ahead": 3}
    assert words(told) == "Waits its turn: position 3, 3 GPUs ahead."


def test_positions_take_turns_between_projects_as_the_walk_would() -> None:
    world = World(hosts=1)
    for name in ("nlp", "vision", "robots"):
        world.project(name, 30)
    world.run("robots", gpus=8)
    nlp = [world.submit("nlp", first_submit_at=T0 + n) for n in range(3)]
    vision = [world.submit("vision", first_submit_at=T0 + 10 + n) for n in range(3)]
    decision = world.decide()
    position = {wait.workload: wait.reason.as_dict()["position"] for wait in decision.waits}
    assert [position[one] for one in nlp] == [1, 3, 5]
    assert [position[one] for one in vision] == [2, 4, 6]


def test_the_first_in_line_hears_of_the_next_end() -> None:
    world = build_world()
    world.reserves = False
    fill(world, ran=HOUR)
    told = wait_of_one(world)
    assert told.code == "full_of_protected"
    assert told.as_dict()["next_end_at"] == T0 + HOUR


def test_the_next_of_several_ends_is_told() -> None:
    world = build_world()
    world.reserves = False
    world.run("vision", gpus=4, contract=3 * HOUR, ran=HOUR)
    world.run("vision", gpus=4, contract=2 * HOUR, ran=HOUR)
    workload = world.submit("nlp", gpus=8)
    assert wait_of(world.decide(), workload).as_dict()["next_end_at"] == T0 + HOUR


def test_no_host_of_that_size() -> None:
    told = wait_of_one(build_world(), gpus=9)
    assert told.code == "no_host_of_size"
    assert told.as_dict()["largest_gpus"] == 8


def test_no_schedulable_host() -> None:
    world = build_world(hosts=2)
    events.cordon(world.state, 100)
    told = wait_of_one(world, gpus=8, replicas=2)
    assert told.code == "no_schedulable_host"
    assert told.as_dict()["schedulable_hosts"] == 1


def wait_of_one(world: World, **more: int) -> Reason:
    workload = world.submit("nlp", **more)
    return wait_of(world.decide(), workload)


def test_the_unallocated_queue_tells_its_position() -> None:
    world = build_world()
    fill(world)
    world.submit("nlp", contract=0, gpus=2)
    told = wait_of_one(world, contract=0)
    assert told.code == "unallocated_queue"
    assert told.as_dict() == {"position": 2, "gpus_ahead": 2}


def test_the_unallocated_queue_says_why_the_budget_does_not_carry_it() -> None:
    world = build_world()
    fill(world)
    world.charge("nlp", QUOTA)
    told = wait_of_one(world)
    assert told.code == "unallocated_queue"
    assert told.as_dict()["project"] == 11
    assert "has used its budget" in words(told)


@pytest.mark.parametrize("percent", [None, 50])
def test_a_project_without_a_budget_is_told_apart_from_a_spent_one(percent: int | None) -> None:
    world = World()
    world.project("nlp", percent)
    world.charge("nlp", QUOTA)
    told = wait_of_one(world, resumable=False)
    assert told.code == ("unfunded" if percent else "no_budget")


def test_a_preemption_names_the_taker_both_balances_and_the_time_run() -> None:
    world = build_world()
    world.run("vision", gpus=8, contract=0, ran=600, standing=Standing.UNALLOCATED)
    taker = world.submit("nlp", gpus=8)
    action = next(one for one in world.go().actions if isinstance(one, Preempt))
    numbers = action.reason.as_dict()
    assert numbers["taker_workload"] == taker
    assert {"taker_balance_ppm", "balance_ppm", "ran_seconds", "min_runtime_seconds"} <= set(numbers)
    assert numbers["ran_seconds"] == 600


def test_every_code_has_a_sentence() -> None:
    assert set(SENTENCES) == set(Code)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (90, "1 min 30 s"), (7800, "2 h 10 min"), (2 * DAY + HOUR, "2 d 1 h")],
)
def test_spans_are_told_as_people_say_them(seconds: int, text: str) -> None:
    assert say_span(seconds) == text


@pytest.mark.parametrize(
    ("ppm", "text"), [(0, "0.0 %"), (-30_000, "-3.0 %"), (123_456, "12 %"), (99_999, "9.9 %"), (-1, "-0.1 %")]
)
def test_percent_has_no_decimals_from_ten_up(ppm: int, text: str) -> None:
    assert say_percent(ppm) == text


@pytest.mark.parametrize("seed", range(6))
def test_positions_of_equals_at_different_depths_depend_on_no_order_of_rows(seed: int) -> None:
    world = World(hosts=1)
    world.project("lab", 60)
    world.project("nlp", 50, parent="lab")
    world.project("robots", 30)
    world.run("lab", gpus=8)
    for project in ("nlp", "robots", "nlp", "robots"):
        world.submit(project, contract=0, gpus=2)
    positions = [(wait.workload, wait.reason) for wait in world.decide().waits]
    shuffled = decide(shuffle(world.state.to_snapshot(), seed), world.policy)
    assert [(wait.workload, wait.reason) for wait in shuffled.waits] == positions
    assert sorted(told.as_dict()["position"] for _, told in positions) == [1, 2, 3, 4]
