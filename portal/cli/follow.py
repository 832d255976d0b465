"""`commons logs` and `submit --wait`: reading on until there is no more to come."""

import sys
import time
from typing import Any

from portal.cli.client import Client

POLL_SECONDS = 1.0
FINAL = {"succeeded", "failed", "cancelled", "timed_out", "preempted", "host_failed"}


def log_copy(client: Client, workload: int, attempt: int | None, replica: int, *, follow: bool) -> None:
    """Copy a replica's output to ours; when following, go on with the next attempt until the workload has ended."""
    offset, reading, last_look = 0, attempt, False
    while True:
        answer = client.stream(f"workloads/{workload}/logs/", attempt=reading, replica=replica, offset=offset)
        sys.stdout.buffer.write(answer.content)
        sys.stdout.buffer.flush()
        offset = int(answer.headers["X-Log-Next-Offset"])
        complete = answer.headers["X-Log-Complete"] == "true"
        current = answer.headers.get("X-Log-Attempt")
        reading = attempt or (int(current) if current else None)
        if answer.content:
            continue
        if not follow:
            return
        if complete and not last_look:
            last_look = True  # what the attempt wrote at its very end may still be on its way
        elif complete:
            successor = _successor(client, workload, reading) if attempt is None else None
            if successor == 0 or attempt is not None:
                return
            if successor is not None:
                reading, offset, last_look = successor, 0, False
                continue
        time.sleep(POLL_SECONDS)


def _successor(client: Client, workload: int, reading: int | None) -> int | None:
    """The attempt after the one that was read; 0: there will be none; None: not yet."""
    current = client.get(f"workloads/{workload}/")
    later = [attempt["number"] for attempt in current["attempts"] if attempt["number"] > (reading or 0)]
    if later:
        return int(later[0])
    return 0 if current["state"] in FINAL else None


def end_wait(client: Client, workload: int) -> dict[str, Any]:
    """The workload, once it has ended."""
    while True:
        current: dict[str, Any] = client.get(f"workloads/{workload}/")
        if current["state"] in FINAL:
            return current
        time.sleep(POLL_SECONDS)
