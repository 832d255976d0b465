"""Requests: what a lead asks, what is refused, and what the ledger says of the last grant, kept as it was."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.clusters.models import Host
from portal.common.errors import Forbidden, Refused
from portal.proposals.models import GrantRequest
from portal.proposals.selectors import requests_visible
from portal.proposals.services.decisions import proposal_approve
from portal.proposals.services.requests import request_decline, request_edit, request_submit
from portal.workloads.models import Workload
from tests.api.support import client_of as api_of
from tests.factories import (
    START,
    after,
    attempt_make,
    budget_make,
    host_make,
    project_make,
    segment_make,
    user_make,
    workload_make,
)
from tests.proposals.scene import DAY, NOW, proposal_make, request_make


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", " "),
        ("title", "x" * 201),
        ("purpose", ""),
        ("impact", "a\0b"),
        ("gpus", 0),
        ("gpus", -1),
        ("gpus", True),
        ("gpus", 1.5),
        ("gpus", 10**9),
        ("gpus", 65),
        ("from_at", datetime.min.replace(tzinfo=UTC)),
        ("from_at", after(-3700 * DAY)),
        ("until_at", START),
        ("until_at", after(11 * DAY)),
        ("until_at", after(5000 * DAY)),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_saved(scene, field, value):
    with pytest.raises(Refused) as refused:
        request_make(scene, **{field: value})
    assert [error.attr for error in refused.value.errors] == [field]
    assert not GrantRequest.objects.exists()


def test_a_lead_who_sees_nothing_above_may_not_decline_their_own_request(scene):
    request = request_make(scene)
    with pytest.raises(Forbidden, match="Leads of lab decide"):
        request_decline(request=request, actor=scene.vera, reason="x", now=NOW)
    request.refresh_from_db()
    assert request.state == "submitted"


def test_the_root_has_nobody_to_ask(scene):
    with pytest.raises(Refused, match="nobody to ask"):
        request_make(scene, project=scene.lab, author=scene.mona)


def test_nothing_is_asked_for_an_archived_project(scene):
    scene.vision.archived_at = START
    scene.vision.save()
    with pytest.raises(Refused, match="archived"):
        request_make(scene)


def test_a_member_does_not_ask(scene):
    with pytest.raises(Forbidden):
        request_make(scene, author=user_make(project=scene.vision))


def test_a_draft_is_seen_by_its_author_alone(scene):
    request_make(scene, submit=False)
    seen = {who: requests_visible(user=getattr(scene, who)).count() for who in ("vera", "mona", "nils", "viewer")}
    assert seen == {"vera": 1, "mona": 0, "nils": 0, "viewer": 0}


def test_a_submitted_request_is_seen_by_those_who_see_the_project(scene):
    request_make(scene)
    seen = {who: requests_visible(user=getattr(scene, who)).count() for who in ("vera", "mona", "nils", "viewer")}
    assert seen == {"vera": 1, "mona": 1, "nils": 0, "viewer": 1}


def test_a_draft_is_edited_by_its_author_alone(scene):
    draft = request_make(scene, submit=False)
    other = user_make(role="lead", project=scene.vision)
    with pytest.raises(Forbidden, match="author's alone"):
        request_edit(request=draft, actor=other, now=NOW, title="Mine")
    assert request_edit(request=draft, actor=scene.vera, now=NOW, gpus=8).gpus == 8


def test_a_draft_whose_time_has_passed_is_not_submitted(scene):
    draft = request_make(scene, submit=False)
    with pytest.raises(Refused, match="in the future"):
        request_submit(request=draft, actor=scene.vera, now=after(50 * DAY))
    assert GrantRequest.objects.get().state == "draft"


def test_what_the_last_grant_achieved_is_read_from_the_ledger(scene):
    host = host_make(cluster=scene.cluster)
    workload = workload_make(
        project=scene.vision, cluster=scene.cluster, gpus_per_replica=4, min_runtime_seconds=3600, queued_at=START
    )
    attempt = attempt_make(
        workload=workload,
        hosts=[host],
        decided_at=after(60),
        ended_at=after(3660),
        state="ended",
        outcome="succeeded",
        claim=False,
    )
    Workload.objects.update(state="succeeded", ended_at=after(3660))
    segment_make(attempt=attempt, host=host, start_at=after(60), end_at=after(1860), gpus=4)
    segment_make(attempt=attempt, host=host, start_at=after(1860), end_at=after(3660), gpus=4, standing="unallocated")
    figures = request_make(scene).last_grant
    assert (figures["from"], figures["until"]) == (START.isoformat(), NOW.isoformat())
    assert figures["charged_gpu_seconds"] == figures["delivered_gpu_seconds"] == 4 * 1800
    assert figures["unallocated_gpu_seconds"] == 4 * 1800
    assert figures["owed_gpu_seconds"] == 4 * 3660
    assert (figures["starts"], figures["wait_p50_seconds"], figures["wait_p90_seconds"]) == (1, 60, 60)
    assert figures["idle_held_gpu_seconds"] is None
    assert figures["idle_held_reason"].startswith("Not measured.")


def test_it_is_kept_as_it_was_when_it_was_submitted(scene):
    request = request_make(scene)
    host = host_make(cluster=scene.cluster)
    workload = workload_make(project=scene.vision, cluster=scene.cluster, min_runtime_seconds=60)
    segment_make(attempt=attempt_make(workload=workload, hosts=[host]), host=host, start_at=START, end_at=after(60))
    again = request_submit(request=request, actor=scene.vera, now=after(12 * DAY))
    assert again.last_grant["charged_gpu_seconds"] == 0
    assert again.last_grant["until"] == NOW.isoformat()


def test_a_project_without_a_budget_had_no_grant(scene):
    audio = project_make("lab/audio")
    assert "no budget" in request_make(scene, project=audio, author=scene.mona).last_grant["reason"]


def test_the_last_grant_is_since_the_budget_last_moved(scene):
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 25, "nlp": 30}, at=after(5 * DAY))
    assert request_make(scene).last_grant["from"] == after(5 * DAY).isoformat()


def test_the_last_granted_request_says_when_the_last_grant_was(scene):
    earlier = request_make(scene, from_at=after(2 * DAY), until_at=after(10 * DAY + 60))
    GrantRequest.objects.filter(pk=earlier.pk).update(state="granted")
    later = request_make(scene, now=after(20 * DAY), from_at=after(21 * DAY))
    assert later.last_grant["from"] == after(2 * DAY).isoformat()
    assert later.last_grant["until"] == after(10 * DAY + 60).isoformat()


def test_at_most_ninety_days_are_looked_back(scene):
    now = after(200 * DAY)
    request = request_make(scene, now=now, from_at=after(201 * DAY), until_at=after(220 * DAY))
    assert request.last_grant["from"] == (now - timedelta(days=90)).isoformat()


def test_more_gpus_than_the_cluster_has_are_refused_with_the_bound(scene):
    with pytest.raises(Refused, match="local has 64 GPUs installed"):
        request_make(scene, gpus=65)
    draft = request_make(scene, gpus=64, submit=False)
    with pytest.raises(Refused, match="local has 64 GPUs installed"):
        request_edit(request=draft, actor=scene.vera, now=NOW, gpus=65)


def test_a_granted_request_keeps_what_was_given_beside_what_was_asked(scene):
    request = request_make(scene, gpus=40)
    proposal = proposal_make(scene, requests=[request.pk])
    proposal_approve(proposal=proposal, actor=scene.max, reason="Less, but some.", now=NOW)
    request.refresh_from_db()
    assert (request.state, request.gpus, str(request.given_gpus)) == ("granted", 40, "19.20")
    Host.objects.update(retired_at=NOW)
    answer = api_of(scene.vera).get(f"/api/v1/requests/{request.pk}/").json()
    assert (answer["gpus"], answer["given_gpus"]) == (40, 19.2)
    asked = api_of(scene.vera).get(f"/api/v1/proposals/{proposal.pk}/").json()["asked"]
    assert asked == [{"request": request.pk, "gpus": 40, "given_gpus": 19.2}]
