"""A workload's output by REST."""

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from portal.workloads.models import Attempt, LogChunk
from tests.api.support import Lab, attrs_of, problem_require
from tests.factories import after, attempt_make, workload_make


def output_write(attempt: Attempt, text: str, offset: int = 0, replica: int = 0) -> None:
    LogChunk.objects.create(
        attempt=attempt, replica=replica, offset=offset, data=text.encode(), received_at=timezone.now()
    )


@pytest.fixture
def attempt(lab: Lab) -> Attempt:
    workload = workload_make(project=lab.nlp, cluster=lab.cluster, replicas=2)
    return attempt_make(workload=workload, hosts=[lab.host])


def test_output_is_plain_text_and_can_be_read_on(member: APIClient, attempt: Attempt) -> None:
    output_write(attempt, "step 1\n")
    path = f"/api/v1/workloads/{attempt.workload_id}/logs/"
    first = member.get(path, HTTP_ACCEPT="text/plain")
    assert first.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert first.content == b"step 1\n"
    assert (first.headers["X-Log-Attempt"], first.headers["X-Log-Complete"]) == ("1", "false")
    output_write(attempt, "step 2 é\n", offset=7)
    rest = member.get(path, {"offset": first.headers["X-Log-Next-Offset"]})
    assert rest.content.decode() == "step 2 é\n"


def test_output_of_an_ended_attempt_is_complete(member: APIClient, attempt: Attempt) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(state="ended", outcome="succeeded", ended_at=after(60))
    response = member.get(f"/api/v1/workloads/{attempt.workload_id}/logs/")
    assert response.headers["X-Log-Complete"] == "true"


def test_each_replica_has_its_own_output(member: APIClient, attempt: Attempt) -> None:
    output_write(attempt, "zero")
    output_write(attempt, "one", replica=1)
    response = member.get(f"/api/v1/workloads/{attempt.workload_id}/logs/", {"replica": 1, "attempt": 1})
    assert response.content == b"one"


@pytest.mark.parametrize(
    ("name", "value"),
    [("replica", "2"), ("replica", "-1"), ("offset", "x"), ("attempt", "0"), ("attempt", "7"), ("a", "1")],
)
def test_a_wrong_parameter_is_refused_by_name(member: APIClient, attempt: Attempt, name: str, value: str) -> None:
    response = member.get(f"/api/v1/workloads/{attempt.workload_id}/logs/", {name: value})
    problem_require(response, 400)
    assert attrs_of(response) == {name}


def test_a_workload_that_never_ran_has_no_output(lab: Lab, member: APIClient) -> None:
    workload = workload_make(project=lab.nlp, cluster=lab.cluster)
    response = member.get(f"/api/v1/workloads/{workload.pk}/logs/")
    assert (response.status_code, response.content) == (200, b"")
    assert "X-Log-Attempt" not in response.headers


def test_a_replica_that_does_not_exist_is_refused_in_words(lab: Lab, member: APIClient) -> None:
    workload = workload_make(project=lab.nlp, cluster=lab.cluster)
    response = member.get(f"/api/v1/workloads/{workload.pk}/logs/", {"replica": 1})
    assert problem_require(response, 400)["detail"] == "There is no replica 1: it has one replica, replica 0."


def test_reading_across_a_gap_goes_on_at_the_true_offset(member: APIClient, attempt: Attempt) -> None:
    output_write(attempt, "head")
    output_write(attempt, "tail", offset=1_000_004)
    response = member.get(f"/api/v1/workloads/{attempt.workload_id}/logs/")
    assert response.content == b"head\n[GPU Commons: 1,000,000 bytes of this output are left out here.]\ntail"
    assert response.headers["X-Log-Next-Offset"] == "1000008"
