"""What is kept of balances, hosts, attempts and reservations is dropped as soon as it is another."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.balance import Quota, build_tree
from scheduler.book import Book, Kept
from scheduler.bookings import Booking
from scheduler.funds import Funds
from scheduler.placement import EMPTY, KEPT, TAKEABLE, Floor
from scheduler.preemption import Clock, Victim
from scheduler.types import NEVER, Policy
from tests.scheduler.world import HOUR, T0, World

NLP, VISION = 1, 2


# ---------------------------------------------------------------- balances


def open_funds(quota: Quota, used: int = 0) -> Funds:
    """nlp and vision with half of the cluster and that quota each, equally used."""
    world = World()
    for name in ("nlp", "vision"):
        world.project(name, 50)
    tree = build_tree(world.state.projects, world.state.shares)
    nodes = len(tree.parent)
    funds = Funds(tree, [quota] * nodes, [used] * nodes, [0] * nodes, [0] * nodes)
    funds.set_limits(T0, Policy())
    return funds


@pytest.mark.parametrize("charge", [50, 20])
def test_who_led_nobody_is_compared_again_once_another_is_charged(charge: int) -> None:
    funds = open_funds((1000, 1), used=100)
    assert funds.list_led(NLP, 50, [VISION], 0) == []
    funds.charge((VISION,), 500, 0)
    assert funds.list_led(NLP, charge, [VISION], 0) == [VISION]


def test_whom_it_led_it_leads_no_longer_once_it_is_charged_itself() -> None:
    funds = open_funds((1000, 1), used=100)
    funds.charge((VISION,), 500, 0)
    assert funds.list_led(NLP, 50, [VISION], 0) == [VISION]
    funds.charge((NLP,), 500, 0)
    assert funds.list_led(NLP, 50, [VISION], 0) == []


@pytest.mark.parametrize("name", ["positive_limit", "return_limit", "contract_limit", "express_limit"])
def test_other_quotas_set_other_limits(name: str) -> None:
    funds, larger = open_funds((1000, 1)), open_funds((3000, 1))
    assert getattr(funds, name) != getattr(larger, name)
    funds.set_quotas(larger.quotas, Policy())
    assert getattr(funds, name) == getattr(larger, name)


def test_a_balance_is_told_by_the_quotas_of_now() -> None:
    funds = open_funds((1000, 1), used=500)
    assert funds.balance_ppm(NLP) == 500_000
    funds.set_quotas([(2000, 1)] * len(funds.quotas), Policy())
    assert funds.balance_ppm(NLP) == 750_000


# ---------------------------------------------------------------- hosts


def test_a_host_is_found_by_what_sits_there_now_though_as_much_is_free() -> None:
    floor = Floor([8], [0], [True])
    floor.index_hosts()
    floor.put(0, occupied=4, kept=0, takeable=0)
    assert floor.find_host(4, (EMPTY,)) == 0
    floor.put(0, occupied=4, kept=4, takeable=0)
    assert floor.find_host(4, (KEPT,)) == 0
    floor.put(0, occupied=4, kept=0, takeable=4)
    assert floor.find_host(4, (TAKEABLE,)) == 0


def test_a_host_where_more_can_be_taken_is_told_though_as_much_is_free() -> None:
    floor = Floor([8], [0], [True])
    floor.index_hosts()
    floor.put(0, occupied=4, kept=0, takeable=0)
    assert floor.put(0, occupied=4, kept=0, takeable=4)
    assert not floor.put(0, occupied=4, kept=0, takeable=4)


# ---------------------------------------------------------------- attempts


def make_victim(
    since: int = T0, lapsed: bool = False, funded: bool = False, on_host: dict[int, int] | None = None
) -> Victim:
    return Victim(0, NLP, 0, lapsed, 4, since, Clock(T0 + HOUR, 300), on_host or {0: 2, 1: 2}, (NLP,), funded)


def test_an_attempt_is_like_itself() -> None:
    assert make_victim().is_like(make_victim())


CHANGES: list[dict[str, Any]] = [{"since": NEVER}, {"lapsed": True}, {"funded": True}, {"on_host": {0: 2}}]


@pytest.mark.parametrize("change", CHANGES)
def test_an_attempt_about_which_anything_is_another_is_known_anew(change: dict[str, Any]) -> None:
    assert not make_victim(**change).is_like(make_victim())


# ---------------------------------------------------------------- reservations


def open_book(*hosts: int) -> Book:
    """Reservations for the whole of each of these hosts, two hours from now on."""
    book = Book(Floor([8] * 3, [0] * 3, [True] * 3), open_funds((1000, 1)), Policy())
    for number, host in enumerate(hosts):
        book.add(reserve(number, host))
    return book


def reserve(number: int, host: int) -> Kept:
    booking = Booking(number, number, T0 + 2 * HOUR, T0, False, {host: 1}, frozenset())
    return Kept(booking, number, (NLP,), 8, HOUR)


def test_a_new_reservation_is_open_to_what_ends_before_it() -> None:
    book = open_book(0)
    assert book.list_open(T0 + HOUR) == (0, 1)
    book.add(reserve(1, 1))
    assert book.list_open(T0 + HOUR) == (0, 1, 2)


def test_a_reservation_that_is_dropped_is_open_to_nobody() -> None:
    book = open_book(0, 1)
    assert book.list_open(T0 + HOUR) == (0, 1, 2)
    book.drop(0)
    assert book.list_open(T0 + HOUR) == (0, 2)


def test_hosts_of_a_reservation_that_is_dropped_are_closed_no_longer() -> None:
    book = open_book(0, 1)
    assert book.list_closed((0,)) == {0, 1}
    book.drop(0)
    assert book.list_closed((0,)) == {1}


def test_a_reservation_that_was_moved_is_open_for_longer_and_moves_no_further() -> None:
    book, at = open_book(0), T0 + 2 * HOUR
    moved_at = at + book.policy.express_seconds
    assert [book.list_open(end, express) for end, express in ((at + 1, False), (moved_at, True))] == [(0,), (0, 1)]
    book.shift(1)
    assert [book.list_open(moved_at + late, express=True) for late in (0, 1)] == [(0, 1), (0,)]
    assert [book.list_open(moved_at + late) for late in (0, 1)] == [(0, 1), (0,)]
