"""What one walk offers, and whether any of it has a chance (R6 to R10, R12).

Kinds stand for what waits of them until a walk is laid out: where nobody has a chance nobody's turn
matters, nothing changes on the way, and nothing needs to be put in order.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.board import Board
from scheduler.candidates import insert_item, offer_waiting
from scheduler.ordering import Offer
from scheduler.placement import FREE
from scheduler.preemption import Asker
from scheduler.tally import Tally

FEW = 2
"""So many kinds, and items that are like no other, are simply walked."""


class Offers:
    """Of some kinds all that waits, but for what authors in `barred` have; and items that are like no other.

    Those hold a reservation, or ask to return (R6, R12).
    """

    express = False

    def __init__(
        self, board: Board, kinds: list[int], alone: Iterable[int] = (), barred: frozenset[int] = frozenset()
    ) -> None:
        self.board, self.items, self.barred = board, board.line.items, barred
        self.kinds, self.alone = kinds, set(alone)
        self.offer: Offer = {}  # once it is laid out
        self._of_project: dict[int, list[int]] = {}  # its kinds, once somebody asks
        self._next: dict[int, int] = {}  # by kind: the place in its project's queue from which on some wait

    def can_pay(self, item: int) -> bool:
        """Its budget allows it, at the balances as they are now."""
        raise NotImplementedError

    def has_way(self, item: int) -> bool:
        """Whether it could start, return or reserve just now, whatever it costs."""
        raise NotImplementedError

    def lay_out(self) -> Offer:
        """The queues of all projects, by the policy's keys but for authors' usage."""
        self.offer = offer_waiting(self.board, self.kinds)
        if self.barred:
            author = self.items.author
            for project, queue in list(self.offer.items()):
                self.offer[project] = [item for item in queue if author[item] not in self.barred]
                if not self.offer[project]:
                    del self.offer[project]
        for item in sorted(self.alone):
            insert_item(self.board, self.offer, item)
        return self.offer

    def withdraw(self, item: int) -> None:
        """It has started or returned; a kind of which nothing is left is asked no longer."""
        kind, started = self.items.kind[item], self.board.started_of
        if item in self.alone:
            self.alone.discard(item)
        elif self._of_project and self.board.line.kinds.waiting[kind] <= started.get(kind, 0):
            self._of_project[self.items.project[item]].remove(kind)

    def list_offered(self) -> list[int]:
        """All items of the queues."""
        return [item for queue in self.offer.values() for item in queue]

    # ------------------------------------------------ whether anybody has a chance

    def is_over(self) -> bool:
        """Whether so much is offered that it is worth asking, and nothing of it has a chance."""
        return len(self.kinds) + len(self.alone) > FEW and self.is_vain()

    def is_vain(self) -> bool:
        """Whether nothing at all has a chance.

        Of a project no kind is asked whose gang would not fit if it had the widest licence of all that it offers.
        """
        if any(self.can_pay(item) and self.has_way(item) for item in self.alone):
            return False
        if not self._of_project:
            for kind in self.kinds:
                self._of_project.setdefault(self.board.line.kinds.project[kind], []).append(kind)
        return not any(kinds and self._has_chance(project, kinds) for project, kinds in self._of_project.items())

    def list_roomy(self, project: int, kinds: list[int]) -> list[int]:
        """Those of a project's kinds whose gang would fit by the widest licence of them all."""
        known, free, most = self.board.line.kinds, self.board.floor.tallies[FREE], self.count_most(project, kinds)
        roomy = []
        for kind in kinds:
            replicas, gpus = known.replicas[kind], known.each[kind]
            if most.count_slots(gpus) >= replicas or free.count_slots(gpus) >= replicas:
                roomy.append(kind)
        return roomy

    def _has_chance(self, project: int, kinds: list[int]) -> bool:
        """Whether some of a project's kinds has a chance.

        Of those alike but for their minimum runtime the shortest is asked of which something is left to start;
        where some authors may take nothing, all are.
        """
        known, asked = self.board.line.kinds, set[tuple[int, int]]()
        for kind in sorted(self.list_roomy(project, kinds), key=known.seconds.__getitem__):
            alike = known.priority[kind], known.shape[kind]
            first = self.list_first(kind) if alike not in asked else []
            if any(self.can_pay(item) and self.has_way(item) for item in first):
                return True
            if first and not self.board.banned:
                asked.add(alike)
        return False

    def list_first(self, kind: int) -> list[int]:
        """The first that waits of a kind; of authors who may take nothing and of others, where there are such."""
        board, items = self.board, self.items
        queue = board.line.queues[board.line.kinds.project[kind]]
        place, first = self._next.get(kind, 0), dict[bool, int]()
        while place < len(queue) and (items.kind[queue[place]] != kind or board.started.item(queue[place])):
            place += 1
        self._next[kind] = place  # what has started before it waits no longer in this decision
        for item in queue[place:]:
            if items.kind[item] != kind or board.started.item(item):
                continue
            if items.author[item] not in self.barred and item not in board.book.by_row:
                first.setdefault(items.author[item] in board.banned, item)
                if len(first) > bool(board.banned):
                    break
        return list(first.values())

    def count_most(self, project: int, kinds: list[int]) -> Tally:
        """Hosts by the GPUs that some of a project's kinds could have there, all victims taken.

        Licences only shrink with the contract that is charged, and grow with priority; a shorter contract
        delays no reservation that a longer one does not.
        """
        board, seconds = self.board, self.board.line.kinds.seconds
        ends_at = board.ends_at(min([seconds[kind] for kind in kinds]), taking=True)
        closed = board.book.list_closed(board.book.list_open(ends_at, self.express))
        return board.pool.count_room(board.pool.judge(self.make_widest(project, kinds)), closed)

    def make_widest(self, project: int, kinds: list[int]) -> Asker:
        """An asker with every licence that one of a project's kinds has."""
        known = self.board.line.kinds
        counted = min([self.count_asked(known.seconds[kind], known.gpus[kind]) for kind in kinds])
        priority = max([known.priority[kind] for kind in kinds])
        return Asker(project, priority, self.express, 1, 1, self.list_led(project, counted))

    def count_asked(self, contract_seconds: int, gpus: int) -> int:
        """R9 (c): GPU-seconds that work of so many GPUs is judged by: at least half an hour's (policy)."""
        return max(contract_seconds, self.board.policy.licence_floor_seconds) * gpus

    def list_led(self, project: int, gpu_seconds: int) -> tuple[int, ...]:
        """Branches that the project leads, once charged."""
        return self.board.list_led(project, gpu_seconds)
