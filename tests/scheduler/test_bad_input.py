"""Facts at the edge of what can be: a decision with reasons, never an exception, never a number that isn't one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import events, invariants
from scheduler.decide import decide
from scheduler.explain import words
from scheduler.state import MOST_GPUS
from scheduler.types import NEVER, PPM, Decision, SnapshotRefused, Standing
from tests.scheduler.driver import Life, busy_times, do_step, examples
from tests.scheduler.world import DAY, HOUR, T0, WEEK, World, started, wait_of


def tell(decision: Decision) -> list[str]:
    """Every reason in words."""
    return [words(one.reason) for one in decision.waits] + [words(action.reason) for action in decision.actions]


def test_no_hosts() -> None:
    world = World(hosts=0)
    world.project("nlp", 50)
    workloads = [world.submit("nlp", contract=contract) for contract in (0, HOUR)]
    decision = world.go()
    assert [wait_of(decision, one).code for one in workloads] == ["no_host_of_size"] * 2
    assert all(tell(decision))


def test_hosts_without_gpus_and_hosts_that_take_nothing() -> None:
    world = World(hosts=2, gpus=0)
    world.project("nlp", 50)
    workload = world.submit("nlp")
    assert wait_of(world.go(), workload).code == "no_host_of_size"
    world = World(hosts=2)
    world.project("nlp", 50)
    for host in (100, 101):
        events.cordon(world.state, host)
    workload = world.submit("nlp")
    assert wait_of(world.go(), workload).code == "no_schedulable_host"


def test_budgets_of_zero() -> None:
    world = World()
    world.project("nlp", 0)
    world.project("vision", 0)
    workloads = [world.submit(name, resumable=False) for name in ("nlp", "vision")]
    decision = world.go()
    assert [wait_of(decision, one).code for one in workloads] == ["no_budget"] * 2
    assert [one.balance_ppm for one in decision.balances if one.project in (11, 12)] == [None, None]


def test_one_project_with_everything() -> None:
    world = World(hosts=2)
    world.project("all", 100)
    world.project("none", 0)
    root, mine = world.submit("root", gpus=8), world.submit("all", gpus=8)
    decision = world.go()
    assert started(decision, Standing.PROTECTED) == [mine]
    assert started(decision, Standing.UNALLOCATED) == [root]  # nothing is left for the root's own work


@pytest.mark.parametrize("gpus", [1 << 40, MOST_GPUS + 1])
def test_a_gpu_count_near_2_to_the_40_is_refused(gpus: int) -> None:
    world = World()
    world.hosts[0]["gpus"] = gpus
    with pytest.raises(SnapshotRefused, match="more than"):
        world.decide()
    world = World()
    world.submit("root", gpus=gpus)
    with pytest.raises(SnapshotRefused, match="more than"):
        decide(world.state.to_snapshot(), world.policy)


@pytest.mark.parametrize("share", [1 << 40, PPM + 1, -1])
def test_a_share_that_can_not_be_is_refused(share: int) -> None:
    world = World()
    world.shares.append({"project": 0, "at": T0, "share_ppm": share, "burst_gpus": NEVER})
    with pytest.raises(SnapshotRefused, match="share"):
        world.decide()


def test_the_largest_numbers_are_carried_without_loss() -> None:
    world = World(hosts=4, gpus=MOST_GPUS, lookback_seconds=366 * DAY)
    world.capacity[0]["at"] = T0 - 400 * DAY
    world.project("nlp", 50, at=T0 - 400 * DAY)
    for _ in range(3):
        path = world.state.path_number(world.names["nlp"])
        row = {"path": path, "author": 1, "start_at": T0 - 366 * DAY, "end_at": T0, "gpus": MOST_GPUS}
        world.state.charged.add(row)
    balance = next(one for one in world.go().balances if one.project == 11)
    assert balance.usage_gpu_seconds == 3 * MOST_GPUS * 366 * DAY
    assert balance.quota_gpu_seconds == 2 * MOST_GPUS * 366 * DAY
    assert balance.balance_ppm == -PPM // 2


def test_a_burst_cap_and_a_contract_near_2_to_the_40_are_carried() -> None:
    world = World()
    world.project("nlp", 50, burst=1 << 40)
    workload = world.submit("nlp", gpus=8, contract=1 << 40, allow_unallocated=False)
    decision = world.go()
    assert wait_of(decision, workload).code == "contract_over_balance"
    assert all(tell(decision))


def test_a_workload_larger_than_the_cluster() -> None:
    world = World(hosts=2)
    world.project("nlp", 50)
    sizes: list[dict[str, int]] = [{"gpus": 9}, {"gpus": 8, "replicas": 3}, {"gpus": 1, "replicas": 17}]
    workloads = [world.submit("nlp", **size) for size in sizes]
    decision = world.go()
    assert {wait_of(decision, one).code.value for one in workloads} == {"no_host_of_size"}


def test_a_clock_that_steps_back_serves_nothing_and_charges_nothing() -> None:
    world = World()
    world.project("nlp", 50)
    workload = world.submit("nlp", gpus=4, contract=HOUR)
    world.go()
    world.start_all()
    world.wait(600)
    before = next(one for one in world.go().balances if one.project == 11)
    world.wait(-300)
    after = next(one for one in world.go().balances if one.project == 11)
    assert after.usage_gpu_seconds == before.usage_gpu_seconds == 4 * HOUR
    world.wait(-2 * DAY)  # before it was even submitted
    decision = world.go()
    assert decision.actions == ()
    assert world.standing_of(world.attempt_of(workload)["id"]) == Standing.PROTECTED
    world.wait(2 * DAY + 300 + HOUR)
    assert [type(action).__name__ for action in world.go().actions][:1] == ["Mature"]


def test_hosts_that_vanish_between_the_facts_and_the_next() -> None:
    world = World(hosts=2)
    world.project("nlp", 50)
    world.project("vision", 50)
    world.run("vision", gpus=8, contract=0, ran=60, standing=Standing.UNALLOCATED)
    workload = world.submit("nlp", gpus=8, replicas=2)
    world.go()  # held: one host is emptied for it
    world.start_all()
    facts = world.state.to_snapshot()
    hosts = replace(facts.hosts, schedulable=np.zeros(2, dtype=bool))
    decision = decide(replace(facts, hosts=hosts), world.policy)
    invariants.check(replace(facts, hosts=hosts), decision)
    assert [type(action).__name__ for action in decision.actions] == ["GiveUp"]
    assert wait_of(decision, workload).code == "no_schedulable_host"


@examples(15)
@given(busy_times, st.sampled_from([{"lookback_seconds": 1}, {"half_life_seconds": 1}, {"first_budget_seconds": 0}]))
def test_odd_windows_give_whole_numbers_and_words(life: Life, policy: dict[str, Any]) -> None:
    lab, history = life
    world = lab.build(**policy)
    for step in history[:12]:
        do_step(world, step)
        decision = world.go()
        assert all(isinstance(one.usage_gpu_seconds, int) for one in decision.balances)
        assert all("nan" not in text.lower() for text in tell(decision))


def test_a_ledger_with_a_segment_that_ends_before_it_starts_is_refused() -> None:
    world = World()
    world.state.charged.add({"path": 0, "author": 1, "start_at": T0, "end_at": T0 - WEEK, "gpus": 1})
    with pytest.raises(SnapshotRefused, match="ends before"):
        decide(world.state.to_snapshot(), world.policy)
