"""Who may be taken (R9): one tiny named function a rule. Which victims then go first: `victims.py`.

Unallocated attempts can be taken by every funded start but for a few exceptions; funded ones
past their minimum only by those who hold a licence for them. A licence is judged at the
balances of the moment when the asker is considered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.placement import Floor, Placement
from scheduler.victims import IMPOSSIBLE, GangSearch, Tables


@dataclass(frozen=True, slots=True)
class Victim:
    """An attempt that can be taken, as a whole gang."""

    attempt: int  # index, in order of attempt ids
    project: int
    priority: int
    lapsed: bool
    lost_gpu_seconds: int
    on_host: dict[int, int]  # GPUs by host index
    path: tuple[int, ...] = ()  # nodes that it is charged to, root excepted
    funded: bool = False  # past its minimum runtime, charged


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
    """What one asker may take: all unallocated attempts but the barred, of the funded the granted."""

    barred: frozenset[int] = frozenset()
    granted: frozenset[int] = frozenset()


def may_take_unallocated(asker: Asker, victim: Victim) -> bool:
    """R9 (a): unallocated work, except lapsed work of its own project of like or higher priority.

    An express start may take that too.
    """
    own = victim.lapsed and victim.project == asker.project and victim.priority >= asker.priority
    return not victim.funded and (asker.express or not own)


def may_take_lower_priority(asker: Asker, victim: Victim) -> bool:
    """R9 (b): past-minimum work of its own project that has lower priority."""
    return victim.project == asker.project and victim.priority < asker.priority


def may_take_less_deserving(asker: Asker, victim: Victim) -> bool:
    """R9 (c): past-minimum funded work of a branch that the asker's own still leads by the margin.

    Compared where the two paths part, after the asker is charged: `Funds.leads` has found them.
    """
    return not set(asker.led).isdisjoint(victim.path)


def count_lost(gpus: int, running_at: int, checkpoint_at: int, now: int, cap_seconds: int) -> int:
    """R10's loss of a whole gang in GPU-seconds: time since its last checkpoint, at most the cap.

    Without a checkpoint: since it runs; 0 if it doesn't run yet or the clock stepped back.
    """
    if running_at < 0:
        return 0
    return gpus * min(max(now - max(running_at, checkpoint_at), 0), cap_seconds)


class Pool:
    """What can be taken, by host, during one decision; keeps the floor's GPUs in step."""

    def __init__(self, floor: Floor, largest_gpus: int) -> None:
        self.floor = floor
        self.victims: dict[int, Victim] = {}  # unallocated and funded
        self.unallocated: set[int] = set()
        self.funded_below: dict[int, set[int]] = {}  # by node: funded attempts in its subtree
        self.tables = Tables(self, largest_gpus)
        self._own: dict[int, set[int]] = {}  # by project: attempts that its own askers are judged by
        self._licences: dict[object, Licence] = {}

    # ------------------------------------------------ what is in it

    def add(self, victim: Victim) -> None:
        """The attempt can be taken from now on."""
        self._licences.clear()
        self.victims[victim.attempt] = victim
        if victim.funded or victim.lapsed:
            self._own.setdefault(victim.project, set()).add(victim.attempt)
        if victim.funded:
            for node in victim.path:
                self.funded_below.setdefault(node, set()).add(victim.attempt)
        else:
            self.unallocated.add(victim.attempt)
        for host, gpus in self.list_places(victim):
            self.tables.put(host, victim)
            if not victim.funded:
                self.floor.change(host, takeable=gpus)

    def remove(self, attempt: int) -> Victim:
        """It can't be taken any longer: it was, or it has returned or lapsed."""
        self._licences.clear()
        victim = self.victims.pop(attempt)
        self.unallocated.discard(attempt)
        self._own.get(victim.project, set()).discard(attempt)
        if victim.funded:
            for node in victim.path:
                self.funded_below[node].discard(attempt)
        for host, gpus in self.list_places(victim):
            self.tables.drop(host, victim)
            if not victim.funded:
                self.floor.change(host, takeable=-gpus)
        return victim

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
            granted = [one.attempt for one in own if one.funded and may_take_lower_priority(asker, one)]
            for node in asker.led:
                granted += self.funded_below[node]
            licence = self._licences[terms] = Licence(frozenset(barred), frozenset(granted))
        return licence

    # ------------------------------------------------ victims

    def find_plan(self, asker: Asker, licence: Licence, closed: frozenset[int] = frozenset()) -> Plan | None:
        """The cheapest place for the whole gang on free and taken GPUs outside `closed` hosts, or None."""
        whole = self._find_on_one_host(asker.replicas * asker.gpus, licence, closed)
        if whole is not None:
            host, victims = whole
            return Plan(((host, asker.replicas),), victims)
        if asker.replicas == 1:
            return None
        found = GangSearch(self, asker.replicas, asker.gpus, licence, closed).solve()
        return None if found is None else Plan(*found)

    def _find_on_one_host(
        self, gpus: int, licence: Licence, closed: frozenset[int]
    ) -> tuple[int, tuple[int, ...]] | None:
        affected = self.list_hosts(licence.barred) | self.list_hosts(licence.granted)
        best = self.tables.find_best(gpus, affected | closed)
        least, size = self.tables.least, self.floor.gpus
        for host in affected - closed:
            # Where even the cheapest victim costs more than the best so far there is nothing to gain.
            if size[host] >= gpus and not (best and best[0] < least[host]):
                cost = self.tables.cheapest(host, gpus, self.tables.solve(host, licence))[0]
                if cost < IMPOSSIBLE:
                    entry = cost, self.tables.room(host), host
                    best = min(best, entry) if best else entry
        if best is None:
            return None
        host = best[2]
        mask = self.tables.cheapest(host, gpus, self.tables.solve(host, licence))[1]
        return host, self.tables.unpack(host, mask, licence)

    def list_hosts(self, attempts: Iterable[int]) -> set[int]:
        """The schedulable hosts that these attempts sit on."""
        return {host for one in attempts for host in self.victims[one].on_host if self.floor.schedulable[host]}
