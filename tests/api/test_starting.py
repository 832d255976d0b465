"""Until tables and first accounts are there, probes say what is missing and pages that the portal is starting."""

from pathlib import Path

import pytest
from django.conf import LazySettings
from django.test import Client

from portal.common import starting
from portal.common.starting import STARTING_FILE, Known
from tests.api.support import problem_require


@pytest.fixture
def just_started(monkeypatch: pytest.MonkeyPatch, settings: LazySettings, tmp_path: Path, db: None) -> Path:
    """A web process that knows nothing yet, in a data folder of its own."""
    monkeypatch.setattr(Known, "brought_up", False)
    settings.DATA_DIR = tmp_path
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.fixture
def newer_code(monkeypatch: pytest.MonkeyPatch, just_started: Path) -> None:
    """A migration lies on disk that the database has not had: probes ask on connections of their own, so that a row
    taken away inside the test's transaction would not be seen by them."""
    known = starting.on_disk()
    monkeypatch.setattr(starting, "on_disk", lambda: known | {("workloads", "9999_of_tomorrow")})


def test_health_is_503_with_the_number_of_pending_migrations(client: Client, newer_code: None) -> None:
    response = client.get("/healthz")
    assert (response.status_code, response.json()["migrations"]) == (503, "1 migrations pending")


def test_health_is_503_until_the_first_accounts_are_made(client: Client, just_started: Path) -> None:
    (just_started / STARTING_FILE).touch()
    response = client.get("/healthz")
    assert (response.status_code, response.json()["bootstrap"]) == (503, "pending")
    (just_started / STARTING_FILE).unlink()
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("address", ["/", "/accounts/login/", "/no-such-page"])
def test_a_page_says_that_the_portal_is_starting(client: Client, newer_code: None, address: str) -> None:
    response = client.get(address)
    assert response.status_code == 503
    assert response["Retry-After"] == "3"
    assert "GPU Commons is starting" in response.content.decode()


def test_the_api_says_it_as_a_problem(client: Client, newer_code: None) -> None:
    response = client.get("/api/v1/workloads/")
    problem_require(response, 503)
    assert "is starting" in response.json()["detail"]


def test_once_brought_up_the_database_is_not_asked_again(
    client: Client, just_started: Path, django_assert_num_queries
) -> None:
    assert client.get("/accounts/login/").status_code == 200
    with django_assert_num_queries(0):
        assert client.get("/no-such-page").status_code == 404
