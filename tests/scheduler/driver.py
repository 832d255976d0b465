"""Anything that may happen to any cluster: random trees, hosts and histories, driven by `scheduler.events` alone."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from scheduler import events
from scheduler.types import NEVER
from tests.scheduler.world import DAY, HOUR, World

Step = tuple[str, Any]

TIMES = int(os.environ.get("EXAMPLES_TIMES", "1"))
"""A long search for counter-examples: EXAMPLES_TIMES=50 pytest tests/scheduler."""


def examples(count: int) -> settings:
    """That many random examples, however long one takes."""
    return settings(max_examples=count * TIMES, deadline=None)


@dataclass(frozen=True)
class Lab:
    """A cluster before anything happens in it."""

    projects: tuple[tuple[int, int, int], ...]  # (number of the parent: 0 is the root, percent, burst cap)
    hosts: tuple[int, ...]  # GPUs of each
    blocks: int
    past: tuple[tuple[int, int, int], ...]  # (number of the project, GPU-hours charged, days ago)

    def cap(self, bursts: list[int]) -> Lab:
        """The same with other burst caps, by project."""
        capped = zip(self.projects, bursts, strict=False)
        return replace(self, projects=tuple((above, percent, burst) for (above, percent, _), burst in capped))

    def build(self, **policy: Any) -> World:
        """Project 0 is the root, number n is called n. Siblings get at most 100 %, the later ones what is left."""
        world = World(hosts=len(self.hosts), blocks=self.blocks, **policy)
        for host, gpus in zip(world.hosts, self.hosts, strict=True):
            host["gpus"] = gpus
        world.capacity[0]["gpus"] = sum(self.hosts)
        world.names["0"] = 0
        left: dict[int, int] = {}
        for number, (above, percent, burst) in enumerate(self.projects, 1):
            share = min(percent, left.get(above % number, 100))
            left[above % number] = left.get(above % number, 100) - share
            world.project(str(number), share or None, str(above % number), burst)
        for project, hours, days in self.past:
            if hours:
                world.charge(str(project % world.size), hours * HOUR, ago=days * DAY + HOUR)
        return world


labs = st.builds(
    Lab,
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from([0, 10, 25, 40, 60, 100]), st.sampled_from([NEVER] * 4 + [4, 12])),
        min_size=1,
        max_size=6,
    ).map(tuple),
    st.lists(st.sampled_from([8, 8, 8, 4, 1, 0]), max_size=4).map(tuple),
    st.integers(1, 2),
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([10, 200, 1000]), st.integers(0, 7)), max_size=3).map(tuple),
)
usual_labs = st.builds(
    Lab,
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([20, 30, 40, 50]), st.just(NEVER)), min_size=2, max_size=5
    ).map(tuple),
    st.sampled_from([(8,), (8, 8), (8, 8, 8), (8, 4, 8)]),
    st.integers(1, 2),
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([10, 200, 1000]), st.integers(0, 7)), max_size=3).map(tuple),
)
"""Clusters in which nothing is missing: every project has a budget, every host GPUs."""

submissions = st.fixed_dictionaries(
    {
        "project": st.integers(0, 6),
        "gpus": st.sampled_from([1, 1, 2, 3, 4, 8]),
        "replicas": st.sampled_from([1, 1, 1, 2, 3]),
        "contract": st.sampled_from([0, 60, 900, HOUR, 3 * HOUR, 8 * HOUR]),
        "author": st.integers(1, 3),
        "priority": st.integers(0, 2),
        "resumable": st.booleans(),
        "allow_unallocated": st.booleans(),
        "first_start": st.booleans(),
    }
)
someone = st.integers(0, 50)
usual_steps = (
    st.tuples(st.just("submit"), st.lists(submissions, min_size=1, max_size=4)),
    st.tuples(st.just("submit"), st.lists(submissions, min_size=1, max_size=4)),
    st.tuples(st.just("wait"), st.sampled_from([0, 10, 60, 130, 600, HOUR, 9 * HOUR, 3 * DAY])),
    st.tuples(st.just("run"), someone),
    st.tuples(st.just("run_all"), st.sampled_from([0, 60, HOUR])),
    st.tuples(st.just("free"), someone),
    st.tuples(st.just("free_all"), st.none()),
    st.tuples(st.just("end"), someone),
    st.tuples(st.just("checkpoint"), someone),
)
mishaps = (
    st.tuples(st.just("back"), st.sampled_from([1, 300, HOUR])),
    st.tuples(st.just("cancel"), someone),
    st.tuples(st.just("withdraw"), someone),
    st.tuples(st.just("cordon"), st.tuples(someone, st.booleans())),
    st.tuples(st.just("drain"), st.tuples(someone, st.booleans())),
    st.tuples(st.just("lose"), someone),
    st.tuples(st.just("budget"), st.tuples(someone, st.sampled_from([0, 5, 20]))),
)
histories = st.lists(st.one_of(*usual_steps, *mishaps), min_size=1, max_size=14)
quiet_histories = st.lists(st.one_of(*usual_steps), min_size=1, max_size=14)


def make_busy(seed: int, length: int, calm: bool) -> tuple[Lab, list[Step]]:
    """A small cluster with more work than GPUs, budgets near their ends, and that many steps of its life.

    Drawn by the seed alone: hypothesis likes short and simple lives, in which nobody is short of anything.
    """
    draw = Random(seed)
    parents = [draw.choice([0, 0, number - 1, draw.randrange(number)]) for number in range(1, draw.randint(3, 6))]
    bursts = [NEVER, NEVER, NEVER, 8, 12] if not calm else [NEVER]
    lab = Lab(
        projects=tuple((above, draw.choice([20, 30, 40, 50]), draw.choice(bursts)) for above in parents),
        hosts=draw.choice([(8,), (8, 8), (8, 8, 8), (8, 4, 8)]),
        blocks=draw.randint(1, 2),
        past=tuple((draw.randint(1, 6), draw.choice([50, 200, 400, 800]), draw.randint(0, 5)) for _ in range(4)),
    )
    return lab, [draw_step(draw, calm) for _ in range(length)]


def draw_step(draw: Random, calm: bool) -> Step:
    """Mostly submissions and hours of running; without people and faults if it is to be calm."""
    names = ["submit"] * 5 + ["run_all"] * 5 + ["free_all"] * 3 + ["end"] * 2 + ["wait", "run", "free", "checkpoint"]
    if not calm:
        names += ["back", "cancel", "withdraw", "cordon", "drain", "lose", "budget"]
    name = draw.choice(names)
    number = draw.randrange(50)
    match name:
        case "submit":
            return name, [draw_submission(draw) for _ in range(draw.randint(1, 4))]
        case "wait" | "run_all":
            return name, draw.choice([0, 10, 60, 600, HOUR, HOUR, 3 * HOUR])
        case "back":
            return name, draw.choice([1, 300])
        case "cordon" | "drain":
            return name, (number, draw.random() < 0.7)
        case "budget":
            return name, (number, draw.choice([0, 5, 20]))
    return name, number


def draw_submission(draw: Random) -> dict[str, Any]:
    """A workload of any kind that fits this size of cluster."""
    return {
        "project": draw.randrange(1, 7),
        "gpus": draw.choice([1, 2, 3, 4, 8, 8]),
        "replicas": draw.choice([1, 1, 1, 1, 2]),
        "contract": draw.choice([0, 60, 900, HOUR, HOUR, 3 * HOUR, 8 * HOUR]),
        "author": draw.randint(1, 3),
        "priority": draw.randint(0, 1),
        "resumable": draw.random() < 0.8,
        "allow_unallocated": draw.random() < 0.6,
        "first_start": draw.random() < 0.5,
    }


busy_times = st.builds(make_busy, st.integers(0, 1 << 32), st.integers(10, 40), st.just(False))
calm_times = st.builds(make_busy, st.integers(0, 1 << 32), st.integers(4, 16), st.just(True))
Life = tuple[Lab, list[Step]]


def do_step(world: World, step: Step) -> None:
    """One event."""
    name, value = step
    match name:
        case "submit":
            for one in value:
                world.submit(**{**one, "project": str(one["project"] % world.size)})
        case "wait" | "back" | "run_all":
            let_time_pass(world, name, value)
        case "free_all":
            world.free_stopped()
        case "withdraw":
            if (workload := pick(world.state.pending["id"], value)) is not None:
                events.withdraw(world.state, workload)
        case "cordon" | "drain" | "lose":
            change_host(world, name, value)
        case "budget":
            cut_budget(world, *value)
        case _:
            do_to_attempt(world, name, value)


def let_time_pass(world: World, name: str, seconds: int) -> None:
    """The clock goes on, or back; what was assigned may run first."""
    if name == "run_all":
        world.start_all()
    world.wait(-seconds if name == "back" else seconds)


def pick(ids: Any, number: int) -> int | None:
    """Some id of those, whatever their order."""
    known = sorted(ids.tolist())
    return known[number % len(known)] if known else None


def cut_budget(world: World, number: int, percent: int) -> None:
    """A budget that is no larger than the one before: siblings still add up to 100 % at most."""
    project = number % world.size
    before = [row["share_ppm"] for row in world.shares if row["project"] == project]
    if before and before[-1] >= percent * 10_000 and world.last_budget_at(project) < world.now:
        world.budget(str(project), percent)


def change_host(world: World, name: str, value: Any) -> None:
    """A host is cordoned, emptied, lost, or back."""
    number, back = (value, False) if name == "lose" else value
    if (host := pick(world.state.hosts["id"], number)) is None:
        return
    if name == "lose":
        lose_host(world, host)
    elif name == "drain":
        events.drain(world.state, host, stop=back)
    else:
        events.cordon(world.state, host, schedulable=back)


def lose_host(world: World, host: int) -> None:
    """R15: what ran there has ended, and waits again if it can."""
    state = world.state
    row = state.hosts.find("id", host)
    for attempt in sorted(state.places):
        if row in state.places.get(attempt, {}):
            events.end(state, attempt, requeue=bool(row_of(world, attempt)["resumable"]))
    events.cordon(state, host)


def row_of(world: World, attempt: int) -> dict[str, int]:
    """An attempt's columns."""
    return world.state.attempts.row(world.state.attempts.find("id", attempt))


def do_to_attempt(world: World, name: str, number: int) -> None:
    """What can happen to one attempt, if it can happen to the one that is picked."""
    state = world.state
    attempts = state.attempts
    stopping = attempts["stopping_at"] != NEVER
    running = (attempts["running_at"] != NEVER) & ~stopping
    starting = (attempts["segments_at"] != NEVER) & (attempts["running_at"] == NEVER) & ~stopping
    chosen = {"run": starting, "free": stopping, "end": running, "checkpoint": running, "cancel": ~stopping}[name]
    if (attempt := pick(attempts["id"][np.asarray(chosen)], number)) is None:
        return
    match name:
        case "run":
            events.run(state, attempt)
        case "checkpoint":
            events.checkpoint(state, attempt)
        case "end":
            events.end(state, attempt)
        case "free":
            free_one(world, attempt)
        case "cancel":
            events.end(state, attempt, cancelled=True)


def free_one(world: World, attempt: int) -> None:
    """One of its hosts says that it is gone there; after the last its workload waits again, if it can."""
    state = world.state
    hosts = sorted(state.places[attempt])
    if len(hosts) > 1:
        events.free(state, attempt, int(state.hosts["id"][hosts[0]]))
    else:
        events.end(state, attempt, requeue=bool(row_of(world, attempt)["resumable"]))
