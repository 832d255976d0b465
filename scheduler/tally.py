"""How many hosts have how many GPUs: what gangs they could hold, without looking at each host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class Tally:
    """Hosts counted by their number of GPUs, of some kind."""

    def __init__(self, gpus: Iterable[int] | None = None) -> None:
        self._hosts: dict[int, int] = {} if gpus is None else dict(Counter(gpus))
        self._slots: dict[int, int] = {}

    def copy(self) -> Tally:
        """The same numbers, apart from now on."""
        other = Tally()
        other._hosts = self._hosts.copy()
        return other

    def move(self, old: int, new: int) -> None:
        """One host has another number now."""
        hosts = self._hosts
        hosts[old] -= 1
        hosts[new] = hosts.get(new, 0) + 1
        if self._slots:
            self._slots.clear()

    def count_slots(self, gpus: int) -> int:
        """Replicas of so many GPUs each that fit on all hosts together."""
        known = self._slots.get(gpus)
        if known is None:
            known = 0
            for size, count in self._hosts.items():
                if size >= gpus:
                    known += size // gpus * count
            self._slots[gpus] = known
        return known

    def remove(self, gpus: int) -> None:
        """One host with that number counts no longer."""
        self._hosts[gpus] -= 1
        self._slots.clear()

    def largest(self) -> int:
        """The most GPUs of one host."""
        return max((size for size, count in self._hosts.items() if count), default=0)
