"""Who may be taken (R9): one tiny named function a rule. Which victims then go first: `victims.py`.

Unallocated attempts can be taken by every funded start but for a few exceptions; funded ones
past their minimum only by those who hold a licence for them. A licence is judged at the
balances of the moment when the asker is considered.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.tally import Tally
from scheduler.victims import MANY


@dataclass(slots=True)
class Clock:
    """The moment of the decision, and R10's cap on the time that an attempt may lose."""

    now: int
    lost_cap_seconds: int

    def count_lost(self, gpus: int, since: int) -> int:
        """R10's loss of a whole gang in GPU-seconds: time since its last checkpoint, at most the cap.

        Without a checkpoint: since it runs; 0 if it doesn't run yet or the clock stepped back.
        """
        return gpus * min(max(self.now - since, 0), self.lost_cap_seconds) if since >= 0 else 0


class Victim:
    """An attempt that can be taken, as a whole gang.

    `attempt`: its index, in order of attempt ids. `since`: when it last saved its progress or began to run;
    NEVER: it doesn't run yet. `on_host`: GPUs by host index. `path`: nodes that it is charged to, root excepted.
    `funded`: past its minimum runtime, charged.
    """

    def __init__(
        self,
        attempt: int,
        project: int,
        priority: int,
        lapsed: bool,
        gpus: int,
        since: int,
        clock: Clock,
        on_host: dict[int, int],
        path: tuple[int, ...] = (),
        funded: bool = False,
    ) -> None:
        self.attempt, self.project, self.priority, self.lapsed = attempt, project, priority, lapsed
        self.gpus, self.since, self.clock, self.on_host = gpus, since, clock, on_host
        self.path, self.funded = path, funded

    def is_like(self, later: Victim) -> bool:
        """Whether nothing about the attempt has changed since."""
        same = self.funded == later.funded and self.lapsed == later.lapsed
        return same and self.since == later.since and self.on_host == later.on_host

    @property
    def lost_gpu_seconds(self) -> int:
        """What the whole gang loses."""
        return self.clock.count_lost(self.gpus, self.since)

    @property
    def cost(self) -> int:
        """What taking it costs: GPU-time lost first, then the number of victims."""
        return self.clock.count_lost(self.gpus, self.since) * MANY + 1


class Asker:
    """A funded start that asks for GPUs."""

    def __init__(
        self, project: int, priority: int, express: bool, replicas: int, gpus: int, led: tuple[int, ...] = ()
    ) -> None:
        self.project, self.priority, self.express = project, priority, express
        self.replicas, self.gpus = replicas, gpus  # per replica
        self.led = led  # branches that it leads even when charged for its contract (R9 c)


class Licence:
    """What one asker may take: all unallocated attempts but the barred, and the funded that it covers.

    Covered are all below the `led` nodes, and the `named`.
    """

    def __init__(self, barred: frozenset[int], led: frozenset[int], named: frozenset[int]) -> None:
        self.barred, self.led, self.named = barred, led, named
        self.rooms: dict[frozenset[int], Tally] = {}  # by closed hosts, see Pool.count_room
        self.counted_at = -1  # the change of the pool's tables for which they are known

    def covers(self, victim: Victim) -> bool:
        """R9 (b), (c): whether this funded attempt may be taken."""
        return victim.attempt in self.named or may_take_less_deserving(self.led, victim)


def may_take_unallocated(asker: Asker, victim: Victim) -> bool:
    """R9 (a): unallocated work, except lapsed work of its own project of like or higher priority.

    An express start may take that too.
    """
    own = victim.lapsed and victim.project == asker.project and victim.priority >= asker.priority
    return not victim.funded and (asker.express or not own)


def may_take_lower_priority(asker: Asker, victim: Victim) -> bool:
    """R9 (b): past-minimum work of its own project that has lower priority."""
    return victim.project == asker.project and victim.priority < asker.priority


def may_take_less_deserving(led: frozenset[int], victim: Victim) -> bool:
    """R9 (c): past-minimum funded work of a branch that the asker's own still leads by the margin.

    Compared where the two paths part, after the asker is charged: `Funds.list_led` has found them.
    """
    return not led.isdisjoint(victim.path)
