"""What follows a start, a taking, a return or a lapse: rows of the board and actions (R6, R10, R11)."""

from __future__ import annotations

from scheduler import explain
from scheduler.board import Board
from scheduler.book import starts_by
from scheduler.ordering import Items
from scheduler.preemption import Plan
from scheduler.types import NEVER, Code, Lapse, Preempt, Reason, Return, Shift, Standing, Start, reason


def take_victim(board: Board, items: Items, item: int, attempt: int) -> None:
    """R11: the victim is signalled now; its standing is stopping from now on."""
    policy = board.policy
    why = explain.why_taken(board, items, item, attempt)
    victim = board.pool.remove(attempt)
    if victim.funded:
        board.funds.charge(victim.path, 0, -victim.gpus)
        board.roomier += any(board.funds.burst[node] != NEVER for node in victim.path)
        for host, count in victim.on_host.items():
            board.floor.change(host, kept=-count)
    else:
        board.charge_unallocated(victim.project, -victim.gpus * board.remaining(attempt), -victim.gpus)
    if attempt in board.returned:
        undo_return(board, attempt)
    funded = victim.funded and attempt not in board.returned
    grace = policy.grace_allocated_seconds if funded else policy.grace_unallocated_seconds
    board.facts.standing[attempt] = Standing.STOPPING
    board.taken_for[attempt] = items.workload[item]
    board.actions.append(Preempt(board.facts.attempts.id.item(attempt), items.workload[item], grace, why))


def occupy(board: Board, plan: Plan, gpus: int) -> None:
    """GPUs that the victims will free are waited for; the rest is kept free from now on."""
    coming: dict[int, int] = {}
    for victim in plan.victims:
        for host, count in board.facts.places[victim].items():
            coming[host] = coming.get(host, 0) + count
    for host, replicas in plan.placement:
        needed = replicas * gpus
        board.floor.change(host, free=-max(needed - coming.get(host, 0), 0), kept=needed)
        board.pool.touch(host)


def record_start(board: Board, row: int, plan: Plan, standing: Standing, express: bool, why: Reason) -> None:
    facts = board.facts
    board.started[row] = True
    kind = board.line.items.kind[row]
    board.started_of[kind] = board.started_of.get(kind, 0) + 1
    board.fresh.append((row, plan.placement, standing, bool(plan.victims)))
    placement = tuple([(facts.hosts.id.item(host), replicas) for host, replicas in plan.placement])
    victims = tuple(sorted([facts.attempts.id.item(victim) for victim in plan.victims]))
    workload = facts.pending.id.item(row)
    board.actions.append(Start(workload, standing, express, placement, victims, why))


def shift_reservations(board: Board, plan: Plan, ends_at: int) -> None:
    """R7: an express start that does not end in time on reserved hosts moves their time, once."""
    for zone in sorted({board.floor.zone[host] for host, _ in plan.placement} - {0}):
        if ends_at > board.book.by_zone[zone].booking.at:
            for kept in board.book.shift(zone):
                moved = kept.booking
                told_at, moved_by = starts_by(moved.at, board.policy), board.policy.express_seconds
                why = reason(Code.EXPRESS_MOVES, at=moved.at, starts_by_at=told_at, moved_seconds=moved_by)
                board.shifts[moved.workload] = Shift(moved.workload, moved.at, why)


def lapse_unfunded(board: Board) -> bool:
    """R6: past-minimum attempts with a project on their path at balance 0 or less. True if any."""
    funds, below = board.funds, board.pool.funded_below
    if board.solvent_at == funds.version:
        return False
    spent = [node for node, attempts in below.items() if attempts and funds.usage[node] > funds.positive_limit[node]]
    if not spent:
        board.solvent_at = funds.version
        return False
    rows, projects = sorted(set().union(*(below[node] for node in spent))), board.facts.attempts.project
    for attempt in rows:
        lapse_attempt(board, attempt, explain.why_lapse(board, projects.item(attempt)))
    return True


def lapse_attempt(board: Board, attempt: int, why: Reason) -> None:
    """R6: it is charged no longer, and every funded start may take it."""
    attempts, standing = board.facts.attempts, board.facts.standing
    victim = board.pool.remove(attempt)
    standing[attempt] = Standing.UNALLOCATED
    board.funds.charge(victim.path, 0, -victim.gpus)
    board.charge_unallocated(victim.project, 0, victim.gpus)
    for host, count in victim.on_host.items():
        board.floor.change(host, kept=-count)
    board.pool.add(board.make_victim(attempt))
    if attempt in board.returned:
        undo_return(board, attempt)
        board.returned.discard(attempt)
    else:
        board.actions.append(Lapse(attempts.id.item(attempt), why))


def undo_return(board: Board, attempt: int) -> None:
    """It returned in this decision, and a later start spent the balance or took it: it never returned (R8)."""
    number = board.facts.attempts.id.item(attempt)
    board.actions[:] = [one for one in board.actions if not (isinstance(one, Return) and one.attempt == number)]
