"""The page and the form of a request: what it says of the last grant, and what is refused beside its field."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.proposals.models import GrantRequest
from tests.dashboard.scene import client_of
from tests.factories import project_make
from tests.proposals.scene import request_make, scene_make


@pytest.fixture
def scene(db):
    return scene_make()


def page(name, *arguments):
    return reverse(f"dashboard:{name}", args=arguments)


def request_form(**given):
    begin = timezone.now() + timedelta(days=1)
    return {
        "project": "lab/vision",
        "cluster": "local",
        "title": "A larger detector",
        "purpose": "Training.",
        "impact": "Fewer misses.",
        "gpus": "20",
        "from_at": f"{begin:%Y-%m-%dT%H:%M}",
        "until_at": f"{begin + timedelta(days=30):%Y-%m-%dT%H:%M}",
        **given,
    }


def test_a_request_says_what_its_last_grant_achieved_and_what_is_not_measured(scene):
    text = client_of(scene.mona).get(page("request", request_make(scene).pk)).text
    for words in (
        "What the last grant achieved",
        "nothing was owed",
        "no workload started",
        "Not measured.",
        "31.25 %",
    ):
        assert words in text


def test_a_project_without_a_budget_says_so(scene):
    audio = project_make("lab/audio")
    request = request_make(scene, project=audio, author=scene.mona)
    text = client_of(scene.mona).get(page("request", request.pk)).text
    assert "It had no budget on this cluster" in text
    assert "nan" not in text.lower().replace("finance", "")


@pytest.mark.parametrize(
    ("field", "text"), [("gpus", "-1"), ("gpus", "NaN"), ("until_at", "2026-13-40"), ("purpose", ""), ("project", "no")]
)
def test_a_bad_field_of_a_request_stands_beside_it_and_nothing_is_lost(scene, field, text):
    answer = client_of(scene.vera).post(page("request_new"), request_form(**{field: text}))
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in answer.text
    assert "Fewer misses." in answer.text
    assert not GrantRequest.objects.exists()


def test_who_leads_nothing_is_told_who_asks(scene):
    assert "Leads ask" in client_of(scene.member).get(page("request_new")).text
    assert "Leads propose changes" in client_of(scene.member).get(page("proposal_new")).text
