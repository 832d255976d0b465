"""R1 to R15 on random trees, hosts and sequences of events: what must hold of every decision."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler import events, invariants
from scheduler.decide import decide
from scheduler.state import State
from scheduler.types import Decision, Lapse, Mature, Preempt, Return
from tests.scheduler.driver import (
    Lab,
    Life,
    Step,
    busy_times,
    do_step,
    examples,
    histories,
    labs,
    make_busy,
    mishaps,
    quiet_histories,
    usual_steps,
)
from tests.scheduler.world import DAY, World, shuffle

policies = st.fixed_dictionaries(
    {},
    optional={
        "half_life_seconds": st.just(2 * DAY),
        "unallocated_cap_gpus": st.just(6),
        "reservations_most": st.sampled_from([0, 1]),
        "save_for_head": st.just(1),
        "overdraw_limit_ppm": st.just(0),
        "express_share_ppm": st.just(1000),
        "licence_margin_ppm": st.just(200_000),
        "lookback_seconds": st.just(DAY),
        "leaf_order": st.sampled_from([(), ("submitted",), ("author_usage", "priority")]),
    },
)
untaken = st.lists(st.tuples(st.one_of(*usual_steps, *mishaps), st.booleans()), min_size=1, max_size=14)


@examples(150)
@given(labs, policies, histories)
def test_every_decision_holds_the_invariants_and_is_empty_when_taken_again(
    lab: Lab, policy: dict[str, Any], history: list[Step]
) -> None:
    world = lab.build(**policy)
    for step in history:
        do_step(world, step)
        world.go()


@examples(20)
@given(busy_times, policies)
def test_so_does_every_decision_where_all_are_short_of_something(life: Life, policy: dict[str, Any]) -> None:
    world = life[0].build(**policy)
    for step in life[1]:
        do_step(world, step)
        world.go()


def test_nobody_saves_for_a_head_that_a_start_elsewhere_in_its_branch_has_put_beyond_its_balance() -> None:
    # Found by a long search: what stood behind that head started in the second decision of the instant.
    lab, history = make_busy(7789138, 24, False)
    rules = {"save_for_head": 1, "half_life_seconds": 2 * DAY, "unallocated_cap_gpus": 6, "reservations_most": 1}
    world = lab.build(**rules, lookback_seconds=DAY, express_share_ppm=1000)
    for step in history:
        do_step(world, step)
        world.go()


@examples(150)
@given(labs, policies, untaken)
def test_a_kept_state_and_a_rebuilt_one_decide_alike_after_every_event(
    lab: Lab, policy: dict[str, Any], history: list[tuple[Step, bool]]
) -> None:
    world = lab.build(**policy)
    for step, applied in history:
        do_step(world, step)
        compare_with_rebuilt(world)
        if applied:
            events.apply(world.state, decide(world.state, world.policy))
            compare_with_rebuilt(world)


def compare_with_rebuilt(world: World) -> None:
    """The state as it was kept, one made from its facts, and the facts themselves."""
    facts = world.state.to_snapshot()
    decision = decide(world.state, world.policy)
    assert decide(State(facts), world.policy) == decision
    assert decide(facts, world.policy) == decision
    invariants.check(facts, decision)


@examples(100)
@given(labs, policies, histories, st.integers(0, 1000))
def test_the_order_of_the_facts_never_shows(lab: Lab, policy: dict[str, Any], history: list[Step], seed: int) -> None:
    world = lab.build(**policy)
    for step in history:
        do_step(world, step)
        decision = decide(world.state, world.policy)
        assert decide(shuffle(world.state.to_snapshot(), seed), world.policy) == decision
        events.apply(world.state, decision)


@examples(80)
@given(labs, quiet_histories)
def test_at_one_instant_a_cluster_comes_to_rest(lab: Lab, history: list[Step]) -> None:
    # What is stopped is gone at once and waits again, what is assigned runs at once, and the clock stands still.
    world = lab.build()
    for step in history:
        do_step(world, step)
        most = 3 + 2 * (world.state.pending.count + world.state.attempts.count)
        for turn in range(most):
            assert turn < most - 1, "no rest"
            if not world.go().actions:
                break
            world.start_all()
            world.free_stopped()


@examples(100)
@given(labs, policies, histories)
def test_a_decision_moves_each_attempt_once(lab: Lab, policy: dict[str, Any], history: list[Step]) -> None:
    world = lab.build(**policy)
    for step in history:
        do_step(world, step)
        decision = world.go()
        turned = [one.attempt for one in decision.actions if isinstance(one, Lapse | Return | Preempt)]
        # What lapses may be taken by a start of the same decision; nothing else happens twice.
        twice = {one for one in turned if turned.count(one) > 1}
        assert twice <= lapsed_and_taken(decision)
        matured = [one.attempt for one in decision.actions if isinstance(one, Mature)]
        assert len(set(matured)) == len(matured)


def lapsed_and_taken(decision: Decision) -> set[int]:
    """Attempts that lapse before they are taken, and do nothing else."""
    kinds: dict[int, list[type]] = {}
    for one in decision.actions:
        if isinstance(one, Lapse | Return | Preempt):
            kinds.setdefault(one.attempt, []).append(type(one))
    return {attempt for attempt, done in kinds.items() if done == [Lapse, Preempt]}


@examples(40)
@given(labs, histories)
def test_a_decision_changes_nothing_that_it_was_given(lab: Lab, history: list[Step]) -> None:
    world = lab.build()
    for step in history:
        do_step(world, step)
        first = decide(world.state, world.policy)
        assert decide(world.state, world.policy) == first
        events.apply(world.state, first)
