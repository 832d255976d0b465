"""What a fatal fault does to an attempt's time on one host (R15). Pure: pieces in, pieces out.

Up to the fault, the charged seconds since the last checkpoint become refunded: occupied, not charged. From the fault
on nothing is charged: on a lost host there is no such time, elsewhere the attempt is stopping.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from portal.workloads.models import CHARGED_STANDINGS, Standing


class Piece(NamedTuple):
    """A stretch of time on one host with one standing; `end_at` None: it goes on."""

    start_at: datetime
    end_at: datetime | None
    standing: str


class Fault(NamedTuple):
    """When it happened, and what of the charged time before it is given back: since when, at most how much."""

    at: datetime
    refund_since: datetime
    refund_seconds: int


def pieces_faulted(pieces: Sequence[Piece], fault: Fault, *, lost: bool) -> list[Piece]:
    """The pieces, in order and without gaps, as they stand after the fault; on a lost host they end with it."""
    before = [Piece(start, _earlier(end, fault.at), standing) for start, end, standing in pieces if start < fault.at]
    after = [
        Piece(max(start, fault.at), end, Standing.STOPPING) for start, end, _ in pieces if end is None or end > fault.at
    ]
    return merged([*_refunded(before, fault), *([] if lost else after)])


def _earlier(end: datetime | None, at: datetime) -> datetime:
    return at if end is None else min(end, at)


def _refunded(before: Sequence[Piece], fault: Fault) -> list[Piece]:
    """The last charged seconds of what was before, given back; cut where the refund begins."""
    left = timedelta(seconds=fault.refund_seconds)
    done: list[Piece] = []
    for start, end, standing in reversed(before):
        assert end is not None  # noqa: S101 - what was before the fault was cut there
        since = end if standing not in CHARGED_STANDINGS else min(max(start, fault.refund_since, end - left), end)
        left -= end - since
        done += [Piece(since, end, Standing.REFUNDED), Piece(start, since, standing)]
    return [piece for piece in reversed(done) if piece.start_at != piece.end_at]


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbours of one standing become one."""
    result: list[Piece] = []
    for start, end, standing in pieces:
        if result and result[-1].standing == standing:
            start = result.pop().start_at
        result.append(Piece(start, end, standing))
    return result
