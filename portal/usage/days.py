"""Closed days of the ledger, packed: a long range is read as a row a day instead of a row a segment.

A day (UTC) holds what ended in it. It is packed when a range that ends after it is first read; a trigger drops it,
in the transaction that changes any row of it, and it is packed anew at the next reading: so that what is read is
what the rows themselves say (R3). Writers share an advisory lock of the day that they change; who packs a day
needs it alone, before it reads, and leaves the day unpacked where it can't have it at once.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import numpy as np
from django.db import connection, transaction

from portal.clusters.models import Cluster
from portal.common.units import DAY_SECONDS, epoch_seconds, moment_of
from portal.usage.arrays import IntArray
from portal.usage.models import LedgerDay
from portal.usage.packing import Packed, chosen, pack, unpack

_LOCKED = """
SELECT day FROM unnest(%(days)s::date[]) AS asked(day)
WHERE day < (now() AT TIME ZONE 'UTC')::date
  AND pg_try_advisory_xact_lock(usage_day_lock(%(kind)s, %(cluster)s), day - date '2000-01-01')
"""
EPOCH = date(1970, 1, 1)

Reader = Callable[[datetime, datetime], Packed]
"""Reads what ended in [first, last): columns `began_at` and `ended_at` among them, as epoch seconds."""


class Days(NamedTuple):
    """The packed days that a range needs, and from when on the rows themselves are to be read, by their end."""

    parts: list[Packed]
    rows_from: datetime


def days_read(*, cluster: Cluster, kind: str, start: datetime, end: datetime, reader: Reader) -> Days:
    """What reaches into [start, end) and ended before `rows_from`, packed by day. `end` is at most now.

    Days from that of `start` up to that of `end` are packed if they are not yet; later ones are used as far as
    they are there without a gap.
    """
    first, last = _day_of(start), _day_of(end)
    found = _stored(cluster, kind, first, end)
    missing = [day for day in _days_between(first, last) if day not in found]
    if missing:
        found |= _packed_anew(cluster, kind, missing, reader)
    parts, day = [], first
    while day in found:
        if (part := found[day]) is not None:
            parts.append(part)
        day += timedelta(days=1)
    return Days(parts, _moment(day))


def _stored(cluster: Cluster, kind: str, first: date, end: datetime) -> dict[date, Packed | None]:
    """Day -> what is packed of it; None: nothing in it began before `end`."""
    sql = (
        "SELECT day, CASE WHEN first_at < %(end)s THEN data END FROM usage_ledgerday"
        " WHERE cluster_id = %(cluster)s AND kind = %(kind)s AND day >= %(first)s"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, {"cluster": cluster.pk, "kind": kind, "first": first, "end": end})
        return {day: None if data is None else unpack(data) for day, data in cursor.fetchall()}


def _packed_anew(cluster: Cluster, kind: str, missing: Sequence[date], reader: Reader) -> dict[date, Packed | None]:
    """Pack those days that are over, and of which nobody is changing a row; those, as read."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_LOCKED, {"days": list(missing), "kind": kind, "cluster": cluster.pk})
            mine = sorted(day for (day,) in cursor.fetchall())
        if not mine:
            return {}
        rows = reader(_moment(mine[0]), _moment(mine[-1] + timedelta(days=1)))
        parts = dict(zip(mine, _split(rows, mine), strict=True))
        made = [_row(cluster, kind, day, part) for day, part in parts.items()]
        LedgerDay.objects.bulk_create(made, ignore_conflicts=True)
    return dict(parts)


def _split(rows: Packed, days: Sequence[date]) -> list[Packed]:
    """The rows of each day, by their end."""
    day_of_row: IntArray = rows.columns["ended_at"] // DAY_SECONDS
    order = np.argsort(day_of_row, kind="stable")
    numbers = np.array([(day - EPOCH).days for day in days], dtype=np.int64)
    lows = np.searchsorted(day_of_row[order], numbers, side="left")
    highs = np.searchsorted(day_of_row[order], numbers, side="right")
    return [chosen(rows, order[low:high]) for low, high in zip(lows, highs, strict=True)]


def _row(cluster: Cluster, kind: str, day: date, part: Packed) -> LedgerDay:
    began = part.columns["began_at"]
    first_at = moment_of(int(began.min())) if len(began) else None
    return LedgerDay(cluster=cluster, kind=kind, day=day, first_at=first_at, rows=len(began), data=pack(part))


def _day_of(moment: datetime) -> date:
    return EPOCH + timedelta(days=epoch_seconds(moment) // DAY_SECONDS)


def _days_between(first: date, last: date) -> list[date]:
    return [first + timedelta(days=number) for number in range((last - first).days)]


def _moment(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
