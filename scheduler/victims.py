"""Which victims cost the least work (R10), among those that the asker may take.

The search. On one host the victims are exact: the set of attempts with the least GPU-time
lost, then the fewest attempts, then the lower ids. Across hosts for a gang: while slots are
missing, take the option (host, number of new slots) with the least loss for each slot, count
what its victims free elsewhere, and go on; at the end drop every victim that turns out not
to be needed, the costliest first. A victim gang counts once however many hosts it sits on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import lcm
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

MOST_LOGGED = 64
"""Times as many changes as hosts that are remembered."""


class Tables:
    """What each number of GPUs on each host costs; worked out once for each set of victims."""

    def __init__(self, pool: Pool, largest_gpus: int) -> None:
        self.pool, self.floor = pool, pool.floor
        self.largest_gpus = largest_gpus  # no asker asks for more in total
        self.on_host: dict[int, set[int]] = {}  # unallocated attempts
        self.funded_on_host: dict[int, set[int]] = {}
        self._least: dict[int, tuple[int, int]] = {}  # by host: (least cost of a victim there, of one of its GPUs)
        self._measures: list[tuple[int, int, int] | None] = [None] * len(self.floor.gpus)  # by host, see _measure
        self._solved: dict[tuple[int, tuple[int, ...]], list[Row]] = {}
        self._heaps: dict[int, list[Offer]] = {}  # by GPUs asked
        self._read: dict[int, int] = {}  # by heap: so much of the log is known to it
        self._log: list[int] = []  # hosts that have changed, in turn
        self.changes = 0  # on all hosts
        self._turns = [0] * len(self.floor.gpus)  # by host: how often it has changed

    def forget(self) -> None:
        """Time has passed: what an attempt would lose is more now, so that old offers are bounds still."""
        self._least.clear()
        self._solved.clear()
        if len(self._log) > MOST_LOGGED * len(self._turns):
            self._log.clear()
            self._heaps.clear()

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
        return self.cheapest(host, gpus, self.solve(host, attempts))[0]

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
        self._measures[host] = None
        self._least.pop(host, None)
        self.changes += 1
        self._turns[host] += 1
        self._log.append(host)
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
            if turn != self._turns[host]:
                heappop(heap)
            elif host in without:
                aside.append(heappop(heap))
            elif at != now:
                heapreplace(heap, self._offer(host, gpus))
            elif exact:
                best = cost, room, host
            else:
                table = self.solve(host, self.list_items(host, None))
                heapreplace(heap, (self.cheapest(host, gpus, table)[0], room, host, True, turn, now))
        for entry in aside:
            heappush(heap, entry)
        return best

    def _open_heap(self, gpus: int) -> list[Offer]:
        """The offers for so many GPUs, those of hosts that have changed made anew."""
        heap = self._heaps.get(gpus)
        if heap is None or len(heap) > MOST_OFFERS * len(self.floor.gpus):
            heap = self._heaps[gpus] = []
            changed = set(self.on_host)
        else:
            changed = set(self._log[self._read[gpus] :])
        self._read[gpus] = len(self._log)
        free, takeable = self.floor.free, self.floor.takeable
        for host in changed:
            if gpus <= free[host] + takeable[host]:
                heappush(heap, self._offer(host, gpus))
        return heap

    def _offer(self, host: int, gpus: int) -> Offer:
        need = gpus - self.floor.free[host]
        bound, exact = self._bound(host, need) if need > 0 else (0, False)
        return bound, self.room(host), host, exact, self._turns[host], self.pool.clock.now

    def _bound(self, host: int, need: int) -> tuple[int, bool]:
        """So many GPUs of unallocated work there don't cost less; and whether they cost just that."""
        there = self.on_host[host]
        if len(there) == 1:  # it has to go, however many are asked
            return self.pool.victims[next(iter(there))].cost, True
        times, least, since = self._measures[host] or self._measure(host)
        return self.pool.clock.count_lost(max(need * times, least), since) * MANY, False

    def rate(self, host: int) -> int:
        """No GPU of unallocated work there costs less, however many are asked."""
        times, _, since = self._measures[host] or self._measure(host)
        return self.pool.clock.count_lost(times, since) * MANY

    def _measure(self, host: int) -> tuple[int, int, int]:
        """Of the gangs of unallocated work there the least: times that they have as many GPUs in all, and GPUs.

        And when the latest of them last saved its progress or began to run. All 0 if one loses nothing.
        """
        times = least = latest = 0
        for one in self.on_host.get(host, ()):
            victim = self.pool.victims[one]
            if victim.since < 0:
                times = least = latest = 0
                break
            its = victim.gpus // victim.on_host[host]
            times = min(times, its) if times else its
            least = min(least, victim.gpus) if least else victim.gpus
            latest = max(latest, victim.since)
        known = self._measures[host] = times, least, latest
        return known

    def cheapest(self, host: int, gpus: int, table: Sequence[Row]) -> Row:
        """The least cost of having that many GPUs free on the host."""
        need = max(gpus - self.floor.free[host], 0)
        return table[need] if need < len(table) else (IMPOSSIBLE, 0)

    def list_items(self, host: int, licence: Licence | None) -> list[int]:
        """The attempts on the host that the licence covers; without one, all unallocated work and nothing else."""
        plain = self.on_host.get(host, set())
        if licence is None:
            return sorted(plain)
        items = [one for one in plain if one not in licence.barred]
        for one in self.funded_on_host.get(host, ()):
            if licence.covers(self.pool.victims[one]):
                items.append(one)
        items.sort()
        return items

    def solve(self, host: int, attempts: list[int]) -> list[Row]:
        """The costs of taking some of these attempts, see `solve_cover`."""
        key = (host, tuple(attempts))
        table = self._solved.get(key)
        if table is None:
            victims = [self.pool.victims[one] for one in attempts]
            items = [(one.on_host[host], one.cost) for one in victims]
            table = self._solved[key] = solve_cover(items, self.largest_gpus)
        return table


def unpack(attempts: Sequence[int], mask: int) -> tuple[int, ...]:
    """Those of the attempts that a mask stands for."""
    return tuple([one for bit, one in enumerate(attempts) if mask >> bit & 1])


Option = tuple[int, int, int, tuple[int, ...]]
"""(loss for each new slot, scaled, host, how often the host was offered, victims)."""


class GangSearch:
    """The documented search of R10 for a gang over several hosts."""

    def __init__(self, pool: Pool, replicas: int, gpus: int, licence: Licence, closed: frozenset[int]) -> None:
        self.pool, self.tables, self.replicas, self.gpus = pool, pool.tables, replicas, gpus
        self.licence, self.closed = licence, closed
        self.covered = pool.list_covered(licence)
        self.base = list(pool.floor.free)  # GPUs free now or freed by the victims chosen so far
        for host in closed:
            self.base[host] = 0
        self.chosen: set[int] = set()
        self.slots = sum([free // gpus for free in self.base])
        self.offers = [0] * len(self.base)
        self.options: list[Option] = []
        self.unopened: list[tuple[int, int]] = []  # (a bound below the loss of all its options, host)
        # Losses for different numbers of slots are compared as whole numbers.
        self.scale = lcm(*range(1, max(pool.floor.gpus, default=0) // gpus + 1))

    def solve(self) -> tuple[Placement, tuple[int, ...]] | None:
        """(placement, victims); None if even all that this asker may take is not enough: see Pool.count_room."""
        hosts = (self.tables.on_host.keys() | self.pool.list_hosts(self.covered)) - self.closed
        self.unopened = [(self._bound(host), host) for host in hosts if self._may_hold(host)]
        heapify(self.unopened)
        while self.slots < self.replicas and (option := self._pop_option()):
            for host in self._choose(option[3]):
                self.offers[host] += 1
                self._list_options(host)
        if self.slots < self.replicas:
            return None
        self._drop_needless()
        return self._place()

    def _pop_option(self) -> Option | None:
        """The option with the least loss; hosts whose bound is above it are not looked at."""
        while True:
            while self.unopened and (not self.options or self.unopened[0][0] <= self.options[0][0]):
                host = heappop(self.unopened)[1]
                if not self.offers[host]:
                    self._list_options(host)
            if not self.options:
                return None
            option = heappop(self.options)
            if option[2] == self.offers[option[1]]:
                return option
            # void: the host was offered anew when one of its attempts was chosen

    def _may_hold(self, host: int) -> bool:
        return bool(self.covered) or self.tables.room(host) >= self.gpus

    def _bound(self, host: int) -> int:
        """No slot there costs less: what lacks for the first one, GPU by GPU."""
        funded = self.covered and self.tables.funded_on_host.get(host)
        return 0 if funded else (self.gpus - self.base[host] % self.gpus) * self.tables.rate(host) * self.scale

    def _list_options(self, host: int) -> None:
        """The cheapest way to each number of further slots on the host."""
        gpus, base = self.gpus, self.base[host]
        attempts = self.tables.list_items(host, self.licence)
        if self.chosen:
            attempts = [one for one in attempts if one not in self.chosen]
        table = self.tables.solve(host, attempts)
        for more in range(1, (base + len(table) - 1) // gpus - base // gpus + 1):
            cost, mask = table[(base // gpus + more) * gpus - base]
            loss = cost * self.scale // more
            heappush(self.options, (loss, host, self.offers[host], unpack(attempts, mask)))

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
        slots = np.array(self.base, dtype=np.int64) // self.gpus
        # Hosts that victims are taken from come first: without one of them there is no room.
        rank = np.ones(len(slots), dtype=np.int64)
        for one in self.chosen:
            rank[list(self.pool.victims[one].on_host)] = 0
        return spread_gang(slots, self.pool.floor.blocks, rank, self.replicas), tuple(sorted(self.chosen))
