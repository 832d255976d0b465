"""R5, R6. Funded past the contract; lapsed without balance; returned without a restart."""

import pytest

from scheduler.types import Standing
from tests.scheduler.world import DAY, HOUR, WEEK, World, lapsed, preempted, returned, started

QUOTA = 4 * WEEK  # of nlp: 50 % of 8 GPUs


def build_world(**policy: int) -> World:
    world = World(**policy)
    world.project("nlp", 50)
    world.project("vision", 50)
    return world


def test_past_its_minimum_runtime_it_stays_funded_while_there_is_balance() -> None:
    world = build_world()
    attempt = world.run("nlp", contract=HOUR, ran=2 * HOUR, standing=Standing.FUNDED)
    assert lapsed(world.go()) == []
    assert world.standing_of(attempt) == Standing.FUNDED


@pytest.mark.parametrize(("used", "lapses"), [(QUOTA - 1, False), (QUOTA, True), (QUOTA + 1, True)])
def test_at_balance_zero_exactly_it_lapses(used: int, lapses: bool) -> None:
    world = build_world()
    world.charge("nlp", used - HOUR, ago=2 * HOUR)
    attempt = world.run("nlp", contract=HOUR, ran=HOUR, standing=Standing.FUNDED)
    assert lapsed(world.go()) == ([attempt] if lapses else [])


def test_it_lapses_when_any_project_on_its_path_is_spent() -> None:
    world = World()
    world.project("lab", 50)
    world.project("nlp", 50, parent="lab")
    world.project("vision", 50, parent="lab")
    world.charge("vision", QUOTA)
    attempt = world.run("nlp", contract=HOUR, ran=HOUR, standing=Standing.FUNDED)
    assert lapsed(world.go()) == [attempt]


def test_the_root_is_not_asked() -> None:
    world = World()
    world.project("nlp", 50)
    world.charge("root", 100 * WEEK)
    world.run("nlp", contract=HOUR, ran=HOUR, standing=Standing.FUNDED)
    assert lapsed(world.go()) == []


def test_a_contract_ends_before_a_lapse_however_spent_the_budget() -> None:
    world = build_world()
    world.charge("nlp", 2 * QUOTA)
    attempt = world.run("nlp", contract=HOUR, ran=HOUR - 1)
    assert lapsed(world.go()) == []
    world.wait(1)
    assert lapsed(world.go()) == [attempt]


def test_a_project_without_a_budget_lapses_at_the_end_of_its_contract() -> None:
    world = build_world()
    attempt = world.run("nlp", contract=HOUR, ran=HOUR)
    world.budget("nlp", 0)
    assert lapsed(world.go()) == [attempt]


@pytest.mark.parametrize(("used", "returns"), [(QUOTA * 99 // 100 - HOUR - 1, True), (QUOTA * 99 // 100, False)])
def test_it_returns_above_the_margin_and_not_at_it(used: int, returns: bool) -> None:
    world = build_world()
    world.charge("nlp", used, ago=3 * HOUR)
    attempt = world.run("nlp", contract=HOUR, ran=2 * HOUR, standing=Standing.UNALLOCATED, lapsed=True)
    assert returned(world.go()) == ({attempt: Standing.FUNDED} if returns else {})


def test_it_returns_protected_for_what_is_left_of_its_minimum_runtime() -> None:
    world = build_world()
    attempt = world.run("nlp", contract=HOUR, ran=600, standing=Standing.UNALLOCATED)
    assert returned(world.go()) == {attempt: Standing.PROTECTED}
    world.wait(HOUR - 600)
    world.go()
    assert world.standing_of(attempt) == Standing.FUNDED


def test_a_return_needs_burst_room() -> None:
    world = World()
    world.project("nlp", 50, burst=3)
    world.run("nlp", gpus=2, contract=HOUR, ran=60)
    world.run("nlp", gpus=2, contract=HOUR, ran=60, standing=Standing.UNALLOCATED)
    assert returned(world.go()) == {}


def test_a_return_needs_the_budget_to_carry_its_remainder() -> None:
    world = build_world(overdraw_limit_ppm=0)
    world.charge("nlp", QUOTA // 2)
    world.run("nlp", gpus=8, contract=60 * DAY, ran=60, standing=Standing.UNALLOCATED)
    assert returned(world.go()) == {}


def test_minimum_runtime_zero_never_returns() -> None:
    world = build_world()
    world.run("nlp", contract=0, ran=HOUR, standing=Standing.UNALLOCATED)
    assert returned(world.go()) == {}


@pytest.mark.parametrize("resumable", [True, False])
def test_minimum_runtime_zero_runs_unallocated_resumable_or_not(resumable: bool) -> None:
    world = build_world()
    workload = world.submit("nlp", contract=0, resumable=resumable, allow_unallocated=False)
    assert started(world.go(), Standing.UNALLOCATED) == [workload]


def test_gpus_do_not_idle_for_lack_of_a_budget() -> None:
    world = build_world()
    world.charge("nlp", 2 * QUOTA)
    workload = world.submit("nlp", gpus=8, contract=4 * HOUR)
    assert started(world.go(), Standing.UNALLOCATED) == [workload]


def test_what_is_taken_at_an_instant_does_not_return_at_it() -> None:
    world = build_world()
    attempt = world.run("nlp", gpus=8, contract=HOUR, ran=60, standing=Standing.UNALLOCATED)
    world.charge("nlp", QUOTA // 2)
    world.submit("vision", gpus=8, contract=HOUR)
    decision = world.go()
    assert preempted(decision) == [attempt]
    assert returned(decision) == {}
    assert world.standing_of(attempt) == Standing.STOPPING


def test_a_start_that_spends_the_balance_makes_past_minimum_work_lapse_at_once() -> None:
    world = build_world()
    world.charge("nlp", QUOTA - 2 * HOUR, ago=3 * HOUR)
    attempt = world.run("nlp", contract=HOUR, ran=HOUR, standing=Standing.FUNDED)
    workload = world.submit("nlp", contract=2 * HOUR)
    decision = world.go()
    assert started(decision, Standing.PROTECTED) == [workload]
    assert lapsed(decision) == [attempt]


def test_unallocated_time_is_charged_nothing() -> None:
    world = build_world()
    world.run("nlp", gpus=8, contract=0, ran=10 * HOUR, standing=Standing.UNALLOCATED)
    usage = {one.project: one.usage_gpu_seconds for one in world.go().balances}
    assert usage[10 + world.names["nlp"]] == 0
