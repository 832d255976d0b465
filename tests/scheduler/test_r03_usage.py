"""R3. Usage is a pure function of the recorded segments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import events
from scheduler.types import Standing
from scheduler.usage import Outflow, Rows, Window, clip_rows, sum_groups, sum_paths
from tests.scheduler.world import DAY, HOUR, T0, WEEK, World, balance_of, shuffle

segments = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, WEEK * 2), st.integers(0, 3 * DAY), st.integers(0, 64)), max_size=12
)
windows = st.sampled_from([Window(T0 - WEEK, T0, None), Window(T0 - WEEK, T0, 2 * DAY), Window(T0 - DAY, T0, 600)])


def make_rows(cuts: list[tuple[int, int, int, int]]) -> Rows:
    """(path, start, end, GPUs) as rows."""
    columns = np.array(cuts, dtype=np.int64).reshape(len(cuts), 4)
    return Rows(columns[:, 0], columns[:, 0] * 0, columns[:, 1], columns[:, 2], columns[:, 3])


def add_up(cuts: list[tuple[int, int, int, int]], window: Window) -> list[int]:
    rows = clip_rows(make_rows(cuts), window)
    return sum_paths(rows, [(0, 1), (0, 2), (0,), ()], 3, window)


@settings(max_examples=150, deadline=None)
@given(segments, windows, st.randoms(use_true_random=False))
def test_any_cut_in_any_order_gives_the_same_usage(drawn, window, random) -> None:  # type: ignore[no-untyped-def]
    whole = [(path, T0 - ago, T0 - ago + length, gpus) for path, ago, length, gpus in drawn]
    pieces = []
    for path, start, end, gpus in whole:
        edges = sorted({start, end, *(random.randint(start, end) for _ in range(3))})
        pieces += [(path, low, high, gpus) for low, high in zip(edges, edges[1:], strict=False)]
    random.shuffle(pieces)
    assert add_up(pieces, window) == add_up(whole, window)


@settings(max_examples=100, deadline=None)
@given(segments)
def test_usage_is_the_sum_second_by_second(drawn: list[tuple[int, int, int, int]]) -> None:
    cuts = [(path, T0 - ago % 400, T0 - ago % 400 + length % 300, gpus) for path, ago, length, gpus in drawn]
    window = Window(T0 - 200, T0, None)
    expected = [0, 0, 0]
    for path, start, end, gpus in cuts:
        seconds = sum(1 for second in range(start, end) if T0 - 200 <= second < T0)
        for node in [(0, 1), (0, 2), (0,), ()][path]:
            expected[node] += seconds * gpus
    assert add_up(cuts, window) == expected


def test_a_short_workload_between_two_passes_is_charged_to_the_second() -> None:
    world = World()
    world.project("nlp", 50)
    world.submit("nlp", gpus=2, contract=HOUR)
    world.go()
    world.start_all()
    world.wait(20)
    events.end(world.state, int(world.state.attempts["id"][0]))
    world.wait(40)
    assert balance_of(world, "nlp").usage_gpu_seconds == 2 * 20


def test_usage_does_not_depend_on_the_pass_interval() -> None:
    totals = []
    for interval in (300, 3600):
        world = World()
        world.project("nlp", 50)
        world.submit("nlp", gpus=2, contract=HOUR)
        world.go()
        world.start_all()
        for _ in range(DAY // interval):
            world.wait(interval)
            world.go()
        totals.append(balance_of(world, "nlp").usage_gpu_seconds)
    assert totals == [2 * DAY, 2 * DAY]


def test_what_never_started_is_charged_nothing() -> None:
    world = World()
    world.project("nlp", 50)
    world.project("vision", 50)
    world.run("vision", gpus=8, contract=0, standing=Standing.UNALLOCATED)
    world.submit("nlp", gpus=8, contract=HOUR)
    world.go()
    held = int(world.state.attempts["id"].max())
    world.wait(5)
    events.end(world.state, held)
    assert balance_of(world, "nlp").usage_gpu_seconds == 0


def test_a_started_one_is_charged_its_seconds_and_not_its_declaration() -> None:
    world = World()
    world.project("nlp", 50)
    attempt = world.run("nlp", gpus=1, contract=8 * HOUR)
    world.wait(600)
    assert balance_of(world, "nlp").usage_gpu_seconds == 8 * HOUR
    events.end(world.state, attempt)
    assert balance_of(world, "nlp").usage_gpu_seconds == 600


def test_nothing_is_charged_from_a_preemption_signal_on() -> None:
    world = World()
    world.project("nlp", 50)
    attempt = world.run("nlp", gpus=1, contract=HOUR, ran=600)
    events.stop(world.state, attempt, grace_seconds=60)
    world.wait(60)
    assert balance_of(world, "nlp").usage_gpu_seconds == 600


def test_large_numbers_are_carried_without_loss() -> None:
    gpus = 1 << 20
    rows = clip_rows(make_rows([(0, T0 - WEEK, T0, gpus)] * 40), Window(T0 - WEEK, T0, None))
    assert sum_groups(rows.path, 1, rows, Window(T0 - WEEK, T0, None)) == [40 * gpus * WEEK]


def test_usage_survives_a_rebuild_from_the_segments() -> None:
    world = World()
    world.project("nlp", 50)
    world.charge("nlp", 123_456, ago=DAY)
    world.run("nlp", gpus=2, contract=HOUR, ran=60)
    kept = world.decide().balances
    from scheduler.decide import decide

    assert decide(shuffle(world.state.to_snapshot(), 3), world.policy).balances == kept


@pytest.mark.parametrize("excess", [1, 1000, 2000, 3599])
def test_the_recovery_estimate_finds_when_enough_has_left_the_window(excess: int) -> None:
    window = Window(T0 - WEEK, T0, None)
    rows = clip_rows(make_rows([(0, T0 - WEEK + DAY, T0 - WEEK + DAY + 3600, 1)]), window)
    recovers = Outflow(rows, [(0,)], window).recovers_at(0, excess)
    assert abs(recovers - (T0 + DAY + excess)) <= WEEK // 128 + 1


def test_what_never_leaves_the_window_recovers_a_window_from_now() -> None:
    window = Window(T0 - WEEK, T0, None)
    rows = clip_rows(make_rows([(0, T0 - HOUR, T0, 1)]), window)
    assert Outflow(rows, [(0,)], window).recovers_at(0, 1_000_000) == T0 + WEEK
