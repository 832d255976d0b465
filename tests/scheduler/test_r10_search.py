"""R10. Bounds and kept offers change how many hosts are looked at, never which victims are found."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement import Floor
from scheduler.preemption import Asker, Clock, Pool, Victim
from scheduler.types import NEVER
from scheduler.victims import GangSearch, solve_cover
from tests.scheduler.driver import examples

HOSTS, SIZE, LARGEST = 4, 8, 64

steps = st.one_of(
    st.tuples(
        st.just("run"),
        st.lists(st.integers(0, HOSTS - 1), min_size=1, max_size=3, unique=True),
        st.sampled_from([1, 1, 2, 4, 8]),
        st.sampled_from([NEVER, 0, 0, 30, 500]),  # seconds ago
        st.booleans(),
    ),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.tuples(st.just("save"), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 20, 400])),
    st.tuples(st.just("ask"), st.integers(1, 4)),
    st.tuples(st.just("gang"), st.integers(2, 8), st.sampled_from([1, 2, 4, 8])),
)


class Cluster:
    """Hosts with protected work and such as can be taken."""

    def __init__(self, protected: list[int]) -> None:
        self.floor = Floor([SIZE] * HOSTS, [0] * HOSTS, [True] * HOSTS)
        self.floor.index_hosts()
        for host, gpus in enumerate(protected):
            self.floor.change(host, free=-gpus, kept=gpus)
        self.clock = Clock(1000, 300)
        self.pool = Pool(self.floor, LARGEST, [NEVER, 0], self.clock)
        self.next = 0

    def run(self, hosts: list[int], gpus: int, ago: int, funded: bool) -> None:
        hosts = [host for host in hosts if self.floor.free[host] >= gpus]
        funded = funded and ago != NEVER
        if not hosts:
            return
        for host in hosts:
            self.floor.change(host, free=-gpus)
            self.pool.touch(host)
        since = NEVER if ago == NEVER else self.clock.now - ago
        places, path = dict.fromkeys(hosts, gpus), (1,) if funded else ()
        gang, lapsed = gpus * len(hosts), self.next % 2 == 0
        self.pool.add(Victim(self.next, 0, 0, lapsed, gang, since, self.clock, places, path, funded))
        self.next += 1

    def choose(self, number: int) -> Victim | None:
        known = sorted(self.pool.victims)
        return self.pool.victims[known[number % len(known)]] if known else None

    def end(self, number: int) -> None:
        victim = self.choose(number)
        if victim is not None:
            self.pool.remove(victim.attempt)
            for host, gpus in victim.on_host.items():
                self.floor.change(host, free=gpus)
                self.pool.touch(host)

    def save(self, number: int) -> None:
        victim = self.choose(number)
        if victim is not None and victim.since != NEVER:
            self.pool.forget()  # told before anything is worked out
            self.pool.renew(victim, self.clock.now)

    def wait(self, seconds: int) -> None:
        self.clock.now += seconds
        self.pool.forget()

    def ask(self, more: int) -> None:
        tables, best = self.pool.tables, []
        gpus = max(self.floor.free) + more  # nobody asks for what is free
        for host, attempts in tables.on_host.items():
            there = [self.pool.victims[one] for one in sorted(attempts)]
            rows = solve_cover([(one.on_host[host], one.cost) for one in there], LARGEST)
            need = max(gpus - self.floor.free[host], 0)
            if need < len(rows):
                best.append((rows[need][0], tables.room(host), host))
        assert tables.find_best(gpus, frozenset()) == min(best, default=None)

    def gang(self, replicas: int, gpus: int) -> None:
        for project, led in ((1, ()), (1, tuple(self.pool.led_from.get(0, ()))), (0, ())):
            asker = Asker(project, 0, False, replicas, gpus, led)
            licence = self.pool.judge(asker)
            lapsed = {one.attempt for one in self.pool.victims.values() if one.lapsed and not one.funded}
            assert licence.barred == (set() if project else lapsed)
            search: Any = replicas, gpus, licence, frozenset()
            if self.pool.count_room(licence, frozenset()).count_slots(gpus) >= replicas:
                with patch.object(GangSearch, "_bound", lambda *_: 0):
                    plain = GangSearch(self.pool, *search).solve()
                assert GangSearch(self.pool, *search).solve() == plain


# ---------------------------------------------------------------- what random histories rarely meet


AGES = (100, 100), (10, 290)
"""Seconds that work of 4 GPUs would lose: host 0 costs 800, as is plain at once; host 1 seems to cost 80: 1,200."""


def fill_two(funded: bool, *ages: tuple[int, ...]) -> Cluster:
    """Two hosts full of gangs of that age; the others can't be taken."""
    cluster = Cluster([0, 0, SIZE, SIZE])
    for host, its in enumerate(ages):
        fill(cluster, host, its, funded)
    return cluster


def fill(cluster: Cluster, host: int, ages: tuple[int, ...], funded: bool) -> None:
    """The host has work of these ages instead of what it had, at like parts."""
    for number, victim in reversed(list(enumerate(sorted(cluster.pool.victims)))):
        if host in cluster.pool.victims[victim].on_host:
            cluster.end(number)
    for ago in ages:
        cluster.run([host], SIZE // len(ages), ago, funded)


def take_whole_host(cluster: Cluster) -> int:
    """The host that an asker for all its GPUs gets, who leads whatever is funded."""
    asker = Asker(1, 0, False, 1, SIZE, tuple(cluster.pool.led_from.get(0, ())))
    plan = cluster.pool.find_plan(asker, cluster.pool.judge(asker))
    assert plan is not None
    return plan.placement[0][0]


BOTH = pytest.mark.parametrize("funded", [False, True])


@BOTH
def test_a_host_whose_bound_is_its_cost_is_cheaper_than_one_that_only_seemed_so(funded: bool) -> None:
    assert take_whole_host(fill_two(funded, *AGES)) == 0


@BOTH
def test_a_single_gang_costs_what_it_would_lose(funded: bool) -> None:
    assert take_whole_host(fill_two(funded, (100,), (10, 290))) == 0


def test_the_search_for_a_gang_looks_at_every_host_that_may_be_cheaper() -> None:
    cluster = fill_two(False, *AGES)
    licence = cluster.pool.judge(Asker(1, 0, False, 1, SIZE))
    assert GangSearch(cluster.pool, 1, SIZE, licence, frozenset()).solve() == (((0, 1),), (0, 1))


@BOTH
def test_a_host_is_offered_anew_once_cheaper_work_sits_there(funded: bool) -> None:
    cluster = fill_two(funded, (100, 100), (290, 290))
    assert take_whole_host(cluster) == 0
    fill(cluster, 1, (20, 20), funded)
    assert take_whole_host(cluster) == 1


@BOTH
def test_a_host_is_offered_anew_once_costlier_work_sits_there(funded: bool) -> None:
    cluster = fill_two(funded, *AGES)
    assert take_whole_host(cluster) == 0
    fill(cluster, 0, (290, 290), funded)
    assert take_whole_host(cluster) == 1


@BOTH
def test_a_host_is_offered_anew_once_work_there_has_saved_its_progress(funded: bool) -> None:
    cluster = fill_two(funded, (100, 100), (290, 290))
    assert take_whole_host(cluster) == 0
    cluster.wait(1)
    for number in (2, 3):
        cluster.save(number)
    assert take_whole_host(cluster) == 1


@BOTH
def test_what_a_host_costs_is_worked_out_anew_once_time_has_passed(funded: bool) -> None:
    cluster = fill_two(funded, (10, 190), (5, 400))
    assert take_whole_host(cluster) == 0  # 800 GPU-seconds, not 1,220
    cluster.wait(110)
    assert take_whole_host(cluster) == 1  # 1,660, not 1,680: the older of them counts as 300 seconds only


@BOTH
def test_a_licence_is_judged_anew_once_more_of_its_projects_work_can_be_taken(funded: bool) -> None:
    cluster = Cluster([0] * HOSTS)
    asker, known = Asker(0, 1 if funded else 0, False, 1, SIZE), []
    for number in range(2):
        victim = Victim(number, 0, 0, True, 4, 0, cluster.clock, {number: 4}, (1,) if funded else (), funded)
        cluster.pool.add(victim)
        licence = cluster.pool.judge(asker)
        known.append(licence.named if funded else licence.barred)
    cluster.pool.remove(0)
    licence = cluster.pool.judge(asker)
    assert [*known, licence.named if funded else licence.barred] == [{0}, {0, 1}, {1}]


# ---------------------------------------------------------------- random histories


@examples(300)
@given(st.lists(st.sampled_from([0, 0, 4]), min_size=HOSTS, max_size=HOSTS), st.lists(steps, min_size=20, max_size=60))
def test_the_cheapest_is_found_whatever_was_offered_before(protected: list[int], history: list[Any]) -> None:
    cluster = Cluster(protected)
    for name, *words in history:
        getattr(cluster, name)(*words)
