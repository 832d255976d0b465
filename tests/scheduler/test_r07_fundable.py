"""R7. What a budget carries: balance, burst room, the overdraw limit; express starts."""

import pytest

from scheduler.types import NEVER, Standing
from tests.scheduler.world import HOUR, T0, WEEK, World, start_of, started, wait_of

QUOTA = 4 * WEEK


def build_world(burst: int = NEVER, **policy: int) -> World:
    world = World(**policy)
    world.project("nlp", 50, burst=burst)
    world.project("vision", 50)
    return world


@pytest.mark.parametrize(("used", "funded"), [(QUOTA - 1, True), (QUOTA, False)])
def test_a_balance_above_zero_funds_and_zero_does_not(used: int, funded: bool) -> None:
    world = build_world()
    world.charge("nlp", used)
    workload = world.submit("nlp", contract=HOUR)
    assert started(world.go(), Standing.PROTECTED) == ([workload] if funded else [])


def test_a_contract_may_overdraw_but_not_below_the_limit() -> None:
    world = build_world(overdraw_limit_ppm=0)
    world.charge("nlp", QUOTA - 8 * HOUR)
    larger = world.submit("nlp", gpus=8, contract=HOUR + 1)
    decision = world.decide()
    assert wait_or_standing(world, larger) == Standing.UNALLOCATED
    assert started(decision, Standing.PROTECTED) == []
    exact = world.submit("nlp", gpus=4, contract=2 * HOUR)
    assert started(world.go(), Standing.PROTECTED) == [exact]


@pytest.mark.parametrize(("seconds", "funded"), [(WEEK // 2 + 1, True), (WEEK // 2 + 2, False)])
def test_by_default_a_contract_may_push_a_balance_to_minus_100_percent_not_below(seconds: int, funded: bool) -> None:
    world = build_world()
    world.charge("nlp", QUOTA - 8)
    workload = world.submit("nlp", gpus=8, contract=seconds)
    assert started(world.go(), Standing.PROTECTED) == ([workload] if funded else [])


def wait_or_standing(world: World, workload: int) -> Standing:
    return start_of(world.decide(), workload).standing


def test_the_reason_names_the_longest_minimum_runtime_that_would_do() -> None:
    world = build_world(overdraw_limit_ppm=0)
    world.charge("nlp", QUOTA - 8 * HOUR)
    workload = world.submit("nlp", gpus=8, contract=8 * HOUR, allow_unallocated=False)
    told = wait_of(world.decide(), workload)
    assert told.code == "contract_over_balance"
    assert told.as_dict()["longest_seconds"] == HOUR


def test_the_burst_cap_counts_gpus_running_and_held() -> None:
    world = build_world(burst=4)
    world.run("nlp", gpus=1, contract=HOUR, ran=60)
    world.run("nlp", gpus=1, contract=HOUR, running_at=-1, segments_at=-1, segment_at=-1)
    fits, more = world.submit("nlp", gpus=2), world.submit("nlp", gpus=1, allow_unallocated=False)
    decision = world.go()
    assert started(decision, Standing.PROTECTED) == [fits]
    told = wait_of(decision, more)
    assert told.code == "burst_cap"
    assert told.as_dict() == {"project": 11, "cap_gpus": 4, "allocated_gpus": 4}


def test_the_burst_cap_does_not_count_unallocated_gpus() -> None:
    world = build_world(burst=4)
    world.run("nlp", gpus=4, contract=0, ran=60, standing=Standing.UNALLOCATED)
    workload = world.submit("nlp", gpus=4)
    assert started(world.go(), Standing.PROTECTED) == [workload]


def test_the_burst_cap_of_every_ancestor_is_checked() -> None:
    world = World()
    world.project("programme", 100, burst=2)
    world.project("team", 100, parent="programme")
    world.project("group", 100, parent="team")
    workload = world.submit("group", gpus=3, allow_unallocated=False)
    decision = world.go()
    assert started(decision) == []
    assert wait_of(decision, workload).as_dict()["project"] == 10 + world.names["programme"]


def test_what_cannot_be_funded_runs_unallocated_if_resumable_and_allowed() -> None:
    world = build_world()
    world.charge("nlp", QUOTA)
    runs = world.submit("nlp")
    stubborn = world.submit("nlp", resumable=False)
    proud = world.submit("nlp", allow_unallocated=False)
    decision = world.go()
    assert started(decision, Standing.UNALLOCATED) == [runs]
    assert wait_of(decision, stubborn).code == "unfunded"
    assert wait_of(decision, proud).code == "unfunded"


# ---------------------------------------------------------------- express


def express_of(world: World, workload: int) -> bool:
    decision = world.go()
    return workload in started(decision) and start_of(decision, workload).express


@pytest.mark.parametrize(
    ("gpus", "contract", "first", "express"),
    [
        (8, 900, True, True),
        (1, 60, True, True),
        (8, 901, True, False),
        (8, 900, False, False),
        (1, 0, True, False),
    ],
)
def test_express_is_a_first_start_of_a_short_and_small_contract(
    gpus: int, contract: int, first: bool, express: bool
) -> None:
    world = build_world()
    workload = world.submit("nlp", gpus=gpus, contract=contract, first_start=first)
    assert express_of(world, workload) == express


def test_more_than_eight_gpus_are_not_express() -> None:
    world = World(hosts=2)
    world.project("nlp", 50)
    assert not express_of(world, world.submit("nlp", gpus=3, replicas=3, contract=60))


def test_express_starts_whatever_the_balance() -> None:
    world = build_world()
    world.charge("nlp", 3 * QUOTA)
    assert express_of(world, world.submit("nlp", gpus=8, contract=900))


def test_express_needs_a_share_now() -> None:
    world = build_world()
    world.budget("nlp", 0, at=T0)
    assert not express_of(world, world.submit("nlp", contract=60))


def test_express_stays_under_the_burst_cap() -> None:
    world = build_world(burst=2)
    assert not express_of(world, world.submit("nlp", gpus=3, contract=60))


def test_express_starts_stay_within_their_share_of_the_quota() -> None:
    world = World(hosts=10)
    world.project("nlp", 1)
    limit = 80 * WEEK // 100 * 5 // 100
    used = limit - 8 * 900
    world.state.express.add({"path": world.state.path_number(1), "decided_at": T0 - HOUR, "gpu_seconds": used})
    world.charge("nlp", 80 * WEEK)
    last, over = world.submit("nlp", gpus=8, contract=900), world.submit("nlp", gpus=1, contract=60)
    decision = world.go()
    assert start_of(decision, last).express
    assert start_of(decision, over).standing == Standing.UNALLOCATED


def test_an_express_start_counts_as_five_minutes_at_least() -> None:
    world = build_world()
    world.submit("nlp", gpus=2, contract=60)
    world.go()
    assert world.state.express["gpu_seconds"].tolist() == [2 * 300]


def test_express_starts_of_one_decision_count_five_minutes_each() -> None:
    world = World(hosts=10)
    world.project("nlp", 1)
    used = 80 * WEEK // 100 * 5 // 100 - 500
    world.state.express.add({"path": world.state.path_number(1), "decided_at": T0 - HOUR, "gpu_seconds": used})
    world.charge("nlp", 80 * WEEK)
    first, second = world.submit("nlp", contract=60), world.submit("nlp", contract=60)
    decision = world.go()
    assert start_of(decision, first).express
    assert not start_of(decision, second).express


def test_an_express_start_leaves_the_window_with_its_decision() -> None:
    world = build_world(express_share_ppm=1)
    world.charge("nlp", 2 * QUOTA)
    world.state.express.add({"path": world.state.path_number(1), "decided_at": T0 - WEEK - 1, "gpu_seconds": 10**9})
    assert not express_of(world, world.submit("nlp", contract=900))
    world = build_world()
    world.charge("nlp", 2 * QUOTA)
    world.state.express.add({"path": world.state.path_number(1), "decided_at": T0 - WEEK - 1, "gpu_seconds": 10**9})
    assert express_of(world, world.submit("nlp", contract=900))


def test_express_starts_come_before_everything_else() -> None:
    world = build_world()
    world.charge("nlp", 2 * QUOTA)
    world.submit("vision", gpus=8, contract=HOUR, priority=9)
    world.wait(60)
    express = world.submit("nlp", gpus=8, contract=300)
    assert started(world.go()) == [express]
