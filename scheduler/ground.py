"""What a kept state carries from one decision to the next, so that cost grows with what changed.

The board of a decision is a working copy: `decide` moves pieces on it and leaves it behind.
The ground keeps what the board was laid out from (sums, claims, the hosts' index, the pool of
what can be taken) in step with the events, and clears away what a decision has moved: the next
board differs from the last by the attempts, hosts and workloads that something happened to, and
by time. A kept state and a rebuilt one decide alike; a property test holds the two together.

Not kept, but laid out anew: after a change of hosts, budgets, policy or a step back of the
clock, and always with a half-life, whose weights change every second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.balance import Tree, build_tree
from scheduler.bans import list_bans
from scheduler.board import Board, find_window, lay_out, open_book
from scheduler.book import Book
from scheduler.bookings import Booking
from scheduler.charges import Waiting
from scheduler.dues import Dues
from scheduler.facts import Facts, read_facts, settle_time
from scheduler.ledgers import FUNDED, UNALLOCATED, Ledgers
from scheduler.line import Line
from scheduler.rest import HORIZON_SECONDS, find_rest
from scheduler.seats import Seats
from scheduler.supply import Supply
from scheduler.types import NEVER, Action, Begin, Mature, Policy, Snapshot

if TYPE_CHECKING:
    from scheduler.state import State

MOST_WAITED = 32
"""Rows of what waits no longer that may stand beside as many as wait."""

MOST_DEAD = 1000
"""Rows of attempts that are over that may stand beside as many as are not."""


class Ground:
    """The kept side of a `State` with steady tables, for one policy."""

    ledgers: Ledgers
    waiting: Waiting
    policy: Policy

    def __init__(self, state: State) -> None:
        self.state = state
        self.board: Board | None = None
        self.tree: Tree | None = None
        self._dirty: set[int] = set()  # attempts, by row, that are not as the board has them
        self._dirty_hosts: set[int] = set()
        self._saved: set[int] = set()  # attempts, by row, that would lose less now
        self._rebook = True
        self._supply = Supply(state)
        self._seats = Seats(state)
        self.rest_until = 0  # see rest.py
        self._acted: Board | None = None  # of the latest decision, if it acted and nothing has happened since
        self._applied: Board | None = None  # the same, once its actions are carried out
        self._snapshot: Snapshot | None = None
        self._facts: Facts | None = None  # of the latest decision
        self._over = np.zeros(0, dtype=bool)  # by row of Pending, spare ones too: it waits no longer, or not yet

    # ------------------------------------------------ what happens to the state

    def _wake(self) -> None:
        """Something has happened: the next decision may act."""
        self.rest_until = 0
        self._acted = self._applied = None

    def forget(self) -> None:
        """Hosts, budgets or the clock are others now: all is counted anew."""
        self.tree = None
        self._wake()

    def rehost(self) -> None:
        """Hosts open or close: the board is laid out anew."""
        self.board = None
        self._wake()

    def rebook(self) -> None:
        """A reservation was made, moved or ended."""
        self._rebook = True
        self._wake()

    def wait(self, row: int) -> None:
        """A workload waits."""
        self._wake()
        if row >= len(self._over):
            more = len(self.state.pending.columns["id"]) - len(self._over)
            self._over = np.concatenate([self._over, np.ones(more, dtype=bool)])
        self._over[row] = False
        if self.tree is not None:
            self.waiting.come(row)

    def unwait(self, row: int) -> None:
        """It waits no longer."""
        self._wake()
        self._over[row] = True
        if self.tree is not None:
            self._line.leave(row)
            self.waiting.go(row)

    def count_express(self, project: int, gpu_seconds: int) -> None:
        """An express start was decided."""
        if self.tree is not None:
            self.ledgers.advance()
            self.ledgers.add_express(self.state.now, self.ledgers.paths[project], gpu_seconds)

    def count_taker(self, author: int, running_at: int, contract_seconds: int, cancelled: bool) -> None:
        """An attempt that took GPUs has ended."""
        if self.tree is not None:
            self._bans.count(self.state.now, author, running_at, contract_seconds, cancelled)

    def saved(self, row: int) -> None:
        """An attempt has saved its progress: it would lose less now; who can start is the same."""
        self._saved.add(row)

    def turn(self, row: int, gone: bool = False) -> None:
        """Something changed about an attempt; or it is over."""
        self._wake()
        if self.tree is None:
            return
        self.ledgers.advance()
        number = self.state.attempts.columns["id"].item(row)
        hosts = self.state.places.get(number, {})
        if gone:
            self.ledgers.leave(number)
            self._dues.forget(row)
        else:
            self.ledgers.turn(number, row)
            self._dues.note(row)
        self._dirty.add(row)
        self._dirty_hosts.update(self._seats.list_hosts(row), hosts)
        self._seats.move(row, hosts)

    def retake(self, row: int) -> None:
        """An attempt that stops does so for another taker, or for none: what its hosts keep free is another."""
        self._wake()
        if self.tree is not None:
            self._dirty.add(row)
            self._dirty_hosts.update(self._seats.places[row])

    def rest(self, board: Board, acted: bool) -> None:
        """After a decision: until when the next ones would do nothing, if it did nothing."""
        self._wake()
        if board is not self.board or self.state.draining:
            return
        if acted:
            self._acted = board
        else:
            self.rest_until = self._find_rest(board)

    def list_applying(self, actions: tuple[Action, ...]) -> Board | None:
        """The board of the latest decision, if it is its actions that are about to be carried out."""
        board = self._acted
        return board if board is not None and board.now == self.state.now and actions == tuple(board.actions) else None

    def applied(self, board: Board | None) -> None:
        """They are carried out. Taken again at this instant the decision would be empty (R10)."""
        self._applied = board

    def stays(self, policy: Policy) -> bool:
        """Whether a decision now would be empty, since time alone has passed since the latest one was applied.

        Asked only when a decision is due: the sums are still those of that moment. What started unallocated
        runs by now and so would end sooner than was reckoned: beside a reservation it might return at once.
        """
        board, self._applied = self._applied, None
        if board is None or (policy is not self.policy and policy != self.policy):
            return False
        if board.book.by_zone and any(standing == UNALLOCATED for _, _, standing, _ in board.fresh):
            return False
        self.rest_until = self._find_rest(board)
        return self.rest_until > self.state.now

    def _find_rest(self, board: Board) -> int:
        now = board.now
        due = self._dues.list_next()
        if self.ledgers.express_out and board.line.kinds.quick:
            due.append(self.ledgers.express_out[0][0] + self.ledgers.meters[0].window_seconds)
        over_at = [at + self.policy.reservation_ban_seconds for _, at in self.state.cancelled]
        due += [until for until in over_at if until > now]
        until = min([self._known_until, self._bans.find_end(now), *due])
        if until <= self.state.now:
            return until
        drifts = self._supply.list_drifts(board.tree, self.policy, board.window, HORIZON_SECONDS)
        return find_rest(board, self.ledgers, self.waiting, drifts, until)

    # ------------------------------------------------ opening a board

    def begin(self, policy: Policy, whole: bool = True) -> Board:
        """The board of a decision at the state's present moment, the first steps of `decide` done.

        Without `whole` what only reasons to wait need may be from earlier.
        """
        state = self.state
        if self._must_restart(policy):
            self._restart(policy)
        self.ledgers.advance()
        if len(state.attempts.dead) > MOST_DEAD + len(self.ledgers.claims):
            self._compact()
        elif len(state.pending.dead) > MOST_WAITED + len(state.pending.row_of or ()):
            self._compact_pending()
        if whole or self._rebook or state.draining or self.board is None:
            self._snapshot = None
        facts = self._read()
        rows = self._dues.list_due() | self._dues.held
        if rows or state.draining:
            settle_time(facts, sorted(rows), self._dues.stopping)
        odd = any(not isinstance(action, Mature | Begin) for action in facts.actions)
        if odd or not self._keeps:
            self.board = None
            facts = read_facts(state.to_snapshot(), policy)
            settle_time(facts)
            return lay_out(facts)
        return self._lay_out(facts) if self.board is None else self._clear(self.board, facts)

    def _must_restart(self, policy: Policy) -> bool:
        state = self.state
        if self.tree is None or policy.half_life_seconds is not None:
            return True
        if policy is not self.policy and policy != self.policy:
            return True
        known = (id(state.projects), id(state.shares))
        return self._sources != known or state.now < self.ledgers.meters[0].now or state.now >= self._known_until

    def _restart(self, policy: Policy) -> None:
        """Count everything from the tables."""
        state = self.state
        self.policy, self.board, self._rebook = policy, None, True
        self._sources = (id(state.projects), id(state.shares))
        self.tree = tree = build_tree(state.projects, state.shares)
        later = [at for steps in (*tree.steps, *tree.burst_steps) for at, _ in steps if at > state.now]
        self._known_until = min(later, default=1 << 62)
        state.forget_old(policy)
        self._compact()
        self._snapshot = None
        facts = self._read()
        self.ledgers = Ledgers(state, policy, tree, facts)
        self._bans = list_bans(state.takers.to_record(), policy)
        self.waiting = Waiting(state.pending, len(tree.leaf_of))
        self._keeps = policy.half_life_seconds is None and not self._is_ahead()

    def _is_ahead(self) -> bool:
        """Whether the tables know of later moments than now: the clock has stepped back."""
        state, now = self.state, self.state.now
        tables = (state.charged, "end_at"), (state.unallocated, "end_at"), (state.express, "decided_at")
        known = [*((state.attempts, name) for name in ("segment_at", "running_at", "decided_at")), *tables]
        return any(int(table[name].max(initial=NEVER)) > now for table, name in known)

    def _compact_pending(self) -> None:
        self.state.pending.compact()
        self._line = Line(self.policy)
        self._over = np.zeros(self.state.pending.count, dtype=bool)
        self._rebook = True  # reservations name rows

    def _compact(self) -> None:
        """Rows get new places: the board is laid out anew."""
        state = self.state
        state.attempts.compact()
        self._compact_pending()
        self.board = None
        self._seats.count_anew()
        self._dues = Dues(state, self.policy)

    # ------------------------------------------------ facts and boards

    def _read(self) -> Facts:
        """The steady tables as a decision reads them, without a copy where nothing writes."""
        state, policy = self.state, self.policy
        attempts, pending = state.attempts.view(), state.pending.view()
        hosts = state.hosts.view()
        self._line.extend(pending, state.pending.count, self._over)
        if self._snapshot is None:
            self._snapshot = state.view(pending, attempts, hosts)
        if self._facts is None:  # made once: whatever it says is said anew below
            self._facts = read_facts(state.to_snapshot(), policy)
        facts = self._facts
        facts.snapshot, facts.policy, facts.now = self._snapshot, policy, state.now
        facts.hosts, facts.pending, facts.attempts = hosts, pending, attempts
        facts.places, facts.seats = self._seats.places, self._seats.columns()
        facts.standing, facts.held = attempts.standing.copy(), self._dues.held.copy()
        facts.schedulable = hosts.schedulable
        if state.draining:
            facts.schedulable = hosts.schedulable & ~np.isin(hosts.id, list(state.draining))
        facts.bookings, facts.actions = self._read_bookings(), []
        return facts

    def _read_bookings(self) -> list[Booking]:
        waiting = self.state.pending.row_of or {}
        return [one.copy() for one in self.state.bookings or [] if one.workload in waiting]

    def _lay_out(self, facts: Facts) -> Board:
        """A board from the kept sums; from now on it is kept, too."""
        over = self._over.copy()
        self.board = board = lay_out(facts, self.ledgers.sums(), self.tree, over, self._line, self._bans)
        self._supply.forget()
        board.pool.touched.clear()
        board.floor.touched.clear()
        self._dirty = {
            self.state.attempts.find("id", action.attempt) for action in facts.actions if isinstance(action, Mature)
        }
        self._dirty_hosts = set()
        self._saved.clear()
        board.saved = self._saved
        self._rebook = True
        return board

    def _clear(self, board: Board, facts: Facts) -> Board:
        """The last decision's board, made to say what the state says now."""
        funds, ledgers, (charged, idle) = board.funds, self.ledgers, self.ledgers.meters
        board.facts, board.line, board.now = facts, self._line, self.state.now
        board.window = find_window(self.state.now, self.policy)
        board.unallocated_usage, board.unallocated_gpus = list(idle.level), list(ledgers.unallocated_gpus)
        funds.usage, funds.allocated = list(charged.level), list(ledgers.allocated)
        funds.express = list(ledgers.express)
        quotas = self._supply.make_quotas(board.tree, board.window, self.policy, funds.shares)
        if quotas is None:
            funds.recount()
        else:
            funds.set_quotas(quotas, self.policy, self._supply.list_weights())
        board.restart(self._over.copy(), self._bans.find_banned(self.state.now))
        board.pool.clock.now = self.state.now
        board.pool.forget()
        self._clear_floor(board)
        self._clear_pool(board)
        self._clear_book(board)
        return board

    def _clear_pool(self, board: Board) -> None:
        pool, standing = board.pool, board.facts.standing
        pool.tables.largest_gpus = max(pool.tables.largest_gpus, board.line.largest_gpus)
        matured = {
            self.state.attempts.find("id", action.attempt) for action in board.actions if isinstance(action, Mature)
        }
        for row in sorted(self._dirty | pool.touched | matured):
            old, its = pool.victims.get(row), standing.item(row)
            new = board.make_victim(row) if its in (UNALLOCATED, FUNDED) else None
            if old is not None and new is not None and old.is_like(new):
                continue
            if old is not None:
                pool.remove(row, counted=True)
            if new is not None:
                pool.add(new, counted=True)
        pool.touched.clear()
        self._dirty = matured

    def _clear_floor(self, board: Board) -> None:
        floor = board.floor
        for host in self._dirty_hosts | floor.touched:
            if floor.put(host, *self._seats.count(host, board.facts)):
                board.pool.touch(host)
        floor.touched.clear()
        self._dirty_hosts.clear()

    def _clear_book(self, board: Board) -> None:
        if not (self._rebook or board.book.touched):
            return
        for host in board.book.list_hosts():
            board.floor.set_zone(host, 0)
        board.funds.unreserve()
        board.book = Book(board.floor, board.funds, self.policy)
        open_book(board, self.state.pending.row_of or {})
        board.book.touched = self._rebook = False
