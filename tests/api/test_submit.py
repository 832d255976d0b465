"""Submitting workloads by REST."""

import json

import pytest
from rest_framework.test import APIClient

from portal.workloads.models import Workload
from tests.api.support import BODY, Lab, attrs_of, client_of, problem_require


def test_a_submission_answers_201_with_the_workload(member: APIClient) -> None:
    response = member.post("/api/v1/workloads/", BODY, format="json")
    assert response.status_code == 201, response.content
    answer = response.json()
    assert answer["state"] == "pending"
    assert answer["reason"] == {"code": "not_yet_considered", "text": "Not yet considered."}
    assert answer["project"] == "lab/nlp"
    assert answer["clusters"] == ["local"]
    assert answer["gpus"] == 2
    assert answer["charged_gpu_seconds"] == 0
    assert answer["attempts"] == []
    assert response.headers["Location"].endswith(f"/api/v1/workloads/{answer['id']}/")
    assert member.get(f"/api/v1/workloads/{answer['id']}/").json() == answer


def test_a_key_used_again_gives_the_same_workload_and_says_so(member: APIClient) -> None:
    first = member.post("/api/v1/workloads/", BODY, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    again = member.post("/api/v1/workloads/", BODY, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert Workload.objects.count() == 1


def test_a_key_used_for_another_body_is_a_conflict(member: APIClient) -> None:
    member.post("/api/v1/workloads/", BODY, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    other = member.post("/api/v1/workloads/", {**BODY, "replicas": 2}, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    problem = problem_require(other, 409)
    assert problem["title"] == "This Idempotency-Key was used for another request"
    assert Workload.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "attr"),
    [
        ({"project": "lab/none"}, "project"),
        ({"clusters": ["none"]}, "clusters"),
        ({"gpus_per_replica": 9}, "gpus_per_replica"),
        ({"replicas": 0}, "replicas"),
        ({"replicas": True}, "replicas"),
        ({"replicas": "2"}, "replicas"),
        ({"replicas": 1.0}, "replicas"),
        ({"replicas": 10**30}, "replicas"),
        ({"min_runtime_seconds": 8 * 3600 + 1}, "min_runtime_seconds"),
        ({"timeout_seconds": 599}, "timeout_seconds"),
        ({"command": ["a\x00b"]}, "command"),
        ({"command": "python train.py"}, "command"),
        ({"command": []}, "command"),
        ({"clusters": None}, "clusters"),
        ({"clusters": 5}, "clusters"),
        ({"script": {}}, "script"),
        ({"name": None}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"resumable": 1}, "resumable"),
        ({"environment": ["A"]}, "environment"),
        ({"gpu": 8}, "gpu"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_saved(member: APIClient, change: dict[str, object], attr: str) -> None:
    response = member.post("/api/v1/workloads/", json.dumps({**BODY, **change}), content_type="application/json")
    problem_require(response, 400)
    assert attrs_of(response) == {attr}
    assert not Workload.objects.exists()


def test_wrong_fields_are_named_together(member: APIClient) -> None:
    body = {**BODY, "replicas": 0, "timeout_seconds": 1, "clusters": ["none"]}
    response = member.post("/api/v1/workloads/", body, format="json")
    assert attrs_of(response) == {"replicas", "timeout_seconds", "clusters"}


def test_an_unknown_field_is_refused_with_the_valid_ones(member: APIClient) -> None:
    response = member.post("/api/v1/workloads/", {**BODY, "gpus": 8}, format="json")
    assert "gpus_per_replica" in problem_require(response, 400)["detail"]


def test_an_unknown_project_is_refused_with_those_that_the_person_may_see(member: APIClient) -> None:
    detail = problem_require(member.post("/api/v1/workloads/", {**BODY, "project": "x"}, format="json"), 400)["detail"]
    assert "lab/nlp" in detail
    assert "lab/vision" not in detail


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", "null", "NaN", "1e309", '{"replicas": NaN}', '{"priority": 1e309}', '{"a":1,"a":2}']
)
def test_a_body_that_is_no_json_object_is_refused(member: APIClient, text: str) -> None:
    response = member.post("/api/v1/workloads/", text, content_type="application/json")
    problem_require(response, 400)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e309"])
@pytest.mark.parametrize("field", ["replicas", "name", "resumable", "command", "environment", "unknown"])
def test_a_number_that_json_does_not_have_is_refused_on_its_field(member: APIClient, field: str, value: str) -> None:
    text = json.dumps({**BODY, field: "HERE"}).replace('"HERE"', value)
    problem = problem_require(member.post("/api/v1/workloads/", text, content_type="application/json"), 400)
    assert [error["attr"] for error in problem["errors"]] == [field]


def test_a_body_in_chunks_is_refused_for_it_would_be_read_as_empty(member: APIClient) -> None:
    problem = problem_require(
        member.post("/api/v1/workloads/", HTTP_TRANSFER_ENCODING="chunked", CONTENT_LENGTH=""), 411
    )
    assert "Content-Length" in problem["detail"]
    assert not Workload.objects.exists()


def test_json_nested_without_end_is_refused(member: APIClient) -> None:
    text = '{"environment": ' + "[" * 100_000 + "]" * 100_000 + "}"
    problem_require(member.post("/api/v1/workloads/", text, content_type="application/json"), 400)


def test_ten_megabytes_are_refused_before_they_are_read(member: APIClient) -> None:
    body = json.dumps({**BODY, "script": "x" * 10_000_000})
    problem_require(member.post("/api/v1/workloads/", body, content_type="application/json"), 413)


def test_another_content_type_is_refused(member: APIClient) -> None:
    problem_require(member.post("/api/v1/workloads/", {"project": "lab/nlp"}), 415)


def test_a_viewer_may_see_but_not_submit(lab: Lab) -> None:
    from tests.factories import user_make

    viewer = client_of(user_make(role="viewer", project=lab.nlp))
    problem_require(viewer.post("/api/v1/workloads/", BODY, format="json"), 403)
    assert viewer.get("/api/v1/workloads/").status_code == 200


def test_a_read_token_may_not_submit(lab: Lab) -> None:
    problem_require(client_of(lab.member, scope="read").post("/api/v1/workloads/", BODY, format="json"), 403)


def test_its_author_cancels_a_workload_and_may_do_so_again(member: APIClient) -> None:
    number = member.post("/api/v1/workloads/", BODY, format="json").json()["id"]
    for _ in range(2):
        response = member.post(f"/api/v1/workloads/{number}/cancel/")
        assert response.status_code == 200
        assert response.json()["state"] == "cancelled"


def test_a_fellow_member_may_not_cancel(lab: Lab, member: APIClient) -> None:
    from tests.factories import user_make

    number = member.post("/api/v1/workloads/", BODY, format="json").json()["id"]
    fellow = client_of(user_make(role="member", project=lab.nlp))
    problem_require(fellow.post(f"/api/v1/workloads/{number}/cancel/"), 403)


def test_a_neighbour_gets_404_for_what_they_may_not_see(lab: Lab, member: APIClient) -> None:
    number = member.post("/api/v1/workloads/", BODY, format="json").json()["id"]
    neighbour = client_of(lab.neighbour)
    for response in (
        neighbour.get(f"/api/v1/workloads/{number}/"),
        neighbour.get(f"/api/v1/workloads/{number}/logs/"),
        neighbour.post(f"/api/v1/workloads/{number}/cancel/"),
        neighbour.get("/api/v1/projects/lab/nlp/"),
    ):
        problem_require(response, 404)


def test_cancelling_by_get_does_nothing(member: APIClient) -> None:
    number = member.post("/api/v1/workloads/", BODY, format="json").json()["id"]
    problem_require(member.get(f"/api/v1/workloads/{number}/cancel/"), 405)
    assert member.get(f"/api/v1/workloads/{number}/").json()["state"] == "pending"


def test_the_environment_is_shown_to_its_author_only(lab: Lab, member: APIClient) -> None:
    body = {**BODY, "environment": {"KEY": "secret"}}
    number = member.post("/api/v1/workloads/", body, format="json").json()["id"]
    assert member.get(f"/api/v1/workloads/{number}/").json()["environment"] == {"KEY": "secret"}
    assert client_of(lab.lead).get(f"/api/v1/workloads/{number}/").json()["environment"] is None


def test_shape_and_rules_are_judged_together(member: APIClient) -> None:
    body = {
        **BODY, "command": ["a", "b\0c"], "replicas": 0, "gpus_per_replica": 999, "clusters": ["none"],
        "min_runtime_seconds": 10**9, "colour": "red", "environment": {"\ud800": "x"}, "name": "\0",
    }  # fmt: skip
    response = member.post("/api/v1/workloads/", json.dumps(body), content_type="application/json")
    problem_require(response, 400)
    assert attrs_of(response) == set(body) - {"project"}


def test_what_depends_on_an_unreadable_field_is_not_complained_about(member: APIClient) -> None:
    body = {"project": "lab/nlp", "script": 5, "gpus_per_replica": 9}
    response = member.post("/api/v1/workloads/", body, format="json")
    assert attrs_of(response) == {"script", "gpus_per_replica"}


def test_a_missing_project_is_named_beside_the_rest(member: APIClient) -> None:
    response = member.post("/api/v1/workloads/", {"command": ["true"], "gpus_per_replica": 9}, format="json")
    assert attrs_of(response) == {"project", "gpus_per_replica"}


def test_an_unknown_field_that_is_no_unicode_is_named(member: APIClient) -> None:
    response = member.post("/api/v1/workloads/", json.dumps({**BODY, "\ud800": 1}), content_type="application/json")
    assert attrs_of(response) == {"\\ud800"}


def test_a_body_that_is_no_object_is_refused(member: APIClient) -> None:
    problem_require(member.post("/api/v1/workloads/", ["\0"], format="json"), 400)
