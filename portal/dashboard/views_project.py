"""The project tree with balances, and one project: allotment against use, owed and delivered, waits, who used it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from portal.budgets.selectors import share_history
from portal.clusters.models import Cluster
from portal.clusters.selectors import capacity_steps
from portal.dashboard.allotment import allotment_levels, budget_words
from portal.dashboard.chart_data import (
    AuthorUse,
    authors_of,
    charged,
    occupancy_of,
    owed_steps,
    steps_of,
    unallocated,
    waits_by_class,
)
from portal.dashboard.chart_delivery import owed_and_delivered
from portal.dashboard.chart_usage import budget_over_use, levels_gpu_seconds, use_title
from portal.dashboard.chart_waits import wait_distribution
from portal.dashboard.chart_words import UNKNOWN, hours_cell, text_cell
from portal.dashboard.charts import Cell, Chart, ChartFrame, Column, Table
from portal.dashboard.csv_export import csv_of, csv_response
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import page
from portal.dashboard.people import person_of
from portal.dashboard.project_tree import TreeRow, tree_rows
from portal.dashboard.ranges import Span, chart_frame, span_of
from portal.dashboard.views_budgets import ancestors
from portal.dashboard.waits_words import waits_title
from portal.projects.models import Project
from portal.projects.selectors import ancestor_ids, project_by_path, user_may
from portal.usage.selectors import (
    AttemptColumns,
    Delivery,
    HourlyDelivery,
    SegmentColumns,
    delivery_by_hour,
    nearest_rank,
    wait_samples,
    window_attempts,
    window_segments,
)


@page
def projects(request: HttpRequest) -> HttpResponseBase:
    """The tree that the person may see, with a balance for each cluster."""
    frame = frame_of(request)
    rows: list[TreeRow] = []
    if frame.cluster is not None:
        rows = tree_rows(user=person_of(request), cluster=frame.cluster, at=frame.now, clusters=frame.clusters)
    if request.GET.get("csv"):
        return csv_response(_tree_table(rows, frame.clusters), "projects")
    words = [row.standing.words for row in rows]
    context = {
        "rows": rows,
        "under": words.count("under-served"),
        "over": words.count("over-served"),
        "without": sum(not row.has_budget for row in rows),
        "balances_at": max((row.standing.at for row in rows if row.standing.at), default=None),
    }
    return render(request, "dashboard/project_list.html", context)


def _tree_table(rows: Sequence[TreeRow], clusters: Sequence[Cluster]) -> Table:
    """Every project with its path; own share and what stands for its whole subtree."""
    columns = [
        Column("path", numeric=False),
        Column("name", numeric=False),
        Column("share of parent", "%"),
        Column("share of cluster", "%"),
        Column("GPUs"),
        *(
            column
            for cluster in clusters
            for column in (
                Column(f"quota on {cluster.name}", csv_unit="GPU-seconds"),
                Column(f"usage with everything below on {cluster.name}", csv_unit="GPU-seconds"),
                Column(f"balance on {cluster.name}", csv_unit="ratio"),
                Column(f"reading on {cluster.name}", numeric=False),
            )
        ),
    ]
    return Table(columns, [_tree_line(row) for row in rows])


def _tree_line(row: TreeRow) -> list[Cell]:
    line = [text_cell(row.project.path), text_cell(row.project.name)]
    line += [text_cell(row.percent_text), text_cell(row.cluster_percent_text), text_cell(row.gpus_text)]
    for standing in row.by_cluster:
        balance = "" if standing.balance_ppm is None else standing.balance_ppm / 1_000_000
        line += [Cell("", standing.quota_gpu_seconds), Cell("", standing.usage_gpu_seconds), Cell("", balance)]
        line.append(text_cell(standing.words))
    return line


@dataclass(frozen=True)
class ChildRow:
    """A project below with its share and what it got in the range."""

    row: TreeRow
    delivery: Delivery

    @property
    def ratio(self) -> float | None:
        return self.delivery.ratio


@page
def project(request: HttpRequest, path: str) -> HttpResponseBase:
    """One project on the cluster, over the range."""
    found, frame, span = project_by_path(user=person_of(request), path=path), frame_of(request), span_of(request)
    context: dict[str, Any] = {"project": found, "ancestors": ancestors(found), "span": span}
    if frame.cluster is None:
        return render(request, "dashboard/project_none.html", context)
    cluster, charts_at = frame.cluster, chart_frame(request, span)
    ledger = window_segments(cluster=cluster, start=span.start_at, end=span.end_at)
    attempts = window_attempts(cluster=cluster, start=span.start_at, end=span.end_at)
    hourly = delivery_by_hour(cluster=cluster, start=span.start_at, end=span.end_at, columns=ledger, attempts=attempts)
    owed = owed_and_delivered(found.name, owed_steps(hourly, found, span), frame=charts_at)
    rows = {row.project.pk: row for row in tree_rows(user=person_of(request), cluster=cluster, at=frame.now)}
    use = _use_chart(cluster, found, span, charts_at, ledger)
    waits = _waits_chart(cluster, found, span, charts_at, attempts)
    people = authors_of(columns=ledger, project=found, span=span)
    if key := request.GET.get("csv"):
        return csv_of([use.chart, owed, waits.chart, _people_chart(people)], key)
    context |= {
        "row": rows[found.pk],
        "parent_name": found.parent.name if found.parent else "",
        "use": use,
        "waits": waits,
        "owed": owed,
        "delivery": _delivery_of(hourly, found),
        "children": [
            ChildRow(row, _delivery_of(hourly, row.project))
            for row in rows.values()
            if row.project.parent_id == found.pk
        ],
        "people": people,
        "may_submit": user_may(user=person_of(request), action="submit", project=found),
    }
    return render(request, "dashboard/project_page.html", context)


def _delivery_of(hourly: HourlyDelivery, found: Project) -> Delivery:
    return Delivery(sum(hourly.owed[found.pk]), sum(hourly.delivered[found.pk]))


@dataclass(frozen=True)
class Use:
    """What a project used and was allotted over the range, and the picture of it."""

    chart: Chart
    charged_gpu_seconds: int
    unallocated_gpu_seconds: int
    allotted_gpu_seconds: int
    has_budget: bool

    @property
    def percent(self) -> str:
        """Also far above 100; without an allotment there is nothing to be a percent of."""
        if not self.allotted_gpu_seconds:
            return UNKNOWN
        return f"{self.charged_gpu_seconds * 100 / self.allotted_gpu_seconds:.0f}"


def _use_chart(cluster: Cluster, found: Project, span: Span, charts_at: ChartFrame, ledger: SegmentColumns) -> Use:
    steps = steps_of(occupancy_of(cluster=cluster, span=span, columns=ledger, project=found))
    shares = share_history(cluster=cluster, since=span.start_at)
    capacity = capacity_steps(cluster=cluster, since=span.start_at)
    levels = [
        level
        for level in allotment_levels(ancestor_ids(project=found), shares, capacity, start=span.start_at)
        if level.at < span.end_at
    ]
    allotted = [levels_gpu_seconds(levels, step.start_at, step.end_at) for step in steps] if levels else []
    used, free, given = charged(steps), unallocated(steps), sum(allotted)
    words = "the root holds the whole cluster"
    if found.parent is not None:
        words = budget_words(found.pk, found.parent.name, shares, charts_at)
    chart = budget_over_use(
        steps, allotted, frame=charts_at, title=use_title(found.name, used, given, free), budget=words
    )
    return Use(chart, used, free, given, bool(given))


@dataclass(frozen=True)
class Waits:
    """Queue waits of a project's first starts."""

    chart: Chart
    count: int
    p50_seconds: int | None
    p90_seconds: int | None


def _waits_chart(
    cluster: Cluster, found: Project, span: Span, charts_at: ChartFrame, attempts: AttemptColumns
) -> Waits:
    samples = wait_samples(start=span.start_at, end=span.end_at, cluster=cluster, project=found, attempts=attempts)
    firsts = samples.wait_seconds[~samples.restart]
    series = waits_by_class(samples, restart=False)
    chart = wait_distribution(series, frame=charts_at, title=waits_title(series, found.name), key="waits")
    if not len(firsts):
        return Waits(chart, 0, None, None)
    return Waits(chart, len(firsts), nearest_rank(firsts, 50), nearest_rank(firsts, 90))


def _people_chart(people: Sequence[AuthorUse]) -> Chart:
    """Only its table: people are a list, not a picture."""
    columns = [
        Column("person", numeric=False),
        Column("charged", "GPU-hours", "GPU-seconds"),
        Column("unallocated", "GPU-hours", "GPU-seconds"),
        Column("workloads"),
    ]
    rows = [
        [
            text_cell(each.username),
            hours_cell(each.charged_gpu_seconds),
            hours_cell(each.unallocated_gpu_seconds),
            Cell(str(each.workloads), each.workloads),
        ]
        for each in people
    ]
    return Chart(key="people", title="", subtitle="", table=Table(columns, rows))
