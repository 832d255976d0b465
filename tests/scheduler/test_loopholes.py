"""Ways to get more than one's budget, tried over days against honest neighbours: none gains.

"mine" holds 20 % of 24 GPUs. Each trick is compared with the honest twin. The bound is R6's: no project
is charged beyond its budget by more than its running contracts and its express share.
"""

from __future__ import annotations

from functools import cache

import pytest

from scheduler import events
from scheduler.types import NEVER
from tests.scheduler.market import Habit, Market, keep_waiting
from tests.scheduler.world import DAY, HOUR, T0

DAYS, WARM_UP = 3 * DAY, DAY
SHARE = 0.20
OWED = 24 * DAY * SHARE  # of one window
EXPRESS_PPM = 50_000


def play(habit: Habit, after: Habit | None = None, shares: dict[str, float] | None = None, **policy: int) -> Market:
    """Three days in which one project does as it likes; "mine" or what is below it."""
    market = Market(shares, **policy)
    market.habits = {
        "other": keep_waiting(6, gpus=4, first_start=False),
        "third": keep_waiting(4, gpus=2, contract=HOUR, first_start=False),
    }
    for name in shares or {"mine": 0}:
        if name.split("/")[0] == "mine" and (not shares or "/" in name):
            market.habits[name.split("/")[-1]] = habit
            if after:
                market.after[name.split("/")[-1]] = after
    market.run(DAYS)
    return market


@cache
def honest() -> Market:
    """The twin that plays by the book."""
    return play(keep_waiting(6, gpus=4, first_start=False))


def gain_of(market: Market, contract: int, least: float = 0.93) -> None:
    """What must hold: never above the bound in any window, no more than the twin over days, neighbours unharmed."""
    spare = contract + 24 * 1800  # running contracts, and what runs on until the next pass finds the balance at 0
    assert market.highest_ppm["mine"] <= 1_000_000 + EXPRESS_PPM + spare * 1_000_000 / OWED
    mine, fair = market.charged("mine", T0 + WARM_UP), honest().charged("mine", T0 + WARM_UP)
    assert mine <= fair * 1.05 + EXPRESS_PPM / 1e6 * OWED * 2 + contract
    for name in ("other", "third"):
        assert market.charged(name, T0 + WARM_UP) >= least * honest().charged(name, T0 + WARM_UP)


def test_the_honest_twin_gets_its_share() -> None:
    assert 0.9 <= honest().charged("mine", T0 + WARM_UP) / (OWED * 2) <= 1.08


@pytest.mark.parametrize("first_start", [True, False])
def test_contracts_of_one_second(first_start: bool) -> None:
    gain_of(play(keep_waiting(6, gpus=4, contract=1, first_start=first_start)), contract=0)


def two_hundred_at_once(market: Market, project: str) -> None:
    if market.turn % 48 == 1:
        for _ in range(200):
            market.submit(project, 600, gpus=1, contract=600)


def test_two_hundred_short_contracts_at_once() -> None:
    gain_of(play(two_hundred_at_once), contract=0)


def test_work_that_never_stops_being_a_first_start() -> None:
    # Each piece of ten minutes is submitted as a new workload, so that each may start express.
    gain_of(play(keep_waiting(24, gpus=1, contract=600, length=600)), contract=0)


def hold_and_cancel(market: Market, project: str) -> None:
    """A gang over the whole cluster, cancelled when its time is near; somebody else submits the next one."""
    waiting = market.world.state.pending
    for index in range(waiting.count - 1, -1, -1):
        row = waiting.row(index)
        if row["project"] == market.world.names[project] and market.world.now - row["queued_at"] >= 3600:
            events.withdraw(market.world.state, row["id"])
    if not market.count_waiting(project):
        market.submit(project, HOUR, gpus=8, replicas=3, contract=HOUR, author=1 + market.turn % 5)


def test_gangs_submitted_only_to_hold_reservations() -> None:
    # It gains nothing. While such a reservation stands, what would not end in time runs there unallocated, so its
    # neighbours are charged less; each author can do it once a day (R12), and here five of them do.
    gain_of(play(hold_and_cancel), contract=24 * HOUR, least=0.85)


def cancel_takers(market: Market, project: str) -> None:
    """Whatever waits for GPUs that others must leave is cancelled at once."""
    attempts = market.world.state.attempts
    for index in range(attempts.count - 1, -1, -1):
        row = attempts.row(index)
        if row["project"] == market.world.names[project] and row["segments_at"] == NEVER:
            events.end(market.world.state, row["id"], cancelled=True)


def test_takers_cancelled_in_the_grace_time() -> None:
    market = play(keep_waiting(6, gpus=8, contract=HOUR), after=cancel_takers)
    gain_of(market, contract=8 * HOUR)
    # Who does it takes nothing for an hour: at most one such start an hour, instead of one a pass.
    mine = [taken for taker, taken in market.preempted_for.items() if taker not in market.lengths or taken]
    assert sum(mine) <= sum(honest().preempted_for.values()) + 24 * DAYS // DAY


def test_work_split_over_many_child_projects() -> None:
    shares = {"mine": 20.0, "other": 40.0, "third": 30.0, **{f"mine/child{number}": 12.5 for number in range(8)}}
    gain_of(play(keep_waiting(4, gpus=4, first_start=False), shares=shares), contract=2 * HOUR * 4)
    gain_of(play(keep_waiting(4, gpus=4, contract=600, length=600), shares=shares), contract=0)


def flap(market: Market, project: str) -> None:
    """The largest contract there is, whenever the balance is just above 0."""
    if not market.count_waiting(project):
        market.submit(project, 8 * HOUR, gpus=8, contract=8 * HOUR, first_start=False)


def test_flapping_around_balance_zero() -> None:
    gain_of(play(flap), contract=8 * 8 * HOUR)


def test_a_small_budget_spent_by_contracts_as_large_as_itself() -> None:
    # Each contract may push the balance to -100 %, and is paid back before the next: over days it is no gain.
    market = play(flap, shares={"mine": 5.0, "other": 40.0, "third": 30.0})
    owed = 24 * 0.05 * (DAYS - WARM_UP)
    assert market.charged("mine", T0 + WARM_UP) <= owed + 8 * 8 * HOUR
