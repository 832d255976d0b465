"""The parts that the loop is made of, as it sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scheduler.simulation.setup import HostChange, HostEvent
from scheduler.simulation.work import Attempt, Work

FOREVER = 1 << 60
"""A moment that never comes."""


class Source(Protocol):
    """Where work comes from."""

    too_large: int  # jobs left out because the hosts could never hold them
    cut: int  # jobs left out because they come after the end

    @property
    def host_events(self) -> Sequence[HostEvent]:
        """Faults that come with it."""

    def next_at(self) -> int:
        """When it has something next; FOREVER: never again."""

    def take(self, now: int) -> list[Work]:
        """What is submitted now, in order."""

    def follow(self, now: int, waiting_gpus: list[int], waiting_debug: list[int]) -> None:
        """After a pass: GPUs waiting by project, all and those of debug workloads."""


class Decider(Protocol):
    """Who decides. It calls the loop's `assign`, `signal` and `turn`."""

    at_every_event: bool
    reports_checkpoints: bool
    checked: int  # decisions whose invariants were checked

    def submit(self, work: Work) -> None:
        """It waits, or waits again."""

    def end(self, attempt: Attempt, requeue: bool) -> None:
        """It occupies nothing any more; `requeue`: its workload waits again."""

    def checkpoint(self, attempt: Attempt, at: int) -> None:
        """It saved its progress at that moment, not after now."""

    def change_host(self, host: int, kind: HostChange) -> None:
        """A host fails, drains or is back."""

    def decide(self, now: int) -> None:
        """One pass."""

    def quiet_until(self) -> int:
        """Before when a pass can't change anything, if nothing is submitted; 0: not known, FOREVER: ever."""
