"""Axes in people's words: time in the site's zone, durations on a log scale. Pure.

Time is drawn on a linear axis of epoch seconds with our own ticks, because plotly's dates know no zones: over a clock
change their local labels would lie.
"""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from portal.common.units import DAY_SECONDS, HOUR_SECONDS, duration_words

DURATION_TICKS = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 28 * 86_400)
MINUTELY_UP_TO_SECONDS = 3 * HOUR_SECONDS
HOURLY_UP_TO_SECONDS = 3 * DAY_SECONDS
DAILY_STEPS = ((11, 1), (35, 5), (70, 14))  # up to so many days, a tick every so many


def moment_words(moment: datetime, zone: ZoneInfo) -> str:
    """`29 Nov 2026 14:05` in the zone."""
    return f"{moment.astimezone(zone):%-d %b %Y %H:%M}"


def time_axis(start_at: datetime, end_at: datetime, zone: ZoneInfo) -> dict[str, Any]:
    """Range and ticks of an axis of epoch seconds."""
    ticks = list(time_ticks(start_at, end_at, zone))
    return {
        "type": "linear",
        "range": [start_at.timestamp(), end_at.timestamp()],
        "tickmode": "array",
        "tickvals": [moment.timestamp() for moment, _ in ticks],
        "ticktext": [words for _, words in ticks],
    }


def time_ticks(start_at: datetime, end_at: datetime, zone: ZoneInfo) -> Iterator[tuple[datetime, str]]:
    """Round local moments inside the range: minutes, hours up to three days, days, first days of months."""
    seconds = (end_at - start_at).total_seconds()
    if seconds < MINUTELY_UP_TO_SECONDS:
        yield from _minute_ticks(start_at, end_at, zone, every=next(m for m in (1, 2, 5, 10, 30) if seconds <= m * 480))
    elif seconds <= HOURLY_UP_TO_SECONDS:
        yield from _hour_ticks(start_at, end_at, zone, every=_hours_between(seconds))
    elif (every := _days_between(seconds / DAY_SECONDS)) is not None:
        yield from _day_ticks(start_at, end_at, zone, every=every)
    else:
        yield from _month_ticks(start_at, end_at, zone, every=max(1, round(seconds / DAY_SECONDS / 30 / 8)))


def _minute_ticks(
    start_at: datetime, end_at: datetime, zone: ZoneInfo, *, every: int
) -> Iterator[tuple[datetime, str]]:
    step = 60 * every
    for seconds in range(-(-int(start_at.timestamp()) // step) * step, int(end_at.timestamp()) + 1, step):
        moment = datetime.fromtimestamp(seconds, UTC)
        yield moment, f"{moment.astimezone(zone):%H:%M}"


def _hours_between(seconds: float) -> int:
    return next((every for limit, every in ((7, 1), (14, 2), (26, 4), (50, 8)) if seconds <= limit * HOUR_SECONDS), 12)


def _days_between(days: float) -> int | None:
    return next((every for limit, every in DAILY_STEPS if days <= limit), None)


def _hour_ticks(start_at: datetime, end_at: datetime, zone: ZoneInfo, *, every: int) -> Iterator[tuple[datetime, str]]:
    moment = (start_at.astimezone(UTC) + timedelta(hours=1, microseconds=-1)).replace(minute=0, second=0, microsecond=0)
    while moment <= end_at:
        local = moment.astimezone(zone)
        if local.hour % every == 0:
            yield moment, f"{local:%-d %b}" if local.hour == 0 else f"{local:%H:%M}"
        moment += timedelta(hours=1)


def _day_ticks(start_at: datetime, end_at: datetime, zone: ZoneInfo, *, every: int) -> Iterator[tuple[datetime, str]]:
    day = start_at.astimezone(zone).date()
    while (midnight := _midnight(day, zone)) <= end_at:
        if midnight >= start_at and day.toordinal() % every == 0:
            yield midnight, f"{day:%a %-d}" if every == 1 else f"{day:%-d %b}"
        day += timedelta(days=1)


def _month_ticks(start_at: datetime, end_at: datetime, zone: ZoneInfo, *, every: int) -> Iterator[tuple[datetime, str]]:
    day = start_at.astimezone(zone).date().replace(day=1)
    while (midnight := _midnight(day, zone)) <= end_at:
        if midnight >= start_at and (day.month - 1) % every == 0:
            yield midnight, f"{day:%b %Y}" if day.month == 1 else f"{day:%b}"
        day = (day + timedelta(days=32)).replace(day=1)


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def duration_axis(longest_seconds: float) -> dict[str, Any]:
    """A log axis of seconds from 1 s up, labelled as people say durations."""
    top = max(60.0, longest_seconds) * 1.15
    ticks = [seconds for seconds in DURATION_TICKS if seconds <= top]
    return {
        "type": "log",
        "range": [0, math.log10(top)],
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": ["1 s or less", *(duration_words(seconds) for seconds in ticks[1:])],
    }
