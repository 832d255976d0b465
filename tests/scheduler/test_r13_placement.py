"""R13. A whole gang onto hosts, or not at all."""

import numpy as np
import pytest

from scheduler import events
from scheduler.placement import FOR_ALLOCATED, Floor, spread_gang
from scheduler.types import Standing
from tests.scheduler.world import HOUR, World, start_of, started, wait_of


def build_world(hosts: int = 2, gpus: int = 8, blocks: int = 1) -> World:
    world = World(hosts=hosts, gpus=gpus, blocks=blocks)
    world.project("nlp", 50)
    world.project("vision", 50)
    return world


def places_of(world: World, **more: int) -> tuple[tuple[int, int], ...]:
    workload = world.submit("nlp", **more)
    return start_of(world.go(), workload).placement


def test_a_host_is_never_over_committed() -> None:
    world = build_world(hosts=1)
    many = [world.submit("nlp", gpus=3) for _ in range(3)]
    assert started(world.go()) == many[:2]


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    world = build_world(hosts=2)
    world.run("vision", gpus=4, on={0: 1})
    workload = world.submit("nlp", gpus=8, replicas=2)
    decision = world.go()
    assert started(decision) == []
    assert workload in decision.waits.workload


def test_a_second_gang_for_which_too_little_is_left_is_not_placed_in_part() -> None:
    world = build_world(hosts=3)
    first = world.submit("nlp", gpus=8, replicas=2)
    world.submit("nlp", gpus=8, replicas=2)
    assert started(world.go()) == [first]


def test_a_replica_is_never_split_over_hosts() -> None:
    world = build_world(hosts=2)
    world.run("vision", gpus=5, on={0: 1})
    world.run("vision", gpus=5, on={1: 1})
    world.submit("nlp", gpus=4)
    assert started(world.go()) == []


def test_work_that_fits_one_host_stays_on_one() -> None:
    world = build_world(hosts=3)
    world.run("vision", gpus=6, on={0: 1})
    assert places_of(world, gpus=2, replicas=4) == ((101, 4),)


def test_it_packs_to_leave_whole_hosts_free() -> None:
    world = build_world(hosts=3)
    world.run("vision", gpus=4, on={1: 1})
    world.run("vision", gpus=6, on={2: 1})
    assert places_of(world, gpus=2) == ((102, 1),)
    assert places_of(world, gpus=4) == ((101, 1),)


def test_protected_work_avoids_hosts_with_work_that_can_be_taken() -> None:
    world = build_world(hosts=2)
    world.run("vision", gpus=4, contract=0, standing=Standing.UNALLOCATED, on={0: 1})
    assert places_of(world, gpus=2) == ((101, 1),)


def test_work_that_can_be_taken_avoids_hosts_with_protected_work() -> None:
    world = build_world(hosts=2)
    world.run("vision", gpus=4, on={0: 1})
    assert places_of(world, gpus=2, contract=0) == ((101, 1),)


def test_both_share_a_host_where_it_cannot_be_helped() -> None:
    world = build_world(hosts=1)
    world.run("vision", gpus=4, on={0: 1})
    assert places_of(world, gpus=2, contract=0) == ((100, 1),)


def test_a_gang_prefers_one_topology_block() -> None:
    world = build_world(hosts=6, blocks=2)
    world.run("vision", gpus=8, on={0: 1})
    assert places_of(world, gpus=8, replicas=3) == ((101, 1), (103, 1), (105, 1))


def test_it_takes_the_tightest_block_that_suffices() -> None:
    slots, block = np.array([1, 1, 1, 1, 1]), np.array([7, 7, 7, 9, 9])
    assert spread_gang(slots, block, slots * 0, 2) == ((3, 1), (4, 1))


def test_it_spans_blocks_where_none_suffices() -> None:
    world = build_world(hosts=4, blocks=2)
    assert places_of(world, gpus=8, replicas=4) == ((100, 1), (101, 1), (102, 1), (103, 1))


def test_it_uses_few_hosts_and_the_tightest_for_the_rest() -> None:
    slots = np.array([4, 4, 1, 2])
    assert spread_gang(slots, slots * 0, slots * 0, 5) == ((0, 4), (2, 1))


def test_a_closed_host_takes_no_new_attempts() -> None:
    world = build_world(hosts=2)
    events.cordon(world.state, 100)
    assert places_of(world, gpus=8) == ((101, 1),)
    assert world.standing_of(1) == Standing.PROTECTED


def test_attempts_on_a_closed_host_are_left_in_peace() -> None:
    world = build_world(hosts=1)
    attempt = world.run("nlp", gpus=8, contract=HOUR)
    events.cordon(world.state, 100)
    world.go()
    assert world.standing_of(attempt) == Standing.PROTECTED


@pytest.mark.parametrize("gpus", [1, 64, 2816])
def test_one_large_host_is_a_flat_pool(gpus: int) -> None:
    world = build_world(hosts=1, gpus=2816)
    assert places_of(world, gpus=gpus) == ((100, 1),)


def test_ten_thousand_that_cannot_fit_do_not_hide_one_that_can() -> None:
    world = build_world(hosts=1)
    world.run("vision", gpus=4)
    for _ in range(10_000):
        world.submit("nlp", gpus=8, priority=1, allow_unallocated=False)
    small = world.submit("nlp", gpus=4)
    assert started(world.decide()) == [small]


def test_one_that_no_host_can_hold_blocks_nobody() -> None:
    world = build_world(hosts=1)
    giant = world.submit("nlp", gpus=64, priority=9)
    small = world.submit("nlp", gpus=8)
    decision = world.go()
    assert started(decision) == [small]
    assert wait_of(decision, giant).code == "no_host_of_size"


def test_a_gang_has_no_place_while_hosts_for_a_part_of_it_are_missing_or_kept_for_others() -> None:
    floor = Floor([8, 8, 8], [0, 0, 0], [True, True, True])
    floor.index_hosts()
    assert floor.find_place(4, 8, FOR_ALLOCATED) is None
    assert floor.find_place(3, 8, FOR_ALLOCATED) == ((0, 1), (1, 1), (2, 1))
    floor.set_zone(1, 7)
    assert floor.find_place(3, 8, FOR_ALLOCATED) is None
    assert floor.find_place(3, 8, FOR_ALLOCATED, zones=(0, 7)) == ((0, 1), (1, 1), (2, 1))
