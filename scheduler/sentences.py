"""English sentences for reasons: what happened, why, what to do. Text out, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from scheduler.types import PPM, Code, Reason

Numbers = dict[str, Any]


def words(told: Reason) -> str:
    """The sentence of a reason, with its numbers. Moments are written as `<at 1700000000>`.

    Projects, workloads, hosts and attempts are written as `<project 7>`: the portal knows
    their names and the reader's zone.
    """
    return SENTENCES[told.code](told.as_dict()).strip()


def words_unnamed(told: Reason) -> str:
    """The sentence for those who may not see who took: nothing in it names another project, its balance or its work."""
    if told.code in HOW_TAKEN:
        return _taken(told.as_dict(), HOW_TAKEN[told.code], "work of another project of higher balance")
    return words(told)


def say_span(seconds: int) -> str:
    """2 h 10 min, as people say it; at most two units, rounded down."""
    for unit, size, lower, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {unit} {rest} {lower}" if rest else f"{seconds // size} {unit}"
    return f"{seconds} s"


def say_percent(ppm: int) -> str:
    """One decimal below 10 %, none above; rounded towards lower."""
    tenths = ppm * 1000 // PPM
    return (
        f"{tenths // 10} %"
        if abs(tenths) >= 100
        else f"{'-' if tenths < 0 else ''}{abs(tenths) // 10}.{abs(tenths) % 10} %"
    )


def say_balance(numbers: Numbers, name: str = "balance_ppm") -> str:
    """(balance -3 %), or (no budget)."""
    return f"balance {say_percent(numbers[name])}" if name in numbers else "no budget"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _queue(numbers: Numbers) -> str:
    return f"position {numbers['position']}, {_count(numbers['gpus_ahead'], 'GPU')} ahead"


def _unfunded(numbers: Numbers) -> str:
    when = f", recovers about <at {numbers['recovers_at']}>" if "recovers_at" in numbers else ""
    return f"<project {numbers['project']}> has used its budget ({say_balance(numbers)}{when})"


def _obstacle(numbers: Numbers) -> str:
    """Why a budget doesn't carry a workload, from the numbers that are there."""
    if "project" not in numbers:
        return ""
    if "cap_gpus" in numbers:
        return _burst(numbers)
    if "longest_seconds" in numbers:
        return _contract(numbers)
    return _unfunded(numbers) if "balance_ppm" in numbers else f"<project {numbers['project']}> has no budget"


def _burst(numbers: Numbers) -> str:
    return (
        f"<project {numbers['project']}> may run {_count(numbers['cap_gpus'], 'allocated GPU')} at once and has "
        f"{numbers['allocated_gpus']} running or held"
    )


def _contract(numbers: Numbers) -> str:
    return (
        f"its minimum runtime would overdraw <project {numbers['project']}> ({say_balance(numbers)}); "
        f"{say_span(numbers['longest_seconds'])} would do"
    )


HOW_TAKEN = {
    Code.TAKEN: "it ran unallocated",
    Code.TAKEN_LOWER_PRIORITY: "it was past its minimum runtime and had the lower priority",
    Code.TAKEN_LESS_DESERVING: "it was past its minimum runtime, and less is owed to its branch,",
}


def _taken(numbers: Numbers, how: str, taker: str = "") -> str:
    named = (
        f"<workload {numbers['taker_workload']}> of <project {numbers['taker_project']}> "
        f"({say_balance(numbers, 'taker_balance_ppm')})"
    )
    return (
        f"Stopped for {taker or named}: {how} in <project {numbers['project']}> "
        f"({say_balance(numbers)}) for {say_span(numbers['ran_seconds'])}, minimum runtime "
        f"{say_span(numbers['min_runtime_seconds'])}; GPU-time lost since its last checkpoint "
        f"{say_span(numbers['lost_gpu_seconds'])}."
    )


def _size(numbers: Numbers) -> str:
    gang = f"{_count(numbers['replicas'], 'replica')} of {_count(numbers['gpus_per_replica'], 'GPU')}"
    return f"{gang}; the largest host has {numbers['largest_gpus']}"


def _reserved(numbers: Numbers) -> str:
    hosts = f"{_count(numbers['hosts'], 'host')} reserved, first <host {numbers['host']}>"
    if "late_attempt" in numbers:
        return f"Waits: {hosts}; its time was <at {numbers['at']}>, and <attempt {numbers['late_attempt']}> overruns."
    return (
        f"Waits: {hosts}; starts by <at {numbers['starts_by_at']}>. They are free or can be taken <at {numbers['at']}>."
    )


def _too_large(numbers: Numbers) -> str:
    told = (
        f"Waits until it fits: with a contract of {say_span(numbers['min_runtime_seconds'])} <project "
        f"{numbers['project']}> would no longer be owed more than those it would have to stop. "
    )
    if "longest_seconds" in numbers:
        return f"{told}A minimum runtime of {say_span(numbers['longest_seconds'])} would do."
    return f"{told}No shorter one would do: it counts as at least {say_span(numbers['counted_seconds'])}."


def _full(numbers: Numbers) -> str:
    end = f" The next contract ends <at {numbers['next_end_at']}>." if "next_end_at" in numbers else ""
    return f"Waits: next in line, and the cluster is full of protected work.{end}"


def _unallocated_queue(numbers: Numbers) -> str:
    why = _obstacle(numbers)
    return f"Waits for idle GPUs: {_queue(numbers)} in the unallocated queue." + (
        f" It is there because {why}." if why else ""
    )


SENTENCES: dict[Code, Callable[[Numbers], str]] = {
    Code.EXPRESS: lambda n: f"Started express: short and small, within the express share of <project {n['project']}>.",
    Code.FUNDED: lambda n: f"Started: <project {n['project']}> funds it ({say_balance(n)}).",
    Code.UNFUNDED_START: lambda n: (
        f"Started unallocated on idle GPUs: <project {n['project']}> can't fund it now ({say_balance(n)})."
    ),
    Code.ZERO_MIN_RUNTIME: lambda n: "Started unallocated on idle GPUs: it has no minimum runtime.",
    **{code: partial(_taken, how=how) for code, how in HOW_TAKEN.items()},
    Code.RECOVERED: lambda n: (
        f"Returned to the budget of <project {n['project']}> ({say_balance(n)}), "
        + (f"protected for {say_span(n['left_seconds'])}." if n["left_seconds"] else "past its minimum runtime.")
    ),
    Code.CONTRACT_DONE: lambda n: (
        f"It has run its minimum runtime of {say_span(n['min_runtime_seconds'])}: protected no longer."
    ),
    Code.BALANCE_SPENT: lambda n: (
        f"Lapsed to unallocated: <project {n['project']}> has used its budget ({say_balance(n)})."
    ),
    Code.GPUS_FREE: lambda n: f"All its GPUs are free after {say_span(n['waited_seconds'])}.",
    Code.NOT_RUNNING_IN_TIME: lambda n: (
        f"Failed to start: not running after {say_span(n['waited_seconds'])}, limit {say_span(n['limit_seconds'])}."
    ),
    Code.HOST_LOST: lambda n: f"Decided anew: <host {n['host']}>, held for it, takes no attempts now.",
    Code.DRAINED: lambda n: (
        f"Stopped: <host {n['host']}> is being emptied, and nothing protects it: it is "
        + ("unallocated." if n["unallocated"] else "past its minimum runtime.")
    ),
    Code.HOST_SILENT: lambda n: (
        f"<host {n['host']}> has not freed the GPUs of <attempt {n['attempt']}> "
        f"{say_span(n['silent_seconds'])} after the kill: unhealthy."
    ),
    Code.RESERVED_HEAD: lambda n: (
        f"Reserved: {_count(n['hosts'], 'host')} from <at {n['at']}> on, {_count(n['gpus'], 'GPU')} in all; "
        f"it starts by <at {n['starts_by_at']}>."
    ),
    Code.RESERVED_START: lambda n: f"Started on what was reserved for it: <project {n['project']}> funds it.",
    Code.RESERVED_HOST_LOST: lambda n: f"Its reservation is over: <host {n['host']}> takes no attempts now.",
    Code.EXPRESS_MOVES: lambda n: (
        f"Express starts moved its reservation by {say_span(n['moved_seconds'])}, to <at {n['at']}>, "
        f"which they may do once. It starts by <at {n['starts_by_at']}>."
    ),
    Code.BURST_ROOM: lambda n: (
        f"Lapsed to unallocated: it makes room under a burst cap for <workload {n['for_workload']}>, "
        "whose reservation has come."
    ),
    Code.UNRESERVED_START: lambda n: (
        "Started unallocated: only hosts that are reserved for others could hold it, and it would not end in time."
    ),
    Code.RESERVED: _reserved,
    Code.CONTRACT_TOO_LARGE: _too_large,
    Code.UNFUNDED: lambda n: f"Waits: {_unfunded(n)}. A shorter wait: allow it to run unallocated.",
    Code.NO_BUDGET: lambda n: (
        f"Waits: <project {n['project']}> has no budget. Allow it to run unallocated, or ask for one."
    ),
    Code.CONTRACT_OVER_BALANCE: lambda n: f"Waits: {_contract(n)}.",
    Code.BURST_CAP: lambda n: f"Waits: {_burst(n)}.",
    Code.WAITING_TURN: lambda n: f"Waits its turn: {_queue(n)}.",
    Code.FULL_OF_PROTECTED: _full,
    Code.UNALLOCATED_QUEUE: _unallocated_queue,
    Code.UNALLOCATED_CAP: lambda n: (
        f"Waits: <project {n['project']}> runs {n['running_gpus']} GPUs unallocated, its cap is {n['cap_gpus']}."
    ),
    Code.NO_HOST_OF_SIZE: lambda n: f"Can't start: no hosts of that size ({_size(n)}).",
    Code.NO_SCHEDULABLE_HOST: lambda n: (
        f"Waits: hosts of that size exist, but too few take attempts now ({_size(n)}; "
        f"{_count(n['schedulable_hosts'], 'schedulable host')})."
    ),
}
