"""Durations, GPU-time and shares: parsing and wording. Django-free, shared by portal, agent and CLI."""

import re
from datetime import UTC, datetime, timedelta

PPM = 1_000_000
HOUR_SECONDS = 3600
DAY_SECONDS = 86_400
WEEK_SECONDS = 604_800
DURATION_MAX_SECONDS = 10 * 365 * DAY_SECONDS

_WITH_UNIT = re.compile(r"^(?:(\d{1,6})d)?\s*(?:(\d{1,6})h)?\s*(?:(\d{1,6})m(?:in)?)?\s*(?:(\d{1,9})s)?$")
_CLOCK = re.compile(r"^(?:(\d{1,5})-)?(\d{1,6}):([0-5]?\d)(?::([0-5]?\d))?$")
_DAYS_HOURS = re.compile(r"^(\d{1,5})-(\d{1,2})$")


class DurationError(ValueError):
    """The text is not a duration; the message says which forms are."""


def whole_second(moment: datetime) -> datetime:
    """`moment` cut down to its whole second, in UTC: what ledger and scheduler work in."""
    return moment.astimezone(UTC).replace(microsecond=0)


def epoch_seconds(moment: datetime) -> int:
    """Whole seconds since 1970-01-01 UTC."""
    return int(moment.timestamp() // 1)


def moment_of(seconds: int) -> datetime:
    """The aware UTC datetime of whole epoch seconds."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def duration_parse(text: str) -> int:
    """Seconds of `90`, `30m`, `1h`, `1h30m`, `2d`, `HH:MM:SS`, `MM:SS`, `1-12:00:00` or `1-12`.

    A bare number is seconds. Raises DurationError for anything else, or above ten years.
    """
    cleaned = text.strip().lower()
    seconds = _duration_seconds(cleaned)
    if seconds is None:
        raise DurationError(f"{text!r} is not a duration: write 90, 30m, 1h, 1h30m, HH:MM:SS or 1-12:00:00")
    if seconds > DURATION_MAX_SECONDS:
        raise DurationError(f"{text!r} is longer than ten years")
    return seconds


def _duration_seconds(text: str) -> int | None:
    if re.fullmatch(r"\d{1,12}", text):
        return int(text)
    if match := _CLOCK.fullmatch(text):
        days, first, second, third = match.groups()
        if third is None and days is None:
            return int(first) * 60 + int(second)
        hours, minutes, rest = int(first), int(second), int(third or 0)
        return int(days or 0) * DAY_SECONDS + hours * HOUR_SECONDS + minutes * 60 + rest
    if match := _DAYS_HOURS.fullmatch(text):
        return int(match[1]) * DAY_SECONDS + int(match[2]) * HOUR_SECONDS
    if text and (match := _WITH_UNIT.fullmatch(text)):
        days, hours, minutes, rest = (int(group or 0) for group in match.groups())
        return days * DAY_SECONDS + hours * HOUR_SECONDS + minutes * 60 + rest
    return None


def duration_words(seconds: int) -> str:
    """As people say it, at most two units: `45 s`, `12 min`, `2 h 10 min`, `3 d 4 h`."""
    if seconds < 0:
        return f"-{duration_words(-seconds)}"
    units = ((DAY_SECONDS, "d"), (HOUR_SECONDS, "h"), (60, "min"), (1, "s"))
    for position, (size, name) in enumerate(units):
        if seconds >= size:
            parts = [f"{seconds // size} {name}"]
            if position + 1 < len(units) and size > 60:
                next_size, next_name = units[position + 1]
                if rest := seconds % size // next_size:
                    parts.append(f"{rest} {next_name}")
            return " ".join(parts)
    return "0 s"


def duration_exact(seconds: int) -> str:
    """`1-12:00:00` or `02:10:05`: exact, for titles and the CLI's echo."""
    days, rest = divmod(seconds, DAY_SECONDS)
    clock = f"{rest // HOUR_SECONDS:02d}:{rest % HOUR_SECONDS // 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def gpu_hours(gpu_seconds: int) -> float:
    """GPU-hours of whole GPU-seconds, for showing only."""
    return gpu_seconds / HOUR_SECONDS


def percent_words(ppm: int) -> str:
    """A share in parts per million as percent: no decimals from 10 % up, else up to three digits."""
    percent = ppm / 10_000
    if abs(percent) >= 10 or percent == int(percent):
        return f"{percent:.0f} %"
    return f"{percent:.2g} %"
