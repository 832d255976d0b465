"""Until tables and first accounts are there, probes say what is missing and pages that the portal is starting."""

from pathlib import Path

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test import Client

from portal.common.starting import STARTING_FILE, Known
from tests.api.support import problem_require


@pytest.fixture
def just_started(monkeypatch: pytest.MonkeyPatch, settings: LazySettings, tmp_path: Path, db: None) -> Path:
    """A web process that knows nothing yet, in a data folder of its own."""
    monkeypatch.setattr(Known, "brought_up", False)
    settings.DATA_DIR = tmp_path
    (tmp_path / "run").mkdir()
    return tmp_path


def migration_forget() -> None:
    """As if the last migration of one app had not run."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE id = (SELECT max(id) FROM django_migrations WHERE app = 'workloads')"
        )


def test_health_is_503_with_the_number_of_pending_migrations(client: Client, just_started: Path) -> None:
    migration_forget()
    response = client.get("/healthz")
    assert (response.status_code, response.json()["migrations"]) == (503, "1 migrations pending")


def test_health_is_503_until_the_first_accounts_are_made(client: Client, just_started: Path) -> None:
    (just_started / STARTING_FILE).touch()
    response = client.get("/healthz")
    assert (response.status_code, response.json()["bootstrap"]) == (503, "pending")
    (just_started / STARTING_FILE).unlink()
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("address", ["/", "/accounts/login/", "/no-such-page"])
def test_a_page_says_that_the_portal_is_starting(client: Client, just_started: Path, address: str) -> None:
    migration_forget()
    response = client.get(address)
    assert response.status_code == 503
    assert response["Retry-After"] == "3"
    assert "GPU Commons is starting" in response.content.decode()


def test_the_api_says_it_as_a_problem(client: Client, just_started: Path) -> None:
    migration_forget()
    response = client.get("/api/v1/workloads/")
    problem_require(response, 503)
    assert "is starting" in response.json()["detail"]


def test_once_brought_up_the_database_is_not_asked_again(
    client: Client, just_started: Path, django_assert_num_queries
) -> None:
    assert client.get("/accounts/login/").status_code == 200
    with django_assert_num_queries(0):
        assert client.get("/no-such-page").status_code == 404
