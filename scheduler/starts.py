"""Trying to start or return one item, and what follows when it works (R6 to R10).

Each walk of `decide` gathers its items here, with everything that plainly can't start left
out by array tests, and then offers them one by one. A size that could not be placed is
remembered: within one walk room only shrinks, so nobody asks for it again.
"""

from __future__ import annotations

import numpy as np

from scheduler import explain
from scheduler.board import Board
from scheduler.ordering import Items, Leaf, Walk, group_items
from scheduler.placement import FOR_ALLOCATED, FOR_UNALLOCATED
from scheduler.preemption import Asker, Plan
from scheduler.types import BoolArray, IntArray, Lapse, Preempt, Reason, Return, Standing, Start


class Shapes:
    """The different (replicas, GPUs per replica) among pending workloads, few as they are."""

    def __init__(self, board: Board) -> None:
        pending = board.facts.pending
        packed = (pending.replicas << 21) | pending.gpus_per_replica
        names, self.number = np.unique(packed, return_inverse=True)
        self.names = [(int(name) >> 21, int(name) & ((1 << 21) - 1)) for name in names]

    def can_hold(self, room: IntArray) -> BoolArray:
        """For every pending workload: whether hosts with that much room could hold its gang."""
        fits = np.array([can_hold(room, replicas, gpus) for replicas, gpus in self.names], dtype=bool)
        return fits[self.number] if len(self.names) else np.zeros(0, dtype=bool)


def find_room(board: Board, takeable: bool = True, licensed: bool = False) -> IntArray:
    """GPUs of every host that are free, run what every asker may take, or what some may (R9)."""
    room = np.array(board.floor.free, dtype=np.int64)
    if takeable:
        room += np.array(board.floor.takeable, dtype=np.int64)
    if licensed:
        for attempt in board.pool.victims.keys() - board.pool.unallocated:
            for host, gpus in board.pool.list_places(board.pool.victims[attempt]):
                room[host] += gpus
    return room


def can_hold(room: IntArray, replicas: int, gpus: int) -> bool:
    """Whether hosts with that much room could hold the gang."""
    return int((room // gpus).sum()) >= replicas


def find_express(board: Board) -> BoolArray:
    """R7: pending workloads that may start express, by size, contract, burst cap and express share."""
    pending, policy = board.facts.pending, board.policy
    limits = board.limits()
    gpus = pending.replicas * pending.gpus_per_replica
    contract = pending.min_runtime_seconds
    small = (gpus <= policy.express_gpus) & (contract <= policy.express_seconds) & (contract > 0)
    counted = gpus * np.maximum(contract, policy.express_floor_seconds)
    within = (counted <= limits.express[pending.project]) & (gpus <= limits.burst[pending.project])
    return np.asarray(small & pending.first_start & within & ~board.started)


def find_fundable(board: Board) -> BoolArray:
    """R7: pending workloads that could be charged to their budget now."""
    pending = board.facts.pending
    limits = board.limits()
    gpus = pending.replicas * pending.gpus_per_replica
    balance = limits.balance[pending.project] & (pending.min_runtime_seconds > 0)
    room = (gpus * pending.min_runtime_seconds <= limits.contract[pending.project]) & (
        gpus <= limits.burst[pending.project]
    )
    return np.asarray(balance & room & ~board.started)


def find_free_runners(board: Board) -> BoolArray:
    """R6, R7: pending workloads that may run unallocated now: they can't be funded and allow it.

    Minimum runtime 0 always does, resumable or not.
    """
    pending = board.facts.pending
    allowed = (pending.min_runtime_seconds == 0) | (pending.resumable & pending.allow_unallocated)
    return np.asarray(allowed & ~find_fundable(board) & ~board.started)


def gather_pending(board: Board, rows: IntArray) -> Items:
    """Pending workloads as items of a walk."""
    pending = board.facts.pending
    return Items(
        row=rows.tolist(),
        returns=[False] * len(rows),
        project=pending.project[rows].tolist(),
        author=pending.author[rows].tolist(),
        priority=pending.priority[rows].tolist(),
        first_submit_at=pending.first_submit_at[rows].tolist(),
        workload=pending.id[rows].tolist(),
        replicas=pending.replicas[rows].tolist(),
        gpus=(pending.replicas[rows] * pending.gpus_per_replica[rows]).tolist(),
        contract_seconds=pending.min_runtime_seconds[rows].tolist(),
    )


def add_returns(board: Board, items: Items) -> None:
    """Unallocated attempts with a contract, whose path is above the margin, ask to return (R6)."""
    attempts = board.facts.attempts
    rows = np.array(sorted(board.pool.unallocated), dtype=np.int64)
    if not len(rows):
        return
    limits = board.limits()
    rows = rows[limits.margin[attempts.project[rows]] & (attempts.contract_seconds[rows] > 0)]
    items.row += rows.tolist()
    items.returns += [True] * len(rows)
    items.project += attempts.project[rows].tolist()
    items.author += attempts.author[rows].tolist()
    items.priority += attempts.priority[rows].tolist()
    items.first_submit_at += attempts.first_submit_at[rows].tolist()
    items.workload += attempts.workload[rows].tolist()
    items.replicas += attempts.replicas[rows].tolist()
    items.gpus += board.facts.attempt_gpus[rows].tolist()
    items.contract_seconds += [board.remaining(row) for row in rows.tolist()]


class Trial:
    """One walk over the tree: offers items in order, starts what can start."""

    kinds = FOR_ALLOCATED
    express = False

    def __init__(self, board: Board, items: Items) -> None:
        self.board, self.items = board, items
        self.blocked: set[tuple[int, int, object]] = set()
        self.hopeless: set[tuple[int, int]] = set()  # sizes that nobody could place, whatever the licence
        order = self.leaf_order()
        leaves = {
            project: Leaf(items, order, queues, lambda author, project=project: board.author_total(project, author))  # type: ignore[misc]
            for project, queues in group_items(items, order).items()
        }
        self.walk = Walk(board.tree, leaves, items, self.node_key)

    def leaf_order(self) -> tuple[str, ...]:
        """The keys inside a leaf."""
        return self.board.policy.leaf_order

    def node_key(self, node: int) -> tuple[int, int]:
        """The place of a node among its siblings, as a Walk wants it."""
        return self.board.funds.order_key(node)

    def run(self) -> None:
        """Offer every item once, in the order of R8."""
        while (item := self.walk.head()) is not None:
            self.try_item(item)
            self.walk.drop(item, self.is_hopeless)

    def shape(self, item: int) -> tuple[int, int]:
        """(replicas, GPUs of each)."""
        return self.items.replicas[item], self.items.gpus[item] // self.items.replicas[item]

    def is_hopeless(self, item: int) -> bool:
        """It can't start in this walk, whatever else happens."""
        if not self.can_pay(item):
            return True
        return not self.items.returns[item] and self.shape(item) in self.hopeless

    def can_pay(self, item: int) -> bool:
        """R7 for a start, R6 for a return, at the balances as they are now."""
        items, funds = self.items, self.board.funds
        path = self.board.path(items.project[item])
        contract = items.gpus[item] * items.contract_seconds[item]
        if items.returns[item]:
            return funds.can_return(path, items.gpus[item], contract)
        return funds.can_fund(path, items.gpus[item], contract)

    def try_item(self, item: int) -> None:
        """Start or return the item if its budget and the hosts allow it."""
        if self.is_hopeless(item):
            return
        if self.items.returns[item]:
            if self.items.row[item] in self.board.pool.unallocated:
                self.give_back(item)
            return
        plan = self.find_way(item)
        if plan is not None:
            self.start(item, plan)

    def find_way(self, item: int) -> Plan | None:
        """The one gate to GPUs: free ones first, then such as this asker may take (R9, R10)."""
        board, items = self.board, self.items
        replicas, gpus = self.shape(item)
        place = board.floor.find_place(replicas, gpus, self.kinds)
        if place is not None:
            return Plan(place)
        if items.author[item] in board.banned:
            return None
        asker = self.make_asker(item)
        terms = (replicas, gpus, board.pool.name_terms(asker))
        if terms in self.blocked:
            return None
        plan = board.pool.find_plan(asker, board.pool.judge(asker))
        if plan is None:
            self.blocked.add(terms)
            if not can_hold(find_room(board, licensed=True), replicas, gpus):
                self.hopeless.add((replicas, gpus))
        return plan

    def make_asker(self, item: int) -> Asker:
        """R9 (c): judged as charged for its contract, counted as at least half an hour (policy)."""
        board, items = self.board, self.items
        counted = max(items.contract_seconds[item], board.policy.licence_floor_seconds) * items.gpus[item]
        led = board.list_led(items.project[item], counted)
        return Asker(items.project[item], items.priority[item], self.express, *self.shape(item), led)

    def start(self, item: int, plan: Plan) -> None:
        """A funded start: victims stop, GPUs are taken or held, balances follow."""
        board, items = self.board, self.items
        project, row = items.project[item], items.row[item]
        why = explain.why_start(board, items, item, self.express)
        for victim in plan.victims:
            take_victim(board, items, item, victim)
        _occupy(board, plan, self.shape(item)[1])
        contract = items.gpus[item] * items.contract_seconds[item]
        board.charge(project, items.author[item], contract, items.gpus[item])
        if self.express:
            board.funds.count_express(board.path(project), self.count_express(item))
        _record_start(board, row, plan, Standing.PROTECTED, self.express, why)

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
        board.charge_unallocated(items.project[item], -gpus * left, -gpus)
        board.charge(items.project[item], items.author[item], gpus * left, gpus)
        board.facts.standing[attempt] = standing
        if standing == Standing.FUNDED:
            board.pool.add(board.make_victim(attempt))
        board.actions.append(Return(int(board.facts.attempts.id[attempt]), standing, why))


class ExpressTrial(Trial):
    """Express starts, considered before all others (R7)."""

    express = True

    def can_pay(self, item: int) -> bool:
        """R7, express: under burst caps and within the express share, whatever the balance."""
        path = self.board.path(self.items.project[item])
        return self.board.funds.can_express(path, self.items.gpus[item], self.count_express(item))


class FreeTrial(Trial):
    """Unallocated starts: free GPUs only, in the order of unallocated usage / share (R8)."""

    kinds = FOR_UNALLOCATED

    def leaf_order(self) -> tuple[str, ...]:
        """Priority orders work inside a project; after it, the first submit."""
        return ("priority",) if "priority" in self.board.policy.leaf_order else ()

    def node_key(self, node: int) -> tuple[int, int]:
        """By unallocated usage / share; no share comes last, as equals."""
        return self.board.unallocated_key(node)

    def can_pay(self, item: int) -> bool:
        """It costs nothing; only the project's cap on unallocated GPUs can stand against it."""
        cap = self.board.policy.unallocated_cap_gpus
        running = self.board.unallocated_gpus[self.items.project[item]]
        return cap is None or running + self.items.gpus[item] <= cap

    def find_way(self, item: int) -> Plan | None:
        """Free GPUs or nothing: unallocated starts preempt nothing (R9)."""
        replicas, gpus = self.shape(item)
        place = self.board.floor.find_place(replicas, gpus, self.kinds)
        if place is None:
            self.hopeless.add((replicas, gpus))
            return None
        return Plan(place)

    def start(self, item: int, plan: Plan) -> None:
        """An unallocated start: nothing is charged."""
        board, items = self.board, self.items
        project, gpus = items.project[item], self.shape(item)[1]
        why = explain.why_unallocated(board, items, item)
        for host, replicas in plan.placement:
            board.floor.change(host, free=-replicas * gpus, takeable=replicas * gpus)
            board.pool.touch(host)
        board.charge_unallocated(project, items.gpus[item] * items.contract_seconds[item], items.gpus[item])
        _record_start(board, items.row[item], plan, Standing.UNALLOCATED, False, why)


def take_victim(board: Board, items: Items, item: int, attempt: int) -> None:
    """R11: the victim is signalled now; its standing is stopping from now on."""
    attempts, policy = board.facts.attempts, board.policy
    why = explain.why_taken(board, items, item, attempt)
    gpus, project = int(board.facts.attempt_gpus[attempt]), int(attempts.project[attempt])
    victim = board.pool.remove(attempt)
    if victim.funded:
        board.funds.charge(board.path(project), 0, -gpus)
        for host, count in victim.on_host.items():
            board.floor.change(host, kept=-count)
    else:
        board.charge_unallocated(project, -gpus * board.remaining(attempt), -gpus)
    if attempt in board.returned:
        _undo_return(board, attempt)
    funded = victim.funded and attempt not in board.returned
    grace = policy.grace_allocated_seconds if funded else policy.grace_unallocated_seconds
    board.facts.standing[attempt] = Standing.STOPPING
    board.taken_for[attempt] = items.workload[item]
    board.actions.append(Preempt(int(attempts.id[attempt]), items.workload[item], grace, why))


def _occupy(board: Board, plan: Plan, gpus: int) -> None:
    """GPUs that the victims will free are waited for; the rest is kept free from now on."""
    coming: dict[int, int] = {}
    for victim in plan.victims:
        for host, count in board.facts.places[victim].items():
            coming[host] = coming.get(host, 0) + count
    for host, replicas in plan.placement:
        needed = replicas * gpus
        board.floor.change(host, free=-max(needed - coming.get(host, 0), 0), kept=needed)
        board.pool.touch(host)


def _record_start(board: Board, row: int, plan: Plan, standing: Standing, express: bool, why: Reason) -> None:
    facts = board.facts
    board.started[row] = True
    placement = tuple((int(facts.hosts.id[host]), replicas) for host, replicas in plan.placement)
    victims = tuple(sorted(int(facts.attempts.id[victim]) for victim in plan.victims))
    workload = int(facts.pending.id[row])
    board.actions.append(Start(workload, standing, express, placement, victims, why))


def lapse_unfunded(board: Board) -> bool:
    """R6: past-minimum attempts with a project on their path at balance 0 or less. True if any."""
    attempts, standing = board.facts.attempts, board.facts.standing
    rows = np.flatnonzero(standing == Standing.FUNDED)
    if not len(rows):
        return False
    unfunded = ~board.limits().balance[attempts.project[rows]]
    for attempt in rows[unfunded].tolist():
        project, gpus = int(attempts.project[attempt]), int(board.facts.attempt_gpus[attempt])
        why = explain.why_lapse(board, project)
        board.pool.remove(attempt)
        standing[attempt] = Standing.UNALLOCATED
        board.funds.charge(board.path(project), 0, -gpus)
        board.charge_unallocated(project, 0, gpus)
        for host, count in board.facts.places[attempt].items():
            board.floor.change(host, kept=-count)
        board.pool.add(board.make_victim(attempt))
        if attempt in board.returned:
            _undo_return(board, attempt)
            board.returned.discard(attempt)
        else:
            board.actions.append(Lapse(int(attempts.id[attempt]), why))
    return bool(unfunded.any())


def _undo_return(board: Board, attempt: int) -> None:
    """It returned in this decision, and a later start spent the balance or took it: it never returned (R8)."""
    number = int(board.facts.attempts.id[attempt])
    board.actions[:] = [one for one in board.actions if not (isinstance(one, Return) and one.attempt == number)]
