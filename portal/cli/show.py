"""Answers of the API as tables and facts."""

from typing import Any

from portal.cli.output import facts_print, line_print, moment_words, seconds_words, table_print

QUEUE_COLUMNS = ("ID", "NAME", "PROJECT", "AUTHOR", "STATE", "GPUS", "QUEUE", "POSITION", "GPUS AHEAD", "REASON")
UNALLOCATED_CODES = {"unallocated_queue", "unallocated_cap"}
STATE_WORDS = {
    "pending": "is pending",
    "running": "is running",
    "succeeded": "has succeeded",
    "failed": "has failed",
    "cancelled": "is cancelled",
    "timed_out": "has timed out",
    "preempted": "was preempted",
    "host_failed": "has ended with its host",
}


def state_words(state: str) -> str:
    """A workload's state as the rest of a sentence."""
    return STATE_WORDS.get(state, f"is {state.replace('_', ' ')}")


def queue_print(rows: list[dict[str, Any]]) -> None:
    """Running ones first, then those that wait, in the order in which they are considered."""
    rows = sorted(rows, key=lambda row: row["state"] == "pending")
    table_print(QUEUE_COLUMNS, [_queue_row(row) for row in rows], "Nothing is running or waiting.")


def _queue_row(row: dict[str, Any]) -> tuple[Any, ...]:
    queue = row["queue"] or {}
    waits = row["state"] == "pending"
    reason = row["reason"]["text"] if waits else None
    unallocated = row["reason"]["code"] in UNALLOCATED_CODES
    # Each of the two queues counts its positions for itself.
    line = ("unallocated" if unallocated else "funded") if queue.get("position") is not None else None
    return (
        row["id"], row["name"], row["project"], row["author"], row["state"].replace("_", " "), row["gpus"],
        line, queue.get("position"), queue.get("gpus_ahead"), reason,
    )  # fmt: skip


def workload_print(workload: dict[str, Any]) -> None:
    """Everything about one workload, then its attempts."""
    facts_print(
        [
            ("workload", f"{workload['id']} {workload['name']}"),
            ("project", workload["project"]),
            ("author", workload["author"]),
            ("clusters", ", ".join(workload["clusters"])),
            ("size", f"{workload['replicas']} x {workload['gpus_per_replica']} GPUs"),
            ("minimum runtime", seconds_words(workload["min_runtime_seconds"])),
            ("timeout", seconds_words(workload["timeout_seconds"])),
            ("resumable", workload["resumable"]),
            ("priority", f"{workload['priority']} (inside {workload['project']} only)"),
            ("state", workload["state"].replace("_", " ")),
            ("reason", workload["reason"]["text"] or None),
            ("position", _position_words(workload)),
            ("exit code", workload["exit_code"]),
            ("submitted", moment_words(workload["submitted_at"])),
            ("ended", moment_words(workload["ended_at"])),
            ("charged", _charge_words(workload["charged_gpu_seconds"])),
        ]
    )
    if workload["attempts"]:
        line_print("")
        columns = ("ATTEMPT", "CLUSTER", "STATE", "STANDING", "STARTED", "ENDED", "OUTCOME", "EXIT", "HOSTS")
        table_print(columns, [_attempt_row(attempt) for attempt in workload["attempts"]], "")


def _charge_words(gpu_seconds: int) -> str:
    return f"{gpu_seconds / 3600:,.2f} GPU-hours ({gpu_seconds:,} GPU-seconds)"


def _attempt_row(attempt: dict[str, Any]) -> tuple[Any, ...]:
    hosts = ", ".join(f"{host['host']}:{','.join(map(str, host['gpus']))}" for host in attempt["hosts"])
    return (
        attempt["number"], attempt["cluster"], attempt["state"], _standing_words(attempt),
        moment_words(attempt["running_at"]), moment_words(attempt["ended_at"]),
        attempt["outcome"].replace("_", " "), attempt["exit_code"], hosts,
    )  # fmt: skip


def _standing_words(attempt: dict[str, Any]) -> str:
    """How it stands; once it is stopping or has ended, how it stood before."""
    return str(attempt["standing_before_stopping"] or attempt["standing"])


def why_print(workload: dict[str, Any]) -> None:
    """Why a workload waits, runs as it does, or ended: the sentence, then its numbers."""
    reason = workload["reason"]
    attempt = workload["attempts"][-1] if workload["attempts"] else None
    if workload["state"] == "pending":
        line_print(f"Workload {workload['id']} is pending: {reason['text']}")
        facts_print([(name, _fact(name, value)) for name, value in reason.items() if name != "text"])
        if position := _position_words(workload):
            facts_print([("position", position)])
        return
    words = f"Workload {workload['id']} {state_words(workload['state'])}"
    says_more = reason["text"].rstrip(".").lower() not in {"", workload["state"].replace("_", " ")}
    line_print(f"{words}: {reason['text']}" if says_more else f"{words}.")
    if attempt is not None:
        facts_print(
            [("attempt", attempt["number"]), ("standing", _standing_words(attempt)), ("why", attempt["reason"]["text"])]
        )


def _position_words(workload: dict[str, Any]) -> str | None:
    queue = workload["queue"] or {}
    if queue.get("position") is None:
        return None
    return f"{queue['position']} in the queue, {queue['gpus_ahead']} GPUs ahead"


def _fact(name: str, value: Any) -> Any:
    """A number of a reason; what is no plain value is left out (-o json has it)."""
    if not isinstance(value, str | int | float) or value == "":
        return None
    return moment_words(str(value)) if name.endswith("_at") else value


def hosts_print(rows: list[dict[str, Any]]) -> None:
    columns = ("HOST", "CLUSTER", "STATE", "GPUS", "OCCUPIED", "HELD", "FREE", "MODEL", "CAUSE")
    table_print(columns, [_host_row(row) for row in rows], "No hosts.")


def _host_row(row: dict[str, Any]) -> tuple[Any, ...]:
    marked = row["simulated"] and row["gpu_model"] != "simulated"
    model = f"{row['gpu_model']} (simulated)" if marked else row["gpu_model"]
    return (
        row["name"], row["cluster"], row["state"], row["gpus"], row["occupied_gpus"], row["held_gpus"],
        row["free_gpus"], model, row["state_cause"],
    )  # fmt: skip


def budgets_print(rows: list[dict[str, Any]]) -> None:
    """The budgets as they were granted."""
    columns = ("CLUSTER", "PROJECT", "% OF PARENT", "% OF CLUSTER", "GPUS", "GPU-HOURS A WEEK", "BURST GPUS", "VERSION")
    cells = [
        (
            row["cluster"], row["project"], row["percent_of_parent"], row["percent_of_cluster"], row["gpus"],
            row["gpu_hours_per_week"], row["burst_gpus"], row["change_version"],
        )
        for row in rows
    ]  # fmt: skip
    table_print(columns, cells, "No budgets.")


def share_print(rows: list[dict[str, Any]]) -> None:
    """What each project is entitled to beside what it used: who is under-served."""
    columns = ("CLUSTER", "PROJECT", "% OF CLUSTER", "QUOTA GPU-HOURS", "USED GPU-HOURS", "BALANCE", "STANDS")
    cells = [
        (
            row["cluster"], row["project"], row["percent_of_cluster"], _hours(row["quota_gpu_seconds"]),
            _hours(row["used_gpu_seconds"]), _balance_words(row["balance"]), _stands(row["balance"]),
        )
        for row in rows
    ]  # fmt: skip
    table_print(columns, cells, "No budgets.")


def usage_print(answer: dict[str, Any]) -> None:
    """GPU-hours over a range, by standing."""
    line_print(f"{moment_words(answer['start'])} to {moment_words(answer['end'])}, GPU-hours")
    columns = ("CLUSTER", "PROJECT", "PROTECTED", "FUNDED", "UNALLOCATED", "STOPPING", "REFUNDED", "CHARGED")
    cells = [
        (
            row["cluster"],
            row["project"],
            *(_hours(row[f"{name}_gpu_seconds"]) for name in _STANDINGS),
            _hours(row["charged_gpu_seconds"]),
        )
        for row in answer["results"]
    ]
    table_print(columns, cells, "Nothing ran in this range.")


_STANDINGS = ("protected", "funded", "unallocated", "stopping", "refunded")


def _hours(gpu_seconds: int | None) -> float | None:
    return None if gpu_seconds is None else gpu_seconds / 3600


def _balance_words(balance: float | None) -> str | None:
    return None if balance is None else f"{balance * 100:+.1f} %"


def _stands(balance: float | None) -> str | None:
    """People read a balance backwards: say what it means."""
    if balance is None:
        return None
    if balance > 0:
        return "under-served"
    return "over-served" if balance < 0 else "even"


def whoami_print(person: dict[str, Any]) -> None:
    roles = ", ".join(f"{row['role']} of {row['project']}" for row in person["roles"]) or "none"
    facts_print(
        [
            ("person", person["username"]),
            ("administrator", person["is_administrator"]),
            ("operator", person["is_operator"]),
            ("roles", roles),
            ("token", f"{person['token']['name']} ({person['token']['scope']})" if person["token"] else None),
        ]
    )
