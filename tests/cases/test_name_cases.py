"""Names that trouble pages, charts, spreadsheets: shown as text everywhere."""

import json
from typing import Any

import pytest
from django.urls import reverse

from tests.api.support import Lab, client_of, lab_make
from tests.factories import START, after, attempt_make, budget_make, project_make, segment_make, workload_make

pytestmark = pytest.mark.django_db
NAMES = ["<script>alert(1)</script>", "🚀 Team Rakete", "x" * 200, '=HYPERLINK("http://x")', "@SUM(A1)", "</script><b>"]


@pytest.fixture
def lab(client: Any) -> Lab:
    made = lab_make()
    client.force_login(made.lead)
    return made


def troubled(lab: Lab, name: str) -> None:
    """A project of that name with a budget, a workload of that name, and GPU-time."""
    project = project_make("lab/trouble", name=name)
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"trouble": 20})
    workload = workload_make(project=project, cluster=lab.cluster, name=name, min_runtime_seconds=60)
    attempt = attempt_make(workload=workload, hosts=[lab.host], claim=False)
    segment_make(attempt=attempt, host=lab.host, start_at=START, end_at=after(3600))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_text_on_every_page_that_shows_it(client: Any, lab: Lab, name: str) -> None:
    """Case 27, pages and charts."""
    troubled(lab, name)
    day = {"from": START.isoformat(), "to": after(86_400).isoformat()}
    addresses = [reverse(f"dashboard:{each}") for each in ("projects", "budgets", "queue", "workloads", "waits")]
    for address in [*addresses, reverse("dashboard:project", args=["lab/trouble"])]:
        answer = client.get(address, day)
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "</script><b>" not in answer.text
    use = client.get(reverse("dashboard:project", args=["lab/trouble"]), day).context["use"].chart
    assert "<" not in json.dumps(use.payload["title"])


@pytest.mark.parametrize("name", NAMES)
def test_no_name_runs_as_a_formula_in_a_spreadsheet(client: Any, lab: Lab, name: str) -> None:
    """Case 27, CSV."""
    troubled(lab, name)
    answers = [
        client.get(reverse("dashboard:projects"), {"csv": "projects"}),
        client_of(lab.lead).get("/api/v1/budgets/export/"),
    ]
    for answer in answers:
        text = b"".join(answer.streaming_content).decode("utf-8-sig")
        cells = [cell.strip('"') for line in text.splitlines() for cell in line.split(",")]
        assert not any(cell.startswith(("=", "@", "+")) for cell in cells)
        assert name[:4] in text


@pytest.mark.parametrize("name", NAMES)
def test_the_api_gives_a_name_back_as_it_is(lab: Lab, name: str) -> None:
    """Case 27, REST."""
    troubled(lab, name)
    assert client_of(lab.lead).get("/api/v1/projects/lab/trouble/").json()["name"] == name
