"""Who may be taken (R9): one tiny named function a rule. Which victims then go first: `victims.py`.

Unallocated attempts can be taken by every funded start but for a few exceptions; funded ones
past their minimum only by those who hold a licence for them. A licence is judged at the
balances of the moment when the asker is considered.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge

from scheduler.placement import ROOM, Floor, Placement
from scheduler.tally import Tally
from scheduler.victims import IMPOSSIBLE, MANY, GangSearch, Tables


@dataclass(slots=True)
class Clock:
    """The moment of the decision, and R10's cap on the time that an attempt may lose."""

    now: int
    lost_cap_seconds: int


@dataclass(frozen=True, slots=True)
class Victim:
    """An attempt that can be taken, as a whole gang."""

    attempt: int  # index, in order of attempt ids
    project: int
    priority: int
    lapsed: bool
    gpus: int
    since: int  # when it last saved its progress or began to run; NEVER: it doesn't run yet
    clock: Clock
    on_host: dict[int, int]  # GPUs by host index
    path: tuple[int, ...] = ()  # nodes that it is charged to, root excepted
    funded: bool = False  # past its minimum runtime, charged

    @property
    def lost_gpu_seconds(self) -> int:
        """What the whole gang loses."""
        return count_lost(self.gpus, self.since, self.clock.now, self.clock.lost_cap_seconds)

    @property
    def cost(self) -> int:
        """What taking it costs: GPU-time lost first, then the number of victims."""
        return self.lost_gpu_seconds * MANY + 1


@dataclass(frozen=True, slots=True)
class Asker:
    """A funded start that asks for GPUs."""

    project: int
    priority: int
    express: bool
    replicas: int
    gpus: int  # per replica
    led: tuple[int, ...] = ()  # branches that it leads even when charged for its contract (R9 c)


@dataclass(frozen=True, slots=True)
class Plan:
    """A place for the whole gang, and the attempts (by index) that must go first."""

    placement: Placement
    victims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Licence:
    """What one asker may take: all unallocated attempts but the barred, and the funded that it covers.

    Covered are all below the `led` nodes, and the `named`.
    """

    barred: frozenset[int] = frozenset()
    led: frozenset[int] = frozenset()
    named: frozenset[int] = frozenset()
    rooms: dict[frozenset[int], tuple[int, Tally]] = field(default_factory=dict, compare=False)  # see Pool.count_room

    def covers(self, victim: Victim) -> bool:
        """R9 (b), (c): whether this funded attempt may be taken."""
        return victim.attempt in self.named or may_take_less_deserving(self.led, victim)


def may_take_unallocated(asker: Asker, victim: Victim) -> bool:
    """R9 (a): unallocated work, except lapsed work of its own project of like or higher priority.

    An express start may take that too.
    """
    own = victim.lapsed and victim.project == asker.project and victim.priority >= asker.priority
    return not victim.funded and (asker.express or not own)


def may_take_lower_priority(asker: Asker, victim: Victim) -> bool:
    """R9 (b): past-minimum work of its own project that has lower priority."""
    return victim.project == asker.project and victim.priority < asker.priority


def may_take_less_deserving(led: frozenset[int], victim: Victim) -> bool:
    """R9 (c): past-minimum funded work of a branch that the asker's own still leads by the margin.

    Compared where the two paths part, after the asker is charged: `Funds.list_led` has found them.
    """
    return not led.isdisjoint(victim.path)


def count_lost(gpus: int, since: int, now: int, cap_seconds: int) -> int:
    """R10's loss of a whole gang in GPU-seconds: time since its last checkpoint, at most the cap.

    Without a checkpoint: since it runs; 0 if it doesn't run yet or the clock stepped back.
    """
    return gpus * min(max(now - since, 0), cap_seconds) if since >= 0 else 0


Offer = tuple[int, int, int]
"""(a bound on what making room there costs, room, host): not above the host's Entry."""

NOTHING = Tally()

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
        self.funded_below: dict[int, set[int]] = {}  # by node: funded attempts in its subtree
        self.tables = Tables(self, largest_gpus)
        self.led_from: dict[int, list[int]] = {}  # by parent of such nodes: those with any, in order
        self._offers: dict[int, dict[int, list[Offer]]] = {}  # by node, then GPUs asked
        self._own: dict[int, set[int]] = {}  # by project: attempts that its own askers are judged by
        self._licences: dict[object, Licence] = {}

    # ------------------------------------------------ what is in it

    def add(self, victim: Victim) -> None:
        """The attempt can be taken from now on."""
        self.touched.add(victim.attempt)
        self._licences.clear()
        self.victims[victim.attempt] = victim
        if victim.funded or victim.lapsed:
            self._own.setdefault(victim.project, set()).add(victim.attempt)
        if victim.funded:
            for node in victim.path:
                self._add_below(node, victim)
        else:
            self.unallocated.add(victim.attempt)
        for host, gpus in self.list_places(victim):
            self.tables.put(host, victim)
            if not victim.funded:
                self.floor.change(host, takeable=gpus)

    def remove(self, attempt: int) -> Victim:
        """It can't be taken any longer: it was, or it has returned or lapsed."""
        self.touched.add(attempt)
        self._licences.clear()
        victim = self.victims.pop(attempt)
        self.unallocated.discard(attempt)
        self._own.get(victim.project, set()).discard(attempt)
        if victim.funded:
            for node in victim.path:
                self.funded_below[node].discard(attempt)
                if not self.funded_below[node]:
                    self.led_from[self._parent[node]].remove(node)
        for host, gpus in self.list_places(victim):
            self.tables.drop(host, victim)
            if not victim.funded:
                self.floor.change(host, takeable=-gpus)
        return victim

    def renew(self, victim: Victim) -> None:
        """It has saved its progress: only what it would lose is another."""
        self.victims[victim.attempt] = victim
        for host, _ in self.list_places(victim):
            self.touch(host)

    def _add_below(self, node: int, victim: Victim) -> None:
        below = self.funded_below.setdefault(node, set())
        if not below:
            insort(self.led_from.setdefault(self._parent[node], []), node)
        below.add(victim.attempt)

    def reoffer(self, host: int) -> None:
        """Something changed on a host: what it is offered for may have fallen."""
        for other in self.tables.funded_on_host.get(host, ()) if self._offers else ():
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

    def touch(self, host: int) -> None:
        """The host's free GPUs changed: what was computed for it is void."""
        self.tables.touch(host)

    def forget(self) -> None:
        """Time has passed: what an attempt would lose is another now."""
        self._licences.clear()
        self._offers.clear()
        self.tables.forget()

    # ------------------------------------------------ licences

    def name_terms(self, asker: Asker) -> object:
        """Askers with equal terms may take the same attempts."""
        own = (asker.project, asker.priority, asker.express) if self._own.get(asker.project) else None
        return own, asker.led

    def judge(self, asker: Asker) -> Licence:
        """R9: all that this asker may take."""
        terms = self.name_terms(asker)
        licence = self._licences.get(terms)
        if licence is None:
            own = [self.victims[one] for one in self._own.get(asker.project, ())]
            barred = [one.attempt for one in own if not one.funded and not may_take_unallocated(asker, one)]
            named = frozenset(one.attempt for one in own if one.funded and may_take_lower_priority(asker, one))
            licence = self._licences[terms] = Licence(frozenset(barred), frozenset(asker.led), named)
        return licence

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
        changes, room = licence.rooms.get(closed, (-1, NOTHING))
        whole = None
        if changes != self.tables.changes or room.largest() >= gpus:  # counting is dearer than looking, once
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
        changes, room = licence.rooms.get(closed, (-1, NOTHING))
        if changes != self.tables.changes:
            licence.rooms[closed] = self.tables.changes, (room := self._count_room(licence, closed))
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
        mask = self.tables.cheapest(host, gpus, self.tables.solve(host, licence))[1]
        return host, self.tables.unpack(host, mask, licence)

    def _better(self, host: int, gpus: int, licence: Licence, best: Entry | None) -> Entry | None:
        """The cheaper of the best so far and the host, by what this licence covers there."""
        tables = self.tables
        if tables.most(host) < gpus or (best and best[0] < tables.bound(host, gpus)):
            return best
        if tables.room(host) + tables.count_covered(host, licence) < gpus:
            return best
        cost = tables.cheapest(host, gpus, tables.solve(host, licence))[0]
        if cost >= IMPOSSIBLE:
            return best
        entry = cost, tables.room(host), host
        return min(best, entry) if best else entry

    def _list_covered_hosts(self, licence: Licence, gpus: int) -> Iterator[Offer]:
        """Hosts where the licence covers something, by a bound on what so many GPUs cost there, lowest first.

        What sat there may be gone, and the host's room may have shrunk: then they cost more, not less.
        """
        named = sorted(self._offer(host, gpus) for host in self.list_hosts(licence.named))
        return merge(named, *(self._list_offers(node, gpus) for node in sorted(licence.led)))

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
