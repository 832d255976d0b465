"""R1. A budget is whole ppm of the parent's share; what is not given out is the parent's own."""

from fractions import Fraction

import pytest

from scheduler.balance import build_tree, list_present_shares
from scheduler.types import NEVER, PPM, Projects, ShareSteps, SnapshotRefused
from tests.scheduler.world import DAY, T0, WEEK, World, balance_of, table


def build_lab() -> World:
    world = World(hosts=10)
    world.project("lab", 60)
    world.project("nlp", 50, parent="lab")
    world.project("vision", 12.5, parent="lab")
    return world


def test_the_share_of_the_cluster_is_the_product_along_the_path() -> None:
    world = build_lab()
    assert balance_of(world, "lab").share_ppm == 600_000
    assert balance_of(world, "nlp").share_ppm == 300_000
    assert balance_of(world, "vision").share_ppm == 75_000


def test_the_product_is_exact_however_deep_the_tree() -> None:
    world = World()
    parent = "root"
    for name in ("a", "b", "c", "d", "e", "f"):
        world.project(name, 33.3333, parent=parent)
        parent = name
    tree = build_tree(world.state.projects, world.state.shares)
    share = Fraction(list_present_shares(tree, T0)[world.names["f"]], PPM**6)
    assert share == Fraction(333_333, PPM) ** 6


def test_what_children_leave_is_the_parents_own() -> None:
    world = build_lab()
    assert balance_of(world, "lab", own=True).share_ppm == 225_000
    assert balance_of(world, "root", own=True).share_ppm == 400_000


def test_a_parents_own_work_is_charged_to_its_own_part_and_not_to_its_children() -> None:
    world = build_lab()
    world.charge("lab", 5000)
    assert balance_of(world, "lab", own=True).usage_gpu_seconds == 5000
    assert balance_of(world, "lab").usage_gpu_seconds == 5000
    assert balance_of(world, "nlp").usage_gpu_seconds == 0


def test_a_project_that_moves_is_charged_under_its_new_path() -> None:
    world = build_lab()
    state, nlp, vision = world.state, world.names["nlp"], world.names["vision"]
    ids, parents = state.projects.id, state.projects.parent.copy()
    root, lab = int(ids[world.names["root"]]), int(ids[world.names["lab"]])
    assert state.paths[state.path_number(nlp)] == (root, lab, int(ids[nlp]))
    parents[nlp] = vision
    state.projects = Projects(ids, parents)
    assert state.paths[state.path_number(nlp)] == (root, lab, int(ids[vision]), int(ids[nlp]))


def test_a_childs_work_leaves_the_parents_own_part_alone() -> None:
    world = build_lab()
    world.charge("nlp", 5000)
    assert balance_of(world, "lab", own=True).usage_gpu_seconds == 0
    assert balance_of(world, "lab").usage_gpu_seconds == 5000


def test_a_childless_project_holds_all_of_its_share_itself() -> None:
    world = build_lab()
    own = [one.project for one in world.decide().balances if one.own]
    assert own == [10 + world.names["root"], 10 + world.names["lab"]]


def test_the_own_part_follows_the_childrens_budgets_through_time() -> None:
    world = World(hosts=1)
    world.project("lab", 100)
    world.project("nlp", 50, parent="lab", at=T0 - WEEK // 2)
    # Half the window at 100 %, half at 50 %.
    assert balance_of(world, "lab", own=True).quota_gpu_seconds == 8 * WEEK * 3 // 4


def test_a_share_above_the_whole_is_refused() -> None:
    world = World()
    world.project("lab", 100.0001)
    with pytest.raises(SnapshotRefused, match="outside 0 to 1000000"):
        world.decide()


def test_two_roots_are_refused() -> None:
    projects = table(Projects, [{"id": 1, "parent": NEVER}, {"id": 2, "parent": NEVER}])
    with pytest.raises(SnapshotRefused, match="2 roots"):
        build_tree(projects, table(ShareSteps))


def test_a_loop_is_refused() -> None:
    rows = [{"id": 1, "parent": NEVER}, {"id": 2, "parent": 2}, {"id": 3, "parent": 1}]
    with pytest.raises(SnapshotRefused, match="loop"):
        build_tree(table(Projects, rows), table(ShareSteps))


def test_a_future_budget_counts_for_nothing_yet() -> None:
    world = build_lab()
    world.budget("nlp", 1, at=T0 + DAY)
    assert balance_of(world, "nlp").share_ppm == 300_000
