"""A page's range begins no earlier than the ledger does, and says so."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.clusters.models import HostSpan
from tests.dashboard.scene import client_of


def opened(scene, began_before, **query):
    """The pyramid page of a ledger that began so long ago."""
    HostSpan.objects.update(start_at=timezone.now() - began_before)
    return client_of(scene.admin).get(reverse("dashboard:pyramid"), query)


@pytest.mark.parametrize(
    ("age", "key"), [(timedelta(hours=1), "24h"), (timedelta(days=3), "24h"), (timedelta(days=8), "7d")]
)
def test_the_default_range_is_a_week_once_the_ledger_holds_one(scene, age, key):
    assert opened(scene, age).context["frame"].range.key == key


def test_a_range_that_is_longer_than_the_ledger_begins_with_it(scene):
    answer = opened(scene, timedelta(hours=1), range="30d")
    span = answer.context["span"]
    assert abs(span.seconds - 3600) <= 5
    assert "last 30 days, accounted from" in answer.content.decode()


def test_a_range_inside_the_ledger_is_as_asked_for(scene):
    span = opened(scene, timedelta(days=30), range="24h").context["span"]
    assert (span.seconds, span.words) == (86_400, "the last 24 hours")


def test_a_range_that_does_not_exist_is_refused_with_those_that_do(scene):
    answer = client_of(scene.admin).get(reverse("dashboard:pyramid"), {"range": "9y"})
    assert answer.status_code == 400
    assert "24h, 7d, 30d" in answer.content.decode()
