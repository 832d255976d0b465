"""Published figures and derived cases of other schedulers, run against ours.

Facts and figures only; each vector names its source (see published/vectors.json). A fair tree
ranks users by shares and usage; ours sorts siblings by balance, 1 - usage / quota, which is the
same order as shares / usage. R8 needs a total order, so ranks are compared with ties allowed.
"""

from fractions import Fraction
from typing import Any

import pytest

from scheduler.balance import Tree, prepare_order
from scheduler.funds import Funds
from scheduler.types import Standing
from scheduler.usage import Window, clip_rows, sum_groups, weigh_until
from tests.scheduler.published_vectors import VECTORS
from tests.scheduler.test_r03_usage import make_rows
from tests.scheduler.world import HOUR, T0, WEEK, World, balance_of, matured, preempted

TREES = [name for name, one in VECTORS.items() if one["kind"] == "fair_tree" and name != "slurm_test24_4"]


def flatten(node: dict[str, Any], above: int, rows: list[tuple[str, int, int, Fraction]]) -> Fraction:
    """(name, parent, shares, usage) of every node; an account's usage is that of its users."""
    number = len(rows)
    shares = node["shares"] if isinstance(node["shares"], int) else 0  # "parent": no share of its own
    rows.append((node["name"], above, shares, Fraction(0)))
    used = Fraction(str(node.get("usage", 0))) if node.get("user") else Fraction(0)
    for child in node.get("children", []):
        used += flatten(child, number, rows)
    rows[number] = (*rows[number][:3], used)
    return used


def rank_users(tree: dict[str, Any]) -> dict[str, tuple[tuple[int, int], ...]]:
    """Every user's keys from the root down, as the walk would compare them."""
    rows: list[tuple[str, int, int, Fraction]] = []
    flatten(tree, -1, rows)
    children: list[list[int]] = [[] for _ in rows]
    for number, (_, above, _, _) in enumerate(rows):
        if above >= 0:
            children[above].append(number)
    parents = [above for _, above, _, _ in rows]
    shape = Tree(0, parents, children, [], [], [], [], [], [], [])
    units, weights = prepare_order(shape, [shares for _, _, shares, _ in rows])
    funds = Funds(shape, [], [int(used * 10) for *_, used in rows], [], [], order_unit=units, order_weight=weights)
    keys: list[tuple[tuple[int, int], ...]] = [()] * len(rows)
    for number in range(1, len(rows)):
        keys[number] = (*keys[parents[number]], funds.order_key(number))
    return {name: keys[number] for number, (name, *_) in enumerate(rows) if not children[number]}


@pytest.mark.parametrize("name", TREES)
def test_the_walk_ranks_users_as_a_fair_tree_does(name: str) -> None:
    vector = VECTORS[name]
    keys = rank_users(vector["input"]["tree"])
    expected = vector["expected"].get("factor", vector["expected"])
    for one in expected:
        for other in expected:
            # Tied accounts merge their users' ranks there; here the first submit decides between
            # them, so only users whose accounts differ in rank can be compared.
            if expected[one] > expected[other] and not has_tied_branches(keys[one], keys[other]):
                assert keys[one] < keys[other], (one, other)


def has_tied_branches(first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...]) -> bool:
    """One's keys are a beginning of the other's, or they part only after equal accounts."""
    return first[: len(second)] == second[: len(first)]


def test_exact_arithmetic_ties_what_floats_told_apart() -> None:
    tree = VECTORS["slurm_test24_4"]["input"]["tree"]
    keys = rank_users(tree)
    assert keys["uD2"] == keys["uD3"]
    assert keys["uC1"][0] == max(key[0] for key in keys.values())  # no shares: last


def test_usage_is_a_part_of_the_capacity_and_not_of_all_use() -> None:
    vector = VECTORS["kai_usage_fraction_10x10"]["input"]
    window = vector["window_hours"] * HOUR
    world = World(gpus=vector["gpus"], lookback_seconds=window)
    world.project("nlp", 100)
    hours = vector["used_gpu_hours"] // 4
    path = world.state.path_number(world.names["nlp"])
    row = {"path": path, "author": 1, "start_at": T0 - hours * HOUR, "end_at": T0, "gpus": 4}
    world.state.charged.add(row)
    balance = balance_of(world, "nlp")
    used = Fraction(balance.usage_gpu_seconds, balance.quota_gpu_seconds)
    assert used == Fraction(str(VECTORS["kai_usage_fraction_10x10"]["expected"]["usage"]))


def test_protection_is_half_open_at_the_minimum_runtime() -> None:
    contract = VECTORS["kai_minruntime_boundary"]["input"]["min_runtime_s"]
    for offset, row in zip((-1, 0), VECTORS["kai_minruntime_boundary"]["expected"], strict=True):
        world = World()
        world.project("nlp", 100)
        world.run("nlp", contract=contract, ran=contract + offset)
        assert (matured(world.go()) == []) == row["protected"]


def test_decay_uses_the_closed_form_on_intervals() -> None:
    for row in VECTORS["slurm_decay_tick_error"]["expected"]["charge_of_one_unit_over_300s"]:
        window = Window(T0 - WEEK, T0, row["half_life_s"])
        assert weigh_until(T0, window) - weigh_until(T0 - 300, window) == pytest.approx(row["exact_integral"], abs=0.05)


def test_usage_decays_with_the_clock_over_five_half_lives() -> None:
    half, gpus = 900, 10_000
    rows = make_rows([(0, T0 - 60, T0, gpus)])
    first = sum_decayed(rows, T0, half)
    for step in range(1, 6):
        assert sum_decayed(rows, T0 + step * half, half) == pytest.approx(first / 2**step, abs=1)


def sum_decayed(rows: Any, now: int, half_life: int) -> int:
    window = Window(now - WEEK, now, half_life)
    clipped = clip_rows(rows, window)
    return sum_groups(clipped.path, 1, clipped, window)[0]


def test_usage_rolls_up() -> None:
    vector = VECTORS["flux_usage_rollup"]
    world = World()
    banks = vector["input"]["banks"]
    for name in banks:
        world.project(name, 30)
    for name in banks["C"]:
        world.project(name, 50, parent="C")
    for name, used in {"A": banks["A"], "B": banks["B"], **banks["C"]}.items():
        world.charge(name, used)
    assert balance_of(world, "C").usage_gpu_seconds == vector["expected"]["C"]
    assert balance_of(world, "root").usage_gpu_seconds == vector["expected"]["root"]


def test_nothing_is_reclaimed_from_a_branch_below_its_share_for_one_at_its_own() -> None:
    tree = VECTORS["volcano_reclaim_parent_deserved"]["input"]["tree"]
    world = World(hosts=11, gpus=10)
    world.project("A", 90)
    world.project("A1", 20, parent="A")
    world.project("B", 10)
    hosts = iter(range(11))
    for _ in range(tree["A"]["children"]["A1"]["using"] // 10):
        world.run("A1", gpus=10, contract=HOUR, ran=HOUR, standing=Standing.FUNDED, on={next(hosts): 1})
    world.charge("B", 11 * WEEK)  # at its own: balance 0
    world.run("B", gpus=10, on={next(hosts): 1})
    for host in hosts:
        world.run("root", gpus=10, on={host: 1})
    world.submit("B", gpus=10)
    assert preempted(world.go()) == []


def test_no_flip_flop_of_unbudgeted_work() -> None:
    # A is over its own and asks for more; BE has no budget. Whatever is stopped, it is stopped once.
    world = World(hosts=6, gpus=50)
    world.project("A", 50)
    world.project("B", 50)
    world.project("BE", None)
    for host in range(5):
        world.run("A", gpus=50, contract=HOUR, ran=2 * HOUR, standing=Standing.FUNDED, on={host: 1})
    world.run("BE", gpus=50, contract=HOUR, ran=HOUR, standing=Standing.UNALLOCATED, on={5: 1})
    world.submit("A", gpus=50, contract=2 * HOUR)
    stopped = []
    for _ in range(20):
        stopped += preempted(world.go())
        world.wait(10)
        world.free_stopped()
        world.start_all()
    assert len(stopped) <= 1
