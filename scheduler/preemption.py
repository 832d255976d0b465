"""Who may be taken (R9) and which victims cost the least work (R10).

The search. On one host the victims are exact: the set of attempts with the least GPU-time
lost, then the fewest attempts, then the lower ids. Across hosts for a gang: while slots are
missing, take the option (host, number of new slots) with the least loss for each slot, count
what its victims free elsewhere, and go on; at the end drop every victim that turns out not
to be needed, the costliest first. A victim gang counts once however many hosts it sits on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush

import numpy as np

from scheduler.placement import Floor, Placement, spread_gang

MANY = 1 << 20
"""Packs (GPU-seconds lost, number of victims) into one whole number: lost x MANY + victims."""

IMPOSSIBLE = 1 << 100
"""Costlier than anything: these GPUs can't be freed."""


@dataclass(frozen=True, slots=True)
class Victim:
    """An attempt that can be taken, as a whole gang."""

    attempt: int  # index, in order of attempt ids
    project: int
    priority: int
    lapsed: bool
    lost_gpu_seconds: int
    on_host: dict[int, int]  # GPUs by host index


@dataclass(frozen=True, slots=True)
class Asker:
    """A funded start that asks for GPUs."""

    project: int
    priority: int
    express: bool
    replicas: int
    gpus: int  # per replica


@dataclass(frozen=True, slots=True)
class Plan:
    """A place for the whole gang, and the attempts (by index) that must go first."""

    placement: Placement
    victims: tuple[int, ...] = ()


def may_take_unallocated(asker: Asker, victim: Victim) -> bool:
    """R9 (a): unallocated work, except lapsed work of its own project of like or higher priority.

    An express start may take that too.
    """
    own = victim.lapsed and victim.project == asker.project and victim.priority >= asker.priority
    return asker.express or not own


def count_lost(gpus: int, running_at: int, checkpoint_at: int, now: int, cap_seconds: int) -> int:
    """R10's loss of a whole gang in GPU-seconds: time since its last checkpoint, at most the cap.

    Without a checkpoint: since it runs; 0 if it doesn't run yet or the clock stepped back.
    """
    if running_at < 0:
        return 0
    return gpus * min(max(now - max(running_at, checkpoint_at), 0), cap_seconds)


class Pool:
    """What can be taken, by host, during one decision; keeps the floor's takeable GPUs in step."""

    def __init__(self, floor: Floor, largest_gpus: int) -> None:
        self.floor = floor
        self.largest_gpus = largest_gpus  # no asker asks for more in total
        self.victims: dict[int, Victim] = {}
        self.on_host: dict[int, set[int]] = {}
        self.own_lapsed: dict[int, set[int]] = {}  # attempts by project
        self._tables: dict[int, list[tuple[int, int]]] = {}
        self._heaps: dict[int, list[tuple[int, int, int]]] = {}
        self._stale: dict[int, set[int]] = {}  # by heap: hosts to offer anew

    def add(self, victim: Victim) -> None:
        """The attempt can be taken from now on."""
        self.victims[victim.attempt] = victim
        if victim.lapsed:
            self.own_lapsed.setdefault(victim.project, set()).add(victim.attempt)
        for host, gpus in self._list_places(victim):
            self.on_host.setdefault(host, set()).add(victim.attempt)
            self.floor.change(host, takeable=gpus)
            self.touch(host)

    def remove(self, attempt: int) -> Victim:
        """It can't be taken any longer: it was, or it has returned."""
        victim = self.victims.pop(attempt)
        self.own_lapsed.get(victim.project, set()).discard(attempt)
        for host, gpus in self._list_places(victim):
            self.on_host[host].discard(attempt)
            self.floor.change(host, takeable=-gpus)
            self.touch(host)
        return victim

    def _list_places(self, victim: Victim) -> list[tuple[int, int]]:
        return [(host, gpus) for host, gpus in victim.on_host.items() if self.floor.schedulable[host]]

    def touch(self, host: int) -> None:
        """The host's free GPUs or victims changed: what was computed for it is void."""
        self._tables.pop(host, None)
        for stale in self._stale.values():
            stale.add(host)

    def room(self, host: int) -> int:
        """GPUs that are free or can be taken there by somebody."""
        return self.floor.free[host] + self.floor.takeable[host]

    def count_slots(self, gpus: int, barred: Iterable[int] = ()) -> int:
        """How many replicas of that size free and takeable GPUs could hold, whole hosts apart."""
        room = np.array(self.floor.free, dtype=np.int64) + np.array(self.floor.takeable, dtype=np.int64)
        for one in barred:
            for host, taken in self._list_places(self.victims[one]):
                room[host] -= taken
        return int((room // gpus).sum())

    def list_barred(self, asker: Asker) -> frozenset[int]:
        """The attempts in the pool that this asker may not take."""
        lapsed = self.own_lapsed.get(asker.project, ())
        return frozenset(one for one in lapsed if not may_take_unallocated(asker, self.victims[one]))

    def find_plan(self, asker: Asker, barred: frozenset[int]) -> Plan | None:
        """The cheapest place for the whole gang on free and taken GPUs, or None."""
        whole = self._find_on_one_host(asker.replicas * asker.gpus, barred)
        if whole is not None:
            host, victims = whole
            return Plan(((host, asker.replicas),), victims)
        if asker.replicas == 1 or self.count_slots(asker.gpus, barred) < asker.replicas:
            return None
        return _GangSearch(self, asker, barred).solve()

    # ------------------------------------------------ one host, exact

    def _find_on_one_host(self, gpus: int, barred: frozenset[int]) -> tuple[int, tuple[int, ...]] | None:
        affected = {host for one in barred for host in self.victims[one].on_host if self.floor.schedulable[host]}
        best = self._best_unaffected(gpus, affected)
        for host in affected:
            cost, _ = self._cheapest(host, gpus, self.solve(host, barred))
            if cost < IMPOSSIBLE:
                best = min(best, (cost, self.room(host), host)) if best else (cost, self.room(host), host)
        if best is None:
            return None
        host = best[2]
        table = self.solve(host, barred) if host in affected else self.table(host)
        return host, self.unpack(host, self._cheapest(host, gpus, table)[1], barred)

    def _best_unaffected(self, gpus: int, affected: set[int]) -> tuple[int, int, int] | None:
        heap = self._heaps.get(gpus)
        if heap is None:
            heap = self._heaps[gpus] = []
            self._stale[gpus] = set(self.on_host)
        for host in self._stale[gpus]:
            self._offer(heap, host, gpus)
        self._stale[gpus].clear()
        aside = []
        best = None
        while heap and best is None:
            entry = heap[0]
            if entry != self._entry(entry[2], gpus):
                heappop(heap)
            elif entry[2] in affected:
                aside.append(heappop(heap))
            else:
                best = entry
        for entry in aside:
            heappush(heap, entry)
        return best

    def _entry(self, host: int, gpus: int) -> tuple[int, int, int]:
        return self._cheapest(host, gpus, self.table(host))[0], self.room(host), host

    def _offer(self, heap: list[tuple[int, int, int]], host: int, gpus: int) -> None:
        if self.floor.gpus[host] >= gpus:
            entry = self._entry(host, gpus)
            if entry[0] < IMPOSSIBLE:
                heappush(heap, entry)

    def _cheapest(self, host: int, gpus: int, table: Sequence[tuple[int, int]]) -> tuple[int, int]:
        need = max(gpus - self.floor.free[host], 0)
        return table[need] if need < len(table) else (IMPOSSIBLE, 0)

    def table(self, host: int) -> list[tuple[int, int]]:
        """What each number of GPUs on the host would cost an asker who may take everything."""
        table = self._tables.get(host)
        if table is None:
            table = self._tables[host] = self.solve(host, frozenset())
        return table

    def _list_items(self, host: int, barred: Iterable[int]) -> list[int]:
        return sorted(self.on_host.get(host, set()).difference(barred))

    def solve(self, host: int, barred: frozenset[int]) -> list[tuple[int, int]]:
        """The same for an asker who may not take the barred."""
        victims = [self.victims[one] for one in self._list_items(host, barred)]
        items = [(one.on_host[host], one.lost_gpu_seconds * MANY + 1) for one in victims]
        return solve_cover(items, self.largest_gpus)

    def unpack(self, host: int, mask: int, barred: frozenset[int]) -> tuple[int, ...]:
        """The attempts that a mask of `solve` stands for."""
        return tuple(one for bit, one in enumerate(self._list_items(host, barred)) if mask >> bit & 1)


def solve_cover(items: Sequence[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
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


Option = tuple[Fraction, int, int, tuple[int, ...]]
"""(loss for each new slot, host, how often the host was offered, victims)."""


class _GangSearch:
    """The documented search of R10 for a gang over several hosts."""

    def __init__(self, pool: Pool, asker: Asker, barred: frozenset[int]) -> None:
        self.pool, self.asker, self.barred = pool, asker, barred
        self.base = list(pool.floor.free)  # free now or freed by the victims chosen so far
        self.chosen: set[int] = set()
        self.slots = sum(free // asker.gpus for free in self.base)
        self.offers = [0] * len(self.base)
        self.options: list[Option] = []

    def solve(self) -> Plan | None:
        """None if even all that this asker may take is not enough."""
        pool, gpus = self.pool, self.asker.gpus
        hosts = [host for host, there in pool.on_host.items() if there and pool.room(host) >= gpus]
        self.options = [option for host in hosts for option in self._list_options(host)]
        heapify(self.options)
        while self.slots < self.asker.replicas and self.options:
            _, host, offer, victims = heappop(self.options)
            if offer != self.offers[host]:
                continue  # void: it was offered anew when one of its attempts was chosen
            for host in self._choose(victims):
                self.offers[host] += 1
                for option in self._list_options(host):
                    heappush(self.options, option)
        if self.slots < self.asker.replicas:
            return None
        self._drop_needless()
        return self._place()

    def _list_options(self, host: int) -> list[Option]:
        """The cheapest way to each number of further slots on the host."""
        pool, gpus = self.pool, self.asker.gpus
        without = self.barred | self.chosen
        plain = without.isdisjoint(pool.on_host.get(host, ()))
        table = pool.table(host) if plain else pool.solve(host, without)
        options = []
        base = self.base[host]
        for more in range(1, (base + len(table) - 1) // gpus - base // gpus + 1):
            cost, mask = table[(base // gpus + more) * gpus - base]
            victims = pool.unpack(host, mask, without)
            options.append((Fraction(cost, more), host, self.offers[host], victims))
        return options

    def _choose(self, victims: Iterable[int]) -> list[int]:
        touched: set[int] = set()
        for one in victims:
            self.chosen.add(one)
            touched.update(self._change_base(one, 1))
        return sorted(touched)

    def _change_base(self, attempt: int, sign: int) -> list[int]:
        """Count the victim's GPUs as free (1) or not (-1); the schedulable hosts that it sits on."""
        pool, gpus = self.pool, self.asker.gpus
        hosts = [host for host in pool.victims[attempt].on_host if pool.floor.schedulable[host]]
        for host in hosts:
            self.slots -= self.base[host] // gpus
            self.base[host] += sign * pool.victims[attempt].on_host[host]
            self.slots += self.base[host] // gpus
        return hosts

    def _drop_needless(self) -> None:
        victims = self.pool.victims
        for one in sorted(self.chosen, key=lambda one: (-victims[one].lost_gpu_seconds, one)):
            self._change_base(one, -1)
            if self.slots >= self.asker.replicas:
                self.chosen.discard(one)
            else:
                self._change_base(one, 1)

    def _place(self) -> Plan:
        floor = self.pool.floor
        slots = np.array(self.base, dtype=np.int64) // self.asker.gpus
        block = np.array(floor.block, dtype=np.int64)
        # Hosts that victims are taken from come first: without one of them there is no room.
        taken = {host for one in self.chosen for host in self.pool.victims[one].on_host}
        rank = np.array([0 if host in taken else 1 for host in range(len(slots))], dtype=np.int64)
        return Plan(spread_gang(slots, block, rank, self.asker.replicas), tuple(sorted(self.chosen)))
