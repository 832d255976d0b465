"""A broker or a database that hangs: it takes what is sent to it and answers nothing."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from portal.common.availability import BROKER
from portal.common.health import DATABASE, _turn
from portal.launcher.services import Services
from portal.workloads.models import Workload
from tests.api.support import BODY, Lab, problem_require

FORM = {
    **{
        "project": "lab/nlp",
        "name": "kept name",
        "how": "command",
        "key": "once",
        "command": "true",
        "min_runtime": "0",
    },
    "min_runtime": "0",
    **{"replicas": "1", "gpus_per_replica": "1", "allow_unallocated": "on", "resumable": "on", "priority": "0"},
}


@contextmanager
def stopped(services: Services, kind: str) -> Iterator[None]:
    """The broker's or the database's process stands still."""
    pid = next(record.pid for record in services.records if record.kind == kind)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def broker_hangs(services: Services) -> Iterator[None]:
    BROKER.forget()
    with stopped(services, "broker"):
        yield
    BROKER.forget()


def test_a_submission_waits_for_no_broker_that_hangs(member: APIClient, broker_hangs: None) -> None:
    # The first request of a process reads its addresses and takes longer.
    member.get("/api/v1/workloads/")
    began = time.monotonic()
    for _ in range(3):
        problem_require(member.post("/api/v1/workloads/", BODY, format="json"), 503)
    assert time.monotonic() - began < 3
    assert not Workload.objects.exists()


def test_a_broker_that_hangs_while_a_request_is_sent_holds_nobody_up(
    member: APIClient, services: Services, django_capture_on_commit_callbacks: Any
) -> None:
    BROKER.forget()
    with django_capture_on_commit_callbacks() as callbacks:
        assert member.post("/api/v1/workloads/", BODY, format="json").status_code == 201
    with stopped(services, "broker"):
        began = time.monotonic()
        for callback in callbacks:
            callback()
        assert time.monotonic() - began < 2
        assert BROKER.is_away()
    BROKER.forget()


def test_the_form_keeps_what_was_typed_and_every_page_says_that_the_broker_is_away(
    lab: Lab, client: Client, broker_hangs: None
) -> None:
    client.force_login(lab.member)
    response = client.post("/submit/", FORM)
    assert response.status_code == 503
    assert "The broker is away: nothing was saved." in response.text
    assert 'value="kept name"' in response.text
    assert not Workload.objects.exists()
    assert "The broker is away: running workloads go on" in client.get("/queue/").text


def test_pages_say_nothing_of_a_broker_that_answers(lab: Lab, client: Client) -> None:
    BROKER.forget()
    client.force_login(lab.member)
    assert "The broker is away" not in client.get("/queue/").text


def test_a_page_says_that_the_database_is_away_when_it_hangs(
    lab: Lab, client: Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.common.health.DATABASE_THERE_SECONDS", 0.0)
    client.force_login(lab.member)
    assert client.get("/queue/").status_code == 200
    with stopped(services, "database"):
        began = time.monotonic()
        for _ in range(3):
            response = client.get("/queue/")
            assert (response.status_code, "The database is away" in response.text) == (503, True)
        assert time.monotonic() - began < 5
    assert _turn.acquire(timeout=10)
    _turn.release()
    DATABASE.forget()
    assert client.get("/queue/").status_code == 200


def test_health_answers_when_the_database_hangs(client: Client, db: None, services: Services) -> None:
    with stopped(services, "database"):
        began = time.monotonic()
        response = client.get("/healthz")
        assert time.monotonic() - began < 5
    assert (response.status_code, response.json()["database"]) == (503, "away")
    # The one who asked gets its answer now, and makes room for the next.
    assert _turn.acquire(timeout=10)
    _turn.release()
    assert client.get("/healthz").status_code == 200
