"""The reason of every action, as data, and the sentence that says it (R16).

`why_*` read the board before the action changes it. `words` needs nothing but the reason:
ids stay ids, the portal puts names in their place.
"""

from __future__ import annotations

from scheduler.board import Board
from scheduler.ordering import Items
from scheduler.sentences import words as words
from scheduler.sentences import words_unnamed as words_unnamed
from scheduler.types import NEVER, Code, Reason, reason

Numbers = tuple[tuple[str, int], ...]


def _name_project(board: Board, project: int) -> int:
    return board.facts.snapshot.projects.id.item(project)


def _tell_balance(board: Board, project: int, name: str = "balance_ppm") -> Numbers:
    """The lowest balance on the project's path, which decides; nothing if there is no budget."""
    balances = []
    for node in board.path(project):
        balance = board.funds.balance_ppm(node)
        if balance is None:
            return ()
        balances.append(balance)
    return ((name, min(balances)),) if balances else ()


def why_start(board: Board, items: Items, item: int, code: Code) -> Reason:
    """Funded, express or reserved, at which balance."""
    project = items.project[item]
    numbers = (
        ("project", _name_project(board, project)),
        ("gpus", items.gpus[item]),
        ("min_runtime_seconds", items.contract_seconds[item]),
    )
    return Reason(code, numbers + _tell_balance(board, project))


def why_unallocated(board: Board, items: Items, item: int) -> Reason:
    """Free of charge: by its own wish, or because its budget does not carry it."""
    project, gpus, contract = items.project[item], items.gpus[item], items.contract_seconds[item]
    numbers = ("project", _name_project(board, project)), ("gpus", gpus)
    if contract == 0:
        return Reason(Code.ZERO_MIN_RUNTIME, numbers)
    if board.funds.can_fund(board.path(project), gpus, contract * gpus, board.ends_at(contract)):
        return Reason(Code.UNRESERVED_START, numbers)
    return Reason(Code.UNFUNDED_START, numbers + _tell_balance(board, project))


def why_taken(board: Board, items: Items, item: int, attempt: int) -> Reason:
    """Who takes, by which licence, both balances, and what the victim had run and loses."""
    attempts, victim, taker = board.facts.attempts, board.pool.victims[attempt], items.project[item]
    running_at = attempts.running_at.item(attempt)
    code = Code.TAKEN
    if victim.funded:
        code = Code.TAKEN_LOWER_PRIORITY if victim.project == taker else Code.TAKEN_LESS_DESERVING
    numbers = (
        ("taker_workload", items.workload[item]),
        ("taker_project", _name_project(board, taker)),
        *_tell_balance(board, taker, "taker_balance_ppm"),
        ("project", _name_project(board, victim.project)),
        *_tell_balance(board, victim.project),
        ("ran_seconds", max(board.now - running_at, 0) if running_at != NEVER else 0),
        ("min_runtime_seconds", attempts.contract_seconds.item(attempt)),
        ("lost_gpu_seconds", victim.lost_gpu_seconds),
    )
    return Reason(code, numbers)


def why_return(board: Board, project: int, left_seconds: int) -> Reason:
    """The budget carries it again."""
    numbers = ("project", _name_project(board, project)), ("left_seconds", left_seconds)
    return Reason(Code.RECOVERED, numbers + _tell_balance(board, project))


def why_makes_room(board: Board, attempt: int, workload: int) -> Reason:
    """R7: under a burst cap, for a reservation whose time has come."""
    project = int(board.facts.attempts.project[attempt])
    return reason(Code.BURST_ROOM, project=_name_project(board, project), for_workload=workload)


def why_lapse(board: Board, project: int) -> Reason:
    """Which project on its path is at balance 0 or less, the first from the top."""
    funds = board.funds
    spent = [node for node in board.path(project) if funds.usage[node] > funds.positive_limit[node]]
    node = spent[0]
    balance = funds.balance_ppm(node)
    told = () if balance is None else (("balance_ppm", balance),)
    return Reason(Code.BALANCE_SPENT, (("project", _name_project(board, board.tree.project_of[node])), *told))
