"""Who takes nothing for a while (R11)."""

from __future__ import annotations

from scheduler.balance import ENDLESS
from scheduler.types import NEVER, EndedTakers, Policy

SHORT_TAKER_SECONDS = 300
SHORT_TAKERS = 3
TAKER_SPAN_SECONDS = 3600
"""R11: three takers in an hour that ended within 5 minutes and before their minimum runtime."""


class Bans:
    """Until when each author takes nothing, from what their takers did, told in the order of their ends.

    For a ban span (policy) from the moment when they cancelled a taker before it started, or
    when the third of their takers in an hour had ended within 5 minutes and its contract.
    """

    def __init__(self, span_seconds: int) -> None:
        self.span_seconds = span_seconds
        self.until: dict[int, int] = {}
        self._short: dict[int, list[int]] = {}
        self._banned: frozenset[int] = frozenset()
        self._good_until = NEVER  # before this moment they are banned, if nobody takes meanwhile

    def count(self, ended_at: int, author: int, running_at: int, contract_seconds: int, cancelled: bool) -> None:
        """One taker has ended."""
        if running_at == NEVER:
            wrong = cancelled
        else:
            short = ended_at - running_at < min(SHORT_TAKER_SECONDS, contract_seconds)
            wrong = short and self._is_third(author, ended_at)
        if wrong and self.span_seconds:  # none is none, though the clock should step back
            self.until[author] = ended_at + self.span_seconds
            self._good_until = NEVER

    def _is_third(self, author: int, ended_at: int) -> bool:
        known = [at for at in self._short.get(author, []) if at > ended_at - TAKER_SPAN_SECONDS]
        self._short[author] = [*known, ended_at]
        return len(known) + 1 >= SHORT_TAKERS

    def find_banned(self, now: int) -> frozenset[int]:
        """R11: authors who take nothing now, which is never before the last time that it was asked."""
        if now >= self._good_until:
            later = {author: until for author, until in self.until.items() if now < until}
            self._banned, self._good_until = frozenset(later), min(later.values(), default=ENDLESS)
        return self._banned

    def find_end(self, now: int) -> int:
        """When the first of them may take again, asked like that; ENDLESS if nobody is banned."""
        self.find_banned(now)
        return self._good_until


def list_bans(takers: EndedTakers, policy: Policy) -> Bans:
    """The bans that follow from the takers of the last two ban spans."""
    bans = Bans(policy.taker_ban_seconds)
    columns = (takers.ended_at, takers.author, takers.running_at, takers.contract_seconds, takers.cancelled)
    for row in sorted(zip(*(column.tolist() for column in columns), strict=True)):
        bans.count(*row)
    return bans
