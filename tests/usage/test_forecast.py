"""Where a balance goes: as passes will find it if nothing more starts, and why a forecast goes no further."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.usage.forecast import Forecast, Known, Running, Stop, balance_forecast
from scheduler.policy import Policy
from scheduler.usage import Rows

NOW = 1_764_000_000
HOUR, DAY = 3600, 86_400
WEEK = 7 * DAY
LAB, TEAM, TOPIC = 1, 2, 3


def rows_of(*spans: tuple[int, int, int]) -> Rows:
    """Charged time as (hours ago from, hours ago to, GPUs)."""
    start, end, gpus = (np.array([span[place] for span in spans], dtype=np.int64) for place in range(3))
    zero = np.zeros(len(spans), dtype=np.int64)
    return Rows(path=zero, author=zero, start_at=NOW - start * HOUR, end_at=NOW - end * HOUR, gpus=gpus)


def known_make(**changes: object) -> Known:
    """Half of 16 GPUs for the team, half of that for its topic, for a month; nothing ran."""
    none = rows_of()
    facts = {
        "now": NOW,
        "path": (LAB, TEAM, TOPIC),
        "policy": Policy(),
        "shares": [(TEAM, NOW - 30 * DAY, 500_000), (TOPIC, NOW - 30 * DAY, 500_000)],
        "capacity": [(NOW - 60 * DAY, 16)],
        "charged": {TEAM: none, TOPIC: none},
    }
    return Known(**{**facts, **changes})  # type: ignore[arg-type]


def found_at(forecast: Forecast, at: int) -> tuple[int, int]:
    return next((point.quiet_ppm, point.going_ppm) for point in forecast.points if point.at == at)


def test_a_project_that_used_nothing_stays_at_a_hundred_percent_to_the_end_of_the_window() -> None:
    forecast = balance_forecast(known_make())
    assert {(point.quiet_ppm, point.going_ppm) for point in forecast.points} == {(1_000_000, 1_000_000)}
    assert (forecast.stop, forecast.stops_at) == (Stop.WINDOW, NOW + WEEK)


def test_what_was_charged_leaves_the_window_and_the_balance_recovers() -> None:
    used = rows_of((6 * 24, 5 * 24, 4))  # one day of its four GPUs: a seventh of its quota
    forecast = balance_forecast(known_make(charged={TEAM: used, TOPIC: used}))
    assert found_at(forecast, NOW) == (857_142, 857_142)
    assert found_at(forecast, NOW + DAY + 12 * HOUR) == (928_571, 928_571)
    assert found_at(forecast, NOW + 3 * DAY)[0] == 1_000_000


def test_between_the_courses_lies_what_runs_now() -> None:
    running = Running((LAB, TEAM, TOPIC), gpus=1, contract_ends_at=NOW + 3 * HOUR, ends_at=None)
    forecast = balance_forecast(known_make(running=[running]))
    quota = 4 * WEEK
    assert found_at(forecast, NOW) == ((quota - 3 * HOUR) * 1_000_000 // quota,) * 2  # its contract counts at once
    quiet, going = found_at(forecast, NOW + DAY)
    assert quiet == (quota - 3 * HOUR) * 1_000_000 // quota
    assert going == (quota - DAY) * 1_000_000 // quota


def test_a_timeout_ends_the_going_on() -> None:
    running = Running((LAB, TEAM, TOPIC), gpus=1, contract_ends_at=NOW, ends_at=NOW + 6 * HOUR)
    forecast = balance_forecast(known_make(running=[running]))
    assert found_at(forecast, NOW + DAY) == (1_000_000, (4 * WEEK - 6 * HOUR) * 1_000_000 // (4 * WEEK))


def test_it_stops_at_the_second_at_which_what_runs_would_lapse_and_names_the_project() -> None:
    running = Running((LAB, TEAM), gpus=16, contract_ends_at=NOW, ends_at=None)
    forecast = balance_forecast(
        known_make(charged={TEAM: rows_of((2 * 24, 24, 48)), TOPIC: rows_of()}, running=[running])
    )  # 48 of the team's 56 GPU-days are used: 8 are left for 16 GPUs
    assert (forecast.stop, forecast.project) == (Stop.EXHAUSTED, TEAM)
    assert forecast.stops_at == NOW + 8 * DAY // 16
    assert forecast.points[-1].at == forecast.stops_at


def test_below_zero_it_stops_when_the_last_of_the_path_is_above_zero_again() -> None:
    used = rows_of((6 * 24, 5 * 24, 60))  # 60 of 56 GPU-days: they leave from a day from now on
    forecast = balance_forecast(known_make(path=(LAB, TEAM), charged={TEAM: used}))
    assert forecast.stop == Stop.RECOVERS
    assert all(point.quiet_ppm == point.going_ppm for point in forecast.points)
    left_after = (60 - 56) * DAY * DAY // (60 * DAY)
    assert NOW + DAY + left_after <= forecast.stops_at <= NOW + DAY + left_after + 1


def test_a_known_change_of_budgets_bends_it_and_its_end_stops_it() -> None:
    used = rows_of((24, 0, 4))
    halved = [(TEAM, NOW - 30 * DAY, 500_000), (TOPIC, NOW - 30 * DAY, 500_000), (TOPIC, NOW + DAY, 250_000)]
    forecast = balance_forecast(known_make(charged={TEAM: used, TOPIC: used}, shares=halved))
    assert found_at(forecast, NOW + DAY)[0] == 857_142
    assert found_at(forecast, NOW + 2 * DAY)[0] == (26 - 4) * 1_000_000 // 26
    over = balance_forecast(known_make(shares=[*halved[:2], (TEAM, NOW + DAY + 5, 0)]))
    assert (over.stop, over.stops_at, over.project) == (Stop.NO_BUDGET, NOW + DAY + 5, TEAM)
    assert over.points[-1].at < over.stops_at


def test_without_a_budget_there_is_nothing_to_forecast() -> None:
    forecast = balance_forecast(known_make(shares=[(TEAM, NOW - DAY, 500_000)]))
    assert (forecast.points, forecast.stop, forecast.project) == ([], Stop.NO_BUDGET, TOPIC)


spans = st.lists(
    st.tuples(st.integers(1, 200), st.integers(0, 200), st.integers(1, 20)).map(
        lambda span: (max(span[:2]), min(span[:2]), span[2])
    ),
    max_size=6,
)
courses = st.lists(
    st.builds(
        Running,
        path=st.sampled_from([(LAB, TEAM), (LAB, TEAM, TOPIC)]),
        gpus=st.integers(1, 8),
        contract_ends_at=st.integers(NOW - DAY, NOW + 8 * HOUR),
        ends_at=st.one_of(st.none(), st.integers(NOW + 8 * HOUR, NOW + 3 * DAY)),
    ),
    max_size=4,
)


@settings(deadline=None)
@given(team=spans, topic=spans, running=courses, half_life=st.sampled_from([None, 2 * DAY]))
def test_going_on_is_never_above_quiet_and_it_goes_up_to_where_it_stops(
    team: list[tuple[int, int, int]], topic: list[tuple[int, int, int]], running: list[Running], half_life: int | None
) -> None:
    charged = {TEAM: rows_of(*team, *topic), TOPIC: rows_of(*topic)}
    policy = Policy(half_life_seconds=half_life)
    forecast = balance_forecast(known_make(charged=charged, running=running, policy=policy))
    assert all(point.going_ppm <= point.quiet_ppm for point in forecast.points)
    moments = [point.at for point in forecast.points]
    assert moments == sorted(set(moments))
    assert moments[0] == NOW
    assert moments[-1] == forecast.stops_at <= NOW + WEEK


@given(topic=spans, running=courses)
@settings(deadline=None)
def test_an_earlier_forecast_says_what_a_later_one_finds_if_nothing_more_started(
    topic: list[tuple[int, int, int]], running: list[Running]
) -> None:
    quiet = [Running(each.path, each.gpus, each.contract_ends_at, None) for each in running]
    known = known_make(charged={TEAM: rows_of(*topic), TOPIC: rows_of(*topic)}, running=quiet)
    forecast = balance_forecast(known)
    for point in forecast.points[1::14]:
        assert balance_forecast(later(known, point.at)).points[0].quiet_ppm == point.quiet_ppm


def later(known: Known, at: int) -> Known:
    """The same facts as they stand then, if what ran was charged up to the end of its minimum runtime."""
    charged = {}
    for project, rows in known.charged.items():
        served = [each for each in known.running if project in each.path and each.contract_ends_at > known.now]
        charged[project] = Rows(
            path=np.zeros(len(rows.gpus) + len(served), dtype=np.int64),
            author=np.zeros(len(rows.gpus) + len(served), dtype=np.int64),
            start_at=np.append(rows.start_at, [known.now for _ in served]).astype(np.int64),
            end_at=np.append(rows.end_at, [min(each.contract_ends_at, at) for each in served]).astype(np.int64),
            gpus=np.append(rows.gpus, [each.gpus for each in served]).astype(np.int64),
        )
    running = [each for each in known.running if each.contract_ends_at > at]
    return Known(at, known.path, known.policy, known.shares, known.capacity, charged, running)


@pytest.mark.parametrize("steps", [1, 5])
def test_its_first_point_counts_each_contract_once(steps: int) -> None:
    running = [Running((LAB, TEAM, TOPIC), 2, NOW + HOUR, None) for _ in range(steps)]
    quota = 4 * WEEK
    point = balance_forecast(known_make(running=running)).points[0]
    assert point.quiet_ppm == (quota - steps * 2 * HOUR) * 1_000_000 // quota
