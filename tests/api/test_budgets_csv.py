"""Budgets as of a moment, and all levels as CSV: out, and in as one."""

import csv
import threading
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import budgets_at
from portal.scheduling.models import Balance, BalanceSample
from tests.api.support import Lab, attrs_of, client_of, problem_require
from tests.factories import START, after, budget_make, project_make

CHANGES = "/api/v1/budget-changes/"


@pytest.fixture
def granted(lab: Lab) -> Lab:
    """nlp has 50 % and vision 25 % of lab's 8 GPUs, from START on."""
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50, "vision": 25})
    return lab


@pytest.fixture
def lead(granted: Lab) -> APIClient:
    return client_of(granted.lead)


def post(client: APIClient, sent: Any, path: str = CHANGES) -> Any:
    return client.post(path, sent, format="json")


def test_budgets_as_of_a_moment(granted: Lab, lead: APIClient) -> None:
    budget_make(cluster=granted.cluster, parent=granted.root, percent={"nlp": 70}, at=after(3600))
    BalanceSample.objects.create(
        cluster=granted.cluster, project=granted.nlp, at=after(0), quota_gpu_seconds=100, usage_gpu_seconds=150
    )
    Balance.objects.create(
        cluster=granted.cluster,
        project=granted.nlp,
        at=after(9000),
        quota_gpu_seconds=9,
        usage_gpu_seconds=1,
        share_ppb=1,
    )

    def row(at: str) -> dict[str, Any]:
        [found] = lead.get("/api/v1/budgets/", {"project": "lab/nlp", "at": at}).json()["results"]
        return found

    then = row(after(3599).isoformat())
    assert (then["percent_of_parent"], then["change_version"], then["level_version"]) == (50, 1, 2)
    assert (then["used_gpu_seconds"], then["balance"], then["standing"]) == (150, -0.5, "over-served")
    now = row(timezone.now().isoformat())
    assert (now["percent_of_parent"], now["used_gpu_seconds"], now["standing"]) == (70, 1, "under-served")
    assert row(after(20_000).isoformat())["standing"] is None
    assert lead.get("/api/v1/budgets/", {"at": (START - timedelta(days=1)).isoformat()}).json()["count"] == 0


@pytest.mark.parametrize("path", ["/api/v1/budgets/", "/api/v1/budgets/export/"])
@pytest.mark.parametrize(
    "asked", [{"at": "2026-13-40"}, {"at": "2026-11-02T00:00:00"}, {"cluster": "mars"}, {"till": "x"}]
)
def test_a_moment_or_cluster_that_can_not_be_is_refused_by_name(
    lead: APIClient, path: str, asked: dict[str, str]
) -> None:
    response = lead.get(path, asked)
    problem_require(response, 400)
    assert attrs_of(response) == set(asked)


def deep_make(lab: Lab) -> None:
    """A tree of four levels with names that trouble spreadsheets and pages."""
    for path, name in (
        ("lab/nlp/chat", "=HYPERLINK(1)"),
        ("lab/nlp/chat/语言", "<script>alert(1)</script>"),
        ("lab/nlp/chat/语言/ab", "🙂" * 200),
    ):
        parent = project_make(path.rpartition("/")[0])
        project_make(path, name=name)
        budget_make(cluster=lab.cluster, parent=parent, percent={path.rpartition("/")[2]: 33.3333})


def test_the_csv_of_a_deep_tree_and_the_json_have_the_same_numbers(granted: Lab, lead: APIClient) -> None:
    deep_make(granted)
    Balance.objects.create(
        cluster=granted.cluster,
        project=granted.nlp,
        at=START,
        quota_gpu_seconds=900,
        usage_gpu_seconds=250,
        share_ppb=1,
    )
    response = lead.get("/api/v1/budgets/export/")
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    text = b"".join(response.streaming_content).decode()
    assert text.startswith("\ufeff")
    rows = {row["project"]: row for row in csv.DictReader(StringIO(text.removeprefix("\ufeff")))}
    assert len(rows) == 6
    answers = lead.get("/api/v1/budgets/").json()["results"]
    assert len(answers) == 5
    for answer in answers:
        row = rows[answer["project"]]
        assert float(row["percent"]) == answer["percent_of_parent"]
        assert int(row["version"]) == answer["level_version"]
        for column in (
            "percent_of_cluster", "gpus", "gpu_hours_per_week", "own_percent_of_cluster", "own_gpus",
            "own_gpu_hours_per_week", "burst_gpus", "used_gpu_seconds", "quota_gpu_seconds", "balance", "standing",
        ):  # fmt: skip
            assert row[column] == ("" if answer[column] is None else str(answer[column])), column
    assert rows["lab/nlp/chat"]["name"] == "'=HYPERLINK(1)"
    assert rows["lab/nlp/chat/语言"]["name"] == "<script>alert(1)</script>"
    assert rows["lab/nlp/chat/语言/ab"]["name"] == "🙂" * 200


def test_what_was_exported_is_imported_after_a_dry_run(granted: Lab, lead: APIClient) -> None:
    deep_make(granted)
    text = b"".join(lead.get("/api/v1/budgets/export/").streaming_content).decode()
    text = text.replace("lab/nlp,nlp,1,50,", "lab/nlp,nlp,1,75,").replace("'=HYPERLINK(1),1,33.3333,", "x,1,100,")
    sent = {"csv": text, "dry_run": True}
    answer = post(lead, sent, "/api/v1/budgets/import/").json()
    assert (answer["errors"], answer["changes"]) == ([], [])
    assert [(level["parent"], level["base_version"]) for level in answer["levels"]] == [("lab", 1), ("lab/nlp", 1)]
    assert answer["levels"][0]["moves"][0]["to_percent"] == 75
    assert BudgetChange.objects.count() == 4
    done = post(lead, {"csv": text, "reason": "from the sheet"}, "/api/v1/budgets/import/")
    assert done.status_code == 200, done.content
    assert len(done.json()["changes"]) == 2
    assert budgets_at(cluster=granted.cluster, at=timezone.now())[granted.nlp.pk].share_ppm == 750_000


def test_a_file_with_errors_is_refused_by_line_and_a_stale_one_is_a_409(granted: Lab, lead: APIClient) -> None:
    text = b"".join(lead.get("/api/v1/budgets/export/").streaming_content).decode()
    wrong = text.replace(",50,", ",NaN,")
    dry = post(lead, {"csv": wrong, "dry_run": True}, "/api/v1/budgets/import/").json()
    assert [(error["line"], error["column"]) for error in dry["errors"]] == [(3, "percent")]
    response = post(lead, {"csv": wrong, "reason": "x"}, "/api/v1/budgets/import/")
    problem_require(response, 400)
    assert attrs_of(response) == {"csv.3.percent"}
    budget_make(cluster=granted.cluster, parent=granted.root, percent={"nlp": 10})
    problem_require(post(lead, {"csv": text, "reason": "x"}, "/api/v1/budgets/import/"), 409)
    assert BudgetChange.objects.count() == 2


def test_an_import_needs_a_reason_and_a_text(lead: APIClient) -> None:
    text = b"".join(lead.get("/api/v1/budgets/export/").streaming_content).decode().replace(",50,", ",40,")
    response = post(lead, {"csv": text}, "/api/v1/budgets/import/")
    problem_require(response, 400)
    assert attrs_of(response) == {"reason"}
    problem_require(post(lead, {"csv": 5, "reason": "x"}, "/api/v1/budgets/import/"), 400)
    problem_require(post(lead, {"reason": "x"}, "/api/v1/budgets/import/"), 400)


@pytest.mark.django_db(transaction=True)
def test_of_two_imports_at_once_one_is_kept_whole_and_the_other_is_refused_whole(granted: Lab) -> None:
    deep_make(granted)
    text = b"".join(client_of(granted.lead).get("/api/v1/budgets/export/").streaming_content).decode()
    start = threading.Barrier(2)
    answers: list[int] = []

    def send(percent: str) -> None:
        client = client_of(granted.lead)
        edited = text.replace(",50,", f",{percent},").replace(",33.3333,", f",{percent},")
        start.wait(timeout=10)
        try:
            answers.append(post(client, {"csv": edited, "reason": percent}, "/api/v1/budgets/import/").status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=send, args=(percent,)) for percent in ("41", "42")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(answers) == [200, 409]
    assert len({line.share_ppm for line in budgets_at(cluster=granted.cluster, at=timezone.now()).values()}) == 2
    assert len(set(BudgetChange.objects.filter(created_at__gt=START).values_list("reason"))) == 1
