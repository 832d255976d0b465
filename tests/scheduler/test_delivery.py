"""R2, R6, R8 over a month of saturated demand: every project gets its share, and a larger budget never less."""

from __future__ import annotations

from functools import cache

import pytest

from tests.scheduler.market import Market, keep_waiting
from tests.scheduler.world import DAY, HOUR, T0, WEEK

SHARES = {"mine": 15.0, "other": 45.0, "third": 25.0}
DAYS, WARM_UP = 30 * DAY, WEEK


@cache
def run_month(percent: float) -> dict[str, float]:
    """Delivered of owed by project after the first week, under constant demand; passes every two hours."""
    market = Market({**SHARES, "mine": percent}, hosts=3, lookback_seconds=WEEK)
    market.habits = {
        "mine": keep_waiting(8, gpus=2, contract=HOUR, length=3 * HOUR),
        "other": keep_waiting(6, gpus=4, contract=2 * HOUR, length=6 * HOUR, first_start=False),
        "third": keep_waiting(3, gpus=8, contract=4 * HOUR, length=5 * HOUR, resumable=False),
    }
    market.run(DAYS, step=2 * HOUR)
    owed = 24 * (DAYS - WARM_UP) / 100
    shares = {**SHARES, "mine": percent}
    return {name: market.charged(name, T0 + WARM_UP) / (owed * share) for name, share in shares.items()}


@pytest.mark.parametrize("project", SHARES)
def test_over_a_month_every_project_is_delivered_its_share(project: str) -> None:
    assert 0.97 <= run_month(SHARES["mine"])[project] <= 1.05


def test_a_larger_budget_is_never_delivered_less() -> None:
    delivered = [run_month(percent)["mine"] * percent for percent in (5.0, 15.0, 25.0)]
    assert delivered == sorted(delivered)
    assert delivered[2] > 1.5 * delivered[1] > 3 * delivered[0]
