"""The audit log: who changed what, from what, to what. For operators and administrators."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.timezone import localtime

from portal.common.errors import Forbidden, Refused
from portal.common.models import AuditEntry
from portal.common.units import percent_words
from portal.dashboard.forms import as_json
from portal.dashboard.frame import frame_of
from portal.dashboard.listing import listing_of
from portal.dashboard.pages import PageRequest, page
from portal.projects.models import User

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class FieldChange:
    """One field of an entry, before and after."""

    name: str
    before: str
    after: str


@page
def audit(request: PageRequest) -> HttpResponse:
    """Entries, newest first, filtered by day, actor and action."""
    if not request.user.is_site_wide:
        raise Forbidden("The audit log is for operators and administrators.")
    first, last = _day(request, "from"), _day(request, "to")
    if first and last and last < first:
        raise Refused(f"to ({last}) lies before from ({first}).", attr="to")
    chosen = {
        "from": request.GET.get("from", ""),
        "to": request.GET.get("to", ""),
        "actor": request.GET.get("actor", "")[:150].replace("\0", ""),
        "action": request.GET.get("action", "")[:60].replace("\0", ""),
    }
    rows = AuditEntry.objects.select_related("actor")
    if first:
        rows = rows.filter(at__gte=_midnight(first))
    if last:
        rows = rows.filter(at__lt=_midnight(last + timedelta(days=1)))
    if chosen["actor"]:
        rows = rows.filter(actor__in=User.objects.filter(username=chosen["actor"]))
    if chosen["action"]:
        rows = rows.filter(action=chosen["action"])
    listing = listing_of(request, rows, sorts={"when": "at"}, default="-when", count_most=10_000)
    listing.rows = [(entry, changes_of(entry)) for entry in listing.rows]
    actions = AuditEntry.objects.order_by("action").values_list("action", flat=True).distinct()
    context = {
        "listing": listing,
        "actions": list(actions),
        "chosen": chosen,
        "filtered": any(chosen.values()),
        "now": frame_of(request).now,
    }
    return render(request, "dashboard/audit.html", context)


def changes_of(entry: AuditEntry) -> list[FieldChange]:
    """The fields that an entry changed, in words."""
    names = sorted({*entry.before, *entry.after})
    before, after = ([_words(name, side.get(name)) for name in names] for side in (entry.before, entry.after))
    return [FieldChange(_label(name), *words) for name, *words in zip(names, before, after, strict=True)]


LABELS = {
    "share_ppm": "share",
    "gpus": "GPUs",
    "min_runtime_seconds": "minimum runtime (s)",
    "is_superuser": "administrator",
    "is_operator": "operator",
    "is_staff": "may open the administration",
    "is_active": "may sign in",
}


def _label(name: str) -> str:
    """A field's name as people say it; a project's path stays as it is."""
    if name in LABELS or "/" in name:
        return LABELS.get(name, name)
    return name.removesuffix("_at").removeprefix("is_").replace("_", " ")


def _words(name: str, value: Any) -> str:
    if value is None or value == "":
        return "–"
    if name == "share_ppm" and isinstance(value, int):
        return percent_words(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "–"
    if isinstance(value, str) and MOMENT.fullmatch(value):
        return f"{localtime(datetime.fromisoformat(value)):%-d %b %Y %H:%M:%S}"
    if isinstance(value, dict) and "share_ppm" in value:
        cap = value.get("burst_gpus")
        return percent_words(value["share_ppm"]) + (f", at most {cap} GPUs" if cap is not None else "")
    return value if isinstance(value, str) else as_json(value)


def _day(request: PageRequest, name: str) -> date | None:
    text = request.GET.get(name, "")
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Refused(f"{name} is {text[:40]!r}; it must be a day, like 2026-11-02.", attr=name) from None


def _midnight(day: date) -> datetime:
    """The day's beginning in the site's zone."""
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(settings.SITE_ZONE)).astimezone(UTC)
