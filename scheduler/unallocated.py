"""The walk of what runs unallocated: free of charge, on free GPUs only (R6, R8)."""

from __future__ import annotations

from scheduler import explain
from scheduler.effects import record_start
from scheduler.ordering import Offer, rank
from scheduler.placement import FOR_UNALLOCATED, FREE
from scheduler.preemption import Plan
from scheduler.starts import Trial
from scheduler.types import Code, Standing


class FreeTrial(Trial):
    """Unallocated starts: free GPUs only, in the order of unallocated usage / share (R8)."""

    hosts = FOR_UNALLOCATED
    charges = False
    saves = False

    def leaf_order(self) -> tuple[str, ...]:
        """Priority orders work inside a project; after it, the first submit."""
        return ("priority",) if "priority" in self.board.policy.leaf_order else ()

    def node_key(self, node: int) -> tuple[int, int]:
        """By unallocated usage / share; no share comes last, as equals."""
        return self.board.unallocated_key(node)

    def lay_out(self) -> Offer:
        """As for every walk; queues are by the policy's keys, which may put the first submit before priority."""
        offer = super().lay_out()
        if "priority" in self.board.line.order[1:]:
            for queue in offer.values():
                queue.sort(key=lambda item: rank(self.items, item, self.leaf_order(), 0))
        return offer

    def can_pay(self, item: int) -> bool:
        """It costs nothing; only the project's cap on unallocated GPUs can stand against it."""
        cap = self.board.policy.unallocated_cap_gpus
        running = self.board.unallocated_gpus[self.items.project[item]]
        return cap is None or running + self.items.gpus[item] <= cap

    def run(self) -> None:
        """As every walk, until no size that is left fits on what is free."""
        board, free, kinds = self.board, self.board.floor.tallies[FREE], self.board.line.kinds
        shapes = {kinds.shapes[kinds.shape[kind]] for kind in self.kinds}
        walk = self.lay_out_walk()
        while (item := walk.head()) is not None:
            started = len(board.fresh)
            self.try_item(item)
            if len(board.fresh) > started:
                self.hopeless.update([(count, gpus) for count, gpus in shapes if free.count_slots(gpus) < count])
                shapes -= self.hopeless
                if not shapes:
                    return
            walk.drop(item, self.pass_hopeless)

    def find_way(self, item: int) -> Plan | None:
        """Free GPUs or nothing: unallocated starts preempt nothing (R9)."""
        replicas, gpus = self.shape(item)
        place = self.board.floor.find_place(replicas, gpus, self.hosts, self.board.book.list_open(None))
        return None if place is None else Plan(place)

    def start(self, item: int, plan: Plan, code: Code = Code.UNFUNDED_START) -> None:
        """An unallocated start: nothing is charged."""
        board, items = self.board, self.items
        project, gpus = items.project[item], self.shape(item)[1]
        why = explain.why_unallocated(board, items, item)
        for host, replicas in plan.placement:
            board.floor.change(host, free=-replicas * gpus, takeable=replicas * gpus)
            board.pool.touch(host)
        board.charge_unallocated(project, items.gpus[item] * items.contract_seconds[item], items.gpus[item])
        record_start(board, items.row[item], plan, Standing.UNALLOCATED, False, why)
