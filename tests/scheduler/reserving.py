"""What the tests of reservations (R12) share: two projects, hosts full of contracts, a head that waits for them."""

from typing import Any

from scheduler.types import Decision, Reserve
from tests.scheduler.world import HOUR, WEEK, World


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


def keep_one(world: World, left: int = 2 * HOUR, contract: int = 4 * HOUR) -> tuple[int, int]:
    """A head of nlp with a reservation on both hosts, host 0 idle; (workload, its time)."""
    world.charge("vision", WEEK, ago=3 * HOUR)
    world.run("vision", gpus=8, contract=left + 60, ran=60, on={1: 1})
    head = world.submit("nlp", gpus=8, replicas=2, contract=contract)
    return head, reserves(world.go())[head].at
