"""What a fault does to charged time: occupied as before, given back since the last checkpoint, never charged after."""

from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from portal.usage.refunds import Fault, Piece, pieces_faulted
from portal.workloads.models import CHARGED_STANDINGS, Standing
from tests.factories import after

P, F, U, S, R = Standing.PROTECTED, Standing.FUNDED, Standing.UNALLOCATED, Standing.STOPPING, Standing.REFUNDED


def pieces(*rows: tuple[int, int | None, str]) -> list[Piece]:
    return [Piece(after(start), None if end is None else after(end), standing) for start, end, standing in rows]


def fault(at: int, *, since: int = 0, seconds: int = 3600) -> Fault:
    return Fault(after(at), after(since), seconds)


def covered(rows: list[Piece], until: datetime, standings: tuple[str, ...] = tuple(Standing.values)) -> int:
    return sum(
        max(int((min(end or until, until) - start).total_seconds()), 0)
        for start, end, standing in rows
        if standing in standings
    )


def test_without_a_checkpoint_all_since_the_start_is_given_back() -> None:
    assert pieces_faulted(pieces((0, None, P)), fault(500), lost=True) == pieces((0, 500, R))


def test_what_was_charged_before_the_last_checkpoint_stays_charged() -> None:
    rows = pieces((0, 600, P), (600, None, F))
    assert pieces_faulted(rows, fault(900, since=700), lost=True) == pieces((0, 600, P), (600, 700, F), (700, 900, R))


def test_no_more_is_given_back_than_the_limit() -> None:
    rows = pieces((0, None, F))
    assert pieces_faulted(rows, fault(10_000), lost=True) == pieces((0, 6400, F), (6400, 10_000, R))


def test_the_limit_counts_charged_seconds_alone() -> None:
    rows = pieces((0, 100, F), (100, 200, U), (200, None, P))
    result = pieces_faulted(rows, fault(250, seconds=80), lost=True)
    assert result == pieces((0, 70, F), (70, 100, R), (100, 200, U), (200, 250, R))


def test_on_other_hosts_the_rest_is_stopping_until_it_ends() -> None:
    rows = pieces((0, 300, P), (300, 320, F), (320, None, S))
    assert pieces_faulted(rows, fault(250, since=200), lost=False) == pieces((0, 200, P), (200, 250, R), (250, None, S))


def test_what_began_after_the_last_heartbeat_leaves_nothing_on_the_lost_host() -> None:
    assert pieces_faulted(pieces((100, None, P)), fault(50), lost=True) == []


@st.composite
def histories(draw: st.DrawFn) -> list[Piece]:
    lengths = draw(st.lists(st.integers(1, 5000), min_size=1, max_size=6))
    standings = draw(st.lists(st.sampled_from([P, F, U, S]), min_size=len(lengths), max_size=len(lengths)))
    at = draw(st.integers(0, 3000))
    rows: list[tuple[int, int | None, str]] = []
    for length, standing in zip(lengths, standings, strict=True):
        rows.append((at, at + length, standing))
        at += length
    if draw(st.booleans()):
        rows[-1] = (rows[-1][0], None, rows[-1][2])
    return pieces(*rows)


@given(histories(), st.integers(0, 20_000), st.integers(0, 20_000), st.integers(0, 10_000), st.booleans())
def test_a_refund_keeps_every_occupied_second_and_gives_back_no_more_than_it_may(
    rows: list[Piece], at: int, since: int, limit: int, lost: bool
) -> None:
    wanted = fault(at, since=since, seconds=limit)
    result = pieces_faulted(rows, wanted, lost=lost)
    end = after(100_000)
    assert covered(result, wanted.at) == covered(rows, wanted.at)
    assert covered(result, end) == (covered(rows, wanted.at) if lost else covered(rows, end))
    given_back = covered(result, end, (R,))
    assert given_back == min(
        limit,
        covered([row for row in rows if row.start_at < wanted.at], wanted.at, CHARGED_STANDINGS)
        - covered(
            [row for row in rows if row.start_at < wanted.at],
            min(wanted.at, wanted.refund_since),
            CHARGED_STANDINGS,
        ),
    )
    charged_before = covered(rows, wanted.at, CHARGED_STANDINGS)
    assert covered(result, end, CHARGED_STANDINGS) == charged_before - given_back
    for earlier, later in zip(result, result[1:], strict=False):
        assert earlier.end_at == later.start_at
        assert earlier.standing != later.standing


@given(histories(), st.integers(0, 20_000), st.integers(0, 20_000), st.booleans())
def test_the_same_fault_found_again_changes_nothing(rows: list[Piece], at: int, since: int, lost: bool) -> None:
    once = pieces_faulted(rows, fault(at, since=since, seconds=10**9), lost=lost)
    assert pieces_faulted(once, fault(at, since=since, seconds=10**9), lost=lost) == once
