"""What the project page is made of: use against allotment, balance, waits, people, children. No rules here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from portal.budgets.selectors import ShareStep, share_history
from portal.clusters.models import Cluster
from portal.clusters.selectors import capacity_steps, policy_values
from portal.common.units import PPM, moment_of
from portal.dashboard.allotment import allotment_levels, budget_words
from portal.dashboard.chart_balance import Expected, Measured, balance_over_time
from portal.dashboard.chart_data import AuthorUse, charged, occupancy_of, steps_of, unallocated, waits_by_class
from portal.dashboard.chart_usage import budget_over_use, levels_gpu_seconds, use_title
from portal.dashboard.chart_waits import wait_distribution
from portal.dashboard.chart_words import UNKNOWN, hours_cell, ratio_cell, text_cell
from portal.dashboard.charts import Cell, Chart, ChartFrame, Column, Table
from portal.dashboard.forecast_words import balance_title, later_words, stop_words
from portal.dashboard.project_tree import TreeRow
from portal.dashboard.ranges import Span
from portal.dashboard.waits_words import waits_title
from portal.projects.models import Project
from portal.projects.selectors import ancestor_ids, ancestor_paths
from portal.scheduling.models import BalanceSample
from portal.usage.selectors import (
    AttemptColumns,
    Delivery,
    Forecast,
    SegmentColumns,
    gpu_seconds_each,
    nearest_rank,
    wait_samples,
)


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

    @property
    def unallocated_part(self) -> float | None:
        """Of all that ran with a standing of its own; None: nothing did."""
        whole = self.charged_gpu_seconds + self.unallocated_gpu_seconds
        return self.unallocated_gpu_seconds / whole if whole else None


def use_of(*, cluster: Cluster, found: Project, span: Span, charts_at: ChartFrame, ledger: SegmentColumns) -> Use:
    """Bars of use under the step line of what the budgets then in force allotted."""
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


def balance_chart_of(
    *,
    cluster: Cluster,
    found: Project,
    row: TreeRow,
    forecast: Forecast | None,
    charts_at: ChartFrame,
    step_seconds: int,
    goes_ahead: bool,
) -> Chart:
    """Balances that passes found in the range, and where they go from now on if the range ends now."""
    measured = _measured(cluster, found, charts_at, step_seconds)
    if not goes_ahead:
        title = f"{found.name}’s balance in this range, as passes found it"
        return balance_over_time(measured, [], frame=charts_at, title=title, remark="")
    standing, zone = row.standing, charts_at.zone
    if standing.at is not None and (not measured or standing.at > measured[-1].at):
        measured.append(Measured(standing.at, standing.quota_gpu_seconds, standing.usage_gpu_seconds))
    points = forecast.points if forecast is not None else []
    expected = [Expected(moment_of(point.at), point.quiet_ppm, point.going_ppm) for point in points]
    lookback = policy_values(cluster=cluster)["lookback_seconds"]
    remark = stop_words(forecast, _names(found), found.pk, zone, lookback)
    shares: Sequence[ShareStep] = share_history(cluster=cluster, since=charts_at.end_at)
    if found.parent is not None and (later := later_words(shares, found.pk, found.parent.name, charts_at.end_at, zone)):
        remark = f"{remark} {later}"
    title = balance_title(found.name, standing.balance_ppm, forecast, zone)
    return balance_over_time(measured, expected, frame=charts_at, title=title, remark=remark)


def _measured(cluster: Cluster, found: Project, charts_at: ChartFrame, step_seconds: int) -> list[Measured]:
    """The first sample of each step of the range: as many as a chart can hold."""
    samples = BalanceSample.objects.filter(
        cluster=cluster, project=found, at__gte=charts_at.start_at, at__lte=charts_at.end_at
    )
    return [
        Measured(*values)
        for values in samples.order_by("at").values_list("at", "quota_gpu_seconds", "usage_gpu_seconds")
    ]


def _names(found: Project) -> dict[int, str]:
    """Names along the path."""
    return dict(Project.objects.filter(path__in=ancestor_paths(found.path)).values_list("pk", "name"))


@dataclass(frozen=True)
class Waits:
    """Queue waits of a project's first starts."""

    chart: Chart
    count: int
    p50_seconds: int | None
    p90_seconds: int | None


def waits_of(*, cluster: Cluster, found: Project, span: Span, charts_at: ChartFrame, attempts: AttemptColumns) -> Waits:
    """Distributions by class, and the two figures of all."""
    samples = wait_samples(start=span.start_at, end=span.end_at, cluster=cluster, project=found, attempts=attempts)
    firsts = samples.wait_seconds[~samples.restart]
    series = waits_by_class(samples, restart=False)
    chart = wait_distribution(series, frame=charts_at, title=waits_title(series, found.name), key="waits")
    if not len(firsts):
        return Waits(chart, 0, None, None)
    return Waits(chart, len(firsts), nearest_rank(firsts, 50), nearest_rank(firsts, 90))


def people_chart(people: Sequence[AuthorUse]) -> Chart:
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


@dataclass(frozen=True)
class ChildRow:
    """A project below, or (`row` None) the project's own work: budget now, delivery and part of the use."""

    name: str
    row: TreeRow | None
    percent_text: str
    gpus_text: str
    delivery: Delivery | None
    charged_gpu_seconds: int
    whole_gpu_seconds: int

    @property
    def ratio(self) -> float | None:
        return self.delivery.ratio if self.delivery else None

    @property
    def part(self) -> float | None:
        """Of what was charged to the project and everything below it in the range."""
        return self.charged_gpu_seconds / self.whole_gpu_seconds if self.whole_gpu_seconds else None

    @property
    def bar_width(self) -> int:
        return round(100 * (self.part or 0))


OWN, MOVED = "own work", "projects that are elsewhere now"


def children_of(
    *, row: TreeRow, below: Sequence[tuple[TreeRow, Delivery]], ledger: SegmentColumns, start: datetime, end: datetime
) -> list[ChildRow]:
    """Each child, what the project itself holds and used, and what ran in children that have been moved away since.

    The parts add up to all that was charged: usage belongs to those that were its ancestors when it was charged.
    """
    used = use_below(ledger, row.project.pk, start, end)
    whole = sum(used.values())
    children = [
        ChildRow(
            child.project.name,
            child,
            child.percent_text,
            child.gpus_text,
            delivery,
            used.pop(child.project.pk, 0),
            whole,
        )
        for child, delivery in below
    ]
    if not children:
        return []
    left = row.left_ppm if row.left_ppm is not None else PPM
    gpus = f"{float(row.gpus * left / PPM):.2f}".rstrip("0").rstrip(".")
    children.append(ChildRow(OWN, None, row.left_text, gpus, None, used.pop(row.project.pk, 0), whole))
    if moved := sum(used.values()):
        children.append(ChildRow(MOVED, None, "", "", None, moved, whole))
    return children


def use_below(ledger: SegmentColumns, project_id: int, start: datetime, end: datetime) -> dict[int, int]:
    """Charged GPU-seconds inside [start, end) by child of the project at that time; its own under its own id."""
    charged_now = ledger.charged()
    each = np.where(charged_now, gpu_seconds_each(start, end, ledger), 0)
    sums = np.zeros(len(ledger.paths), dtype=np.int64)
    np.add.at(sums, ledger.path, each)
    found: dict[int, int] = {}
    for path, used in zip(ledger.paths, sums.tolist(), strict=True):
        if project_id in path and used:
            place = path.index(project_id) + 1
            child = path[place] if place < len(path) else project_id
            found[child] = found.get(child, 0) + used
    return found


def children_chart(children: Sequence[ChildRow]) -> Chart:
    """Only its table."""
    columns = [
        Column("project", numeric=False),
        Column("budget of the parent", "%"),
        Column("GPUs"),
        Column("owed", csv_unit="GPU-seconds"),
        Column("delivered", csv_unit="GPU-seconds"),
        Column("charged", csv_unit="GPU-seconds"),
        Column("part of the use", csv_unit="ratio"),
    ]
    rows = []
    for child in children:
        owed, delivered = (
            (child.delivery.owed_gpu_seconds, child.delivery.delivered_gpu_seconds) if child.delivery else ("", "")
        )
        rows.append(
            [
                text_cell(child.row.project.path if child.row else child.name),
                text_cell(child.percent_text),
                text_cell(child.gpus_text),
                Cell("", owed),
                Cell("", delivered),
                Cell("", child.charged_gpu_seconds),
                ratio_cell(child.charged_gpu_seconds, child.whole_gpu_seconds),
            ]
        )
    return Chart(key="children", title="", subtitle="", table=Table(columns, rows))
