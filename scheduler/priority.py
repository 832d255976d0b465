"""The old world: a priority scheduler, for comparison. Same facts in, same orders out as `decide`.

What such schedulers have in common, as they are described in public (the documentation of NVIDIA
OSMO and Run:ai, of Slurm's preemption by priority, and Ai2's account of what it replaced):

- levels LOW, NORMAL, HIGH (`priority` 0, 1, 2 and more) that each author sets, across all projects
- order: the higher level, then the earlier submission; what fits starts, what doesn't is passed by,
  without a reservation, so that large gangs wait for luck; a pass gives up after so many that don't
  fit (Slurm's main loop stops at the first of a partition), so that small work waits behind them
- a workload that doesn't fit takes GPUs of lower levels, unless they opted out of preemption
  (`allow_unallocated` false); fewest GPUs first, whole gangs, youngest first on a host
- a cap on the GPUs that one author holds at once (`max_gpus_per_user`)

No budgets, no balance, no minimum runtime: all time counts as funded. Nothing depends on the time,
so a pass after which nothing has happened changes nothing.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from scheduler.state import State
from scheduler.types import (
    NEVER,
    Action,
    Begin,
    Code,
    Decision,
    GiveUp,
    Policy,
    Preempt,
    Reason,
    Snapshot,
    Standing,
    Start,
    Waits,
    reason,
)

LOW, NORMAL, HIGH = range(3)

QUEUE_DEPTH = 32
"""How many that don't fit a pass looks at before it gives up: Flux's default `queue-depth` (Slurm's event-driven
pass considers 100, and stops at the first of a partition that doesn't fit)."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A workload that waits."""

    id: int
    level: int
    submit_at: int
    user: int
    replicas: int
    gpus_per_replica: int


@dataclass(frozen=True, slots=True)
class Holder:
    """An attempt that holds GPUs, or is held for."""

    id: int
    level: int
    user: int
    places: dict[int, int]  # GPUs by host
    takeable: bool  # it has not opted out, runs, and doesn't stop already


@dataclass(frozen=True, slots=True)
class Choice:
    """What starts, where, and what has to stop for it."""

    ask: Ask
    places: dict[int, int]
    victims: tuple[int, ...]


Shape = tuple[int, int, int]  # level, replicas, GPUs per replica


class Desk:
    """The queue and the room on the hosts. `decide` lays it out anew, the simulator keeps one."""

    def __init__(self, gpus: list[int], max_gpus_per_user: int | None = None) -> None:
        self.room = list(gpus)  # free and promised to nobody; below 0 while victims still stop
        self.open = [True] * len(gpus)
        self.cap = max_gpus_per_user
        self.queues: dict[Shape, list[tuple[int, int]]] = {}  # (submitted, id), by shape
        self.asks: dict[int, Ask] = {}
        self.holders: dict[int, Holder] = {}
        self.user_gpus: dict[int, int] = {}

    # ------------------------------------------------ what happens

    def add(self, ask: Ask) -> None:
        """A workload waits."""
        self.asks[ask.id] = ask
        insort(self.queues.setdefault(self._shape(ask), []), (ask.submit_at, ask.id))

    def drop(self, ask: Ask) -> None:
        """It no longer waits."""
        queue = self.queues[self._shape(ask)]
        del queue[bisect_left(queue, (ask.submit_at, ask.id))]
        del self.asks[ask.id]

    def hold(self, holder: Holder) -> None:
        """It holds GPUs, or has them promised."""
        self.holders[holder.id] = holder
        self._move(holder, -1)

    def release(self, attempt: int) -> None:
        """It holds nothing any more."""
        self._move(self.holders.pop(attempt), 1)

    def keep_from_taking(self, attempt: int) -> None:
        """It stops already, or is only held for."""
        old = self.holders[attempt]
        self.holders[attempt] = Holder(old.id, old.level, old.user, old.places, False)

    def make_takeable(self, attempt: int) -> None:
        """It runs now."""
        old = self.holders[attempt]
        self.holders[attempt] = Holder(old.id, old.level, old.user, old.places, True)

    def _move(self, holder: Holder, sign: int) -> None:
        for host, gpus in holder.places.items():
            self.room[host] += sign * gpus
        total = sum(holder.places.values())
        self.user_gpus[holder.user] = self.user_gpus.get(holder.user, 0) - sign * total

    @staticmethod
    def _shape(ask: Ask) -> Shape:
        return ask.level, ask.replicas, ask.gpus_per_replica

    # ------------------------------------------------ what starts

    def choose(self) -> Iterator[Choice]:
        """One after another; the caller drops the ask, holds the GPUs and stops the victims of each.

        Of a shape that doesn't fit, nothing behind it fits either.
        """
        largest = max((room for room, takes in zip(self.room, self.open, strict=True) if takes), default=0)
        lowest = min((one.level for one in self.holders.values() if one.takeable), default=HIGH + 1)
        hopeless = {shape for shape in self.queues if shape[2] > largest and lowest >= shape[0]}
        passed = 0
        for number in self._list_first() if len(hopeless) < len(self.queues) else ():
            ask = self.asks[number]
            if not self._is_under_cap(ask):
                continue
            shape = self._shape(ask)
            found = None if shape in hopeless else self._place(shape, ask)
            if found is not None:
                yield found
                continue
            hopeless.add(shape)
            passed += 1
            if passed >= QUEUE_DEPTH:
                return

    def _list_first(self) -> list[int]:
        """The ids at the head of the queue, in order, as many as a pass can come to."""
        most = 4 * QUEUE_DEPTH + len(self.room)
        heads = [[(-shape[0], *place) for place in queue[:most]] for shape, queue in self.queues.items() if queue]
        return [number for _, _, number in islice(heapq.merge(*heads), most)]

    def _is_under_cap(self, ask: Ask) -> bool:
        asked = ask.replicas * ask.gpus_per_replica
        return self.cap is None or self.user_gpus.get(ask.user, 0) + asked <= self.cap

    def _place(self, shape: Shape, ask: Ask) -> Choice | None:
        level, replicas, size = shape
        takes = self.open
        room = [(free, host) for host, free in enumerate(self.room) if free >= size and takes[host]]
        if sum(free // size for free, _ in room) >= replicas:
            return Choice(ask, _fill(sorted(room), replicas, size), ())
        return self._place_by_taking(level, replicas, size, ask)

    def _place_by_taking(self, level: int, replicas: int, size: int, ask: Ask) -> Choice | None:
        """Hosts on which the fewest GPUs have to be taken, until all replicas have a place."""
        lower: dict[int, list[Holder]] = {}
        for one in self.holders.values():
            if one.takeable and one.level < level:
                for host in one.places:
                    lower.setdefault(host, []).append(one)
        offers = []
        for host, free in enumerate(self.room):
            if self.open[host] and (free >= size or host in lower):
                offers += self._offer(host, free, size, lower.get(host, []))
        offers.sort(key=lambda offer: (offer[0], offer[1]))
        if len(offers) < replicas:
            return None
        places: dict[int, int] = {}
        victims: set[int] = set()
        for _, host, taken in offers[:replicas]:
            places[host] = places.get(host, 0) + size
            victims |= taken
        return Choice(ask, places, tuple(sorted(victims)))

    @staticmethod
    def _offer(host: int, free: int, size: int, lower: list[Holder]) -> list[tuple[int, int, set[int]]]:
        """(GPUs taken, host, victims) for one replica after another on this host."""
        offers: list[tuple[int, int, set[int]]] = []
        young = sorted(lower, key=lambda one: (one.level, -one.id))
        taken: set[int] = set()
        cost = 0
        while True:
            while free < size and young:
                victim = young.pop(0)
                taken.add(victim.id)
                free += victim.places[host]
                cost += sum(victim.places.values())
            if free < size:
                return offers
            offers.append((cost, host, set(taken)))
            free -= size


def _fill(room: list[tuple[int, int]], replicas: int, size: int) -> dict[int, int]:
    """Replicas onto the fullest hosts that hold them."""
    places: dict[int, int] = {}
    for free, host in room:
        here = min(free // size, replicas)
        if here:
            places[host] = here * size
            replicas -= here
    return places


# ---------------------------------------------------------------- the interface of `decide`


def decide(state: State | Snapshot, policy: Policy, max_gpus_per_user: int | None = None) -> Decision:
    """One pass of the old world. Attempts get their standing from the start: funded."""
    facts = state.to_snapshot() if isinstance(state, State) else state
    desk, actions = _lay_out(facts, max_gpus_per_user), _follow_up(facts)
    given_up = {action.attempt for action in actions if isinstance(action, GiveUp)}
    for attempt in sorted(given_up):
        desk.release(attempt)
    hosts = facts.hosts.id.tolist()
    for choice in desk.choose():
        ask = choice.ask
        desk.drop(ask)
        desk.hold(Holder(-ask.id - 1, ask.level, ask.user, choice.places, False))
        for victim in choice.victims:
            desk.keep_from_taking(victim)
            why = reason(Code.TAKEN_LOWER_PRIORITY, taker_workload=ask.id)
            actions.append(Preempt(victim, ask.id, policy.grace_allocated_seconds, why))
        placement = tuple(sorted((hosts[host], gpus // ask.gpus_per_replica) for host, gpus in choice.places.items()))
        why = reason(Code.FUNDED, gpus=ask.replicas * ask.gpus_per_replica)
        actions.append(Start(ask.id, Standing.FUNDED, False, placement, choice.victims, why))
    back = [int(w) for n, w in zip(facts.attempts.id, facts.attempts.workload, strict=True) if int(n) in given_up]
    return Decision(facts.now, tuple(actions), _list_waits(desk.asks.values(), back), (), policy)


def _lay_out(facts: Snapshot, max_gpus_per_user: int | None) -> Desk:
    desk = Desk(facts.hosts.gpus.tolist(), max_gpus_per_user)
    draining = set(facts.draining.tolist())
    desk.open = [
        bool(takes) and host not in draining
        for host, takes in zip(facts.hosts.id.tolist(), facts.hosts.schedulable.tolist(), strict=True)
    ]
    attempts, places = facts.attempts, [dict[int, int]() for _ in facts.attempts.id]
    rows = zip(*(column.tolist() for column in (facts.placements.attempt, facts.placements.host)), strict=True)
    for (row, host), count in zip(rows, facts.placements.replicas.tolist(), strict=True):
        places[row][host] = places[row].get(host, 0) + count * int(attempts.gpus_per_replica[row])
    for row, number in enumerate(attempts.id.tolist()):
        runs = int(attempts.running_at[row]) != NEVER and int(attempts.standing[row]) != Standing.STOPPING
        level, user = int(attempts.priority[row]), int(attempts.author[row])
        desk.hold(Holder(number, level, user, places[row], runs and bool(attempts.allow_unallocated[row])))
    table = facts.pending
    columns = (table.id, table.priority, table.first_submit_at, table.author, table.replicas, table.gpus_per_replica)
    for values in zip(*(column.tolist() for column in columns), strict=True):
        desk.add(Ask(*values))
    return desk


def _follow_up(facts: Snapshot) -> list[Action]:
    """Held attempts begin when their victims are gone, and give up when a host is lost."""
    attempts, actions = facts.attempts, list[Action]()
    lost = {row for row, takes in enumerate(facts.hosts.schedulable.tolist()) if not takes}
    places = zip(facts.placements.attempt.tolist(), facts.placements.host.tolist(), strict=True)
    on_lost = {row for row, host in places if host in lost}
    waited_for = set(attempts.taker.tolist())
    for row, number in enumerate(attempts.id.tolist()):
        if int(attempts.segments_at[row]) != NEVER:
            continue
        if row in on_lost:
            actions.append(GiveUp(number, True, Reason(Code.HOST_LOST)))
        elif number not in waited_for:
            actions.append(
                Begin(number, reason(Code.GPUS_FREE, waited_seconds=facts.now - int(attempts.decided_at[row])))
            )
    return actions


def _list_waits(asks: Iterable[Ask], back: list[int]) -> Waits:
    """Everything that still waits, in the order in which it is looked at."""
    ordered = sorted(asks, key=lambda ask: (-ask.level, ask.submit_at, ask.id))
    ahead, position, gpus_ahead = 0, [], []
    for place, ask in enumerate(ordered, start=1):
        position.append(place)
        gpus_ahead.append(ahead)
        ahead += ask.replicas * ask.gpus_per_replica
    ids = [ask.id for ask in ordered] + back
    rest = [0] * len(back)
    shared = (Reason(Code.WAITING_TURN),) * len(ids)
    return Waits(tuple(ids), shared, (*position, *rest), (*gpus_ahead, *rest))
