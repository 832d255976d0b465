"""What can be taken, and the cheapest way to it (R9, R10): who may take whom is judged in `licences.py`."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge

from scheduler.licences import Asker as Asker
from scheduler.licences import Clock as Clock
from scheduler.licences import Licence as Licence
from scheduler.licences import Victim as Victim
from scheduler.licences import may_take_lower_priority, may_take_unallocated
from scheduler.placement import ROOM, Floor, Placement
from scheduler.tally import Tally
from scheduler.victims import IMPOSSIBLE, GangSearch, Tables, unpack


@dataclass(frozen=True, slots=True)
class Plan:
    """A place for the whole gang, and the attempts (by index) that must go first."""

    placement: Placement
    victims: tuple[int, ...] = ()


Offer = tuple[int, int, int]
"""(a bound on what making room there costs, room, host): not above the host's Entry."""

MOST_LICENCES = 256
"""So many are kept of one project."""

ANYBODY = -1
"""In place of a project: those whose own work is neither barred to them nor named."""

MANY_TRIED = 8
"""Hosts met in vain before their offers are made anew."""


Entry = tuple[int, int, int]
"""(cost, room, host): what it costs to make room on a host."""


class Pool:
    """What can be taken, by host, during one decision; keeps the floor's GPUs in step."""

    def __init__(self, floor: Floor, largest_gpus: int, parent: Sequence[int], clock: Clock) -> None:
        self.floor, self.clock = floor, clock
        self.touched: set[int] = set()  # attempts that were added or removed
        self._parent = parent  # by node of the budget tree
        self.victims: dict[int, Victim] = {}  # unallocated and funded
        self.unallocated: set[int] = set()
        self.unallocated_of: dict[int, set[int]] = {}  # by project
        self.funded_below: dict[int, set[int]] = {}  # by node: funded attempts in its subtree
        self.tables = Tables(self, largest_gpus)
        self.led_from: dict[int, list[int]] = {}  # by parent of such nodes: those with any, in order
        self._offers: dict[int, dict[int, list[Offer]]] = {}  # by node, then GPUs asked
        self._own: dict[int, set[int]] = {}  # by project: attempts that its own askers are judged by
        self._licences: dict[int, dict[tuple[int, bool, tuple[int, ...]], Licence]] = {}  # by project, see judge

    # ------------------------------------------------ what is in it

    def add(self, victim: Victim, counted: bool = False) -> None:
        """The attempt can be taken from now on. `counted`: the floor knows already."""
        self.touched.add(victim.attempt)
        self.victims[victim.attempt] = victim
        if victim.funded or victim.lapsed:
            self._own.setdefault(victim.project, set()).add(victim.attempt)
            self._licences.pop(victim.project, None)
        if victim.funded:
            for node in victim.path:
                self._add_below(node, victim)
        else:
            self.unallocated.add(victim.attempt)
            self.unallocated_of.setdefault(victim.project, set()).add(victim.attempt)
        for host, gpus in self.list_places(victim):
            self.tables.put(host, victim)
            if not (victim.funded or counted):
                self.floor.change(host, takeable=gpus)

    def remove(self, attempt: int, counted: bool = False) -> Victim:
        """It can't be taken any longer: it was, or it has returned or lapsed. `counted`: the floor knows already."""
        self.touched.add(attempt)
        victim = self.victims.pop(attempt)
        if victim.funded or victim.lapsed:
            self._own[victim.project].discard(attempt)
            self._licences.pop(victim.project, None)
        if victim.funded:
            for node in victim.path:
                self.funded_below[node].discard(attempt)
                if not self.funded_below[node]:
                    self.led_from[self._parent[node]].remove(node)
        else:
            self.unallocated.remove(attempt)
            self.unallocated_of[victim.project].remove(attempt)
        for host, gpus in self.list_places(victim):
            self.tables.drop(host, victim)
            if not (victim.funded or counted):
                self.floor.change(host, takeable=-gpus)
        return victim

    def renew(self, victim: Victim, since: int) -> None:
        """It has saved its progress: only what it would lose is another."""
        victim.since = since
        for host in victim.on_host:
            if self.floor.schedulable[host]:
                self.touch(host)

    def _add_below(self, node: int, victim: Victim) -> None:
        below = self.funded_below.setdefault(node, set())
        if not below:
            insort(self.led_from.setdefault(self._parent[node], []), node)
        below.add(victim.attempt)

    def reoffer(self, host: int) -> None:
        """Something changed on a host: what it is offered for may have fallen."""
        if not self._offers:
            return
        for other in self.tables.funded_on_host.get(host, ()):
            for node in self.victims[other].path:
                for gpus, known in self._offers.get(node, {}).items():
                    insort(known, self._offer(host, gpus))

    def _offer(self, host: int, gpus: int) -> Offer:
        return self.tables.bound(host, gpus), self.tables.room(host), host

    def list_places(self, victim: Victim) -> list[tuple[int, int]]:
        """(host, GPUs) of the victim where a start could use them."""
        return [(host, gpus) for host, gpus in victim.on_host.items() if self.floor.schedulable[host]]

    def is_under(self, attempt: int, node: int) -> bool:
        """Whether it is funded work of the node's subtree."""
        return attempt in self.funded_below.get(node, ())

    def has_funded(self) -> bool:
        """Whether some of it needs a licence."""
        return len(self.victims) > len(self.unallocated)

    def list_on(self, hosts: Iterable[int]) -> set[int]:
        """What can be taken on any of these schedulable hosts."""
        tables = self.tables
        return {
            one for host in hosts for there in (tables.on_host, tables.funded_on_host) for one in there.get(host, ())
        }

    def touch(self, host: int) -> None:
        """The host's free GPUs changed: what was computed for it is void."""
        self.tables.touch(host)

    def forget(self) -> None:
        """Time has passed: what an attempt would lose is another now."""
        self._offers.clear()
        self.tables.forget()

    # ------------------------------------------------ licences

    def name_terms(self, asker: Asker) -> object:
        """Askers with equal terms may take the same attempts."""
        own = (asker.project, asker.priority, asker.express) if self._own.get(asker.project) else None
        return own, asker.led

    def judge(self, asker: Asker) -> Licence:
        """R9: all that this asker may take; kept while its project's own work is the same."""
        own = self._own.get(asker.project)
        if own:
            project, terms = asker.project, (asker.priority, asker.express, asker.led)
        else:
            project, terms = ANYBODY, (0, False, asker.led)
        known = self._licences.setdefault(project, {})
        licence = known.get(terms)
        if licence is None:
            if len(known) >= MOST_LICENCES:
                known.clear()
            licence = known[terms] = self._judge(asker, [self.victims[one] for one in own or ()])
        return licence

    def _judge(self, asker: Asker, own: list[Victim]) -> Licence:
        barred = [one.attempt for one in own if not one.funded and not may_take_unallocated(asker, one)]
        named = [one.attempt for one in own if one.funded and may_take_lower_priority(asker, one)]
        return Licence(frozenset(barred), frozenset(asker.led), frozenset(named))

    def list_covered(self, licence: Licence) -> frozenset[int]:
        """All funded attempts that it covers."""
        return licence.named.union(*(self.funded_below[node] for node in licence.led))

    # ------------------------------------------------ victims

    def find_plan(
        self,
        asker: Asker,
        licence: Licence,
        closed: frozenset[int] = frozenset(),
        among: Sequence[int] | None = None,
    ) -> Plan | None:
        """The cheapest place for the whole gang on free and taken GPUs outside `closed` hosts, or None.

        Usually free GPUs alone are known not to be enough. `among`: the few hosts that are not closed, of
        which that isn't known.
        """
        gpus = asker.replicas * asker.gpus
        counted = licence.counted_at == self.tables.changes and closed in licence.rooms
        # Counting is dearer than looking, once.
        if among is not None or not counted or self.count_room(licence, closed).count_slots(gpus):
            whole = self._find_on_one_host(gpus, licence, closed, among)
            if whole is not None:
                host, victims = whole
                return Plan(((host, asker.replicas),), victims)
        if asker.replicas == 1 or self.count_room(licence, closed).count_slots(asker.gpus) < asker.replicas:
            return None
        found = GangSearch(self, asker.replicas, asker.gpus, licence, closed).solve()
        return None if found is None else Plan(*found)

    def count_room(self, licence: Licence, closed: frozenset[int]) -> Tally:
        """Hosts outside `closed` by the GPUs that an asker with that licence may have there, all victims taken."""
        if licence.counted_at != self.tables.changes:
            licence.counted_at = self.tables.changes
            licence.rooms.clear()
        room = licence.rooms.get(closed)
        if room is None:
            room = licence.rooms[closed] = self._count_room(licence, closed)
        return room

    def _count_room(self, licence: Licence, closed: frozenset[int]) -> Tally:
        if not (closed or licence.barred or licence.led or licence.named):
            return self.floor.tallies[ROOM]
        more: dict[int, int] = {}
        for sign, attempts in ((-1, licence.barred), (1, self.list_covered(licence))):
            for one in attempts:
                for host, gpus in self.list_places(self.victims[one]):
                    more[host] = more.get(host, 0) + sign * gpus
        if self._is_mostly(closed):
            hosts = [host for host in range(len(self.floor.gpus)) if host not in closed]
            return Tally(self.tables.room(host) + more.get(host, 0) for host in hosts)
        tally = self.floor.tallies[ROOM].copy()
        for host in closed:
            tally.remove(self.tables.room(host))
        for host, gpus in more.items():
            if host not in closed:
                room = self.tables.room(host)
                tally.move(room, room + gpus)
        return tally

    def _is_mostly(self, closed: frozenset[int]) -> bool:
        return 2 * len(closed) > len(self.floor.gpus)

    def _find_on_one_host(
        self, gpus: int, licence: Licence, closed: frozenset[int], among: Sequence[int] | None
    ) -> tuple[int, tuple[int, ...]] | None:
        best: Entry | None = None
        if among is not None:
            for host in among:
                best = self._better(host, gpus, licence, best)
            return self._unpack(best, gpus, licence)
        seen = self.list_hosts(licence.barred) - closed
        best = self.tables.find_best(gpus, seen | closed)
        for host in seen:
            best = self._better(host, gpus, licence, best)
        seen |= closed
        tried: set[int] = set()
        for offer in self._list_covered_hosts(licence, gpus):
            if best and best <= offer:
                break  # nobody takes there, or on a later one, for less
            host = offer[2]
            if host not in seen:
                seen.add(host)
                tried.add(host)
                best = self._better(host, gpus, licence, best)
        if len(tried) > MANY_TRIED:
            self._offer_anew(licence.led, gpus, tried)
        return self._unpack(best, gpus, licence)

    def _unpack(self, best: Entry | None, gpus: int, licence: Licence) -> tuple[int, tuple[int, ...]] | None:
        if best is None:
            return None
        host = best[2]
        attempts = self.tables.list_items(host, licence)
        mask = self.tables.cheapest(host, gpus, self.tables.solve(host, attempts))[1]
        return host, unpack(attempts, mask)

    def _better(self, host: int, gpus: int, licence: Licence, best: Entry | None) -> Entry | None:
        """The cheaper of the best so far and the host, by what this licence covers there."""
        tables = self.tables
        if tables.most(host) < gpus or (best and best[0] < tables.bound(host, gpus)):
            return best
        if tables.room(host) + tables.count_covered(host, licence) < gpus:
            return best
        cost = tables.cheapest(host, gpus, tables.solve(host, tables.list_items(host, licence)))[0]
        if cost >= IMPOSSIBLE:
            return best
        entry = cost, tables.room(host), host
        return min(best, entry) if best else entry

    def _list_covered_hosts(self, licence: Licence, gpus: int) -> Iterable[Offer]:
        """Hosts where the licence covers something, by a bound on what so many GPUs cost there, lowest first.

        What sat there may be gone, and the host's room may have shrunk: then they cost more, not less.
        """
        offers = [self._list_offers(node, gpus) for node in sorted(licence.led)]
        if licence.named:
            offers.append(sorted([self._offer(host, gpus) for host in self.list_hosts(licence.named)]))
        return offers[0] if len(offers) == 1 else merge(*offers)

    def _list_offers(self, node: int, gpus: int) -> list[Offer]:
        """The same for the funded work below one node."""
        known = self._offers.setdefault(node, {}).get(gpus)
        if known is None:
            hosts = self.list_hosts(self.funded_below[node])
            known = sorted(self._offer(host, gpus) for host in hosts if self.tables.most(host) >= gpus)
            self._offers[node][gpus] = known
        return known

    def _offer_anew(self, nodes: Iterable[int], gpus: int, tried: set[int]) -> None:
        """Hosts that were met in vain: their offers are exact from now on, or gone."""
        lowest = {host: self.tables.lowest(host, gpus) for host in tried if self.tables.most(host) >= gpus}
        exact = {host: (cost, self.tables.room(host), host) for host, cost in lowest.items() if cost < IMPOSSIBLE}
        for node in nodes:
            known = self._offers[node][gpus]
            kept = [offer for offer in known if offer[2] not in tried]
            again = {offer[2] for offer in known if offer[2] in exact}
            self._offers[node][gpus] = sorted([*kept, *(exact[host] for host in again)])

    def list_hosts(self, attempts: Iterable[int]) -> set[int]:
        """The schedulable hosts that these attempts sit on."""
        return {host for one in attempts for host in self.victims[one].on_host if self.floor.schedulable[host]}
