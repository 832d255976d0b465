"""One project: allotment against use, owed and delivered, balance and where it goes, waits, who used it, children."""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from portal.clusters.models import Cluster
from portal.common.units import HOUR_SECONDS
from portal.dashboard.chart_data import authors_of, owed_steps
from portal.dashboard.chart_delivery import owed_and_delivered
from portal.dashboard.charts import ChartFrame
from portal.dashboard.csv_export import csv_of
from portal.dashboard.frame import Frame, frame_of
from portal.dashboard.pages import page
from portal.dashboard.people import person_of
from portal.dashboard.project_parts import (
    balance_chart_of,
    children_chart,
    children_of,
    people_chart,
    use_of,
    waits_of,
)
from portal.dashboard.project_tree import TreeRow, tree_rows
from portal.dashboard.ranges import Span, chart_frame, span_of
from portal.dashboard.views_budgets import ancestors
from portal.projects.models import Project
from portal.projects.selectors import project_by_path, user_may
from portal.usage.selectors import (
    AttemptColumns,
    Delivery,
    Forecast,
    HourlyDelivery,
    SegmentColumns,
    delivery_by_hour,
    forecast_read,
    lookback_start,
    utilization_reason,
    window_attempts,
    window_segments,
)


@dataclass(frozen=True)
class _Facts:
    """What every part of the page is computed from, read once."""

    ledger: SegmentColumns
    attempts: AttemptColumns
    hourly: HourlyDelivery
    forecast: Forecast | None
    rows: dict[int, TreeRow]


@page
def project(request: HttpRequest, path: str) -> HttpResponseBase:
    """One project on the cluster, over the range."""
    found, frame, span = project_by_path(user=person_of(request), path=path), frame_of(request), span_of(request)
    context: dict[str, Any] = {"project": found, "ancestors": ancestors(found), "span": span}
    if frame.cluster is None:
        return render(request, "dashboard/project_none.html", context)
    facts, charts_at = _facts(request, frame, span, found), chart_frame(request, span)
    context |= _parts(frame, span, found, facts, charts_at)
    if key := request.GET.get("csv"):
        tables = [people_chart(context["people"]), children_chart(context["children"])]
        pictures = [context["use"].chart, context["owed"], context["balance"], context["waits"].chart]
        return csv_of([*pictures, *tables], key)
    context["may_submit"] = user_may(user=person_of(request), action="submit", project=found)
    return render(request, "dashboard/project_page.html", context)


def _facts(request: HttpRequest, frame: Frame, span: Span, found: Project) -> _Facts:
    cluster: Cluster = frame.cluster
    start = span.start_at if span.fixed else min(span.start_at, lookback_start(cluster=cluster, now=frame.now))
    ledger = window_segments(cluster=cluster, start=start, end=span.end_at)
    attempts = window_attempts(cluster=cluster, start=span.start_at, end=span.end_at)
    forecast = None
    if not span.fixed:
        forecast = forecast_read(cluster=cluster, project=found, now=frame.now, columns=ledger)
    return _Facts(
        ledger=ledger,
        attempts=attempts,
        hourly=delivery_by_hour(
            cluster=cluster, start=span.start_at, end=span.end_at, columns=ledger, attempts=attempts
        ),
        forecast=forecast,
        rows={
            row.project.pk: row for row in tree_rows(user=person_of(request), cluster=cluster, at=frame.now, also=found)
        },
    )


def _parts(frame: Frame, span: Span, found: Project, facts: _Facts, charts_at: ChartFrame) -> dict[str, Any]:
    cluster, row = frame.cluster, facts.rows[found.pk]
    common = {"cluster": cluster, "found": found, "charts_at": charts_at}
    below = [(each, _delivery_of(facts.hourly, each.project)) for each in facts.rows.values()]
    children = [(each, delivery) for each, delivery in below if each.project.parent_id == found.pk]
    return {
        "row": row,
        "parent_name": found.parent.name if found.parent else "",
        "use": use_of(span=span, ledger=facts.ledger, **common),
        "owed": owed_and_delivered(found.name, owed_steps(facts.hourly, found, span), frame=charts_at),
        "balance": balance_chart_of(
            cluster=cluster,
            found=found,
            row=row,
            forecast=facts.forecast,
            charts_at=charts_at if span.fixed else _live(charts_at, frame),
            step_seconds=max(span.step_seconds, HOUR_SECONDS),
            goes_ahead=not span.fixed,
        ),
        "waits": waits_of(span=span, attempts=facts.attempts, **common),
        "delivery": _delivery_of(facts.hourly, found),
        "children": children_of(row=row, below=children, ledger=facts.ledger, start=span.start_at, end=span.end_at),
        "people": authors_of(columns=facts.ledger, project=found, span=span),
        "unknown_reason": utilization_reason(cluster=cluster),
    }


def _live(charts_at: ChartFrame, frame: Frame) -> ChartFrame:
    """Of a picture that looks ahead from now: its address shows the same range again, which ends at the time then."""
    query = urlencode({"cluster": frame.cluster.name, "range": frame.range.key})
    return replace(charts_at, address=f"{frame.request.path}?{query}")


def _delivery_of(hourly: HourlyDelivery, found: Project) -> Delivery:
    return Delivery(sum(hourly.owed[found.pk]), sum(hourly.delivered[found.pk]))
