"""The client when the network fails it."""

from typing import Any

import httpx
import pytest

from portal.cli.client import Client
from portal.cli.errors import UnreachableError
from portal.cli.submit import workload_post
from portal.workloads.models import Workload
from tests.api.support import BODY, lab_make, token_of


class LostAnswers(httpx.HTTPTransport):
    """Sends every request, and loses the first answers."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self.lost = lost

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if self.lost:
            self.lost -= 1
            response.close()
            raise httpx.ReadError("the answer was lost", request=request)
        return response


def test_a_submission_whose_answer_is_lost_is_sent_again_and_starts_once(
    transactional_db: None, live_server: Any
) -> None:
    lab = lab_make()
    with Client(live_server.url, token_of(lab.member), LostAnswers(1)) as client:
        workload = workload_post(client, BODY)
    assert Workload.objects.get().pk == workload["id"]


def test_a_portal_that_says_503_counts_as_away_after_some_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.cli.client.RETRY_AFTER_SECONDS", (0.0, 0.0))
    tries: list[httpx.Request] = []

    def away(request: httpx.Request) -> httpx.Response:
        tries.append(request)
        return httpx.Response(503, json={"errors": [{"attr": None, "code": "unavailable", "detail": "Away."}]})

    client = Client("http://commons.example", "gc_x", httpx.MockTransport(away))
    with client, pytest.raises(UnreachableError, match="Away"):
        workload_post(client, BODY)
    assert len(tries) == 3
    assert len({request.headers["Idempotency-Key"] for request in tries}) == 1
