"""What a forecast of a balance says: the finding as a title, and why it goes no further. No ORM."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from portal.budgets.selectors import ShareStep
from portal.common.units import duration_words, moment_of, percent_words
from portal.dashboard.budget_units import percent_text
from portal.dashboard.chart_axes import moment_words
from portal.usage.selectors import Forecast, Stop

ASSUMED = "Hosts are taken to stay as they are; new starts lower it, time given back after faults raises it."
LATER_SHOWN = 3


def balance_title(name: str, now_ppm: int | None, forecast: Forecast | None, zone: ZoneInfo) -> str:
    """`Vision's balance is 12 %: if what runs goes on, it reaches 0 on 1 Dec 2026 16:40`."""
    if forecast is not None and forecast.points:
        now_ppm = forecast.points[0].quiet_ppm
    if now_ppm is None:
        return f"{name} has no balance here: it has no budget"
    stands = f"{name}’s balance is {rounded(now_ppm)}"
    return f"{stands}: {_course_words(forecast, zone)}" if forecast is not None and forecast.points else stands


def _course_words(forecast: Forecast, zone: ZoneInfo) -> str:
    when = moment_words(moment_of(forecast.stops_at), zone)
    lowest = min(point.going_ppm for point in forecast.points)
    if forecast.stop == Stop.EXHAUSTED:
        return f"if what runs goes on, it lasts until about {when}"
    if forecast.stop == Stop.RECOVERS:
        return f"work is funded again from about {when} on, if nothing more starts"
    if forecast.stop == Stop.NO_BUDGET:
        return f"its budget ends on {when}"
    return f"if what runs goes on, it stays at {rounded(lowest)} or more until {when}"


def rounded(ppm: int) -> str:
    """`−3 %`: as titles say it; the table is exact."""
    return percent_words(ppm).replace("-", "−")


def stop_words(
    forecast: Forecast | None, names: Mapping[int, str], own: int, zone: ZoneInfo, lookback_seconds: int
) -> str:
    """Why the range stops where it does, and what it takes for granted."""
    if forecast is None:
        return "The root holds the whole cluster: nothing is decided by its balance, so nothing is forecast."
    whose = "its own" if forecast.project == own else f"{names.get(forecast.project, 'a project above')}’s"
    when = moment_words(moment_of(forecast.stops_at), zone)
    if not forecast.points:
        return (
            f"There is no forecast: {'it' if forecast.project == own else names[forecast.project]} has no budget now."
        )
    why = {
        Stop.EXHAUSTED: f"{whose} balance would be 0: what runs past its minimum runtime lapses then, and what starts "
        "after that is not known",
        Stop.RECOVERS: f"{whose} balance is above 0 again: what starts then is not known",
        Stop.NO_BUDGET: f"{whose} budget ends",
        Stop.WINDOW: f"nothing that is known now counts any more after the lookback window of "
        f"{duration_words(lookback_seconds)}",
    }[forecast.stop]
    return f"The range stops on {when}: {why}. {ASSUMED}"


def later_words(steps: Sequence[ShareStep], project_id: int, parent: str, now: datetime, zone: ZoneInfo) -> str:
    """The known changes of its budget ahead: `Decided already: 25 % of Lab from 2 Dec 2026 12:00 on`."""
    ahead = sorted(
        (step for step in steps if step.project_id == project_id and step.at > now), key=lambda step: step.at
    )
    if not ahead:
        return ""
    parts = [f"{percent_text(step.share_ppm)} % of {parent} from {moment_words(step.at, zone)} on" for step in ahead]
    more = f", and {len(parts) - LATER_SHOWN} more" if len(parts) > LATER_SHOWN else ""
    return f"Decided already: {'; '.join(parts[:LATER_SHOWN])}{more}."
