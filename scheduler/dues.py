"""When time alone has something to do to an attempt: end what doesn't start or stop, mature a contract (R4, R11)."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from scheduler.types import NEVER, Policy, Standing

if TYPE_CHECKING:
    from scheduler.state import State

PROTECTED, STOPPING = int(Standing.PROTECTED), int(Standing.STOPPING)


class Dues:
    """The next such moment of every attempt of a kept state, by its row; who is held, and who stops."""

    def __init__(self, state: State, policy: Policy) -> None:
        self.state, self.policy = state, policy
        self.held: set[int] = set()  # GPUs are being emptied for them
        self.stopping: set[int] = set()
        self._moments: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []  # (moment, row); what is void is passed over
        self._due: set[int] = set()  # the moment has come, and nothing has happened since
        for row in (state.attempts.row_of or {}).values():
            self.note(row)

    def note(self, row: int) -> None:
        """Something about the attempt has changed."""
        self.forget(row)
        columns = self.state.attempts.columns
        standing, held = columns["standing"].item(row), columns["segments_at"].item(row) == NEVER
        moment = self._find(row, standing) if standing == STOPPING or not held else NEVER
        if moment != NEVER:
            self._moments[row] = moment
            heappush(self._heap, (moment, row))
        if held:
            self.held.add(row)
        if standing == STOPPING:
            self.stopping.add(row)

    def forget(self, row: int) -> None:
        """The attempt is over."""
        self._moments.pop(row, None)
        self._due.discard(row)
        self.held.discard(row)
        self.stopping.discard(row)

    def list_due(self) -> set[int]:
        """Attempts to which time alone has something to do now."""
        heap, now = self._heap, self.state.now
        while heap and heap[0][0] <= now:
            moment, row = heappop(heap)
            if self._moments.get(row) == moment:
                self._due.add(row)
        return self._due

    def list_next(self) -> list[int]:
        """The first such moment; nothing if there is none."""
        heap, moments = self._heap, self._moments
        if self._due:
            return [min(moments[row] for row in self._due)]
        while heap and moments.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return [heap[0][0]] if heap else []

    def _find(self, row: int, standing: int) -> int:
        """The moment of an attempt that stops, or whose segments have begun."""
        columns, policy = self.state.attempts.columns, self.policy
        if standing == STOPPING:
            stopping = columns["stopping_at"].item(row)
            gone_at = stopping + columns["grace_seconds"].item(row) + policy.silence_seconds
            return gone_at if stopping != NEVER else NEVER
        if columns["running_at"].item(row) == NEVER:
            return columns["segments_at"].item(row) + policy.start_limit_seconds
        ends_at = columns["running_at"].item(row) + columns["contract_seconds"].item(row)
        return ends_at if standing == PROTECTED else NEVER
