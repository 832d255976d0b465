"""How fast quotas move: what a rest promises goes by it (R2)."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.balance import Capacity, build_tree, compute_quotas, list_steps
from scheduler.policy import DAY, HOUR, Policy
from scheduler.state import State, Table
from scheduler.supply import Supply
from scheduler.types import NEVER, PPM, CapacitySteps, Projects, ShareSteps
from scheduler.usage import Window
from tests.scheduler.driver import examples

NOW = 100 * DAY
LOOK_SECONDS = 600

ago = st.one_of(st.integers(0, 2 * DAY), st.integers(DAY - 700, DAY), st.sampled_from([0, 1, HOUR, DAY]))
capacities = st.lists(st.tuples(ago, st.sampled_from([0, 8, 16, 100])), min_size=1, max_size=5)
budgets = st.lists(st.tuples(st.sampled_from([1, 2]), ago, st.sampled_from([0, 100_000, 900_000, PPM])), max_size=4)


def columns(rows: list[Any], width: int) -> list[Any]:
    """The rows' columns, by number."""
    return list(np.array(rows, dtype=np.int64).reshape(-1, width).T)


@examples(300)
@given(capacities, budgets, st.sampled_from([0, HOUR, DAY]))
def test_no_quota_moves_faster_than_its_drift(
    capacity: list[tuple[int, int]], shares: list[tuple[int, int, int]], first: int
) -> None:
    policy = Policy(lookback_seconds=DAY, first_budget_seconds=first)
    steps = CapacitySteps(*columns(sorted((NOW - age, gpus) for age, gpus in dict(capacity).items()), 2))
    rows = {(project, NOW - age): share for project, age, share in shares}
    given_out = [(project, at, share, NEVER) for (project, at), share in rows.items()]
    chain = Projects(np.arange(3, dtype=np.int64), np.array([NEVER, 0, 1], dtype=np.int64))
    tree = build_tree(chain, ShareSteps(*columns(given_out, 4)))
    supply = Supply(cast(State, SimpleNamespace(capacity=Table(steps))))

    def quotas(now: int) -> list[Fraction]:
        window = Window(now - DAY, now, None)
        found = compute_quotas(tree, Capacity(list_steps(steps), window), policy)
        return [Fraction(*quota) for quota in found]

    drifts = supply.list_drifts(tree, policy, Window(NOW - DAY, NOW, None), LOOK_SECONDS)
    before = quotas(NOW)
    for seconds in (1, 2, 59, 300, LOOK_SECONDS):
        for node, quota in enumerate(quotas(NOW + seconds)):
            assert abs(quota - before[node]) <= Fraction(drifts[node] * seconds, PPM ** tree.depth[node])
