"""Queue wait: p50 and p90 by class, project and cluster, over time and as distributions; restarts apart."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from portal.dashboard.chart_axes import time_axis
from portal.dashboard.chart_data import edges_of, wait_steps, waits_by_class, waits_by_project
from portal.dashboard.chart_waits import nearest_rank, wait_distribution, waits_by_project_chart, waits_over_time
from portal.dashboard.charts import Chart, ChartFrame
from portal.dashboard.csv_export import csv_of
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import page
from portal.dashboard.people import person_of
from portal.dashboard.ranges import Span, chart_frame, span_of
from portal.dashboard.waits_words import over_time_title, projects_title, waits_title
from portal.projects.models import Project
from portal.projects.selectors import project_by_path, projects_visible
from portal.usage.selectors import WAIT_CLASSES, WaitColumns, wait_samples

PROJECTS_SHOWN = 20
CLASS_WORDS = {
    "debug": "at most 8 GPUs, minimum runtime above 0 and under 15 min",
    "small": "at most 8 GPUs, any other minimum runtime",
    "large": "more than 8 GPUs",
}


@page
def waits(request: HttpRequest) -> HttpResponseBase:
    """Waits of what started in the range, of the cluster, and of one project where the address names it."""
    frame, span = frame_of(request), span_of(request)
    path = request.GET.get("project", "")
    only = project_by_path(user=person_of(request), path=path) if path else None
    paths = dict(projects_visible(user=person_of(request)).order_by("path").values_list("pk", "path"))
    samples = wait_samples(start=span.start_at, end=span.end_at, cluster=frame.cluster, project=only)
    charts = _charts(samples, span, chart_frame(request, span, project=path), paths, only)
    if key := request.GET.get("csv"):
        return csv_of(charts.values(), key)
    context = {
        "charts": charts,
        "span": span,
        "project": only,
        "paths": sorted(paths.values(), key=lambda each: each.split("/")),
        "figures": _figures(samples),
        "class_words": CLASS_WORDS,
        "starts": len(samples.wait_seconds),
    }
    return render(request, "dashboard/waits.html", context)


def _charts(
    samples: WaitColumns, span: Span, charts_at: ChartFrame, paths: dict[int, str], only: Project | None
) -> dict[str, Chart]:
    first, again = (waits_by_class(samples, restart=restart) for restart in (False, True))
    whose = only.name if only else ""
    by_project = waits_by_project(samples, paths)
    longest = sorted(by_project, key=lambda name: -(nearest_rank(by_project[name], 90) or 0))[:PROJECTS_SHOWN]
    by_project_chart = waits_by_project_chart(
        {name: by_project[name] for name in longest}, frame=charts_at, title=projects_title(by_project)
    )
    if len(by_project) > PROJECTS_SHOWN:
        by_project_chart = by_project_chart.partial(f"the {PROJECTS_SHOWN} with the longest p90 of {len(by_project)}.")
    return {
        "over_time": waits_over_time(
            wait_steps(samples, edges_of(span)),
            frame=charts_at,
            title=over_time_title(first),
            time_axis=time_axis(span.start_at, span.end_at, charts_at.zone),
        ),
        "first": wait_distribution(first, frame=charts_at, title=waits_title(first, whose), key="first-starts"),
        "again": wait_distribution(
            again,
            frame=charts_at,
            title=waits_title(again, whose, what="restarts"),
            key="restarts",
            note="Nothing that was requeued started again in this range.",
        ),
        "by_project": by_project_chart,
    }


def _figures(samples: WaitColumns) -> list[dict[str, Any]]:
    """One figure a class: p50 with p90 beside."""
    series = waits_by_class(samples, restart=False)
    return [
        {
            "name": name,
            "words": CLASS_WORDS[name],
            "count": len(series[name]),
            "p50": nearest_rank(series[name], 50),
            "p90": nearest_rank(series[name], 90),
        }
        for name in WAIT_CLASSES
    ]
