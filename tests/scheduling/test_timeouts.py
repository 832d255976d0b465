"""A pass is made at the moment at which a timeout ends, not at the beat after it."""

from typing import Any

import pytest

from portal.celery import app
from portal.common.messages import PASS_TASK
from portal.scheduling.stops import ahead_seconds, timeouts_ahead
from portal.workloads.models import AttemptState, Outcome
from tests.factories import after
from tests.scheduling.conftest import Lab, fresh

Asked = list[dict[str, Any]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The requests for passes that were sent to the broker, with their options."""
    sent: Asked = []

    def send(name: str, **options: Any) -> None:
        if name == PASS_TASK:
            sent.append(options)

    monkeypatch.setattr(app, "send_task", send)
    return sent


def test_a_timeout_that_ends_before_the_next_beat_has_a_pass_of_its_own(lab: Lab) -> None:
    lab.start(at=0, timeout_seconds=100)
    assert timeouts_ahead(cluster=lab.cluster, now=after(100 - ahead_seconds() - 1)) == []
    assert timeouts_ahead(cluster=lab.cluster, now=after(94)) == [6]


def test_a_timeout_that_is_over_asks_for_no_further_pass(lab: Lab) -> None:
    lab.start(at=0, timeout_seconds=100)
    assert timeouts_ahead(cluster=lab.cluster, now=after(100)) == []


def test_timeouts_that_end_within_two_seconds_share_a_pass_after_both(lab: Lab) -> None:
    for seconds in (99, 100):
        lab.start(at=0, timeout_seconds=seconds)
    assert timeouts_ahead(cluster=lab.cluster, now=after(94)) == [6]


def test_a_timeout_shorter_than_the_beats_interval_is_watched_from_its_start(
    lab: Lab, asked: Asked, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        lab.start(at=0, timeout_seconds=3)
    assert [options["countdown"] for options in asked if "countdown" in options] == [3]


def test_a_pass_at_its_end_stops_a_workload_that_is_out_of_time(lab: Lab) -> None:
    attempt = lab.start(at=0, timeout_seconds=3)
    lab.make_pass(2)
    assert fresh(attempt).state == AttemptState.RUNNING
    lab.make_pass(3)
    assert (fresh(attempt).state, fresh(attempt).stop_cause) == (AttemptState.STOPPING, Outcome.TIMED_OUT)
