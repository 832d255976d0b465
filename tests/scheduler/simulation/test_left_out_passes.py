"""Passes that are left out would have done nothing: every pass made, and made in full, gives the same run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.policy import Policy
from scheduler.simulation.budgets import Budgets
from scheduler.simulation.engine import start_run
from scheduler.simulation.loop import Loop
from scheduler.simulation.setup import HostChange, HostEvent, HostSetup, ProjectSetup, Setup
from scheduler.types import NEVER, PPM, ShareSteps
from tests.scheduler.driver import examples
from tests.scheduler.simulation.small import HOUR, jobs_make


class Short(Setup):
    """A setup whose run ends within a day."""

    @property
    def end_at(self) -> int:
        return 5 * HOUR


TABLES = ("segments", "waits", "preemptions", "lost")
FULL = {"skip_passes": False, "check_every": 1}


def run_both(setup: Setup, steady: bool = False) -> tuple[Loop, Loop]:
    """The run with passes left out, and with every pass made in full and checked."""
    loops = []
    for one in (setup, replace(setup, **FULL)):
        loop = start_run(one)
        loop.decider = Budgets(loop, steady=steady)
        loop.run(None)
        loops.append(loop)
    return loops[0], loops[1]


def differences(setup: Setup, steady: bool = False) -> list[str]:
    """The tables that differ in more than the order in which one pass or two have told of the same."""
    short, full = run_both(setup, steady)
    return [name for name in TABLES if list_rows(short, name) != list_rows(full, name)]


def list_rows(loop: Loop, name: str) -> list[tuple[int, ...]]:
    """Sorted."""
    return sorted(zip(*(column.tolist() for column in getattr(loop.ledger, name).read().values()), strict=True))


def setup_of(
    hosts: list[int],
    parents: list[int],
    shares: list[tuple[int, int, int, int]],
    jobs: list[dict[str, Any]],
    kind: type[Setup] = Setup,
    **more: Any,
) -> Setup:
    """Hosts by size; projects by parent, the root first; shares as (project, at, ppm, burst cap)."""
    table = np.array(sorted(shares, key=lambda row: (row[1], row[0])), dtype=np.int64).reshape(-1, 4).T
    names = tuple(f"h{number}" for number in range(len(hosts)))
    return kind(
        hosts=HostSetup(names, np.array(hosts, dtype=np.int64), np.zeros(len(hosts), dtype=np.int64)),
        projects=tuple(ProjectSetup(f"p{number}", parent) for number, parent in enumerate([NEVER, *parents])),
        shares=ShareSteps(*table),
        jobs=jobs_make(*jobs),
        days=1,
        check_every=0,
        **more,
    )


def test_a_budget_that_was_cut_still_moves_limits_while_its_past_is_in_the_window() -> None:
    shares = [(4, 0, 200_000, NEVER), (4, 5506, 5_086, NEVER)]
    job = {
        "project": 4,
        "submit_at": 789,
        "duration_seconds": 12_965,
        "gpus_per_replica": 2,
        "min_runtime_seconds": 600,
    }
    policy = Policy(lookback_seconds=HOUR)
    assert differences(setup_of([4, 7], [0] * 5, shares, [job], policy=policy, pass_interval_seconds=15), True) == []


def test_what_started_unallocated_may_return_at_once_beside_a_reservation() -> None:
    columns = ("submit_at", "duration_seconds", "replicas", "gpus_per_replica", "min_runtime_seconds", "priority")
    rows = [
        (75, 685, 1, 8, 900, 1),
        (113, 363, 8, 1, 363, 1),
        (590, 628, 1, 5, 300, 0),
        (1598, 1760, 1, 4, 3600, 0),
        (2173, 334, 1, 6, 1800, 0),
        (2891, 618, 6, 1, 1800, 1),
        (3499, 1868, 1, 1, 2236, 1),
        (3853, 281, 1, 1, 300, 0),
    ]
    jobs = [{"project": 3, **dict(zip(columns, row, strict=True))} for row in rows]
    setup = setup_of(
        [6, 8],
        [0, 1, 2],
        [(3, 0, PPM, NEVER), (1, 2769, 800_000, NEVER), (2, 2996, 999_999, 8)],
        jobs,
        policy=Policy(leaf_order=("submitted",), start_allowance_seconds=3600),
        pass_interval_seconds=977,
        host_events=(HostEvent(1, 281, HostChange.DRAIN, 600), HostEvent(0, 950, HostChange.FAIL, 60)),
    )
    assert differences(setup) == []


def test_a_pass_that_was_left_out_puts_no_lapse_off() -> None:
    columns = ("submit_at", "duration_seconds", "gpus_per_replica")
    jobs = [
        {"project": 4, "min_runtime_seconds": 600, **dict(zip(columns, row, strict=True))}
        for row in ((1836, 21_669, 2), (3211, 16_886, 4))
    ]
    setup = setup_of(
        [4, 5, 4, 4],
        [0] * 4,
        [(4, 0, 332_703, NEVER)],
        jobs,
        policy=Policy(lookback_seconds=HOUR),
        pass_interval_seconds=30,
    )
    assert differences(setup) == []


def test_a_contract_that_ended_unseen_is_told_as_funded_from_its_end_on() -> None:
    job = {"duration_seconds": 2 * HOUR, "min_runtime_seconds": HOUR}
    setup = setup_of([8], [0], [(1, 0, PPM, NEVER)], [job], pass_interval_seconds=10)
    loop, _ = run_both(setup)
    segments = loop.ledger.segments.read()
    assert (segments["start"].tolist(), segments["end"].tolist()) == ([0, HOUR], [HOUR, 2 * HOUR])
    assert differences(setup) == []


def draw_setup(seed: int) -> tuple[Setup, bool]:
    """A small cluster with odd budgets, caps, faults and rules, for some hours."""
    draw = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[int(draw.integers(len(values)))]

    hosts = [one_of(8, 8, 4, 5) for _ in range(int(draw.integers(1, 4)))]
    parents = [int(draw.integers(0, 1 + number // 2)) for number in range(int(draw.integers(2, 7)))]
    shares, span = [], 3 * HOUR
    for at in (0, *draw.integers(1, span, one_of(0, 1, 2)).tolist()):
        for parent in range(len(parents)):
            children = [number + 1 for number, above in enumerate(parents) if above == parent]
            parts = draw.dirichlet(np.ones(max(len(children), 1))) * one_of(1.0, 0.8, 0.3)
            for child, part in zip(children, parts, strict=False):
                burst = NEVER if draw.random() < 0.7 else int(draw.integers(0, sum(hosts) + 1))
                shares.append((child, int(at), int(part * PPM), burst))
    jobs = [
        {
            "project": int(draw.integers(1, len(parents) + 1)),
            "user": int(draw.integers(0, 3)),
            "submit_at": int(draw.integers(0, span)),
            "duration_seconds": int(draw.integers(60, 2 * HOUR)),
            "replicas": one_of(1, 1, 1, 2),
            "gpus_per_replica": one_of(1, 1, 2, 4),
            "min_runtime_seconds": one_of(0, 60, 300, 600, HOUR, 2 * HOUR),
            "priority": one_of(0, 0, 1),
            "resumable": bool(draw.random() < 0.8),
        }
        for _ in range(int(draw.integers(4, 24)))
    ]
    policy = Policy(
        lookback_seconds=one_of(HOUR, 2 * HOUR, 6 * HOUR),
        first_budget_seconds=one_of(0, 600, 24 * HOUR),
        overdraw_limit_ppm=one_of(0, 200_000, PPM),
        express_share_ppm=one_of(0, 50_000, PPM),
        licence_margin_ppm=one_of(1000, 20_000, 200_000),
        unallocated_cap_gpus=one_of(None, None, 4),
        reservations_most=one_of(0, 1, 4),
        start_allowance_seconds=one_of(1, 60, 600),
        save_for_head=one_of(0, 0, 0, 1),
    )
    faults = [
        HostEvent(int(draw.integers(len(hosts))), int(draw.integers(span)), one_of(*HostChange), one_of(60, 900))
        for _ in range(one_of(0, 0, 1, 3))
    ]
    more = {"policy": policy, "host_events": tuple(faults), "pass_interval_seconds": one_of(15, 30, 60, 300)}
    return setup_of(hosts, parents, shares, jobs, Short, **more), bool(draw.random() < 0.5)


@examples(25)
@given(st.integers(0, 1 << 32))
def test_whatever_the_budgets_and_rules(seed: int) -> None:
    setup, steady = draw_setup(seed)
    assert differences(setup, steady) == []


@pytest.mark.parametrize("floor_seconds", [183, 185, 187, 194])
def test_the_express_share_of_a_quota_that_moves_is_not_slept_through(floor_seconds: int) -> None:
    jobs = [
        {
            "project": 1,
            "submit_at": 0,
            "duration_seconds": 7 * HOUR,
            "gpus_per_replica": 8,
            "min_runtime_seconds": 4800,
        },
        {
            "project": 1,
            "submit_at": 60,
            "duration_seconds": 300,
            "gpus_per_replica": 1,
            "min_runtime_seconds": 60,
            "allow_unallocated": False,
        },
    ]
    shares = [(1, 0, 100_000, NEVER), (1, HOUR, 120_000, NEVER)]
    policy = Policy(lookback_seconds=HOUR, overdraw_limit_ppm=10_000_000, express_floor_seconds=floor_seconds)
    assert differences(setup_of([10], [0], shares, jobs, policy=policy, pass_interval_seconds=60)) == []
