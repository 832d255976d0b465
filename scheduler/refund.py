"""What a fatal fault gives back (R15)."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.policy import HOUR

Span = tuple[int, int]
"""[from, to) in epoch seconds."""


def find_refunded(charged: Iterable[Span], checkpoint_at: int, contract_seconds: int) -> list[Span]:
    """R15: the parts of an attempt's charged segments that become *refunded* when a fault ends it.

    Those after its last checkpoint (NEVER: since its start), at most as many charged seconds, the
    latest first, as the longer of its minimum runtime and an hour. In order of time; unallocated
    and stopping time is not among `charged` and uses up nothing. Segments end when the fault
    says so: the caller cuts them at the gone host's last heartbeat first.
    """
    left = max(contract_seconds, HOUR)
    refunded = []
    for start, end in sorted(charged, reverse=True):
        start = max(start, checkpoint_at, end - left)
        if start < end:
            refunded.append((start, end))
            left -= end - start
    return refunded[::-1]
