"""R10. Bounds and kept offers change how many hosts are looked at, never which victims are found."""

from typing import Any
from unittest.mock import patch

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


@examples(300)
@given(st.lists(st.sampled_from([0, 0, 4]), min_size=HOSTS, max_size=HOSTS), st.lists(steps, min_size=20, max_size=60))
def test_the_cheapest_is_found_whatever_was_offered_before(protected: list[int], history: list[Any]) -> None:
    cluster = Cluster(protected)
    for name, *words in history:
        getattr(cluster, name)(*words)
