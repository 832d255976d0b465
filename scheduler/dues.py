"""When time alone has something to do to an attempt: end what doesn't start or stop, mature a contract (R4, R11)."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from scheduler.types import NEVER, Policy, Standing

if TYPE_CHECKING:
    from scheduler.state import State

PROTECTED, STOPPING = int(Standing.PROTECTED), int(Standing.STOPPING)


class Dues:
    """The next such moment of every attempt of a kept state; what is void is passed over."""

    def __init__(self, state: State, policy: Policy) -> None:
        self.state, self.policy = state, policy
        self._heap: list[tuple[int, int]] = []  # (moment, attempt id)

    def note(self, row: int) -> None:
        """Something about the attempt has changed."""
        moment = self._find(row)
        if moment != NEVER:
            heappush(self._heap, (moment, self.state.attempts.columns["id"].item(row)))

    def is_due(self) -> bool:
        """Whether time alone has something to do now."""
        return any(moment <= self.state.now for moment in self.list_next())

    def list_next(self) -> list[int]:
        """The first such moment; nothing if there is none."""
        rows, heap = self.state.attempts.row_of or {}, self._heap
        while heap:
            row = rows.get(heap[0][1])
            if row is not None and self._find(row) == heap[0][0]:
                return [heap[0][0]]
            heappop(heap)
        return []

    def _find(self, row: int) -> int:
        columns, policy = self.state.attempts.columns, self.policy
        standing = columns["standing"].item(row)
        if standing == STOPPING:
            stopping = columns["stopping_at"].item(row)
            gone_at = stopping + columns["grace_seconds"].item(row) + policy.silence_seconds
            return gone_at if stopping != NEVER else NEVER
        if columns["segments_at"].item(row) == NEVER:
            return NEVER
        if columns["running_at"].item(row) == NEVER:
            return columns["segments_at"].item(row) + policy.start_limit_seconds
        ends_at = columns["running_at"].item(row) + columns["contract_seconds"].item(row)
        return ends_at if standing == PROTECTED else NEVER
