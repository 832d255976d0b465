"""Why each pending workload still waits, and where the balances stand (R16)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduler.board import Board
from scheduler.book import starts_by
from scheduler.candidates import find_allowed, find_fundable, mark_rows
from scheduler.limits import list_positive
from scheduler.ordering import estimate_positions, sum_before
from scheduler.sums import charged_rows, list_paths
from scheduler.types import (
    NEVER,
    PPM,
    BoolArray,
    Code,
    IntArray,
    ProjectBalance,
    Reason,
    Standing,
    Waits,
    reason,
)
from scheduler.usage import Outflow

TOO_LARGE, RESERVED, CONTRACT, FUNDABLE, FIRST, CAPPED, UNALLOCATED, UNFUNDED = range(8)
"""What keeps a workload waiting, in the order in which it is asked; the first that holds is told."""


def list_waits(board: Board) -> Waits:
    """One reason for every pending workload that was not started, sorted by workload id."""
    pending = board.facts.pending
    rows = np.flatnonzero(~board.started)
    rows = rows[np.argsort(pending.id[rows], kind="stable")]
    if not len(rows):
        return Waits()
    sizes = board.floor.sizes
    fundable = mark_rows(board, find_fundable(board, sizes))
    free = mark_rows(board, find_allowed(board, sizes)) & ~fundable
    kind = np.full(len(board.started), UNFUNDED, dtype=np.int64)
    kind[free] = UNALLOCATED
    kind[free & _find_capped(board)] = CAPPED
    kind[fundable] = FUNDABLE
    kind[~board.line.can_hold(sizes)] = TOO_LARGE
    kind[list(board.too_large)] = CONTRACT
    kind[list(board.book.by_row)] = RESERVED
    position = np.zeros(len(kind), dtype=np.int64)
    ahead = np.zeros(len(kind), dtype=np.int64)
    for queue, allocated in (((RESERVED, CONTRACT, FUNDABLE), True), ((UNALLOCATED,), False)):
        _count_positions(board, np.flatnonzero(np.isin(kind, queue) & ~board.started), allocated, position, ahead)
    kind[(kind == FUNDABLE) & (position == 1)] = FIRST
    shared = _share_reasons(board, kind, rows)
    return Waits(tuple(pending.id[rows].tolist()), shared, tuple(position[rows].tolist()), tuple(ahead[rows].tolist()))


def _find_capped(board: Board) -> BoolArray:
    """R8: its project's cap on unallocated GPUs leaves no room."""
    pending, cap = board.facts.pending, board.policy.unallocated_cap_gpus
    if cap is None:
        return np.zeros(len(pending.id), dtype=bool)
    running = np.array(board.unallocated_gpus, dtype=np.int64)[pending.project]
    return np.asarray(running + pending.replicas * pending.gpus_per_replica > cap)


# ---------------------------------------------------------------- positions


def _count_positions(board: Board, rows: IntArray, allocated: bool, position: IntArray, ahead: IntArray) -> None:
    if not len(rows):
        return
    pending = board.facts.pending
    gpus = pending.replicas[rows] * pending.gpus_per_replica[rows]
    charge = gpus * pending.min_runtime_seconds[rows]
    ratio = _weigh_nodes(board, allocated)
    keys = _leaf_keys(board, rows, charge, allocated)
    place = estimate_positions(board.tree, pending.project[rows], ratio, charge, keys)
    order = np.argsort(place)
    position[rows] = place + 1
    ahead[rows[order]] = np.cumsum(gpus[order]) - gpus[order]


def _weigh_nodes(board: Board, allocated: bool) -> tuple[list[float], list[float]]:
    """Usage and weight of every node, as near as floats get: positions are told, not acted on."""
    tree, funds = board.tree, board.funds
    if allocated:
        weights = [
            0.0 if never else top / bottom for never, (top, bottom) in zip(funds.never, funds.quotas, strict=True)
        ]
        return [float(used) for used in funds.usage], weights
    shares = [share / PPM**depth for share, depth in zip(funds.shares, tree.depth, strict=True)]
    return [float(used) for used in board.unallocated_usage], shares


def _leaf_keys(board: Board, rows: IntArray, charge: IntArray, allocated: bool) -> list[IntArray]:
    """The keys inside a leaf for lexsort, least important first; authors' usage grows as they wait."""
    pending = board.facts.pending
    keys = [pending.id[rows], pending.first_submit_at[rows]]
    order = board.policy.leaf_order if allocated else tuple(set(board.policy.leaf_order) & {"priority"})
    usage = _author_keys(board, rows, charge, order) if "author_usage" in order else None
    for name in reversed(order):
        if name == "priority":
            keys.append(-pending.priority[rows])
        elif name == "author_usage" and usage is not None:
            keys.append(usage)
        else:
            keys.append(pending.first_submit_at[rows])
    return keys


def _author_keys(board: Board, rows: IntArray, charge: IntArray, order: tuple[str, ...]) -> IntArray:
    """The author's usage in the project as each workload would meet it: with what stands before."""
    pending = board.facts.pending
    project, author = pending.project[rows], pending.author[rows]
    priority = -pending.priority[rows] if "priority" in order else np.zeros(len(rows), dtype=np.int64)
    line = np.lexsort((pending.id[rows], pending.first_submit_at[rows], priority, author, project))
    new = np.ones(len(line), dtype=bool)
    new[1:] = (project[line][1:] != project[line][:-1]) | (author[line][1:] != author[line][:-1])
    group = np.cumsum(new) - 1
    firsts = line[new]
    known = zip(project[firsts].tolist(), author[firsts].tolist(), strict=True)
    base = np.array([board.author_total(one, other) for one, other in known], dtype=np.int64)
    usage = np.empty(len(rows), dtype=np.int64)
    usage[line] = base[group] + sum_before(group, charge[line])
    return usage


# ---------------------------------------------------------------- reasons


def _share_reasons(board: Board, kind: IntArray, rows: IntArray) -> tuple[Reason, ...]:
    """A reason for each row; like cases are worked out once."""
    words = _Words(board)
    makers: dict[int, Callable[[int], Reason]] = {
        TOO_LARGE: words.too_large,
        RESERVED: words.reserved,
        CONTRACT: words.contract,
        FUNDABLE: lambda row: reason(Code.WAITING_TURN),
        FIRST: words.full,
        CAPPED: words.capped,
        UNALLOCATED: words.unallocated,
        UNFUNDED: words.unfunded,
    }
    case = _name_cases(board, kind)[rows]
    _, firsts, which = np.unique(case, return_index=True, return_inverse=True)
    made = np.empty(len(firsts), dtype=object)
    for number, row in enumerate(rows[firsts].tolist()):
        made[number] = makers[int(kind[row])](row)
    return tuple(made[which].tolist())


def _name_cases(board: Board, kind: IntArray) -> IntArray:
    """A number for all that a row's reason depends on: its kind, and of project and size what matters.

    A spent or missing budget is the same for all work of a project; what stands against a burst
    cap or a contract depends on the size, too.
    """
    pending = board.facts.pending
    sizes = (pending.replicas * pending.gpus_per_replica) << 32 | pending.min_runtime_seconds
    _, size = np.unique(sizes, return_inverse=True)
    sized = np.array(list_positive(board.funds), dtype=bool)[pending.project] | (pending.min_runtime_seconds == 0)
    detail = np.where(kind == TOO_LARGE, board.line.shape, 0)
    detail = np.where(kind == RESERVED, np.arange(len(size)), detail)
    longest = np.zeros(len(size), dtype=np.int64)
    longest[list(board.too_large)] = list(board.too_large.values())
    detail = np.where(kind == CONTRACT, np.unique(size << 32 | longest, return_inverse=True)[1], detail)
    detail = np.where((kind >= UNALLOCATED) & sized, size + 1, detail)
    project = np.where((kind >= CAPPED) | (kind == CONTRACT), pending.project, 0)
    return np.asarray((kind * len(board.tree.leaf_of) + project) * (len(size) + 2) + detail)


class _Words:
    """The numbers of each kind of wait."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._recovery: dict[int, int | None] = {}
        self._outflow: Outflow | None = None

    def too_large(self, row: int) -> Reason:
        """No host of that size, whatever its state; or none that takes attempts."""
        facts = self.board.facts
        replicas, gpus = int(facts.pending.replicas[row]), int(facts.pending.gpus_per_replica[row])
        numbers = {"replicas": replicas, "gpus_per_replica": gpus, "largest_gpus": int(facts.hosts.gpus.max(initial=0))}
        if int((facts.hosts.gpus // gpus).sum()) < replicas:
            return reason(Code.NO_HOST_OF_SIZE, **numbers)
        return reason(Code.NO_SCHEDULABLE_HOST, **numbers, schedulable_hosts=int(facts.schedulable.sum()))

    def full(self, row: int) -> Reason:
        """First in line, and all that could be taken is not enough."""
        attempts, now = self.board.facts.attempts, self.board.now
        ends = (attempts.running_at + attempts.contract_seconds)[
            (self.board.facts.standing == Standing.PROTECTED) & (attempts.running_at != NEVER)
        ]
        ends = ends[ends > now]
        numbers = {"next_end_at": int(ends.min())} if len(ends) else {}
        return reason(Code.FULL_OF_PROTECTED, **numbers)

    def reserved(self, row: int) -> Reason:
        """Which hosts and from when; past its time, whose overrun it waits for."""
        board, facts = self.board, self.board.facts
        booking = board.book.by_zone[board.book.by_row[row]].booking
        hosts = sorted(booking.places)
        told_at = starts_by(booking.at, board.policy)
        numbers = {
            "at": booking.at,
            "starts_by_at": told_at,
            "hosts": len(hosts),
            "host": int(facts.hosts.id[hosts[0]]),
        }
        if booking.at <= board.now:
            late = [
                one
                for one in np.flatnonzero(facts.standing == Standing.PROTECTED).tolist()
                if not facts.places[one].keys().isdisjoint(hosts)
            ]
            numbers |= {"late_attempt": int(facts.attempts.id[late[0]])} if late else {}
        return reason(Code.RESERVED, **numbers)

    def contract(self, row: int) -> Reason:
        """The longest minimum runtime with which it would get a reservation; not told where no shorter one would do."""
        pending, longest = self.board.facts.pending, self.board.too_large[row]
        project = self._id(int(pending.project[row]))
        asked = int(pending.min_runtime_seconds[row])
        what = {"longest_seconds": longest} if longest else {"counted_seconds": self.board.policy.licence_floor_seconds}
        return reason(Code.CONTRACT_TOO_LARGE, project=project, min_runtime_seconds=asked, **what)

    def capped(self, row: int) -> Reason:
        """The project runs as much unallocated as it may."""
        cap, project = self.board.policy.unallocated_cap_gpus or 0, int(self.board.facts.pending.project[row])
        running = self.board.unallocated_gpus[project]
        return reason(Code.UNALLOCATED_CAP, project=self._id(project), cap_gpus=cap, running_gpus=running)

    def unallocated(self, row: int) -> Reason:
        """It queues for idle GPUs; and why its budget does not carry it, if it asks for a contract."""
        if self.board.facts.pending.min_runtime_seconds[row] == 0:
            return reason(Code.UNALLOCATED_QUEUE)
        return Reason(Code.UNALLOCATED_QUEUE, self.unfunded(row).numbers)

    def unfunded(self, row: int) -> Reason:
        """Which project can't fund it, and what would change that."""
        funds, pending = self.board.funds, self.board.facts.pending
        path = self.board.path(int(pending.project[row]))
        total = int(pending.replicas[row] * pending.gpus_per_replica[row])
        contract = int(pending.min_runtime_seconds[row])
        obstacle = funds.find_obstacle(path, total, total * contract, self.board.ends_at(contract))
        if obstacle is None:  # not reached: a workload without an obstacle is fundable
            return reason(Code.WAITING_TURN)
        node, code = obstacle
        who = {"project": self._id(self.board.tree.project_of[node])}
        balance = funds.balance_ppm(node)
        if code == Code.NO_BUDGET or balance is None:
            return reason(Code.NO_BUDGET, **who)
        if code == Code.BURST_CAP:
            return reason(code, **who, cap_gpus=funds.burst[node], allocated_gpus=funds.allocated[node])
        if code == Code.UNFUNDED:
            recovery = self._recovers_at(node)
            return reason(code, **who, balance_ppm=balance, **({} if recovery is None else {"recovers_at": recovery}))
        longest = min((funds.contract_limit[one] - funds.usage[one]) // total for one in path)
        return reason(code, **who, balance_ppm=balance, longest_seconds=max(longest, 0))

    def _recovers_at(self, node: int) -> int | None:
        """When enough usage will have left the window; not told with a half-life."""
        board = self.board
        if board.window.half_life is not None:
            return None
        if node not in self._recovery:
            if self._outflow is None:
                paths = list_paths(board.facts.snapshot, board.tree)
                self._outflow = Outflow(charged_rows(board.facts, board.window), paths, board.window)
            excess = board.funds.usage[node] - board.funds.positive_limit[node]
            self._recovery[node] = self._outflow.recovers_at(node, excess)
        return self._recovery[node]

    def _id(self, project: int) -> int:
        return int(self.board.facts.snapshot.projects.id[project])


# ---------------------------------------------------------------- balances


def list_balances(board: Board) -> tuple[ProjectBalance, ...]:
    """Every node's figures after the decision, by project id, a project before its own part."""
    tree, funds = board.tree, board.funds
    ids = board.facts.snapshot.projects.id.tolist()
    nodes = sorted(range(len(tree.parent)), key=lambda node: (ids[tree.project_of[node]], tree.is_own(node)))
    return tuple(
        ProjectBalance(
            project=ids[tree.project_of[node]],
            own=tree.is_own(node),
            share_ppm=funds.shares[node] * PPM // PPM ** tree.depth[node],
            quota_gpu_seconds=funds.quotas[node][0] // funds.quotas[node][1],
            usage_gpu_seconds=funds.usage[node],
            unallocated_gpu_seconds=board.unallocated_usage[node],
            balance_ppm=funds.balance_ppm(node),
            allocated_gpus=funds.allocated[node],
            burst_gpus=None if funds.burst[node] == NEVER else funds.burst[node],
        )
        for node in nodes
    )
