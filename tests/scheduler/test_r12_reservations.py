"""R12, and R7's and R8's parts of it. Hosts and times for heads that can't start."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import events
from scheduler.types import NEVER, Code, Decision, Release, Reserve, Shift, Standing, Start
from tests.scheduler.world import (
    DAY,
    HOUR,
    T0,
    WEEK,
    World,
    balance_of,
    lapsed,
    preempted,
    returned,
    start_of,
    started,
    wait_of,
)

FUNDED = Standing.FUNDED


def build_world(hosts: int = 2, **policy: Any) -> World:
    world = World(hosts=hosts, **policy)
    world.project("nlp", 40)
    world.project("vision", 40)
    return world


def reserves(decision: Decision) -> dict[int, Reserve]:
    return {action.workload: action for action in decision.actions if isinstance(action, Reserve)}


def fill(world: World, *lengths: int, project: str = "vision") -> list[int]:
    """A protected attempt of 8 GPUs on each host, with that many seconds left."""
    return [world.run(project, gpus=8, contract=left + 60, ran=60, on={host: 1}) for host, left in enumerate(lengths)]


def carry_on(world: World, seconds: int, step: int = 60) -> list[Decision]:
    """Passes every minute; what starts runs at once, what is stopped is gone at the next pass."""
    decisions = []
    for _ in range(seconds // step):
        world.wait(step)
        world.free_stopped()
        decisions.append(world.go())
        world.start_all()
    return decisions


# ---------------------------------------------------------------- making one


def test_a_head_that_cannot_start_gets_the_hosts_that_are_certain_first() -> None:
    world = build_world(hosts=3)
    world.charge("vision", WEEK)
    fill(world, 3 * HOUR, HOUR, 2 * HOUR)
    head = world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    made = reserves(world.go())[head]
    assert made.at == T0 + 2 * HOUR
    assert made.placement == ((101, 1), (102, 1))


def test_it_starts_at_its_time_and_takes_what_is_past_its_minimum() -> None:
    world = build_world()
    world.charge("vision", WEEK)
    attempts = fill(world, HOUR, 2 * HOUR)
    head = world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    at = reserves(world.go())[head].at
    decisions = carry_on(world, 2 * HOUR)
    assert world.now == at
    assert start_of(decisions[-1], head).victims == tuple(attempts)
    assert start_of(decisions[-1], head).reason.code == Code.RESERVED_START


def test_one_reservation_for_each_child_of_the_root_in_the_order_of_the_walk() -> None:
    world = World(hosts=2)
    for name in ("nlp", "vision", "robots"):
        world.project(name, 30)
    world.charge("robots", 2 * WEEK)
    fill(world, HOUR, HOUR, project="robots")
    nlp = [world.submit("nlp", gpus=8, contract=HOUR) for _ in range(2)]
    vision = [world.submit("vision", gpus=8, contract=HOUR) for _ in range(2)]
    assert list(reserves(world.go())) == [nlp[0], vision[0]]


def test_no_more_reservations_than_the_policy_allows() -> None:
    world = World(hosts=4, reservations_most=1)
    for name in ("nlp", "vision", "robots"):
        world.project(name, 30)
    world.charge("robots", 2 * WEEK)
    fill(world, HOUR, HOUR, HOUR, HOUR, project="robots")
    for name in ("nlp", "vision"):
        world.submit(name, gpus=8, contract=HOUR)
    assert len(reserves(world.go())) == 1


def test_later_heads_get_other_hosts_or_the_time_after() -> None:
    world = World(hosts=1)
    for name in ("nlp", "vision", "robots"):
        world.project(name, 30)
    world.charge("robots", WEEK)
    world.charge("vision", 8 * 3 * HOUR)
    fill(world, HOUR, project="robots")
    first = world.submit("nlp", gpus=8, contract=4 * HOUR)
    second = world.submit("vision", gpus=8, contract=1800)
    made = reserves(world.go())
    assert made[first].at == T0 + HOUR
    assert second not in made or made[second].at >= T0 + 5 * HOUR


def test_what_is_in_the_way_in_its_own_project_gives_no_certainty() -> None:
    world = build_world(hosts=1)
    fill(world, HOUR, project="nlp")
    world.submit("nlp", gpus=8)
    assert reserves(world.go()) == {}


def test_lower_priority_in_its_own_project_does() -> None:
    world = build_world(hosts=1)
    fill(world, HOUR, project="nlp")
    head = world.submit("nlp", gpus=8, priority=1)
    assert reserves(world.go())[head].at == T0 + HOUR


def test_a_contract_that_is_not_deserving_enough_hears_what_would_do() -> None:
    world = build_world(hosts=1)
    world.charge("vision", 8 * 5 * HOUR, ago=2 * HOUR)
    fill(world, HOUR)
    head = world.submit("nlp", gpus=8, contract=8 * HOUR)
    decision = world.go()
    assert reserves(decision) == {}
    told = wait_of(decision, head)
    assert told.code == Code.CONTRACT_TOO_LARGE
    shorter = world.submit("nlp", gpus=8, contract=told.as_dict()["longest_seconds"])
    assert shorter in reserves(world.go())
    longer = world.submit("nlp", gpus=8, contract=told.as_dict()["longest_seconds"] + 1, priority=1)
    assert longer not in reserves(world.go())


def test_where_no_reservation_is_kept_none_is_made() -> None:
    world = build_world(hosts=1)
    world.reserves = False
    fill(world, HOUR)
    world.submit("nlp", gpus=8)
    assert reserves(world.go()) == {}


# ---------------------------------------------------------------- keeping it


def keep_one(world: World, left: int = 2 * HOUR, contract: int = 4 * HOUR) -> tuple[int, int]:
    """A head of nlp with a reservation on both hosts, host 0 idle; (workload, its time)."""
    world.charge("vision", WEEK, ago=3 * HOUR)
    world.run("vision", gpus=8, contract=left + 60, ran=60, on={1: 1})
    head = world.submit("nlp", gpus=8, replicas=2, contract=contract)
    return head, reserves(world.go())[head].at


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


def test_what_came_since_is_taken_once_past_its_minimum_whatever_its_balance() -> None:
    world = build_world()
    world.project("robots", 10)
    head, at = keep_one(world, left=2 * HOUR)
    deserving = world.submit("robots", gpus=8, contract=HOUR)
    carry_on(world, 60)
    attempt = world.attempt_of(deserving)["id"]
    world.charge("nlp", WEEK, ago=3 * HOUR)  # nlp now is behind robots
    decisions = carry_on(world, at - world.now)
    assert attempt in start_of(decisions[-1], head).victims


def test_funding_is_judged_when_it_is_made_and_kept() -> None:
    world = build_world()
    head, at = keep_one(world)
    world.charge("nlp", 10 * WEEK, ago=3 * HOUR)  # spent long since
    decisions = carry_on(world, at - world.now)
    assert start_of(decisions[-1], head).standing == Standing.PROTECTED


def test_its_contract_counts_in_what_others_of_the_project_may_start() -> None:
    world = build_world(overdraw_limit_ppm=0)
    world.charge("nlp", 16 * WEEK * 4 // 10 - 8 * 2 * 4 * HOUR - 8 * HOUR + 1, ago=3 * HOUR)
    world.charge("vision", 7 * WEEK, ago=3 * HOUR)
    world.run("vision", gpus=8, contract=2 * HOUR, ran=60, on={1: 1})
    head = world.submit("nlp", gpus=8, replicas=2, contract=4 * HOUR)
    assert head in reserves(world.go())
    other = world.submit("nlp", gpus=8, contract=HOUR)
    assert start_of(world.go(), other).standing == Standing.UNALLOCATED


def test_it_is_over_when_it_loses_a_host_and_may_be_made_anew() -> None:
    world = build_world(hosts=3)
    world.charge("vision", WEEK)
    fill(world, HOUR, 2 * HOUR, 3 * HOUR)
    head = world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    world.go()
    events.cordon(world.state, 100)
    decision = world.go()
    assert [action.workload for action in decision.actions if isinstance(action, Release)] == [head]
    assert reserves(decision)[head].at == T0 + 3 * HOUR


def test_it_starts_before_its_time_when_it_can() -> None:
    world = build_world()
    head, at = keep_one(world)
    world.wait(60)
    events.end(world.state, int(world.state.attempts["id"][0]))
    assert started(world.go()) == [head]
    assert world.now < at


def test_reserved_work_starts_before_express_and_all_others() -> None:
    world = build_world()
    head, at = keep_one(world)
    world.wait(at - world.now)
    express = world.submit("vision", gpus=1, contract=60)
    assert started(world.go())[0] == head
    assert express in world.state.pending["id"]


def test_who_cancels_one_reserves_nothing_for_a_day() -> None:
    world = build_world()
    head, _ = keep_one(world)
    events.withdraw(world.state, head)
    again = world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    other = world.submit("nlp", gpus=8, replicas=2, contract=HOUR, author=2)
    decision = world.go()
    assert list(reserves(decision)) == [other]
    events.withdraw(world.state, other)
    world.wait(DAY)
    fill(world, HOUR, HOUR)
    assert list(reserves(world.go())) == [again]


def test_an_overrun_is_named_and_the_reservation_kept() -> None:
    world = build_world()
    head, at = keep_one(world)
    late = int(world.state.attempts["id"][0])
    world.state.attempts["running_at"][0] += 600  # it came up later than it said
    world.wait(at - world.now)
    told = wait_of(world.go(), head)
    assert told.code == Code.RESERVED
    assert told.as_dict()["late_attempt"] == late
    world.wait(600)
    assert started(world.go()) == [head]


# ---------------------------------------------------------------- express


def test_express_starts_may_use_its_hosts_and_move_its_time_once() -> None:
    world = build_world()
    head, at = keep_one(world, left=600)
    first = world.submit("vision", gpus=8, contract=900)
    decision = world.go()
    assert first in started(decision)
    assert [(one.workload, one.at) for one in decision.actions if isinstance(one, Shift)] == [(head, at + 900)]
    world.start_all()
    events.end(world.state, world.attempt_of(first)["id"])
    world.wait(800)
    world.submit("vision", gpus=8, contract=900, resumable=False)
    decision = world.go()
    assert not [one for one in decision.actions if isinstance(one, Shift)]


def test_an_express_start_that_ends_in_time_moves_nothing() -> None:
    world = build_world()
    keep_one(world, left=2 * HOUR)
    world.submit("vision", gpus=8, contract=900)
    decision = world.go()
    assert len(started(decision)) == 1
    assert not [one for one in decision.actions if isinstance(one, Shift)]


# ---------------------------------------------------------------- returns and caps


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


def build_capped() -> tuple[World, int, int]:
    """lab may have 8 GPUs; vision holds them, with an hour left; nlp's head lacks the room."""
    world = World(hosts=2)
    world.project("lab", 80, burst=8)
    world.project("nlp", 50, parent="lab")
    world.project("vision", 50, parent="lab")
    world.charge("vision", 2 * WEEK, ago=3 * HOUR)
    attempt = world.run("vision", gpus=8, contract=HOUR + 60, ran=60)
    head = world.submit("nlp", gpus=8, contract=2 * HOUR, allow_unallocated=False)
    return world, head, attempt


def test_a_head_that_lacks_room_under_a_cap_reserves_it() -> None:
    world, head, attempt = build_capped()
    assert reserves(world.go())[head].at == T0 + HOUR
    decisions = carry_on(world, HOUR)
    assert lapsed(decisions[-1]) == [attempt]
    assert start_of(decisions[-1], head).victims == ()


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


# ---------------------------------------------------------------- saving


def test_behind_a_head_without_a_reservation_work_runs_unallocated_if_the_policy_says_so() -> None:
    for saving, standing in ((0, Standing.PROTECTED), (1, Standing.UNALLOCATED)):
        world = build_world(save_for_head=saving)
        world.run("vision", gpus=8, contract=HOUR, ran=60, on={0: 1})
        world.submit("nlp", gpus=8, replicas=2, contract=8 * HOUR, first_submit_at=T0 - DAY)
        small = world.submit("nlp", gpus=1, contract=HOUR)
        assert start_of(world.go(), small).standing == standing


# ---------------------------------------------------------------- properties

kinds = st.fixed_dictionaries(
    {
        "project": st.sampled_from(["nlp", "vision", "robots"]),
        "gpus": st.sampled_from([1, 2, 4, 8]),
        "replicas": st.sampled_from([1, 1, 2, 3]),
        "contract": st.sampled_from([0, 60, 900, HOUR, 3 * HOUR]),
        "author": st.integers(1, 3),
        "priority": st.integers(0, 1),
        "resumable": st.booleans(),
        "allow_unallocated": st.booleans(),
        "first_start": st.booleans(),
    }
)
rounds = st.lists(
    st.tuples(st.lists(kinds, max_size=4), st.sampled_from([60, 600, 1800, HOUR]), st.integers(0, 99)),
    min_size=3,
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(rounds, st.sampled_from([NEVER, 8, 12]))
def test_a_workload_with_a_reservation_starts_by_the_time_it_names(
    history: list[tuple[list[dict[str, Any]], int, int]], burst: int
) -> None:
    # No faults, no people; the 15 minutes of express starts are in the time that is named.
    world = World(hosts=3)
    world.project("nlp", 40, burst=burst)
    world.project("vision", 30)
    world.project("robots", 20)
    promised: dict[int, int] = {}
    for submitted, seconds, number in history:
        for one in submitted:
            world.submit(**one)
        until = world.now + seconds
        while world.now < until:
            pass_once(world, promised)
            upcoming = [at for at in promised.values() if world.now < at < until]
            world.wait(min([*upcoming, until, world.now + 900]) - world.now)
        finish_one(world, number)
    while promised:
        pass_once(world, promised)
        world.wait(min(promised.values(), default=world.now) - world.now)


def pass_once(world: World, promised: dict[int, int]) -> None:
    """A pass, what is stopped is gone at once, and a pass again."""
    for _ in range(2):
        world.free_stopped()
        for action in world.go().actions:
            match action:
                case Reserve() | Shift():
                    promised[action.workload] = action.at
                case Start(workload=workload):
                    promised.pop(workload, None)
    late = {workload: at for workload, at in promised.items() if at <= world.now}
    assert not late, (late, world.now)
    world.start_all()


def finish_one(world: World, number: int) -> None:
    attempts = world.state.attempts
    running = sorted(attempts["id"][(attempts["running_at"] != NEVER) & (attempts["stopping_at"] == NEVER)].tolist())
    if running:
        events.end(world.state, running[number % len(running)])


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


def test_a_reservation_is_kept_though_its_projects_budget_is_withdrawn() -> None:
    world = build_world()
    head, at = keep_one(world)
    world.wait(60)
    world.budget("nlp", 0)
    decisions = carry_on(world, at - world.now)
    assert start_of(decisions[-1], head).standing == Standing.PROTECTED
