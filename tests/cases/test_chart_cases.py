"""What went wrong with figures, charts and ranges in other portals, as inputs with the right behaviour for ours."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse
from pytest_django import Settings

from portal.dashboard.project_tree import Standing
from portal.scheduling.models import Balance
from tests.api.support import Lab, attrs_of, client_of, lab_make, problem_require
from tests.factories import (
    START,
    after,
    attempt_make,
    budget_make,
    project_make,
    segment_make,
    without_tokens,
    workload_make,
)

pytestmark = pytest.mark.django_db
HOUR, DAY = 3600, 86_400
RANGE = {"from": START.isoformat(), "to": after(DAY).isoformat()}


@pytest.fixture
def lab(client: Any) -> Lab:
    """With a lead of the root who has signed in."""
    made = lab_make()
    client.force_login(made.lead)
    return made


def ran(lab: Lab, path: str, *, gpus: int = 8, standing: str = "funded") -> None:
    """One hour of GPU-time of a project."""
    workload = workload_make(project=project_make(path), cluster=lab.cluster, gpus_per_replica=gpus)
    attempt = attempt_make(workload=workload, hosts=[lab.host], claim=False)
    segment_make(attempt=attempt, host=lab.host, gpus=gpus, standing=standing, start_at=START, end_at=after(HOUR))


def page(client: Any, path: str, **query: str) -> Any:
    return client.get(reverse("dashboard:project", args=[path]), {**RANGE, **query})


def csv_rows(response: Any) -> list[dict[str, str]]:
    text = b"".join(response.streaming_content).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def test_a_project_without_a_budget_says_so_and_never_nan_infinity_or_a_hundred_percent(client: Any, lab: Lab) -> None:
    """Case 1 (coldfront#336)."""
    ran(lab, "lab/guests", gpus=2, standing="unallocated")
    answer = page(client, "lab/guests")
    assert answer.status_code == 200
    assert "no budget" in answer.text
    texts = [without_tokens(answer.text)]
    for key in ("use", "delivery", "balance", "waits", "people"):
        rows = page(client, "lab/guests", csv=key)
        assert rows.status_code == 200
        texts.append(b"".join(rows.streaming_content).decode())
    for text in texts:
        assert not any(word in text for word in ("NaN", "nan ", ",nan", "Infinity", ",inf", "100 % of its allotment"))


@pytest.mark.parametrize(
    ("quota", "usage", "words", "bar", "is_over"),
    [
        (100, 107, "107 %", 100, True),
        (100, 250, "250 %", 100, True),
        (100, 0, "0 %", 0, False),
        (0, 5, "–", 0, False),
    ],
)
def test_the_bar_stops_at_a_hundred_and_the_text_goes_on_with_a_sign_that_is_no_colour(
    client: Any, lab: Lab, quota: int, usage: int, words: str, bar: int, is_over: bool
) -> None:
    """Case 14 (OSC/ondemand#4227)."""
    standing = Standing(quota, usage, START)
    assert (standing.used_text, standing.bar_width, standing.is_over) == (words, bar, is_over)
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50})
    Balance.objects.create(
        cluster=lab.cluster, project=lab.nlp, at=START, quota_gpu_seconds=quota, usage_gpu_seconds=usage, share_ppb=1
    )
    text = client.get(reverse("dashboard:budgets")).text
    assert text.count('class="over"') == int(is_over)
    assert 'width="107"' not in text and 'width="250"' not in text


@pytest.mark.parametrize(("zone", "hours"), [("Asia/Shanghai", 24), ("Europe/Berlin", 25)])
def test_label_window_and_api_agree_on_the_sites_day_also_over_a_clock_change(
    client: Any, lab: Lab, settings: Settings, zone: str, hours: int
) -> None:
    """Case 15 (BerriAI/litellm#41211)."""
    settings.SITE_ZONE = zone
    answer = client.get(reverse("dashboard:waits"), {"from": "2026-10-25", "to": "2026-10-25"})
    span = answer.context["span"]
    assert span.end_at - span.start_at == timedelta(hours=hours)
    assert span.words in answer.text
    assert zone in answer.text
    asked = {"start": span.start_at.isoformat(), "end": span.end_at.isoformat()}
    told = client_of(lab.lead).get("/api/v1/usage/", asked).json()
    assert [datetime.fromisoformat(told[name]).astimezone(UTC) for name in ("start", "end")] == [
        span.start_at,
        span.end_at,
    ]


def test_what_no_telemetry_says_is_a_dash_with_its_reason_and_occupied_all_the_same(client: Any, lab: Lab) -> None:
    """Case 16 (guilbaults/slurm-job-exporter#65): until hosts report telemetry, idle-held GPUs are unknown, not 0."""
    ran(lab, "lab/nlp")
    answer = page(client, "lab/nlp")
    assert answer.context["use"].charged_gpu_seconds == 8 * HOUR
    assert "Idle-held GPUs" in answer.text
    assert "– No host of this cluster reports GPU telemetry yet." in " ".join(
        answer.text.replace('<span class="unknown">', "").replace("</span>", "").split()
    )


def test_every_chart_has_a_table_with_the_same_numbers_a_csv_and_a_link(client: Any, lab: Lab) -> None:
    """Case 18 (plotly/plotly.js#4264); the keyboard and axe are in tests/e2e."""
    ran(lab, "lab/nlp")
    answer = page(client, "lab/nlp")
    for chart in (answer.context["use"].chart, answer.context["owed"], answer.context["waits"].chart):
        if not chart.drawn:
            continue
        assert chart.table.rows and chart.title and chart.title in answer.text
        assert "2 Nov 2026 00:00 to 3 Nov 2026 00:00 (UTC)" in chart.subtitle
        rows = csv_rows(page(client, "lab/nlp", csv=chart.key))
        assert len(rows) == len(chart.table.rows)
        assert client.get(chart.address).status_code == 200


@pytest.mark.parametrize("name", ["overview", "pyramid", "waits", "project"])
def test_every_figure_says_its_range(client: Any, lab: Lab, name: str) -> None:
    """Case 20 (opencost/opencost#3439)."""
    ran(lab, "lab/nlp")
    text = page(client, "lab/nlp").text if name == "project" else client.get(reverse(f"dashboard:{name}")).text
    figures = text.split('class="figure"')[1:]
    assert figures
    assert all("figure-range" in figure and figure.split("figure-range")[1][2:8].strip() for figure in figures)


def test_how_to_read_a_balance_stands_beside_it(client: Any, lab: Lab) -> None:
    """Case 23 (ResearchComputing/Documentation#40)."""
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50, "vision": 25})
    for project, usage in ((lab.nlp, 40), (lab.vision, 160)):
        Balance.objects.create(
            cluster=lab.cluster, project=project, at=START, quota_gpu_seconds=100, usage_gpu_seconds=usage, share_ppb=1
        )
    for address in (reverse("dashboard:projects"), reverse("dashboard:budgets")):
        text = client.get(address).text
        assert text.count("under-served") >= 1 and text.count("over-served") >= 1
    listed = client_of(lab.lead).get("/api/v1/budgets/").json()["results"]
    assert [(row["balance"], row["standing"]) for row in listed] == [(0.6, "under-served"), (-0.6, "over-served")]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"from": "2026-13-40"}, "from"),
        ({"from": "2026-11-05", "to": "2026-11-01"}, "to"),
        ({"to": "2026-11-05"}, "from"),
        ({"from": "2026-11-01", "to": "yesterday"}, "to"),
    ],
)
def test_a_range_that_can_not_be_is_400_naming_the_parameter(
    client: Any, lab: Lab, query: dict[str, str], name: str
) -> None:
    """Case 24 (Open OnDemand, XDMoD), pages."""
    for address in (reverse("dashboard:project", args=["lab/nlp"]), reverse("dashboard:waits")):
        answer = client.get(address, query)
        assert answer.status_code == 400
        assert re.search(rf"\b{name}\b", answer.text.split("<h1")[1])


@pytest.mark.parametrize(
    ("query", "name"),
    [({"start": "2026-13-40"}, "start"), ({"end": "2026-11-01T00:00:00Z", "start": "2026-11-02T00:00:00Z"}, "start")],
)
def test_a_range_that_can_not_be_is_400_naming_the_parameter_in_the_api(
    lab: Lab, query: dict[str, str], name: str
) -> None:
    """Case 24 (Open OnDemand, XDMoD), REST."""
    answer = client_of(lab.lead).get("/api/v1/usage/", query)
    problem_require(answer, 400)
    assert attrs_of(answer) == {name}


def test_an_export_of_three_years_is_streamed(client: Any, lab: Lab) -> None:
    """Case 24 (Open OnDemand, XDMoD), the export."""
    ran(lab, "lab/nlp")
    answer = client.get(
        reverse("dashboard:project", args=["lab/nlp"]), {"from": "2023-11-01", "to": "2026-11-20", "csv": "use"}
    )
    assert answer.status_code == 200
    assert answer.streaming
    assert sum(int(row["funded (GPU-seconds)"]) for row in csv_rows(answer)) == 8 * HOUR


def test_balances_of_all_projects_on_all_clusters_stand_in_one_matrix(client: Any, lab: Lab) -> None:
    """Case 25 (lablup/backend.ai-webui#7217); more in tests/dashboard/test_matrix.py."""
    rows = client.get(reverse("dashboard:projects")).context["rows"]
    assert [row.project.path for row in rows] == ["lab", "lab/nlp", "lab/vision"]
    assert all(len(row.cells) == 1 for row in rows)
    assert [row.depth for row in rows] == [0, 1, 1]
