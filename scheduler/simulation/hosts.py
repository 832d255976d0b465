"""The hosts as the engine counts them: what is there, what is occupied."""

from __future__ import annotations

from scheduler.simulation.setup import HostChange, HostSetup
from scheduler.types import InvariantBroken


class HostTable:
    """GPUs by host index. `free` and `schedulable` count hosts that take attempts."""

    def __init__(self, hosts: HostSetup) -> None:
        self.gpus: list[int] = hosts.gpus.tolist()
        self.busy = [0] * len(self.gpus)
        self.open = [True] * len(self.gpus)
        self.installed = self.schedulable = self.free = sum(self.gpus)
        self.occupied = 0

    def occupy(self, places: dict[int, int]) -> None:
        """GPUs are assigned; a host can't give what it doesn't have."""
        for host, gpus in places.items():
            self.busy[host] += gpus
            self.occupied += gpus
            if self.busy[host] > self.gpus[host]:
                raise InvariantBroken(f"host {host} has {self.busy[host]} GPUs occupied of {self.gpus[host]}")
            if self.open[host]:
                self.free -= gpus

    def release(self, places: dict[int, int]) -> None:
        """They are free again."""
        for host, gpus in places.items():
            self.busy[host] -= gpus
            self.occupied -= gpus
            if self.open[host]:
                self.free += gpus

    def change(self, host: int, kind: HostChange) -> None:
        """A host takes attempts, or no longer does."""
        opens = kind == HostChange.REPAIR
        if opens != self.open[host]:
            sign = 1 if opens else -1
            self.open[host] = opens
            self.schedulable += sign * self.gpus[host]
            self.free += sign * (self.gpus[host] - self.busy[host])
