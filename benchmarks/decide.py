"""How long one decision takes: decide_10k, decide_idle, and the same ten times larger.

JSON lines, one figure each: {"name", "value", "unit", ...}. One core.

    python benchmarks/decide.py [--large] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from scheduler.bookings import write_bookings
from scheduler.decide import decide
from scheduler.events import apply
from scheduler.state import State
from scheduler.types import (
    NEVER,
    PPM,
    Attempts,
    CapacitySteps,
    EndedTakers,
    ExpressStarts,
    Hosts,
    Pending,
    Placements,
    Policy,
    Projects,
    Segments,
    ShareSteps,
    Snapshot,
    Standing,
)

NOW = 1_790_000_000
HOUR = 3600
WEEK = 7 * 24 * HOUR


def build_tree(rng: np.random.Generator, count: int) -> tuple[Projects, ShareSteps, np.ndarray]:
    """A root and `count` projects, four levels deep; the leaves get the work."""
    parents, level_of = [NEVER], [0]
    widths = [max(2, round(count * part)) for part in (0.04, 0.12, 0.28)]
    widths.append(count - sum(widths))
    above = [0]
    for level, width in enumerate(widths, start=1):
        here = list(range(len(parents), len(parents) + width))
        parents += [above[number % len(above)] for number in range(width)]
        level_of += [level] * width
        above = here
    children = np.bincount(np.array(parents[1:]), minlength=len(parents))
    rows = np.arange(1, len(parents))
    share = (0.95 * PPM / children[np.array(parents[1:])] * rng.uniform(0.5, 1, len(rows))).astype(np.int64)
    steps = ShareSteps(rows, np.full(len(rows), NOW - 40 * 24 * HOUR), share, np.full(len(rows), NEVER))
    ids = np.arange(len(parents), dtype=np.int64) + 1
    return Projects(ids, np.array(parents, dtype=np.int64)), steps, np.flatnonzero(children == 0)


def build_snapshot(scale: float = 1, segments: int = 20_000) -> Snapshot:
    """10,000 pending, 1,250 hosts of 8, 2,500 running, 150 projects four levels deep, times `scale`."""
    rng = np.random.default_rng(7)
    people, hosts, count = round(150 * scale), round(1250 * scale), round(10_000 * scale)
    projects, shares, leaves = build_tree(rng, people)
    attempts, placements = build_attempts(rng, hosts, 2 * hosts, leaves)
    gpus = rng.choice([1, 1, 1, 2, 4, 8], count)
    replicas = np.where(gpus == 8, rng.choice([1, 1, 1, 2, 4, 16], count), 1)
    pending = Pending(
        id=np.arange(count) + 10_000_000,
        project=rng.choice(leaves, count),
        author=rng.integers(1, people, count),
        first_submit_at=NOW - rng.integers(1, WEEK, count),
        queued_at=NOW - rng.integers(1, HOUR, count),
        replicas=replicas,
        gpus_per_replica=gpus,
        min_runtime_seconds=rng.choice([0, 300, 900, HOUR, 2 * HOUR, 4 * HOUR], count),
        resumable=rng.random(count) < 0.9,
        allow_unallocated=rng.random(count) < 0.9,
        priority=rng.integers(0, 3, count),
        first_start=rng.random(count) < 0.7,
    )
    paths = []
    for leaf in leaves.tolist():
        path, node = [], leaf
        while node != NEVER:
            path.append(int(projects.id[node]))
            node = int(projects.parent[node])
        paths.append(tuple(reversed(path)))
    closed = []
    for _ in range(2):
        start = NOW - rng.integers(HOUR, WEEK + HOUR, round(segments * scale))
        closed.append(
            Segments(
                rng.choice(len(paths), len(start), p=uneven(len(paths))),
                rng.integers(1, people, len(start)),
                start,
                start + rng.integers(60, HOUR * 10, len(start)).clip(max=NOW - start),
                rng.choice([1, 2, 4, 8, 16, 32], len(start)),
            )
        )
    none = np.zeros(0, dtype=np.int64)
    return Snapshot(
        now=NOW,
        projects=projects,
        shares=shares,
        capacity=CapacitySteps(np.array([NOW - 2 * WEEK]), np.array([hosts * 8])),
        hosts=build_hosts(hosts),
        pending=pending,
        attempts=attempts,
        placements=placements,
        paths=tuple(paths),
        charged=closed[0],
        unallocated=closed[1],
        express=ExpressStarts(none, none, none),
        takers=EndedTakers(none, none, none, none, none.astype(bool)),
        reserved=write_bookings([], []),
    )


def build_hosts(count: int) -> Hosts:
    """Hosts of 8, all open, 32 to a block."""
    ids = np.arange(count, dtype=np.int64)
    return Hosts(ids + 1, np.full(count, 8), np.ones(count, dtype=bool), ids // 32)


def uneven(count: int) -> np.ndarray:
    """Some projects have used far more than others."""
    weights = 1.0 / np.arange(2, count + 2)
    return np.asarray(weights / weights.sum())


def build_attempts(rng: np.random.Generator, hosts: int, count: int, leaves: np.ndarray) -> tuple[Attempts, Placements]:
    """Two attempts a host: a cluster nearly full, a fifth of it unallocated, a tenth past its contract."""
    host = np.arange(count) % hosts
    gpus = np.where(np.arange(count) < hosts, rng.choice([2, 4], count), rng.choice([2, 4, 4], count))
    running = NOW - rng.integers(60, 4 * HOUR, count)
    standing = rng.choice(
        [Standing.PROTECTED, Standing.FUNDED, Standing.UNALLOCATED], count, p=[0.6, 0.15, 0.25]
    ).astype(np.int64)
    contract = np.where(standing == Standing.PROTECTED, NOW - running + rng.integers(60, 4 * HOUR, count), HOUR)
    contract = np.where(standing == Standing.FUNDED, np.minimum(NOW - running, contract), contract)
    never, no = np.full(count, NEVER), np.zeros(count, dtype=bool)
    attempts = Attempts(
        id=np.arange(count) + 1,
        workload=np.arange(count) + 1,
        project=rng.choice(leaves, count),
        author=rng.integers(1, 150, count),
        priority=rng.integers(0, 3, count),
        first_submit_at=running - 60,
        queued_at=running - 60,
        first_start=~no,
        replicas=np.ones(count, dtype=np.int64),
        gpus_per_replica=gpus,
        contract_seconds=contract,
        resumable=~no,
        allow_unallocated=~no,
        express=no,
        decided_at=running - 30,
        segments_at=running - 20,
        segment_at=running - 20,
        running_at=running,
        stopping_at=never,
        grace_seconds=np.zeros(count, dtype=np.int64),
        standing=standing,
        lapsed=(standing == Standing.UNALLOCATED) & (rng.random(count) < 0.5),
        last_checkpoint_at=np.where(rng.random(count) < 0.5, running + 30, NEVER),
        taker=never,
    )
    return attempts, Placements(np.arange(count), host, np.ones(count, dtype=np.int64))


def measure(run: Callable[[], object], times: int) -> float:
    """The best of a few runs, in seconds of one core."""
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return best


def settle(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """The facts after their decision was applied: now nothing can change."""
    state = State(snapshot)
    apply(state, decide(state, policy))
    return state.to_snapshot()


def report(name: str, snapshot: Snapshot, policy: Policy, times: int) -> float:
    """Time the decision and print its line."""
    decision = decide(snapshot, policy)
    value = measure(lambda: decide(snapshot, policy), times)
    line = {"name": name, "value": round(value, 4), "unit": "s", "actions": len(decision.actions)}
    print(json.dumps({**line, "waits": len(decision.waits)}), flush=True)
    return value


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also decide_100k")
    parser.add_argument("--profile", action="store_true", help="print where decide_10k spends its time")
    options = parser.parse_args()
    policy, snapshot = Policy(), build_snapshot()
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(decide, snapshot, policy)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    small = report("decide_10k", snapshot, policy, 5)
    report("decide_idle", settle(snapshot, policy), policy, 5)
    if options.large:
        large = report("decide_100k", build_snapshot(scale=10), policy, 2)
        print(json.dumps({"name": "decide_growth", "value": round(large / small, 2), "unit": "ratio"}))


if __name__ == "__main__":
    main()
