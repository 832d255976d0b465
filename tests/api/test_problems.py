"""What goes wrong before a view is reached, and what is away."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from rest_framework.settings import api_settings
from rest_framework.test import APIClient

from portal.common.availability import BROKER
from portal.projects.models import ApiToken
from portal.workloads.models import Workload
from tests.api.support import BODY, Lab, problem_require, token_of

NOBODY_LISTENS = "redis://127.0.0.1:1/0"


@pytest.fixture
def broker_away() -> Iterator[None]:
    """The broker's address is one at which nobody listens; no connection to either address outlives the test."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("broker_write_url", "broker_url"):  # in this order: the first falls back to the second
            patch.setattr(current_app.conf, name, NOBODY_LISTENS)
        connections_forget()
        yield
    connections_forget()


def connections_forget() -> None:
    """Celery's pools are made anew at the next use, with the address of that moment."""
    current_app._pool = None
    current_app.amqp._producer_pool = None
    BROKER.forget()


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer gc_wrong", "Token gc_wrong", "Bearer two words", "Bearer \xe4", "Basic YTpi"]
)
def test_a_wrong_token_is_a_401_problem(lab: Lab, header: str) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=header)
    response = client.get("/api/v1/workloads/")
    problem_require(response, 401)
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_an_expired_token_says_since_when(lab: Lab) -> None:
    secret = token_of(lab.member)
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(days=1))
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {secret}")
    assert "expired at" in problem_require(client.get("/api/v1/workloads/"), 401)["detail"]


def test_both_words_before_a_token_are_understood(lab: Lab) -> None:
    secret = token_of(lab.member)
    for word in ("Token", "Bearer", "bearer"):
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"{word} {secret}")
        assert client.get("/api/v1/whoami/").status_code == 200


def test_an_unknown_address_is_a_404_problem(db: None) -> None:
    for path in ("/api/v1/nothing/", "/api/v1/workloads", "/api/", "/api/v1/workloads/abc/"):
        problem_require(APIClient().get(path), 404)


def test_a_number_beyond_all_bounds_is_a_404_problem(member: APIClient) -> None:
    problem_require(member.get(f"/api/v1/workloads/{10**40}/"), 404)
    problem_require(member.get(f"/api/v1/projects/{10**40}/"), 404)


def test_a_name_with_a_nul_byte_is_a_404_problem(member: APIClient) -> None:
    problem_require(member.get("/api/v1/projects/a%00b/"), 404)
    problem_require(member.get("/api/v1/clusters/a%00b/"), 404)
    problem_require(member.get("/api/v1/hosts/a%00b/"), 404)


def test_a_method_that_an_address_lacks_is_a_405_problem(member: APIClient) -> None:
    problem_require(member.delete("/api/v1/workloads/"), 405)


def test_a_session_must_bring_its_csrf_token(lab: Lab) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(lab.member, backend="allauth.account.auth_backends.AuthenticationBackend")
    assert client.get("/api/v1/whoami/").json()["token"] is None
    problem_require(client.post("/api/v1/workloads/", BODY, format="json"), 403)
    assert not Workload.objects.exists()


def test_a_database_that_goes_away_is_a_503_problem(member: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**_: Any) -> None:
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr("portal.usage.apis.workloads.workload_submit", away)
    response = member.post("/api/v1/workloads/", BODY, format="json")
    assert "nothing was saved" in problem_require(response, 503)["detail"]
    assert "closed the connection" not in response.content.decode()
    assert response.headers["Retry-After"] == "5"


def test_a_fault_of_ours_is_a_500_problem_that_gives_nothing_away(
    member: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("portal.usage.apis.workloads.workload_submit", broken)
    member.raise_request_exception = False
    response = member.post("/api/v1/workloads/", BODY, format="json")
    problem_require(response, 500)
    assert "secret" not in response.content.decode()


def test_too_many_requests_are_a_429_problem(member: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(api_settings.DEFAULT_THROTTLE_RATES, "user", "0/min")
    response = member.get("/api/v1/workloads/")
    problem_require(response, 429)
    assert 0 <= int(response.headers["Retry-After"]) <= 60


def test_health_is_200_once_database_and_broker_answer(client: Client, db: None) -> None:
    response = client.get("/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "web": "ok", "migrations": "ok", "database": "ok", "broker": "ok"}
    assert client.get("/readyz").json()["migrations"] == "ok"


def test_health_is_503_naming_the_broker_when_it_is_away(client: Client, db: None, broker_away: None) -> None:
    response = client.get("/healthz")
    assert response.status_code == 503
    assert (response.json()["broker"], response.json()["database"]) == ("away", "ok")


def test_a_submission_is_refused_and_not_saved_when_the_broker_is_away(member: APIClient, broker_away: None) -> None:
    response = member.post("/api/v1/workloads/", BODY, format="json")
    assert "broker is away" in problem_require(response, 503)["detail"]
    assert not Workload.objects.exists()


def test_a_submission_that_was_accepted_before_is_found_again_when_the_broker_is_away(
    member: APIClient, request: pytest.FixtureRequest
) -> None:
    key = {"HTTP_IDEMPOTENCY_KEY": "once"}
    first = member.post("/api/v1/workloads/", BODY, format="json", **key)
    request.getfixturevalue("broker_away")
    again = member.post("/api/v1/workloads/", BODY, format="json", **key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
