"""Trying to start or return one item (R6 to R10).

Each walk of `decide` offers its items here one by one. A size that could not be placed is
remembered: within one walk room only shrinks, so nobody asks for it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from scheduler import explain
from scheduler.board import Board
from scheduler.effects import lapse_attempt, occupy, record_start, shift_reservations, take_victim
from scheduler.limits import is_positive
from scheduler.offers import Offers
from scheduler.ordering import Leaf, Walk
from scheduler.placement import FOR_ALLOCATED, FREE, MOST, Placement
from scheduler.preemption import Asker, Plan
from scheduler.reserved import find_reserved_way, may_have_way
from scheduler.types import Code, Return, Standing


class Trial(Offers):
    """One walk over the tree: offers items in order, starts what can start."""

    hosts = FOR_ALLOCATED
    charges = True  # the balance must be above 0
    saves = True  # behind what has no way, the rest of its project isn't charged (R12, policy)

    def __init__(
        self, board: Board, kinds: list[int], alone: Iterable[int] = (), barred: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(board, kinds, alone, barred)
        self.blocked: set[tuple[int, int, object]] = set()
        self.failed: dict[int, int] = {}  # by kind of item: the turn of the board at which one had no way
        self.full: set[tuple[int, int, tuple[int, ...], tuple[int, ...]]] = set()  # sizes that no free GPUs hold
        self.hopeless: set[tuple[int, int]] = set()  # sizes that nobody could place, whatever the licence
        self.saving: set[int] = set()  # projects whose head waits without a reservation (R12, policy)

    def leaf_order(self) -> tuple[str, ...]:
        """The keys inside a leaf."""
        return self.board.policy.leaf_order

    def node_key(self, node: int) -> tuple[int, int]:
        """The place of a node among its siblings, as a Walk wants it."""
        return self.board.funds.order_key(node)

    def run(self) -> None:
        """Offer every item once, in the order of R8, until nothing that is left can start.

        The walk refers to this trial and so isn't kept in it: nobody looks for cycles after a decision.
        """
        if self.is_over():
            return
        walk, started = self.lay_out_walk(), False
        while (item := walk.head()) is not None:
            turns = self.board.turns
            self.try_item(item)
            if self.board.turns != turns:
                self.withdraw(item)
                started = True
            elif started:  # asked once after some have started, not after each: a walk may start thousands
                started = False
                if self.is_over():
                    return
            walk.drop(item, self.pass_hopeless)

    def pass_hopeless(self, leaf: Leaf) -> None:
        """What is hopeless now stays so for the rest of the walk: down to what has a chance, the leaf drops it."""
        known: set[int] = set()
        while (item := leaf.head()) is not None:
            kind = self.kind_of(item)
            if kind not in known:
                if not self.is_hopeless(item):
                    return
                if self.is_spent(self.items.project[item]):
                    leaf.clear()
                    return
                known.add(kind)
            leaf.drop_head()

    def is_spent(self, project: int) -> bool:
        """R7: nothing more of that project can be funded in this walk; what stands alone asks for itself."""
        return self.charges and not self.alone and not is_positive(self.board.funds, self.board.path(project))

    def is_vain(self) -> bool:
        """Whether nothing can start or return; with a policy that saves for a head it matters who is considered."""
        return not (self.board.policy.save_for_head and self.saves) and super().is_vain()

    def has_way(self, item: int) -> bool:
        """Whether it could start or return just now."""
        board, row = self.board, self.items.row[item]
        if self.items.returns[item]:
            return row in board.pool.unallocated and self.fits_reservations(row)
        if row in board.book.by_row:
            return self.has_reserved_way(item)
        if self.find_free(item) is not None:
            return True
        if self.items.author[item] in board.banned:
            return False
        replicas, gpus = self.shape(item)
        closed = board.book.list_closed(self.list_zones(item, taking=True))
        room = board.pool.count_room(board.pool.judge(self.make_asker(item)), closed)
        return room.count_slots(gpus) >= replicas

    def has_reserved_way(self, item: int) -> bool:
        """The same for what holds a reservation, which is in its own way no longer while it is asked."""
        book, row = self.board.book, self.items.row[item]
        if not may_have_way(self, item, book.find(row)):
            return False
        dropped = book.drop(row)
        found = find_reserved_way(self, item, dropped[1])
        book.put_back(dropped)
        return found is not None

    def lay_out_walk(self) -> Walk:
        """The tree, with the items in its leaves."""
        board, items, order = self.board, self.items, self.leaf_order()
        leaves = {
            project: Leaf(items, order, queue, partial(board.author_total, project))
            for project, queue in self.lay_out().items()
        }
        return Walk(board.tree, leaves, items, self.node_key)

    def shape(self, item: int) -> tuple[int, int]:
        """(replicas, GPUs of each)."""
        return self.items.replicas[item], self.items.gpus[item] // self.items.replicas[item]

    def is_hopeless(self, item: int) -> bool:
        """It can't start in this walk, whatever else happens."""
        if self.items.returns[item]:
            return self.items.project[item] in self.saving or not self.can_pay(item)
        if self.items.row[item] in self.board.book.by_row:
            return not self.can_pay(item)
        if self.failed.get(self.kind_of(item)) == self.board.funds.version:
            return True  # one just like it had no way, and nothing has changed
        if not self.can_pay(item):
            return True
        return self.shape(item) in self.hopeless or self.items.project[item] in self.saving

    def can_pay(self, item: int) -> bool:
        """R7 for a start, R6 for a return, at the balances as they are now."""
        items, funds = self.items, self.board.funds
        path = self.board.path(items.project[item])
        contract = items.gpus[item] * items.contract_seconds[item]
        if items.returns[item]:
            ends_at = self.board.remainder_ends_at(items.row[item])
            return funds.can_return(path, items.gpus[item], contract, ends_at)
        if items.row[item] in self.board.book.by_row:
            return True  # its funding is kept
        return funds.can_fund(path, items.gpus[item], contract, self.board.ends_at(items.contract_seconds[item]))

    def try_item(self, item: int) -> None:
        """Start or return the item if its budget and the hosts allow it."""
        if self.is_hopeless(item):
            return
        if self.items.returns[item]:
            if self.items.row[item] in self.board.pool.unallocated and self.fits_reservations(self.items.row[item]):
                self.give_back(item)
        elif self.items.row[item] in self.board.book.by_row:
            self.try_reserved(item)
        elif (plan := self.find_way(item)) is not None:
            self.start(item, plan)
        elif self.note_failed(item) and self.saves and self.board.policy.save_for_head:
            self.saving.add(self.items.project[item])

    def kind_of(self, item: int) -> int:
        """Items alike in this have like chances: its kind, and the ban of its author; some are like no other."""
        if item in self.alone:
            return -1 - item
        like = self.board.line.kinds.like[self.items.kind[item]]
        return 2 * like + (self.items.author[item] in self.board.banned)

    def note_failed(self, item: int) -> bool:
        """It had no way to GPUs; always True."""
        self.failed[self.kind_of(item)] = self.board.funds.version
        return True

    def fits_reservations(self, attempt: int) -> bool:
        """R12: what returns on a reserved host must have run its minimum in time."""
        board = self.board
        zones = board.book.list_open(board.remainder_ends_at(attempt))
        return all(board.floor.zone[host] in zones for host in board.facts.places[attempt])

    def try_reserved(self, item: int) -> bool:
        """R12: a workload with a reservation starts on whatever it can get, by the licence that it keeps."""
        board, row = self.board, self.items.row[item]
        if not may_have_way(self, item, board.book.find(row)):
            return False
        dropped = board.book.drop(row)
        kept = dropped[1]
        found = find_reserved_way(self, item, kept)
        if found is None:
            board.book.put_back(dropped)
            return False
        plan, lapses = found
        for attempt in lapses:
            board.lapsed_now.add(attempt)
            lapse_attempt(board, attempt, explain.why_makes_room(board, attempt, kept.booking.workload))
        self.start(item, plan, Code.RESERVED_START)
        return True

    def find_way(self, item: int) -> Plan | None:
        """The one gate to GPUs: free ones first, then such as this asker may take (R9, R10)."""
        board = self.board
        place = self.find_free(item)
        if place is not None:
            return Plan(place)
        if self.items.author[item] in board.banned:
            return None
        asker, (replicas, gpus) = self.make_asker(item), self.shape(item)
        zones = self.list_zones(item, taking=True)
        terms = (replicas, gpus, (board.pool.name_terms(asker), zones, tuple(board.book.by_zone)))
        if terms in self.blocked:
            return None
        board.renew_saved()
        plan = board.pool.find_plan(asker, board.pool.judge(asker), board.book.list_closed(zones))
        if plan is None:
            self.blocked.add(terms)
            if board.floor.tallies[MOST].count_slots(gpus) < replicas:
                self.hopeless.add((replicas, gpus))
        return plan

    def list_zones(self, item: int, taking: bool) -> tuple[int, ...]:
        """R12: the reservations that it would not delay."""
        return self.board.book.list_open(self.board.ends_at(self.items.contract_seconds[item], taking), self.express)

    def find_free(self, item: int) -> Placement | None:
        """A place on free GPUs."""
        board, (replicas, gpus) = self.board, self.shape(item)
        if board.floor.tallies[FREE].count_slots(gpus) < replicas:
            return None
        zones = self.list_zones(item, taking=False)
        # A reservation that is tried, or has started, opens its own hosts.
        full = (replicas, gpus, zones, tuple(board.book.by_zone))
        if full in self.full:
            return None
        place = board.floor.find_place(replicas, gpus, self.hosts, zones)
        if place is None:
            self.full.add(full)
        return place

    def make_asker(self, item: int) -> Asker:
        """R9 (c): judged as charged for its contract, counted as at least half an hour (policy)."""
        items = self.items
        led = self.list_led(items.project[item], self.count_asked(items.contract_seconds[item], items.gpus[item]))
        return Asker(items.project[item], items.priority[item], self.express, *self.shape(item), led)

    def start(self, item: int, plan: Plan, code: Code = Code.FUNDED) -> None:
        """A funded start: victims stop, GPUs are taken or held, balances follow."""
        board, items = self.board, self.items
        project, row = items.project[item], items.row[item]
        board.turns += 1
        why = explain.why_start(board, items, item, Code.EXPRESS if self.express else code)
        for victim in plan.victims:
            take_victim(board, items, item, victim)
        occupy(board, plan, self.shape(item)[1])
        contract = items.gpus[item] * items.contract_seconds[item]
        board.charge(project, items.author[item], contract, items.gpus[item])
        if self.express:
            board.funds.count_express(board.path(project), self.count_express(item))
            shift_reservations(board, plan, board.ends_at(items.contract_seconds[item], bool(plan.victims)))
        record_start(board, row, plan, Standing.PROTECTED, self.express, why)

    def count_express(self, item: int) -> int:
        """R7: what an express start counts as, GPU-seconds."""
        seconds = max(self.items.contract_seconds[item], self.board.policy.express_floor_seconds)
        return self.items.gpus[item] * seconds

    def give_back(self, item: int) -> None:
        """R6: an unallocated attempt returns: charged again from now on, no longer takeable."""
        board, items = self.board, self.items
        attempt, gpus, left = items.row[item], items.gpus[item], items.contract_seconds[item]
        standing = Standing.PROTECTED if left else Standing.FUNDED
        why = explain.why_return(board, items.project[item], left)
        victim = board.pool.remove(attempt)
        for host, count in victim.on_host.items():
            board.floor.change(host, kept=count)
        board.returned.add(attempt)
        board.turns += 1
        board.charge_unallocated(items.project[item], -gpus * left, -gpus)
        board.charge(items.project[item], items.author[item], gpus * left, gpus)
        board.facts.standing[attempt] = standing
        if standing == Standing.FUNDED:
            board.pool.add(board.make_victim(attempt))
        board.actions.append(Return(int(board.facts.attempts.id[attempt]), standing, why))


class ExpressTrial(Trial):
    """Express starts, considered before all others (R7)."""

    express = True
    charges = False
    saves = False

    def can_pay(self, item: int) -> bool:
        """R7, express: under burst caps and within the express share, whatever the balance."""
        path = self.board.path(self.items.project[item])
        ends_at = self.board.ends_at(self.items.contract_seconds[item])
        return self.board.funds.can_express(path, self.items.gpus[item], self.count_express(item), ends_at)
