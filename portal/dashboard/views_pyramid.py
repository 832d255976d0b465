"""The pyramid: four ratios with what is lost by cause, the waterfall, and standings over time."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from portal.clusters.models import Cluster
from portal.common.errors import NotFound
from portal.dashboard.chart_data import capacity_of, occupancy_of, steps_of
from portal.dashboard.chart_pyramid import pyramid_waterfall
from portal.dashboard.chart_usage import standings_over_time
from portal.dashboard.charts import Chart, ChartFrame
from portal.dashboard.csv_export import csv_of
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import page
from portal.dashboard.pyramid_rungs import Ratio, occupancy_title, pyramid_answer, pyramid_title, ratios_of, rungs_of
from portal.dashboard.ranges import Span, chart_frame, span_of
from portal.usage.selectors import Pyramid, SegmentColumns, pyramid, window_segments


def pyramid_parts(
    cluster: Cluster, span: Span, charts_at: ChartFrame, ledger: SegmentColumns
) -> tuple[Pyramid, list[Ratio], Chart]:
    """The pyramid, its four ratios in words, its waterfall."""
    found = pyramid(cluster=cluster, start=span.start_at, end=span.end_at, columns=ledger)
    return found, ratios_of(found), pyramid_waterfall(rungs_of(found), frame=charts_at, title=pyramid_title(found))


@page
def pyramid_page(request: HttpRequest) -> HttpResponseBase:
    """The whole cluster over the range."""
    frame, span = frame_of(request), span_of(request)
    if frame.cluster is None:
        raise NotFound("There is no cluster yet. An operator makes one and registers its hosts.", attr="cluster")
    charts_at = chart_frame(request, span)
    ledger = window_segments(cluster=frame.cluster, start=span.start_at, end=span.end_at)
    found, ratios, waterfall = pyramid_parts(frame.cluster, span, charts_at, ledger)
    occupancy = occupancy_of(cluster=frame.cluster, span=span, columns=ledger)
    over_time = standings_over_time(
        steps_of(occupancy), frame=charts_at, title=occupancy_title(found), capacity=capacity_of(occupancy)
    )
    if key := request.GET.get("csv"):
        return csv_of([waterfall, over_time], key)
    context = {
        "answer": pyramid_answer(found),
        "found": found,
        "ratios": ratios,
        "waterfall": waterfall,
        "over_time": over_time,
        "span": span,
    }
    return render(request, "dashboard/pyramid.html", context)
