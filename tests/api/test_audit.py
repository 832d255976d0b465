"""The audit log through REST: who may read it, its filters, and its CSV, which no spreadsheet takes for a program."""

import csv
from io import StringIO

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from portal.common.models import AuditEntry
from portal.common.services import audit_record
from portal.projects.services import project_change
from tests.api.support import Lab, attrs_of, client_of, problem_require
from tests.factories import START, after

AUDIT, EXPORT = "/api/v1/audit/", "/api/v1/audit/export/"


@pytest.fixture
def auditor(lab: Lab) -> APIClient:
    client = client_of(lab.administrator)
    AuditEntry.objects.all().delete()
    project_change(project=lab.nlp, name="=cmd|' /C calc'!A0", actor=lab.lead, now=START)
    project_change(project=lab.nlp, name="语言 🤖 <script>", actor=lab.lead, now=after(60))
    project_change(project=lab.vision, name="Sight", actor=None, now=after(120))
    return client


def names(answer: object) -> list[str]:
    return [row["after"]["name"] for row in answer.json()["results"]]


def rows(answer: object) -> list[dict[str, str]]:
    text = b"".join(answer.streaming_content).decode()
    assert text.startswith("\ufeff")
    return list(csv.DictReader(StringIO(text[1:])))


def test_each_line_has_from_and_to_the_newest_first(auditor: APIClient) -> None:
    first, second, third = auditor.get(AUDIT).json()["results"]
    assert (first["before"], first["after"], first["actor"]) == ({"name": "vision"}, {"name": "Sight"}, None)
    assert second["before"] == third["after"]
    assert (third["actor"], third["action"], third["target_name"]) == ("lee", "project_change", "lab/nlp")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("actor=lee", 2),
        ("actor=(system)", 1),
        ("actor=nobody", 0),
        ("action=project_change", 3),
        ("action=project_move", 0),
        ("target=vision", 1),
        ("target_type=project", 3),
        ("target_type=cluster", 0),
        ("start=2026-11-02T00:01:00Z", 2),
        ("end=2026-11-02T00:01:00Z", 1),
        ("start=2026-11-02T00:01:00Z&end=2026-11-02T00:01:30Z", 1),
        ("limit=1&offset=1", 1),
    ],
)
def test_it_is_filtered_by_person_action_thing_and_time(auditor: APIClient, query: str, expected: int) -> None:
    assert len(auditor.get(f"{AUDIT}?{query}").json()["results"]) == expected


def test_it_is_filtered_by_the_id_of_a_thing(auditor: APIClient, lab: Lab) -> None:
    assert names(auditor.get(f"{AUDIT}?target_type=project&target_id={lab.vision.pk}")) == ["Sight"]


@pytest.mark.parametrize(
    ("query", "attr"),
    [
        ("colour=red", "colour"),
        ("start=2026-13-40", "start"),
        ("start=2026-11-02T00:00:00", "start"),
        ("end=yesterday", "end"),
        ("target_id=x", "target_id"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_by_name(auditor: APIClient, query: str, attr: str) -> None:
    answer = auditor.get(f"{AUDIT}?{query}")
    problem_require(answer, 400)
    assert attrs_of(answer) == {attr}


@pytest.mark.parametrize("address", [AUDIT, EXPORT])
@pytest.mark.parametrize("who", ["member", "lead", "neighbour"])
def test_it_is_for_operators_and_administrators(lab: Lab, who: str, address: str) -> None:
    problem_require(client_of(getattr(lab, who)).get(address), 403)


def test_the_csv_has_a_line_for_each_changed_field(auditor: APIClient) -> None:
    answer = auditor.get(EXPORT)
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert "audit.csv" in answer.headers["Content-Disposition"]
    first, second, third = rows(answer)
    assert (first["field"], first["from"], first["to"], first["actor"]) == ("name", "vision", "Sight", "")
    assert second["to"] == "语言 🤖 <script>"
    assert third["to"] == "'=cmd|' /C calc'!A0"


def test_the_csv_has_what_its_filters_leave_and_no_pages(auditor: APIClient) -> None:
    assert [row["to"] for row in rows(auditor.get(f"{EXPORT}?actor=(system)"))] == ["Sight"]
    assert attrs_of(auditor.get(f"{EXPORT}?limit=1")) == {"limit"}
    assert rows(auditor.get(EXPORT, headers={"accept": "text/csv"}))


def test_a_long_log_is_streamed_in_one_query(auditor: APIClient, lab: Lab) -> None:
    for number in range(50):
        audit_record(actor=None, action="x", target=lab.nlp, before={}, after={"n": number}, now=after(number))
    with CaptureQueriesContext(connection) as captured:
        assert len(rows(auditor.get(EXPORT))) == 53
    assert len([query for query in captured if "common_auditentry" in query["sql"]]) == 1


def test_an_entry_without_fields_has_a_line_too(auditor: APIClient, lab: Lab) -> None:
    audit_record(actor=None, action="user_password_set", target=lab.lead, before={}, after={}, now=after(999))
    assert rows(auditor.get(f"{EXPORT}?action=user_password_set"))[0]["field"] == ""
