"""The audit log: who changed what, from what, to what. For operators and administrators."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from portal.common.audit_export import FILE_NAME, audit_csv
from portal.common.csv_text import CONTENT_TYPE
from portal.common.errors import Refused
from portal.common.models import AuditEntry
from portal.dashboard.audit_words import changes_of
from portal.dashboard.frame import frame_of
from portal.dashboard.listing import listing_of
from portal.dashboard.pages import PageRequest, page
from portal.projects.filters import SYSTEM
from portal.projects.models import User
from portal.projects.selectors import auditor_require

TEXTS = {"actor": 150, "action": 60, "kind": 40, "thing": 300}


@page
def audit(request: PageRequest) -> HttpResponseBase:
    """Entries, newest first, filtered by day, person, action and thing; `csv` gives all that fit."""
    auditor_require(user=request.user)
    chosen = {name: request.GET.get(name, "")[:longest].replace("\0", "") for name, longest in TEXTS.items()}
    rows = _within(request, _fitting(AuditEntry.objects.order_by("-at", "-pk"), chosen))
    if request.GET.get("csv"):
        answer = StreamingHttpResponse(audit_csv(rows), content_type=CONTENT_TYPE)
        answer["Content-Disposition"] = f'attachment; filename="{FILE_NAME}"'
        return answer
    listing = listing_of(
        request, rows.select_related("actor"), sorts={"when": "at"}, default="-when", count_most=10_000
    )
    listing.rows = [(entry, changes_of(entry)) for entry in listing.rows]
    chosen |= {name: request.GET.get(name, "") for name in ("from", "to")}
    context = {
        "listing": listing,
        "actions": _known("action"),
        "kinds": _known("target_type"),
        "chosen": chosen,
        "system": SYSTEM,
        "filtered": any(chosen.values()),
        "now": frame_of(request).now,
    }
    return render(request, "dashboard/audit.html", context)


def _known(column: str) -> list[str]:
    return list(AuditEntry.objects.order_by(column).values_list(column, flat=True).distinct())


def _fitting(rows: QuerySet[AuditEntry], chosen: dict[str, str]) -> QuerySet[AuditEntry]:
    if chosen["actor"]:
        people = User.objects.filter(username=chosen["actor"])
        rows = rows.filter(actor=None) if chosen["actor"] == SYSTEM else rows.filter(actor__in=people)
    if chosen["action"]:
        rows = rows.filter(action=chosen["action"])
    if chosen["kind"]:
        rows = rows.filter(target_type=chosen["kind"])
    return rows.filter(target_name__icontains=chosen["thing"]) if chosen["thing"] else rows


def _within(request: PageRequest, rows: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
    first, last = _day(request, "from"), _day(request, "to")
    if first and last and last < first:
        raise Refused(f"to ({last}) lies before from ({first}).", attr="to")
    if first:
        rows = rows.filter(at__gte=_midnight(first))
    return rows.filter(at__lt=_midnight(last + timedelta(days=1))) if last else rows


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
