"""Waiting for a condition, with a deadline."""

import time
from collections.abc import Callable

POLL_SECONDS = 0.02


def until(condition: Callable[[], bool], *, timeout_seconds: float) -> bool:
    """Poll until `condition` holds; False when the deadline passes first."""
    deadline = time.monotonic() + timeout_seconds
    pause = POLL_SECONDS
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)
    return True
