"""What must hold of reservations before a row is written (R12), for `invariants`. Shares no code with the walks.

8. A reservation is for a workload that waits, placed whole on schedulable hosts, in the future, one for
   each child of the root and no more than the policy allows.
9. Nobody else's allocated start or return on reserved hosts ends its minimum runtime after their time;
   express starts may move the time, once.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from scheduler.balance import Tree, build_tree
from scheduler.bookings import Booking, read_bookings
from scheduler.types import (
    NEVER,
    Decision,
    GiveUp,
    InvariantBroken,
    Release,
    Reserve,
    Return,
    Shift,
    Snapshot,
    Standing,
    Start,
)


def list_kept_licences(snapshot: Snapshot) -> dict[int, set[int]]:
    """By workload with a reservation: attempts that it may take once past their minimum, whatever their balance."""
    if snapshot.reserved is None:
        return {}
    attempts, sits = snapshot.attempts, snapshot.placements
    kept = {}
    for booking in read_bookings(snapshot.reserved):
        named = np.isin(attempts.workload, list(booking.takings))
        on_hosts = np.zeros(len(attempts.id), dtype=bool)
        on_hosts[sits.attempt[np.isin(sits.host, list(booking.places))]] = True
        over_at = attempts.running_at + attempts.contract_seconds
        returned = (attempts.segment_at > np.maximum(over_at, booking.made_at)) & (attempts.segment_at <= snapshot.now)
        over = (attempts.running_at != NEVER) & (over_at <= snapshot.now)
        since = on_hosts & over & ((attempts.decided_at >= booking.made_at) | returned)
        kept[booking.workload] = set(attempts.id[named | since].tolist())
    return kept


def check_promises(snapshot: Snapshot, decision: Decision) -> None:
    """Raise InvariantBroken if a reservation is made wrongly or put off by others."""
    if snapshot.reserved is not None:
        _Promises(snapshot, decision).run()
    elif any(isinstance(action, Reserve) for action in decision.actions):
        raise InvariantBroken("8: a reservation for one who keeps none")


class _Promises:
    def __init__(self, snapshot: Snapshot, decision: Decision) -> None:
        assert snapshot.reserved is not None  # noqa: S101 - said by the caller
        self.snapshot, self.decision, self.policy = snapshot, decision, decision.policy
        self.started = {one.workload: one for one in decision.actions if isinstance(one, Start)}
        self.row = {int(number): row for row, number in enumerate(snapshot.attempts.id)}
        self.pending = {int(number): row for row, number in enumerate(snapshot.pending.id)}
        self.requeued = {
            int(snapshot.attempts.workload[self.row[one.attempt]]): self.row[one.attempt]
            for one in decision.actions
            if isinstance(one, GiveUp) and one.requeue
        }
        self.host = {int(number): row for row, number in enumerate(snapshot.hosts.id)}
        over = {action.workload for action in decision.actions if isinstance(action, Release)}
        over |= set(self.started)
        known = read_bookings(snapshot.reserved)
        self.known = {one.workload: one for one in known}
        self.standing: dict[int, Booking] = {
            one.workload: one for one in known if one.workload in self.pending and one.workload not in over
        }

    def run(self) -> None:
        """Shifts first: they set the times that the rest must keep."""
        for action in self.decision.actions:
            if isinstance(action, Shift):
                self._check_shift(action)
        for start in self.started.values():
            if start.standing == Standing.PROTECTED:
                self._check_end(start.workload, {self.host[host] for host, _ in start.placement}, self._ends_at(start))
        for action in self.decision.actions:
            if isinstance(action, Return):
                row = self.row[action.attempt]
                hosts = self.snapshot.placements.host[self.snapshot.placements.attempt == row]
                self._check_end(int(self.snapshot.attempts.workload[row]), set(hosts.tolist()), self._rest_ends_at(row))
        self._check_made()

    def _check_shift(self, action: Shift) -> None:
        booking = self.standing.get(action.workload)
        if booking is None:
            return  # it started all the same
        if booking.moved or action.at != booking.at + self.policy.express_seconds:
            raise InvariantBroken(f"9: the reservation of workload {action.workload} is moved wrongly")
        booking.at = action.at

    def _ends_at(self, start: Start) -> int:
        contract = (
            int(self.snapshot.pending.min_runtime_seconds[self.pending[start.workload]])
            if start.workload in self.pending
            else int(self.snapshot.attempts.contract_seconds[self.snapshot.attempts.workload == start.workload].max())
        )
        return self.snapshot.now + self.policy.start_allowance_seconds + contract

    def _rest_ends_at(self, row: int) -> int:
        attempts = self.snapshot.attempts
        running_at, contract = int(attempts.running_at[row]), int(attempts.contract_seconds[row])
        return max(running_at, 0) + contract if running_at != NEVER else self.snapshot.now + contract

    def _check_end(self, workload: int, hosts: set[int], ends_at: int) -> None:
        own = self.known.get(workload)
        for booking in self.standing.values():
            if own is not None and own.at <= booking.at and hosts <= own.places.keys():
                continue  # the later reservation was timed by this one, whose pass came late
            late = ends_at > max(booking.at, self.snapshot.now)
            if workload != booking.workload and late and not hosts.isdisjoint(booking.places):
                raise InvariantBroken(f"9: workload {workload} puts off the reservation of {booking.workload}")

    def _check_made(self) -> None:
        tree = build_tree(self.snapshot.projects, self.snapshot.shares)
        made = [action for action in self.decision.actions if isinstance(action, Reserve)]
        for action in made:
            _, asked = self._find(action.workload)
            known = {self.host[host] for host, _ in action.placement}
            whole = sum(replicas for _, replicas in action.placement) == asked
            if not whole or action.workload in self.started or action.at <= self.snapshot.now:
                raise InvariantBroken(f"8: the reservation of workload {action.workload} is not whole or not ahead")
            if not self.snapshot.hosts.schedulable[list(known)].all():
                raise InvariantBroken(f"8: the reservation of workload {action.workload} names a closed host")
        branches = Counter(self._branch(tree, workload) for workload in [*self.standing, *(a.workload for a in made)])
        if made and (max(branches.values()) > 1 or sum(branches.values()) > self.policy.reservations_most):
            raise InvariantBroken("8: more reservations than one for each child of the root, or than the policy allows")

    def _find(self, workload: int) -> tuple[int, int]:
        """(project, replicas) of what waits: pending, or given up for a lost host in this very decision."""
        if workload in self.pending:
            waiting, row = self.snapshot.pending, self.pending[workload]
            return int(waiting.project[row]), int(waiting.replicas[row])
        if workload not in self.requeued:
            raise InvariantBroken(f"8: workload {workload} is reserved for and does not wait")
        row = self.requeued[workload]
        return int(self.snapshot.attempts.project[row]), int(self.snapshot.attempts.replicas[row])

    def _branch(self, tree: Tree, workload: int) -> int:
        path = tree.path_of[self._find(workload)[0]]
        return path[0] if path else tree.root
