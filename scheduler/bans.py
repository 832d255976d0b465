"""Who takes nothing for a while (R11)."""

from __future__ import annotations

from scheduler.types import NEVER, EndedTakers, Policy

SHORT_TAKER_SECONDS = 300
SHORT_TAKERS = 3
TAKER_SPAN_SECONDS = 3600
"""R11: three takers in an hour that ended within 5 minutes and before their minimum runtime."""


def list_bans(takers: EndedTakers, policy: Policy) -> dict[int, int]:
    """R11: until when each author takes nothing.

    For a ban span (policy) from the moment when they cancelled a taker before it started, or
    when the third of their takers in an hour had ended within 5 minutes and its contract.
    """
    until: dict[int, int] = {}
    short: dict[int, list[int]] = {}
    columns = (takers.ended_at, takers.author, takers.running_at, takers.contract_seconds, takers.cancelled)
    for ended, author, running, contract, cancelled in sorted(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        if running == NEVER:
            wrong = cancelled
        else:
            wrong = ended - running < min(SHORT_TAKER_SECONDS, contract) and _is_third(short, author, ended)
        if wrong:
            until[author] = ended + policy.taker_ban_seconds
    return until


def _is_third(short: dict[int, list[int]], author: int, ended: int) -> bool:
    short[author] = [at for at in short.get(author, []) if at > ended - TAKER_SPAN_SECONDS] + [ended]
    return len(short[author]) >= SHORT_TAKERS


def find_banned(bans: dict[int, int], now: int) -> frozenset[int]:
    """Authors who take nothing now."""
    return frozenset(author for author, until in bans.items() if now < until)
