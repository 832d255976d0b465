"""A state that is kept from decision to decision says what one made from the facts says, after every event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import events, invariants
from scheduler.board import find_window
from scheduler.charges import Charge
from scheduler.decide import decide
from scheduler.facts import read_facts
from scheduler.state import State
from scheduler.sums import count_sums
from scheduler.types import NEVER, Attempts, BoolArray, IntArray, Pending, Reserve, Standing
from tests.scheduler.driver import (
    Lab,
    Life,
    Step,
    busy_times,
    calm_times,
    do_step,
    examples,
    histories,
    labs,
    make_busy,
)
from tests.scheduler.test_properties import policies
from tests.scheduler.world import DAY, HOUR, T0, World, preempted

EVENTS = ("advance", "submit", "withdraw", "run", "checkpoint", "cordon", "drain", "stop", "free", "end", "apply")


class Twins:
    """A world, and a kept state to which the same events happen."""

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.kept = State(world.state.to_snapshot()).keep()
        self._inside = False
        for name in EVENTS:
            patch.setattr(events, name, self._double(getattr(events, name)))

    def _double(self, event: Callable[..., Any]) -> Callable[..., Any]:
        def happen(state: State, *args: Any, **more: Any) -> Any:
            if self._inside or state is not self.world.state:
                return event(state, *args, **more)
            self._inside = True
            try:
                self.kept.shares = state.shares
                event(self.kept, *args, **more)
                return event(state, *args, **more)
            finally:
                self._inside = False

        return happen

    def compare(self) -> None:
        """Both decide alike, with reasons and balances or without."""
        self.kept.shares = self.world.state.shares
        right = decide(self.world.state, self.world.policy)
        short = decide(self.kept, self.world.policy, waits=False)
        assert short.actions == right.actions
        assert decide(self.kept, self.world.policy) == right
        self.count_charges()
        self.count_sums()
        if not right.actions:
            self.rest()

    def count_charges(self) -> None:
        """The contracts by which a rest goes are those of what waits and of what runs unallocated."""
        ground, facts = self.kept.ground, self.kept.to_snapshot()
        assert ground is not None
        pending, attempts = facts.pending, facts.attempts
        waits = np.ones(len(pending.id), dtype=bool)
        idle = attempts.standing == Standing.UNALLOCATED
        projects = len(facts.projects.id)
        waiting = list_charges(projects, pending, pending.min_runtime_seconds, waits)
        assert ground.waiting.by_project == [[charge for charge, _ in charges] for charges in waiting]
        assert ground.ledgers.unallocated.by_project == list_charges(
            projects, attempts, attempts.contract_seconds, idle
        )

    def count_sums(self) -> None:
        """What is counted from change to change is what the segments and attempts say."""
        ground, snapshot = self.kept.ground, self.kept.to_snapshot()
        assert ground is not None and ground.tree is not None
        if not ground._keeps:
            return
        facts = read_facts(snapshot, self.world.policy)
        counted = count_sums(facts, ground.tree, find_window(snapshot.now, self.world.policy))
        kept = ground.ledgers.sums()
        for name in ("usage", "unallocated_usage", "allocated", "unallocated_gpus", "express"):
            assert getattr(kept, name) == getattr(counted, name)
        assert isinstance(counted.author_usage, dict)
        for key, used in counted.author_usage.items():
            assert kept.author_usage.get(key, 0) == used

    def rest(self) -> None:
        """Where the kept state says that nothing can change before some moment, nothing does."""
        now, until = self.kept.now, self.kept.find_rest()
        for moment in {now + 1, (now + until) // 2, until - 1} if until > now + 1 else ():
            later = State(self.kept.to_snapshot())
            later.now = moment
            assert decide(later, self.world.policy).actions == ()


def list_charges(projects: int, table: Pending | Attempts, seconds: IntArray, chosen: BoolArray) -> list[list[Charge]]:
    """(GPU-seconds, id) of the contracts of these rows, by project and in order."""
    charges: list[list[Charge]] = [[] for _ in range(projects)]
    whole = table.replicas * table.gpus_per_replica * seconds
    for row in np.flatnonzero(chosen & (whole > 0)).tolist():
        charges[int(table.project[row])].append((int(whole[row]), int(table.id[row])))
    return [sorted(one) for one in charges]


def live(lab: Lab, history: list[Step], look: list[bool], **policy: Any) -> None:
    """The same life twice; both are asked after every event, or only now and then."""
    with pytest.MonkeyPatch.context() as patch:
        twins = Twins(lab.build(**policy), patch)
        for number, step in enumerate(history):
            do_step(twins.world, step)
            if look[number % len(look)]:
                twins.compare()
                events.apply(twins.world.state, decide(twins.world.state, twins.world.policy))
                twins.compare()


looks = st.lists(st.booleans(), min_size=1, max_size=6).map(lambda flags: [*flags, True])


@examples(80)
@given(labs, policies, histories, looks)
def test_any_life_of_any_cluster(lab: Lab, policy: dict[str, Any], history: list[Step], look: list[bool]) -> None:
    live(lab, history, look, **policy)


@examples(60)
@given(busy_times, looks)
def test_a_cluster_with_more_work_than_gpus(life: Life, look: list[bool]) -> None:
    live(*life, look)


@examples(30)
@given(calm_times, st.sampled_from([3 * HOUR, DAY]))
def test_what_is_charged_leaves_a_short_window(life: Life, lookback: int) -> None:
    live(*life, [True], lookback_seconds=lookback)


@examples(60)
@given(busy_times, st.lists(st.sampled_from([1, 7, 60, 600, 2 * HOUR]), min_size=1, max_size=6))
def test_time_alone_after_a_decision_was_carried_out(life: Life, seconds: list[int]) -> None:
    lab, history = life
    with pytest.MonkeyPatch.context() as patch:
        twins = Twins(lab.build(), patch)
        for number, step in enumerate(history):
            do_step(twins.world, step)
            twins.kept.shares = twins.world.state.shares
            decision = decide(twins.kept, twins.world.policy, waits=False)
            assert decision.actions == decide(twins.world.state, twins.world.policy).actions
            events.apply(twins.world.state, decision)
            twins.world.wait(seconds[number % len(seconds)])
            twins.compare()


def test_a_decision_that_was_not_carried_out_stays_to_be_taken() -> None:
    world = World(hosts=1)
    world.project("nlp", 100)
    world.submit("nlp", 4, HOUR)
    kept = State(world.state.to_snapshot()).keep()
    first = decide(kept, world.policy, waits=False)
    events.advance(kept, kept.now + 10)
    again = decide(kept, world.policy, waits=False)
    assert len(first.actions) == len(again.actions) == 1
    events.advance(kept, kept.now + 10)
    events.apply(kept, again)  # too late to be sure of what follows
    assert decide(kept, world.policy, waits=False).actions == ()


def list_reserved(world: World, waits: bool) -> list[int]:
    """The workloads that a kept state reserves for."""
    decision = decide(State(world.state.to_snapshot()).keep(), world.policy, waits)
    return [action.workload for action in decision.actions if isinstance(action, Reserve)]


@pytest.mark.parametrize("waits", [True, False])
def test_a_head_that_may_take_work_of_its_own_project_reserves_without_reasons_too(waits: bool) -> None:
    world = World(hosts=1)
    world.project("nlp", 100)
    world.run("nlp", gpus=8, contract=2 * HOUR, ran=60, on={0: 1}, priority=0)
    head = world.submit("nlp", 8, HOUR, priority=1)
    assert list_reserved(world, waits) == [head]


@pytest.mark.parametrize("waits", [True, False])
def test_a_head_that_fills_its_burst_cap_reserves_without_reasons_too(waits: bool) -> None:
    world = World(hosts=3)
    world.project("nlp", 50, burst=16)
    world.project("vision", 50)
    world.charge("nlp", 200 * HOUR)  # so that it leads nobody
    stopping = world.run("vision", gpus=8, contract=2 * HOUR, ran=3 * HOUR, on={0: 1})
    world.run("vision", gpus=8, contract=2 * HOUR, ran=60, on={1: 1})
    world.run("vision", gpus=8, contract=0, standing=Standing.UNALLOCATED, on={2: 1})
    events.stop(world.state, stopping, 60)
    head = world.submit("nlp", 8, HOUR, replicas=2)
    assert list_reserved(world, waits) == [head]


def test_rows_that_are_over_are_cleared_away_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.ground.MOST_DEAD", 3)
    world = World(hosts=3)
    world.project("nlp", 60)
    world.project("vision", 40)
    twins = Twins(world, monkeypatch)
    for number in range(60):
        world.submit("nlp" if number % 2 else "vision", 1 + number % 8, HOUR)
        events.apply(world.state, decide(world.state, world.policy))
        world.start_all()
        world.wait(600)
        do_step(world, ("end", number))
        world.free_stopped()
        twins.compare()
    assert len(twins.kept.attempts.dead) + len(twins.kept.pending.dead) < 60


def test_a_gang_that_is_gone_on_one_of_its_hosts_stays_counted_on_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(hosts=3)
    world.project("nlp", 60)
    world.project("vision", 40)
    twins = Twins(world, monkeypatch)
    for gpus, replicas in ((2, 1), (8, 2), (4, 1)):
        world.submit("nlp", gpus, HOUR, replicas=replicas)
    events.apply(world.state, decide(world.state, world.policy))
    world.start_all()
    twins.compare()
    do_step(world, ("end", 0))  # its row is dead from now on
    gang = next(number for number, places in world.state.places.items() if len(places) == 2)
    events.stop(world.state, gang, 60)
    do_step(world, ("free", 0))
    assert [len(places) for places in world.state.places.values()] == [1, 1]
    world.submit("vision", 8, HOUR)
    twins.compare()
    assert len(decide(world.state, world.policy).actions) == 1


def test_what_came_up_after_a_decision_is_known_to_lose_what_it_has_run_since(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(hosts=2)
    world.project("nlp", 50)
    world.project("vision", 50)
    idle: dict[str, Any] = {"gpus": 8, "contract": 0, "standing": Standing.UNALLOCATED, "running_at": NEVER}
    first, second = (world.run("vision", on={host: 1}, **idle) for host in range(2))
    twins = Twins(world, monkeypatch)
    twins.compare()
    for attempt, seconds in ((first, 100), (second, 50)):
        events.run(world.state, attempt)
        world.wait(seconds)
    world.submit("nlp", gpus=8)
    twins.compare()
    assert preempted(decide(twins.kept, world.policy)) == [second]


def test_a_gang_that_is_gone_from_a_host_frees_nothing_there_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(hosts=2)
    world.project("nlp", 50)
    world.project("vision", 50)
    idle: dict[str, Any] = {"gpus": 4, "contract": 0, "standing": Standing.UNALLOCATED}
    gang = world.run("vision", ran=10, on={0: 1, 1: 1}, **idle)
    dearer = world.run("vision", ran=200, on={0: 1}, **idle)
    world.run("vision", gpus=4, contract=DAY, on={1: 1})
    twins = Twins(world, monkeypatch)
    twins.compare()
    events.free(world.state, gang, 100)
    world.submit("nlp", gpus=8)
    twins.compare()
    assert preempted(decide(twins.kept, world.policy)) == [dearer]


def test_two_balances_that_stand_still_at_the_margin_need_no_new_look() -> None:
    # Found by chance: neither of two branches used a GPU, and both stood exactly a margin apart.
    live(*make_busy(3, 13, True), [True], lookback_seconds=3 * HOUR)


def test_a_ban_begins_and_ends_on_a_board_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(hosts=3)
    world.project("nlp", 50)
    world.project("vision", 50)
    for host in range(3):
        world.run("nlp", gpus=8, contract=0, ran=60, standing=Standing.UNALLOCATED, on={host: 1})
    twins = Twins(world, monkeypatch)
    taker = world.submit("vision", gpus=8)
    twins.compare()
    events.apply(world.state, decide(world.state, world.policy))
    twins.compare()
    events.end(world.state, world.attempt_of(taker)["id"], cancelled=True)
    world.submit("vision", gpus=8, replicas=3)
    ends_at, takes = world.now + HOUR, []
    for seconds in (0, HOUR - 1, 1):
        world.wait(seconds)
        world.free_stopped()
        twins.compare()
        decision = decide(world.state, world.policy)
        takes.append(bool(preempted(decision)))
        events.apply(world.state, decision)
        twins.compare()
        assert takes[-1] or twins.kept.find_rest() <= ends_at
    assert takes == [False, False, True]


def test_budgets_that_were_others_leave_a_short_window(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(hosts=3, lookback_seconds=3 * HOUR)
    world.project("nlp", 60)
    world.project("parsing", 30, "nlp")
    world.project("vision", 20, at=T0 - HOUR)
    world.budget("parsing", 45, at=T0 - 2 * HOUR)
    world.budget("nlp", 30, at=T0 - HOUR // 2)
    world.budget("vision", 70, at=T0 - HOUR // 2)
    for name, hours in (("nlp", 5), ("vision", 4)):  # whose turn it is follows from the budgets of the whole window
        world.charge(name, hours * HOUR, ago=HOUR)
        world.submit(name, gpus=1, contract=300 * HOUR)  # told how long it may be
        world.run(name, gpus=1, contract=60 * HOUR, ran=60, standing=Standing.UNALLOCATED)  # returns if it can pay
        for _ in range(3):
            world.submit(name, gpus=8)
    twins = Twins(world, monkeypatch)
    for step in range(30):
        if step in (3, 9):
            events.cordon(world.state, 100, schedulable=step == 9)
        twins.compare()
        world.wait(7 * 60 + step % 2)


def test_a_step_back_by_a_day_forgets_nothing_and_a_longer_one_what_was_over_before() -> None:
    world = World()
    world.project("nlp", 50)
    world.charge("nlp", HOUR, ago=7 * DAY + 12 * HOUR)
    world.charge("nlp", 2 * HOUR, ago=8 * DAY + 12 * HOUR)
    kept = State(world.state.to_snapshot()).keep()
    for days_back, full, left in ((0, 0, 0), (1, HOUR, HOUR), (2, 3 * HOUR, HOUR), (0, 0, 0)):
        facts = State(world.state.to_snapshot())
        facts.now -= days_back * DAY
        events.advance(kept, facts.now)
        told = [decide(state, world.policy).balances[0].usage_gpu_seconds for state in (facts, kept)]
        assert told == [full, left]


@examples(20)
@given(busy_times, st.lists(st.tuples(st.integers(0, 40), st.integers(2, 10)), min_size=1, max_size=3))
def test_however_far_the_clock_steps_back_decisions_are_those_of_what_is_left(
    life: Life, jumps: list[tuple[int, int]]
) -> None:
    lab, history = life[0], list(life[1])
    for place, days in jumps:
        history.insert(place, ("back", days * DAY))
    with pytest.MonkeyPatch.context() as patch:
        twins = Twins(lab.build(lookback_seconds=DAY), patch)
        for step in history:
            do_step(twins.world, step)
            left = State(twins.kept.to_snapshot())
            decision = decide(twins.kept, twins.world.policy)
            assert decision == decide(left, twins.world.policy)
            invariants.check(left, decision)
            events.apply(twins.world.state, decision)
