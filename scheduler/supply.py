"""What quotas are shares of, through time: the capacity of a kept state, and whether it moves (R2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.balance import Capacity, History, Quota, Tree, compute_quotas, has_changed, list_steps
from scheduler.types import Policy
from scheduler.usage import Window

if TYPE_CHECKING:
    from scheduler.state import State


class Supply:
    """The schedulable GPUs of one cluster through time, and the quotas that were made of them last."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._steps = 0  # of capacity, in the history
        self._history = History(())
        self._made_of: tuple[int, int] | None = None  # (GPU-seconds, seconds with a GPU) of the last quotas' window

    def forget(self) -> None:
        """Quotas were made elsewhere."""
        self._made_of = None

    def history(self) -> History:
        """The steps of capacity are only ever added to."""
        if self._steps != self.state.capacity.count:
            self._steps, self._history = self.state.capacity.count, History(list_steps(self.state.capacity.view()))
        return self._history

    def make_quotas(self, tree: Tree, window: Window, policy: Policy, shares: Sequence[int]) -> list[Quota] | None:
        """R2's quotas; None: they are what they were the last time."""
        capacity = Capacity(self.history(), window)
        made_of = None
        if capacity.seconds and not has_changed(tree, window):
            made_of = capacity.between(window.since, window.now), capacity.seconds
            if made_of == self._made_of:
                return None
        self._made_of = made_of
        return compute_quotas(tree, capacity, policy, shares)

    def find_drift(self, tree: Tree, window: Window, seconds: int) -> int:
        """By how many GPUs, at most, the cluster that quotas share may seem to move, each of the next seconds.

        What the window gains at its right edge less what it loses at its left one; more where a budget
        has changed in it, or where less than a window is known and scaled up.
        """
        history = self.history()
        whole = history.open_until(window.now) - history.open_until(window.since) == window.seconds
        if whole and not has_changed(tree, window):
            now = history.gpus_at(window.now)
            return max(abs(now - gpus) for gpus in history.list_gpus(window.since, window.since + seconds))
        first = min((at for at, _ in history.steps), default=window.now)
        installed = int(self.state.hosts["gpus"].sum())
        return installed * (4 + window.seconds // max(window.now - first, 1))
