"""The time range of a page: `?range=7d` ends now, `?from=…&to=…` stands still. What can't be is refused by name."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpRequest

from portal.common.errors import Refused
from portal.common.units import DAY_SECONDS, HOUR_SECONDS, WEEK_SECONDS, whole_second
from portal.dashboard.charts import ChartFrame
from portal.dashboard.frame import Frame, frame_of

SPAN_MAX_SECONDS = 5 * 366 * DAY_SECONDS
STEPS_MAX = 64
STEP_SECONDS = (300, 900, 1800, HOUR_SECONDS, 3 * HOUR_SECONDS, 6 * HOUR_SECONDS, 12 * HOUR_SECONDS, DAY_SECONDS)
TEXT_MAX = 40


@dataclass(frozen=True)
class Span:
    """[start, end), in words, and whether it is one of the ranges that end now."""

    start_at: datetime
    end_at: datetime
    words: str
    fixed: bool

    @property
    def seconds(self) -> int:
        return int((self.end_at - self.start_at).total_seconds())

    @property
    def step_seconds(self) -> int:
        """The length of a bar: so that at most 64 of them fit."""
        fitting = (step for step in STEP_SECONDS if self.seconds <= step * STEPS_MAX)
        return next(fitting, WEEK_SECONDS * -(-self.seconds // (STEPS_MAX * WEEK_SECONDS)))

    @property
    def before(self) -> tuple[datetime, datetime]:
        """The equally long range before."""
        return self.start_at - timedelta(seconds=self.seconds), self.start_at


def zone() -> ZoneInfo:
    return ZoneInfo(settings.SITE_ZONE)


def span_of(request: HttpRequest) -> Span:
    """What the address asks for; `from` alone runs to now, a date without a time is the site's local day."""
    frame = frame_of(request)
    given_from, given_to = request.GET.get("from", ""), request.GET.get("to", "")
    if not given_from and not given_to:
        start = frame.now - timedelta(seconds=frame.range.seconds)
        return _span(frame, start, frame.now, f"the {frame.range.words}", fixed=False)
    end = moment_parse(given_to, "to", day_end=True) if given_to else frame.now
    if not given_from:
        raise Refused("to is given without from; give both, such as from=2026-11-01&to=2026-11-30.", attr="from")
    start = moment_parse(given_from, "from")
    if end <= start:
        raise Refused(f"to ({given_to[:TEXT_MAX] or 'now'}) is not after from ({given_from[:TEXT_MAX]}).", attr="to")
    if (end - start).total_seconds() > SPAN_MAX_SECONDS:
        raise Refused("The range from … to may be at most five years.", attr="from")
    here = zone()
    words = f"{start.astimezone(here):%-d %b %Y %H:%M} to {end.astimezone(here):%-d %b %Y %H:%M}"
    return _span(frame, start, end, words, fixed=True)


def _span(frame: Frame, start: datetime, end: datetime, words: str, *, fixed: bool) -> Span:
    """The accounted part of [start, end), said where it is not the whole."""
    begun, is_cut = frame.accounted_part(start, end)
    since = f", accounted from {begun.astimezone(zone()):%-d %b %H:%M}" if is_cut else ""
    return Span(begun, end, words + since, fixed)


def moment_parse(text: str, name: str, *, day_end: bool = False) -> datetime:
    """A date, or a date and time; without an offset it is the site's local time."""
    try:
        if len(text) == len("2026-11-29"):
            day = date.fromisoformat(text) + timedelta(days=1 if day_end else 0)
            moment = datetime.combine(day, time.min, zone())
        else:
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=zone())
        return whole_second(moment)
    except (ValueError, OverflowError):
        sentence = f"{name} is {text[:TEXT_MAX]!r}; write a date such as 2026-11-29, or 2026-11-29T08:00."
        raise Refused(sentence, attr=name) from None


def chart_frame(request: HttpRequest, span: Span, **more: str) -> ChartFrame:
    """What the charts of a page share; the address holds the range as moments, so that it shows the same again."""
    frame = frame_of(request)
    query = {
        "cluster": frame.cluster.name if frame.cluster else "",
        "from": span.start_at.isoformat(),
        "to": span.end_at.isoformat(),
        **more,
    }
    kept = urlencode({name: value for name, value in query.items() if value})
    return ChartFrame(span.start_at, span.end_at, zone(), frame.now, f"{request.path}?{kept}")
