"""A workload's life as bars 1000 units wide: waits, standings, each attempt on its own line. No ORM."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from portal.common.units import duration_words
from portal.dashboard.states import STATE_WORDS

WIDTH = 1000.0
LEAST_WIDTH = 2.0
TICKS = 5
TICK_STEPS_SECONDS = (
    *(1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 2_592_000),
)


@dataclass(frozen=True)
class Bar:
    """A stretch on the axis."""

    key: str
    x: str
    width: str
    words: str


@dataclass(frozen=True)
class Line:
    """One attempt's line."""

    label: str
    bars: list[Bar]
    words: str


@dataclass(frozen=True)
class Tick:
    """A mark on the axis: where, and the moment."""

    x: str
    at: datetime


@dataclass(frozen=True)
class Timeline:
    """What the template draws."""

    lines: list[Line]
    ticks: list[Tick]
    start_at: datetime
    end_at: datetime
    is_dated: bool
    is_short: bool


def timeline_of(
    *, submitted_at: datetime, ended_at: datetime | None, stories: Sequence[Any], now: datetime
) -> Timeline:
    """The picture from first submit to the end, or to `now`."""
    end = max(ended_at or now, submitted_at + timedelta(seconds=1))
    scale = WIDTH / (end - submitted_at).total_seconds()

    def bar(key: str, start: datetime, stop: datetime | None, word: str) -> Bar:
        stop = min(stop or end, end)
        seconds = max((stop - start).total_seconds(), 0)
        x = min(max((start - submitted_at).total_seconds() * scale, 0), WIDTH - LEAST_WIDTH)
        width = max(seconds * scale, LEAST_WIDTH)
        return Bar(key, f"{x:.2f}", f"{min(width, WIDTH - x):.2f}", f"{word} {duration_words(int(seconds))}")

    lines = [_line(story, bar) for story in stories]
    if ended_at is None and (not stories or stories[-1].attempt.ended_at is not None):
        queued = stories[-1].attempt.ended_at if stories else submitted_at
        lines.append(Line("Waits", [bar("wait", queued, None, "Waits")], "in the queue"))
    ticks = _ticks(submitted_at, end, scale)
    span = (end - submitted_at).total_seconds()
    return Timeline(lines, ticks, submitted_at, end, is_dated=span > 64_800, is_short=span < 300)


def _line(story: Any, bar: Any) -> Line:
    attempt = story.attempt
    bars = []
    first = story.stretches[0][1] if story.stretches else attempt.ended_at
    waited_until = min(moment for moment in (attempt.decided_at, first) if moment is not None)
    if attempt.queued_at < waited_until:
        bars.append(bar("wait", attempt.queued_at, waited_until, "Waited"))
    if first is None or first > attempt.decided_at:
        bars.append(bar("held", attempt.decided_at, first, "GPUs held for it"))
    bars += [bar(key, start, stop, STATE_WORDS[key]) for key, start, stop in story.stretches]
    outcome = STATE_WORDS.get(attempt.outcome or attempt.state, attempt.state)
    return Line(f"Attempt {attempt.number}", bars, outcome)


def _ticks(start: datetime, end: datetime, scale: float) -> list[Tick]:
    span = (end - start).total_seconds()
    step = next((step for step in TICK_STEPS_SECONDS if span / step <= TICKS), TICK_STEPS_SECONDS[-1])
    first = int(start.timestamp()) // step * step + step
    moments = range(first, int(end.timestamp()) + 1, step)
    return [
        Tick(f"{(at - start.timestamp()) * scale:.2f}", datetime.fromtimestamp(at, tz=start.tzinfo)) for at in moments
    ]
