"""What went wrong in other schedulers, as inputs with the right result for ours.

Those that belong to one rule stand with it; here are the ones that cross several.
"""

import time

from scheduler import events
from scheduler.types import Standing
from tests.scheduler.world import DAY, HOUR, WEEK, World, balance_of, lapsed, preempted, start_of, started, wait_of


def test_a_project_with_no_budget_and_no_usage_sorts_last_and_may_use_idle_gpus() -> None:
    world = World()
    world.project("poor", None)
    world.project("nlp", 10)
    world.charge("nlp", 1000)
    poor = world.submit("poor", gpus=4)
    nlp = world.submit("nlp", gpus=4)
    decision = world.go()
    assert started(decision) == [nlp, poor]
    assert start_of(decision, poor).standing == Standing.UNALLOCATED


def test_a_year_of_idleness_leaves_a_finite_order() -> None:
    world = World(gpus=1)
    world.project("nlp", 50)
    world.project("vision", 50)
    world.charge("nlp", 10**6)
    world.wait(365 * DAY)
    assert balance_of(world, "nlp").balance_ppm == 10**6
    first = world.submit("nlp")
    world.submit("vision")
    assert started(world.go()) == [first]


def test_eight_hours_declared_and_ten_minutes_run_are_charged_ten_minutes() -> None:
    world = World()
    world.project("nlp", 50)
    workload = world.submit("nlp", contract=8 * HOUR)
    world.go()
    world.start_all()
    world.wait(600)
    assert balance_of(world, "nlp").usage_gpu_seconds == 8 * HOUR
    events.end(world.state, world.attempt_of(workload)["id"])
    assert balance_of(world, "nlp").usage_gpu_seconds == 600


def test_a_cut_budget_stops_nothing_before_its_minimum_runtime() -> None:
    world = World()
    world.project("nlp", 50)
    world.charge("nlp", 3 * WEEK)
    protected = world.run("nlp", gpus=2, contract=4 * HOUR, ran=HOUR)
    past = world.run("nlp", gpus=2, contract=HOUR, ran=HOUR, standing=Standing.FUNDED)
    world.budget("nlp", 1)
    assert lapsed(world.go()) == []  # no debt for the time under the old budget
    world.wait(3 * DAY)
    assert world.standing_of(protected) == Standing.PROTECTED
    assert past in lapsed(world.go())


def test_use_settles_at_a_cut_budget_without_swinging() -> None:
    world = World(hosts=4, lookback_seconds=DAY)
    world.project("nlp", 50)
    world.project("vision", 50)
    used = []
    for hour in range(5 * 24):
        if hour == 2 * 24:
            world.budget("nlp", 25)
        for name in ("nlp", "vision"):
            waiting = world.state.pending["project"] == world.names[name]
            for _ in range(12 - int(waiting.sum())):
                world.submit(name, gpus=4, contract=2 * HOUR)
        world.free_stopped()
        world.go()
        world.start_all()
        used.append(balance_of(world, "nlp").allocated_gpus)
        world.wait(HOUR)
        for attempt in world.state.attempts["id"].tolist():
            row = world.state.attempts.row(world.state.attempts.find("id", attempt))
            if row["running_at"] >= 0 and world.now - row["running_at"] >= 3 * HOUR:
                events.end(world.state, attempt)
    before, after = used[24 : 2 * 24], used[3 * 24 :]
    assert 14 <= sum(before) / len(before) <= 18
    assert 6 <= sum(after) / len(after) <= 10


def test_an_authors_ten_thousand_look_alikes_change_little_for_others() -> None:
    alone, flooded = build_shared(0), build_shared(10_000)
    other = [world.submit("nlp", author=2) for world in (alone, flooded)]
    began = time.process_time()
    assert other[1] in started(flooded.decide())
    assert time.process_time() - began < 3
    assert other[0] in started(alone.decide())


def build_shared(count: int) -> World:
    world = World()
    world.project("nlp", 50)
    for _ in range(count):
        world.submit("nlp", author=1, first_submit_at=world.now - DAY)
    return world


def test_an_empty_cluster_decides_nothing() -> None:
    world = World(hosts=0)
    world.project("nlp", 50)
    workload = world.submit("nlp")
    decision = world.go()
    assert decision.actions == ()
    assert wait_of(decision, workload).code == "no_host_of_size"


def test_a_cluster_with_only_a_root_funds_all_its_work() -> None:
    world = World()
    workload = world.submit("root", gpus=8)
    assert started(world.go(), Standing.PROTECTED) == [workload]


def test_started_and_preempted_in_one_decision_cannot_happen() -> None:
    world = World()
    world.project("nlp", 50)
    world.project("vision", 50)
    world.submit("nlp", gpus=8, contract=0)
    funded = world.submit("vision", gpus=8)
    decision = world.go()
    assert started(decision) == [funded]
    assert preempted(decision) == []


def test_preempted_while_starting_leaves_a_clean_state() -> None:
    world = World()
    world.project("nlp", 50)
    world.project("vision", 50)
    low = world.submit("nlp", gpus=8, contract=0)
    world.go()
    taker = world.submit("vision", gpus=8)
    assert preempted(world.go()) == [world.attempt_of(low)["id"]]
    world.wait(10)
    world.free_stopped()
    world.go()
    assert world.attempt_of(taker)["running_at"] == -1
    assert low in world.state.pending["id"]
    assert balance_of(world, "nlp").usage_gpu_seconds == 0
