"""The project page's balance with its forecast, its children's parts of the use, and what is not known."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.budgets.selectors import ShareStep
from portal.common.units import whole_second
from portal.dashboard.chart_balance import Expected, Measured, balance_over_time
from portal.dashboard.charts import ChartFrame
from portal.dashboard.forecast_words import balance_title, later_words, stop_words
from portal.dashboard.project_parts import use_below
from portal.scheduling.models import Balance, BalanceSample
from portal.usage.forecast import Forecast, Point, Stop
from portal.usage.selectors import window_segments
from tests.factories import (
    attempt_make,
    budget_make,
    cluster_make,
    host_make,
    project_make,
    segment_make,
    user_make,
    workload_make,
)

HOUR, DAY = 3600, 86_400
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
AT = int(NOW.timestamp())
ZONE = ZoneInfo("UTC")
FRAME = ChartFrame(NOW - timedelta(days=7), NOW, ZONE, NOW, "/projects/lab/nlp/?range=7d")


def forecast_of(stop: Stop, *points: tuple[int, int, int], project: int = 2) -> Forecast:
    made = [Point(AT + hours * HOUR, quiet, going) for hours, quiet, going in points]
    return Forecast(made, stop, made[-1].at if made else AT, project)


@pytest.mark.parametrize(
    ("forecast", "words"),
    [
        (
            forecast_of(Stop.EXHAUSTED, (0, 120_000, 120_000), (5, 130_000, 0)),
            "nlp’s balance is 12 %: if what runs goes on, it lasts until about 30 Nov 2026 17:00",
        ),
        (
            forecast_of(Stop.RECOVERS, (0, -30_000, -30_000), (2, 1, 1)),
            "nlp’s balance is −3 %: work is funded again from about 30 Nov 2026 14:00 on, if nothing more starts",
        ),
        (
            forecast_of(Stop.WINDOW, (0, 400_000, 400_000), (100, 900_000, 350_000), (168, 950_000, 500_000)),
            "nlp’s balance is 40 %: if what runs goes on, it stays at 35 % or more until 7 Dec 2026 12:00",
        ),
        (
            forecast_of(Stop.NO_BUDGET, (0, 400_000, 400_000), (24, 400_000, 400_000)),
            "nlp’s balance is 40 %: its budget ends on 1 Dec 2026 12:00",
        ),
        (forecast_of(Stop.NO_BUDGET), "nlp has no balance here: it has no budget"),
        (None, "nlp has no balance here: it has no budget"),
    ],
)
def test_the_title_says_where_the_balance_goes(forecast: Forecast | None, words: str) -> None:
    assert balance_title("nlp", None, forecast, ZONE) == words


@pytest.mark.parametrize(
    ("stop", "project", "words"),
    [
        (Stop.EXHAUSTED, 2, "its own balance would be 0"),
        (Stop.EXHAUSTED, 1, "Lab’s balance would be 0"),
        (Stop.RECOVERS, 2, "its own balance is above 0 again: what starts then is not known"),
        (Stop.NO_BUDGET, 1, "Lab’s budget ends"),
        (Stop.WINDOW, 2, "after the lookback window of 7 d"),
    ],
)
def test_the_remark_says_why_the_range_stops_and_what_is_taken_for_granted(
    stop: Stop, project: int, words: str
) -> None:
    forecast = forecast_of(stop, (0, 1, 1), (5, 1, 1), project=project)
    remark = stop_words(forecast, {1: "Lab", 2: "nlp"}, 2, ZONE, 7 * DAY)
    assert "The range stops on 30 Nov 2026 17:00: " in remark
    assert words in remark
    assert "Hosts are taken to stay as they are; new starts lower it" in remark


def test_without_points_the_remark_says_that_there_is_no_forecast() -> None:
    names = {1: "Lab", 2: "nlp"}
    assert stop_words(forecast_of(Stop.NO_BUDGET), names, 2, ZONE, DAY) == (
        "There is no forecast: it has no budget now."
    )
    assert "Lab has no budget now" in stop_words(forecast_of(Stop.NO_BUDGET, project=1), names, 2, ZONE, DAY)
    assert stop_words(None, names, 2, ZONE, DAY).startswith("The root holds the whole cluster")


def test_known_changes_of_its_budget_ahead_are_named() -> None:
    steps = [ShareStep(2, NOW + timedelta(days=days), ppm, None) for days, ppm in ((-1, 500_000), (1, 250_000))]
    assert later_words(steps, 2, "Lab", NOW, ZONE) == "Decided already: 25 % of Lab from 1 Dec 2026 12:00 on."
    assert later_words(steps[:1], 2, "Lab", NOW, ZONE) == ""


def test_the_picture_goes_on_to_where_the_range_stops_and_its_table_has_both_edges() -> None:
    measured = [Measured(NOW - timedelta(hours=hours), 1000, 900) for hours in (30, 20, 10, 0)]
    expected = [Expected(NOW, 100_000, 100_000), Expected(NOW + timedelta(days=2), 600_000, -50_000)]
    chart = balance_over_time(measured, expected, frame=FRAME, title="t", remark="r")
    assert chart.layout["xaxis"]["range"][1] == (NOW + timedelta(days=2)).timestamp()
    assert chart.layout["yaxis"]["range"][0] < -5
    rows = [[cell.raw for cell in row] for row in chart.table.rows]
    assert [row[1] for row in rows] == ["found by a pass"] * 4 + ["expected"] * 2
    assert rows[0][2:] == [1000, 900, 0.1, ""]
    assert rows[-1][2:] == ["", "", 0.6, -0.05]
    assert "if nothing more starts" in chart.subtitle
    names = [trace["name"] for trace in chart.traces if trace.get("showlegend", True)]
    assert names == ["found by passes", "if what runs goes on", "if nothing more starts"]


def test_the_line_is_broken_where_no_pass_looked_for_long() -> None:
    measured = [Measured(NOW - timedelta(hours=hours), 1000, 900) for hours in (60, 59, 58, 2, 1, 0)]
    chart = balance_over_time(measured, [], frame=FRAME, title="t", remark="")
    (line,) = [trace for trace in chart.traces if trace["name"] == "found by passes"]
    assert list(line["y"]).count(None) == 1
    assert line["connectgaps"] is False


def test_without_a_balance_and_a_forecast_the_chart_is_empty_and_says_why() -> None:
    chart = balance_over_time([Measured(NOW, 0, 5)], [], frame=FRAME, title="t", remark="Why.")
    assert (chart.state, chart.remark) == ("empty", "Why.")
    assert "while it has a budget" in chart.note


class Site:
    """lab/nlp with two children on 8 GPUs, a day old; what ran was nlp's own, and chat's; somebody leads the lab."""

    def __init__(self) -> None:
        self.now = whole_second(timezone.now())
        start = self.now - timedelta(days=1)
        self.cluster = cluster_make("local", created_at=start)
        self.host = host_make(cluster=self.cluster, registered_at=start, simulated=True)
        self.lab, self.nlp = project_make("lab"), project_make("lab/nlp")
        self.chat, self.search = project_make("lab/nlp/chat"), project_make("lab/nlp/search")
        budget_make(cluster=self.cluster, parent=self.lab, percent={"nlp": 50}, at=start)
        budget_make(cluster=self.cluster, parent=self.nlp, percent={"chat": 25, "search": 50}, at=start)
        self.lead = user_make(role="lead", project=self.lab)

    def ran(self, project: Any, hours: int, **fields: Any) -> None:
        workload = workload_make(
            project=project, cluster=self.cluster, author=self.lead, state="succeeded", ended_at=self.now
        )
        attempt = attempt_make(
            workload=workload, hosts=[self.host], state="ended", outcome="succeeded", ended_at=self.now, claim=False
        )
        segment_make(
            attempt=attempt,
            host=self.host,
            start_at=self.now - timedelta(hours=hours + 1),
            end_at=self.now - timedelta(hours=1),
            **fields,
        )


@pytest.fixture
def site(client: Any, db: None) -> Site:
    made = Site()
    client.force_login(made.lead)
    return made


def page(client: Any, **query: str) -> Any:
    return client.get(reverse("dashboard:project", args=["lab/nlp"]), query)


def rows_of(response: Any) -> list[dict[str, str]]:
    text = b"".join(response.streaming_content).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def test_children_and_own_work_add_up_to_all_that_was_charged(client: Any, site: Site) -> None:
    site.ran(site.nlp, 3)
    site.ran(site.chat, 1)
    site.ran(site.nlp, 2, path=[site.lab.pk, site.nlp.pk, project_make("lab/other").pk])  # was below it then
    answer = page(client, range="24h")
    found = [(each.name, each.percent_text, each.charged_gpu_seconds) for each in answer.context["children"]]
    assert found == [
        ("chat", "25", HOUR),
        ("search", "50", 0),
        ("own work", "25", 3 * HOUR),
        ("projects that are elsewhere now", "", 2 * HOUR),
    ]
    assert answer.context["use"].charged_gpu_seconds == 6 * HOUR
    assert "what is not given to the projects below" in answer.text
    rows = rows_of(page(client, range="24h", csv="children"))
    assert sum(int(row["charged (GPU-seconds)"]) for row in rows) == 6 * HOUR


def test_use_below_counts_what_is_charged_inside_the_range_alone(site: Site) -> None:
    site.ran(site.chat, 4)
    site.ran(site.chat, 4, standing="unallocated")
    start, end = site.now - timedelta(hours=3), site.now
    ledger = window_segments(cluster=site.cluster, start=start, end=end)
    assert use_below(ledger, site.nlp.pk, start, end) == {site.chat.pk: 2 * HOUR}
    assert use_below(ledger, site.chat.pk, start, end) == {site.chat.pk: 2 * HOUR}
    assert use_below(ledger, site.search.pk, start, end) == {}


def test_a_range_that_ends_now_looks_ahead_and_one_that_stands_still_does_not(client: Any, site: Site) -> None:
    site.ran(site.nlp, 3)
    hour = site.now.replace(minute=0, second=0)
    BalanceSample.objects.create(
        cluster=site.cluster, project=site.nlp, at=hour, quota_gpu_seconds=100, usage_gpu_seconds=40
    )
    Balance.objects.create(
        cluster=site.cluster, project=site.nlp, at=site.now, quota_gpu_seconds=100, usage_gpu_seconds=50, share_ppb=1
    )
    live = page(client, range="24h").context["balance"]
    assert "expected" in {row[1].text for row in live.table.rows}
    assert live.title.startswith("nlp’s balance is ")
    assert "range=24h" in live.address
    assert client.get(live.address).context["balance"].title == live.title
    day = {"from": (site.now - timedelta(days=1)).isoformat(), "to": site.now.isoformat()}
    still = page(client, **day).context["balance"]
    assert {row[1].text for row in still.table.rows} <= {"found by a pass"}
    assert still.remark == ""


def test_a_budget_that_is_decided_already_stands_in_the_remark(client: Any, site: Site) -> None:
    budget_make(cluster=site.cluster, parent=site.lab, percent={"nlp": 20}, at=site.now + timedelta(days=2))
    assert "Decided already: 20 % of lab from " in page(client, range="24h").text


def test_what_is_not_measured_is_a_dash_with_its_reason(client: Any, site: Site) -> None:
    site.ran(site.nlp, 2, standing="unallocated")
    text = " ".join(page(client, range="24h").text.split())
    assert text.count("The GPUs of this cluster are simulated: there is no telemetry to measure.") == 2
    assert ">2.00</span> GPU-hours, 100 % of what ran: free of charge" in text


def test_the_root_says_that_its_balance_decides_nothing(client: Any, site: Site) -> None:
    text = client.get(reverse("dashboard:project", args=["lab"])).text
    assert "The root holds the whole cluster: nothing is decided by its balance" in text


def test_an_archived_project_still_shows_what_it_used(client: Any, site: Site) -> None:
    site.ran(site.search, 2)
    type(site.search).objects.filter(pk=site.search.pk).update(archived_at=site.now)
    answer = client.get(reverse("dashboard:project", args=["lab/nlp/search"]), {"range": "24h"})
    assert answer.status_code == 200
    assert answer.context["use"].charged_gpu_seconds == 2 * HOUR
    below = page(client, range="24h").context["children"]
    assert sum(each.charged_gpu_seconds for each in below) == 2 * HOUR
