"""How many hosts have how many GPUs: what gangs they could hold, without looking at each host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping


class Tally:
    """Hosts counted by their number of GPUs, of some kind."""

    def __init__(self, gpus: Iterable[int] | Mapping[int, int] = ()) -> None:
        self._hosts = Counter(gpus)
        self._slots: dict[int, int] = {}

    def copy(self) -> Tally:
        """The same numbers, apart from now on."""
        return Tally(self._hosts)

    def move(self, old: int, new: int) -> None:
        """One host has another number now."""
        hosts = self._hosts
        if hosts[old] == 1:
            del hosts[old]
        else:
            hosts[old] -= 1
        hosts[new] += 1
        self._slots.clear()

    def count_slots(self, gpus: int) -> int:
        """Replicas of so many GPUs each that fit on all hosts together."""
        known = self._slots.get(gpus)
        if known is None:
            known = self._slots[gpus] = sum(size // gpus * count for size, count in self._hosts.items() if size >= gpus)
        return known

    def remove(self, gpus: int) -> None:
        """One host with that number counts no longer."""
        self._hosts[gpus] -= 1
        self._slots.clear()

    def largest(self) -> int:
        """The most GPUs of one host."""
        return max((size for size, count in self._hosts.items() if count), default=0)
