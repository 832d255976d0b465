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


def _name_project(board: Board, project: int) -> int:
    return int(board.facts.snapshot.projects.id[project])


def _tell_balance(board: Board, project: int, name: str = "balance_ppm") -> dict[str, int]:
    """The lowest balance on the project's path, which decides; nothing if there is no budget."""
    balances = [board.funds.balance_ppm(node) for node in board.path(project)]
    known = [balance for balance in balances if balance is not None]
    return {name: min(known)} if known and len(known) == len(balances) else {}


def why_start(board: Board, items: Items, item: int, code: Code) -> Reason:
    """Funded, express or reserved, at which balance."""
    project = items.project[item]
    return reason(
        code,
        project=_name_project(board, project),
        gpus=items.gpus[item],
        min_runtime_seconds=items.contract_seconds[item],
        **_tell_balance(board, project),
    )


def why_unallocated(board: Board, items: Items, item: int) -> Reason:
    """Free of charge: by its own wish, or because its budget does not carry it."""
    project = items.project[item]
    numbers = {"project": _name_project(board, project), "gpus": items.gpus[item]}
    if items.contract_seconds[item] == 0:
        return reason(Code.ZERO_MIN_RUNTIME, **numbers)
    contract, ends_at = items.contract_seconds[item], board.ends_at(items.contract_seconds[item])
    if board.funds.can_fund(board.path(project), items.gpus[item], contract * items.gpus[item], ends_at):
        return reason(Code.UNRESERVED_START, **numbers)
    return reason(Code.UNFUNDED_START, **numbers, **_tell_balance(board, project))


def why_taken(board: Board, items: Items, item: int, attempt: int) -> Reason:
    """Who takes, by which licence, both balances, and what the victim had run and loses."""
    attempts, project = board.facts.attempts, int(board.facts.attempts.project[attempt])
    running_at, victim = int(attempts.running_at[attempt]), board.pool.victims[attempt]
    code = Code.TAKEN
    if victim.funded:
        code = Code.TAKEN_LOWER_PRIORITY if project == items.project[item] else Code.TAKEN_LESS_DESERVING
    return reason(
        code,
        taker_workload=items.workload[item],
        taker_project=_name_project(board, items.project[item]),
        **_tell_balance(board, items.project[item], "taker_balance_ppm"),
        project=_name_project(board, project),
        **_tell_balance(board, project),
        ran_seconds=max(board.now - running_at, 0) if running_at != NEVER else 0,
        min_runtime_seconds=int(attempts.contract_seconds[attempt]),
        lost_gpu_seconds=victim.lost_gpu_seconds,
    )


def why_return(board: Board, project: int, left_seconds: int) -> Reason:
    """The budget carries it again."""
    return reason(
        Code.RECOVERED,
        project=_name_project(board, project),
        left_seconds=left_seconds,
        **_tell_balance(board, project),
    )


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
    who = {"project": _name_project(board, board.tree.project_of[node])}
    return reason(Code.BALANCE_SPENT, **who, **({} if balance is None else {"balance_ppm": balance}))
