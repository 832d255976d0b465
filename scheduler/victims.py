"""Which victims cost the least work (R10), among those that the asker may take.

The search. On one host the victims are exact: the set of attempts with the least GPU-time
lost, then the fewest attempts, then the lower ids. Across hosts for a gang: while slots are
missing, take the option (host, number of new slots) with the least loss for each slot, count
what its victims free elsewhere, and go on; at the end drop every victim that turns out not
to be needed, the costliest first. A victim gang counts once however many hosts it sits on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement import Placement, spread_gang

if TYPE_CHECKING:
    from scheduler.preemption import Licence, Pool, Victim

MANY = 1 << 20
"""Packs (GPU-seconds lost, number of victims) into one whole number: lost x MANY + victims."""

IMPOSSIBLE = 1 << 100
"""Costlier than anything: these GPUs can't be freed."""

Row = tuple[int, int]
"""(cost, mask of victims) of freeing some number of GPUs on a host."""


def solve_cover(items: Sequence[tuple[int, int]], limit: int) -> list[Row]:
    """For every need from 0 to the sum of all or `limit`: the least cost that frees that much.

    `items` are (GPUs, cost); the answer is (cost, mask of items), exact, ties to the lower mask,
    that is to the earlier items. O(items x needs).
    """
    best = [(0, 0)]
    for bit, (gpus, cost) in enumerate(items):
        flag = 1 << bit
        longer = best + [(IMPOSSIBLE, 0)] * min(gpus, limit + 1 - len(best))
        for need in range(1, len(longer)):
            without = best[need - gpus] if need > gpus else best[0]
            option = (without[0] + cost, without[1] | flag)
            if option < longer[need]:
                longer[need] = option
        best = longer
    return best


Offer = tuple[int, int, int, bool, int, int]
"""(cost or a bound below it, room, host, whether it is the cost, the host's turn then, the moment then)."""

MOST_OFFERS = 8
"""Times as many offers as hosts that a heap may hold."""


class Tables:
    """What each number of GPUs on each host costs; worked out once for each set of victims."""

    def __init__(self, pool: Pool, largest_gpus: int) -> None:
        self.pool, self.floor = pool, pool.floor
        self.largest_gpus = largest_gpus  # no asker asks for more in total
        self.on_host: dict[int, set[int]] = {}  # unallocated attempts
        self.funded_on_host: dict[int, set[int]] = {}
        self._least: dict[int, tuple[int, int]] = {}  # by host: (least cost of a victim there, of one of its GPUs)
        self._rates: dict[int, int] = {}  # by host: no unallocated GPU there costs less
        self._solved: dict[tuple[int, tuple[int, ...]], list[Row]] = {}
        self._heaps: dict[int, list[Offer]] = {}
        self.changes = 0  # on all hosts
        self._turns: dict[int, int] = {}  # by host: how often it has changed
        self._stale: dict[int, set[int]] = {}  # by heap: hosts to offer anew

    def forget(self) -> None:
        """Time has passed: what an attempt would lose is more now, so that old offers are bounds still."""
        for known in (self._least, self._rates, self._solved):
            known.clear()

    def bound(self, host: int, gpus: int) -> int:
        """No licence makes so many GPUs free on the host for less."""
        known = self._least.get(host)
        if known is None:
            there = [
                self.pool.victims[one] for one in (*self.on_host.get(host, ()), *self.funded_on_host.get(host, ()))
            ]
            least = min((one.cost for one in there), default=IMPOSSIBLE)
            rate = min((one.cost // one.on_host[host] for one in there), default=IMPOSSIBLE)
            known = self._least[host] = least, rate
        need = gpus - self.floor.free[host]
        return max(known[0], need * known[1]) if need > 0 else 0

    def lowest(self, host: int, gpus: int) -> int:
        """What so many GPUs cost there for one who may take everything: the least for any licence."""
        attempts = sorted((*self.on_host.get(host, ()), *self.funded_on_host.get(host, ())))
        return self.cheapest(host, gpus, self._solve(host, attempts))[0]

    def put(self, host: int, victim: Victim) -> None:
        """A victim on a host."""
        if victim.funded:
            self.floor.license(host, victim.on_host[host])
        (self.funded_on_host if victim.funded else self.on_host).setdefault(host, set()).add(victim.attempt)
        self.touch(host)

    def drop(self, host: int, victim: Victim) -> None:
        """A victim that is one no longer."""
        if victim.funded:
            self.floor.license(host, -victim.on_host[host])
        (self.funded_on_host if victim.funded else self.on_host)[host].discard(victim.attempt)
        self.touch(host)

    def touch(self, host: int) -> None:
        """Free GPUs or victims of the host changed."""
        self._rates.pop(host, None)
        self._least.pop(host, None)
        self.changes += 1
        self._turns[host] = self._turns.get(host, 0) + 1
        for stale in self._stale.values():
            stale.add(host)
        self.pool.reoffer(host)

    def room(self, host: int) -> int:
        """GPUs that are free there or run unallocated work."""
        return self.floor.free[host] + self.floor.takeable[host]

    def most(self, host: int) -> int:
        """GPUs that the best licensed asker could have there."""
        return self.room(host) + self.floor.funded[host]

    def count_covered(self, host: int, licence: Licence) -> int:
        """GPUs there of funded work that the licence covers."""
        funded = [self.pool.victims[one] for one in self.funded_on_host.get(host, ())]
        return sum(victim.on_host[host] for victim in funded if licence.covers(victim))

    def find_best(self, gpus: int, without: set[int] | frozenset[int]) -> tuple[int, int, int] | None:
        """(cost, room, host) of the cheapest host for one who takes unallocated work alone.

        Hosts are met by a bound on their cost, and solved only when they come first by it.
        """
        heap, now = self._open_heap(gpus), self.pool.clock.now
        aside, best = [], None
        while heap and best is None:
            cost, room, host, exact, turn, at = heap[0]
            if turn != self._turns.get(host, 0):
                heappop(heap)
            elif host in without:
                aside.append(heappop(heap))
            elif at != now:
                heapreplace(heap, self._offer(host, gpus))
            elif exact:
                best = cost, room, host
            else:
                heapreplace(heap, (self.cheapest(host, gpus, self.solve(host, None))[0], room, host, True, turn, now))
        for entry in aside:
            heappush(heap, entry)
        return best

    def _open_heap(self, gpus: int) -> list[Offer]:
        """The offers for so many GPUs, those of hosts that have changed made anew."""
        heap = self._heaps.get(gpus)
        if heap is None or len(heap) > MOST_OFFERS * len(self.floor.gpus):
            heap = self._heaps[gpus] = []
            self._stale[gpus] = set(self.on_host)
        for host in self._stale[gpus]:
            if gpus - self.floor.free[host] <= self.floor.takeable[host]:
                heappush(heap, self._offer(host, gpus))
        self._stale[gpus].clear()
        return heap

    def _offer(self, host: int, gpus: int) -> Offer:
        need = gpus - self.floor.free[host]
        bound = need * self._rate(host) if need > 0 else 0
        return bound, self.room(host), host, False, self._turns.get(host, 0), self.pool.clock.now

    def _rate(self, host: int) -> int:
        """The least that a GPU of unallocated work costs there."""
        rate = self._rates.get(host)
        if rate is None:
            victims = [self.pool.victims[one] for one in self.on_host[host]]
            rate = self._rates[host] = min((one.cost // one.on_host[host] for one in victims), default=0)
        return rate

    def cheapest(self, host: int, gpus: int, table: Sequence[Row]) -> Row:
        """The least cost of having that many GPUs free on the host."""
        need = max(gpus - self.floor.free[host], 0)
        return table[need] if need < len(table) else (IMPOSSIBLE, 0)

    def list_items(self, host: int, licence: Licence, chosen: Iterable[int] = ()) -> list[int]:
        """The attempts on the host that the licence covers, less those chosen already."""
        items = self.on_host.get(host, set()) - licence.barred
        funded = self.funded_on_host.get(host)
        if funded:
            items = items | {one for one in funded if licence.covers(self.pool.victims[one])}
        return sorted(items.difference(chosen))

    def solve(self, host: int, licence: Licence | None, chosen: Iterable[int] = ()) -> list[Row]:
        """The costs for an asker with that licence, who has chosen some victims already.

        Without a licence: for one who takes all unallocated work and nothing else.
        """
        plain = self.on_host.get(host, ())
        attempts = sorted(plain) if licence is None else self.list_items(host, licence, chosen)
        return self._solve(host, attempts)

    def _solve(self, host: int, attempts: list[int]) -> list[Row]:
        key = (host, tuple(attempts))
        table = self._solved.get(key)
        if table is None:
            victims = [self.pool.victims[one] for one in attempts]
            items = [(one.on_host[host], one.cost) for one in victims]
            table = self._solved[key] = solve_cover(items, self.largest_gpus)
        return table

    def unpack(self, host: int, mask: int, licence: Licence, chosen: Iterable[int] = ()) -> tuple[int, ...]:
        """The attempts that a mask of `solve` stands for."""
        return tuple(one for bit, one in enumerate(self.list_items(host, licence, chosen)) if mask >> bit & 1)


Option = tuple[Fraction, int, int, tuple[int, ...]]
"""(loss for each new slot, host, how often the host was offered, victims)."""


class GangSearch:
    """The documented search of R10 for a gang over several hosts."""

    def __init__(self, pool: Pool, replicas: int, gpus: int, licence: Licence, closed: frozenset[int]) -> None:
        self.pool, self.tables, self.replicas, self.gpus = pool, pool.tables, replicas, gpus
        self.licence, self.closed = licence, closed
        self.covered = pool.list_covered(licence)
        # GPUs free now or freed by the victims chosen so far
        self.base = [0 if host in closed else free for host, free in enumerate(pool.floor.free)]
        self.chosen: set[int] = set()
        self.slots = sum(free // gpus for free in self.base)
        self.offers = [0] * len(self.base)
        self.options: list[Option] = []

    def solve(self) -> tuple[Placement, tuple[int, ...]] | None:
        """(placement, victims); None if even all that this asker may take is not enough: see Pool.count_room."""
        hosts = (self.tables.on_host.keys() | self.pool.list_hosts(self.covered)) - self.closed
        self.options = [option for host in sorted(hosts) for option in self._list_options(host)]
        heapify(self.options)
        while self.slots < self.replicas and self.options:
            _, host, offer, victims = heappop(self.options)
            if offer != self.offers[host]:
                continue  # void: it was offered anew when one of its attempts was chosen
            for host in self._choose(victims):
                self.offers[host] += 1
                for option in self._list_options(host):
                    heappush(self.options, option)
        if self.slots < self.replicas:
            return None
        self._drop_needless()
        return self._place()

    def _list_options(self, host: int) -> list[Option]:
        """The cheapest way to each number of further slots on the host."""
        gpus, base = self.gpus, self.base[host]
        if self.tables.room(host) < gpus and not self.covered:
            return []
        table = self.tables.solve(host, self.licence, self.chosen)
        options = []
        for more in range(1, (base + len(table) - 1) // gpus - base // gpus + 1):
            cost, mask = table[(base // gpus + more) * gpus - base]
            victims = self.tables.unpack(host, mask, self.licence, self.chosen)
            options.append((Fraction(cost, more), host, self.offers[host], victims))
        return options

    def _choose(self, victims: Iterable[int]) -> list[int]:
        touched: set[int] = set()
        for one in victims:
            self.chosen.add(one)
            touched.update(self._change_base(one, 1))
        return sorted(touched)

    def _change_base(self, attempt: int, sign: int) -> list[int]:
        """Count the victim's GPUs as free (1) or not (-1); the open hosts that it sits on."""
        places = self.pool.list_places(self.pool.victims[attempt])
        hosts = [host for host, _ in places if host not in self.closed]
        for host, count in places:
            if host not in self.closed:
                self.slots -= self.base[host] // self.gpus
                self.base[host] += sign * count
                self.slots += self.base[host] // self.gpus
        return hosts

    def _drop_needless(self) -> None:
        victims = self.pool.victims
        for one in sorted(self.chosen, key=lambda one: (-victims[one].lost_gpu_seconds, one)):
            self._change_base(one, -1)
            if self.slots >= self.replicas:
                self.chosen.discard(one)
            else:
                self._change_base(one, 1)

    def _place(self) -> tuple[Placement, tuple[int, ...]]:
        floor = self.pool.floor
        slots = np.array(self.base, dtype=np.int64) // self.gpus
        block = np.array(floor.block, dtype=np.int64)
        # Hosts that victims are taken from come first: without one of them there is no room.
        taken = {host for one in self.chosen for host in self.pool.victims[one].on_host}
        rank = np.array([0 if host in taken else 1 for host in range(len(slots))], dtype=np.int64)
        return spread_gang(slots, block, rank, self.replicas), tuple(sorted(self.chosen))
