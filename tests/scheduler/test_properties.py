"""R1 to R13 and R15 together: random histories, every decision checked by the invariants.

`World.go` also takes each applied decision again and finds it empty.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import events
from scheduler.decide import decide
from scheduler.state import State
from scheduler.types import NEVER
from tests.scheduler.world import DAY, HOUR, World, shuffle

LEAVES = ("nlp", "vision", "robots", "lab", "poor", "root")

submissions = st.fixed_dictionaries(
    {
        "project": st.sampled_from(LEAVES),
        "gpus": st.sampled_from([1, 1, 2, 3, 4, 8]),
        "replicas": st.sampled_from([1, 1, 1, 2, 3]),
        "contract": st.sampled_from([0, 60, 900, HOUR, 8 * HOUR]),
        "author": st.integers(1, 3),
        "priority": st.integers(0, 2),
        "resumable": st.booleans(),
        "allow_unallocated": st.booleans(),
        "first_start": st.booleans(),
    }
)
steps = st.one_of(
    st.tuples(st.just("submit"), st.lists(submissions, min_size=1, max_size=4)),
    st.tuples(st.just("wait"), st.sampled_from([0, 10, 60, 130, 600, HOUR, 9 * HOUR, 3 * DAY])),
    st.tuples(st.just("back"), st.just(300)),
    st.tuples(st.just("run"), st.none()),
    st.tuples(st.just("run_for"), st.sampled_from([60, HOUR, 8 * HOUR])),
    st.tuples(st.just("free"), st.none()),
    st.tuples(st.just("end"), st.integers(0, 50)),
    st.tuples(st.just("cancel"), st.integers(0, 50)),
    st.tuples(st.just("checkpoint"), st.integers(0, 50)),
    st.tuples(st.just("cordon"), st.tuples(st.integers(0, 3), st.booleans())),
    st.tuples(st.just("drain"), st.tuples(st.integers(0, 3), st.booleans())),
    st.tuples(st.just("withdraw"), st.integers(0, 50)),
    st.tuples(st.just("budget"), st.tuples(st.sampled_from(["nlp", "vision"]), st.sampled_from([0, 5, 50]))),
)


def build_world(**policy: Any) -> World:
    """Four hosts of 8 in two blocks, a tree three levels deep, a project without a budget."""
    world = World(hosts=4, blocks=2, **policy)
    world.project("lab", 60)
    world.project("robots", 30, burst=10)
    world.project("poor", None)
    world.project("nlp", 50, parent="lab")
    world.project("vision", 40, parent="lab", burst=20)
    return world


def pick(world: World, number: int) -> int | None:
    """Some attempt that is under way."""
    ids = sorted(world.state.attempts["id"].tolist())
    return ids[number % len(ids)] if ids else None


def change_host(world: World, name: str, number: int, back: bool) -> None:
    """A host takes no attempts, or is emptied, or is back."""
    if name == "cordon":
        events.cordon(world.state, 100 + number, schedulable=back)
    else:
        events.drain(world.state, 100 + number, stop=back)


def withdraw_one(world: World, number: int) -> None:
    """Some pending workload is cancelled."""
    waiting = sorted(world.state.pending["id"].tolist())
    if waiting:
        events.withdraw(world.state, waiting[number % len(waiting)])


def do_step(world: World, name: str, value: Any) -> None:
    """One thing that can happen to a cluster."""
    if name == "submit":
        for one in value:
            world.submit(**one)
    elif name in ("wait", "back"):
        world.wait(value if name == "wait" else -value)
    elif name in ("run", "run_for"):
        world.start_all()
        world.wait(value or 0)
    elif name == "free":
        world.free_stopped()
    elif name in ("cordon", "drain"):
        change_host(world, name, *value)
    elif name == "withdraw":
        withdraw_one(world, value)
    elif name == "budget":
        world.budget(*value)
    else:
        do_to_attempt(world, name, pick(world, value))


def do_to_attempt(world: World, name: str, attempt: int | None) -> None:
    """One thing that can happen to an attempt."""
    if attempt is None:
        return
    row = world.state.attempts.row(world.state.attempts.find("id", attempt))
    if name == "checkpoint":
        events.checkpoint(world.state, attempt)
    elif name == "end" and row["running_at"] != NEVER and row["stopping_at"] == NEVER:
        events.end(world.state, attempt)
    elif name == "cancel":
        events.end(world.state, attempt, cancelled=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, min_size=1, max_size=14))
def test_every_decision_holds_the_invariants_and_is_empty_when_taken_again(history: list[tuple[str, Any]]) -> None:
    world = build_world(unallocated_cap_gpus=12)
    for name, value in history:
        do_step(world, name, value)
        world.go()


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=1, max_size=10), st.integers(0, 1000), st.sampled_from([None, 2 * DAY]))
def test_the_order_of_the_facts_never_shows(history: list[tuple[str, Any]], seed: int, half_life: int | None) -> None:
    world = build_world(half_life_seconds=half_life)
    for name, value in history:
        do_step(world, name, value)
        decision = decide(world.state, world.policy)
        assert decide(shuffle(world.state.to_snapshot(), seed), world.policy) == decision
        events.apply(world.state, decision)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=1, max_size=10))
def test_a_kept_state_and_a_rebuilt_one_decide_alike(history: list[tuple[str, Any]]) -> None:
    world = build_world()
    for name, value in history:
        do_step(world, name, value)
        rebuilt = State(world.state.to_snapshot())
        assert decide(rebuilt, world.policy) == decide(world.state, world.policy)
        world.go()


@settings(max_examples=40, deadline=None)
@given(st.lists(steps, min_size=1, max_size=10))
def test_a_decision_changes_nothing_that_it_was_given(history: list[tuple[str, Any]]) -> None:
    world = build_world()
    for name, value in history:
        do_step(world, name, value)
        first = decide(world.state, world.policy)
        assert decide(world.state, world.policy) == first
        events.apply(world.state, first)
