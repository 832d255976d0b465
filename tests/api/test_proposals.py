"""REST of requests and proposals: the whole debate by API, who sees what, and what is refused how."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.budgets.models import BudgetChange
from portal.proposals.models import GrantRequest, Proposal
from portal.proposals.services.decisions import proposal_reject
from tests.api.support import attrs_of, client_of, problem_require
from tests.factories import budget_make
from tests.proposals.scene import NOW, Scene, proposal_make, request_make, scene_make

REQUESTS, PROPOSALS = "/api/v1/requests/", "/api/v1/proposals/"
REQUEST = {
    "project": "lab/vision",
    "cluster": "local",
    "title": "A larger detector",
    "purpose": "Training.",
    "impact": "Fewer misses.",
    "gpus": 20,
    "from_at": "2099-01-01T00:00:00Z",
    "until_at": "2099-02-01T00:00:00+02:00",
}
CHILDREN = [{"project": "lab/vision", "percent": 30.5}, {"project": "lab/nlp", "percent": "30", "burst_gpus": 40}]
PROPOSAL = {
    "cluster": "local",
    "parent": "lab",
    "base_version": 1,
    "title": "More for vision",
    "reason": "It pays for itself.",
    "children": CHILDREN,
}


@pytest.fixture
def scene(db: None) -> Scene:
    # Requests of the API are made now, so their times are far ahead.
    return scene_make()


def soon(body):
    """The body with a time within ten years of now."""
    begin = timezone.now() + timedelta(days=1)
    return {**body, "from_at": begin.isoformat(), "until_at": (begin + timedelta(days=30)).isoformat()}


def test_from_a_request_to_a_budget_change(scene):
    vera, mona, max_ = (client_of(user) for user in (scene.vera, scene.mona, scene.max))
    asked = vera.post(REQUESTS, soon(REQUEST), format="json")
    assert (asked.status_code, asked.json()["state"]) == (201, "draft")
    number = asked.json()["id"]
    submitted = vera.post(f"{REQUESTS}{number}/submit/").json()
    assert submitted["state"] == "submitted"
    assert submitted["last_grant"]["owed_gpu_seconds"] == 0
    assert submitted["last_grant"]["idle_held_reason"].startswith("Not measured.")
    made = mona.post(PROPOSALS, {**PROPOSAL, "requests": [number]}, format="json")
    assert made.status_code == 201, made.content
    proposal = made.json()["id"]
    assert [child["share_ppm"] for child in made.json()["children"]] == [300_000, 305_000]
    assert [child["today_share_ppm"] for child in made.json()["children"]] == [300_000, 200_000]
    assert vera.get(f"{REQUESTS}{number}/").json()["state"] == "taken_up"
    assert mona.post(f"{PROPOSALS}{proposal}/open/").json()["state"] == "open"
    max_.post(f"{PROPOSALS}{proposal}/comment/", {"text": "Why now?"}, format="json")
    own = mona.post(f"{PROPOSALS}{proposal}/approve/", {"reason": "Mine."}, format="json")
    assert problem_require(own, 403)["errors"][0]["code"] == "own_proposal"
    done = max_.post(f"{PROPOSALS}{proposal}/approve/", {"reason": "Agreed."}, format="json").json()
    assert (done["state"], done["decided_by"], done["current_version"]) == ("approved", "max", 2)
    assert [comment["text"] for comment in done["comments"]] == ["Why now?"]
    assert [child["share_ppm"] for child in done["children"]] == [300_000, 305_000]
    assert [child["today_share_ppm"] for child in done["children"]] == [300_000, 200_000]
    assert BudgetChange.objects.get(pk=done["budget_change"]).version == 2
    assert vera.get(f"{REQUESTS}{number}/").json()["state"] == "granted"


def test_the_lists_are_filtered_and_refuse_what_there_is_not(scene):
    request_make(scene)
    client = client_of(scene.mona)
    assert client.get(REQUESTS, {"state": "submitted,taken_up", "project": "lab"}).json()["count"] == 1
    assert client.get(REQUESTS, {"state": "declined"}).json()["count"] == 0
    assert client.get(REQUESTS, {"project": "lab/nlp"}).json()["count"] == 0
    for address, parameter in ((REQUESTS, "state=gone"), (PROPOSALS, "state=submitted"), (PROPOSALS, "colour=red")):
        assert client.get(f"{address}?{parameter}").status_code == 400
    problem = problem_require(client.get(PROPOSALS, {"parent": "lab/none"}), 400)
    assert "You may see: lab" in problem["detail"]


def test_the_list_of_proposals_takes_a_fixed_number_of_queries(scene, django_assert_num_queries):
    client = client_of(scene.mona)
    proposal_make(scene)
    client.get(PROPOSALS)
    with django_assert_num_queries(6):
        client.get(PROPOSALS)
    for _ in range(5):
        proposal_make(scene, requests=[request_make(scene).pk])
    with django_assert_num_queries(6):
        assert client.get(PROPOSALS).json()["count"] == 6


@pytest.mark.parametrize("who", ["stranger", "vera", "viewer", "member"])
def test_what_one_may_not_see_answers_404_and_what_one_may_not_do_403(scene, who):
    proposal = proposal_make(scene)
    client = client_of(getattr(scene, who))
    seen = client.get(f"{PROPOSALS}{proposal.pk}/").status_code
    assert seen == (404 if who in ("stranger", "vera") else 200)
    expected = 404 if seen == 404 else 403
    for action in ("approve", "reject", "withdraw", "revise", "simulate"):
        problem_require(client.post(f"{PROPOSALS}{proposal.pk}/{action}/", {"reason": "x"}, format="json")
                        if action in ("approve", "reject", "withdraw")
                        else client.post(f"{PROPOSALS}{proposal.pk}/{action}/"), expected)  # fmt: skip
    assert Proposal.objects.get().state == "open"


def test_a_draft_is_not_found_by_others(scene):
    request = request_make(scene, submit=False)
    proposal = proposal_make(scene, opened=False)
    for client in (client_of(scene.viewer), client_of(scene.nils)):
        assert client.get(f"{REQUESTS}{request.pk}/").status_code == 404
        assert client.get(f"{PROPOSALS}{proposal.pk}/").status_code == 404
        assert client.post(f"{PROPOSALS}{proposal.pk}/open/").status_code == 404


def test_nothing_is_decided_by_get(scene):
    request, proposal = request_make(scene), proposal_make(scene)
    client = client_of(scene.max)
    for action in ("open", "revise", "rebase", "approve", "reject", "withdraw", "comment", "simulate"):
        assert client.get(f"{PROPOSALS}{proposal.pk}/{action}/").status_code == 405
    for action in ("submit", "withdraw", "decline"):
        assert client.get(f"{REQUESTS}{request.pk}/{action}/").status_code == 405
    assert (Proposal.objects.get().state, GrantRequest.objects.get().state) == ("open", "submitted")


def test_a_stale_base_is_409_with_the_current_version_and_what_changed(scene):
    proposal = proposal_make(scene)
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": 40}, at=NOW)
    client = client_of(scene.max)
    answer = client.post(f"{PROPOSALS}{proposal.pk}/approve/", {"reason": "Agreed."}, format="json")
    problem = problem_require(answer, 409)
    assert problem["current_version"] == 2
    assert "lab/nlp from 30 % to 40 %" in problem["detail"]
    again = client.post(f"{PROPOSALS}{proposal.pk}/approve/", {"reason": "Agreed."}, format="json")
    for each in (problem, problem_require(again, 409)):
        assert (each["errors"][0]["code"], each["current_version"]) == ("stale", 2)
        assert "lab/nlp from 30 % to 40 %" in each["detail"]
    seen = client.get(f"{PROPOSALS}{proposal.pk}/").json()
    assert (seen["state"], seen["base_version"], seen["current_version"]) == ("stale", 1, 2)
    assert "from 30 % to 40 %" in seen["changed_since"][0]
    rebase = {"base_version": 2, "children": CHILDREN}
    rebased = client.post(f"{PROPOSALS}{proposal.pk}/rebase/", rebase, format="json").json()
    assert (rebased["state"], rebased["base_version"], rebased["edited_by"]) == ("open", 2, "max")


def test_a_decision_after_the_decision_is_409(scene):
    proposal = proposal_make(scene)
    proposal_reject(proposal=proposal, actor=scene.mona, reason="No.", now=NOW)
    answer = client_of(scene.max).post(f"{PROPOSALS}{proposal.pk}/approve/", {"reason": "Yes."}, format="json")
    assert "This proposal is rejected" in problem_require(answer, 409)["detail"]


@pytest.mark.parametrize(
    ("change", "attr"),
    [
        ({"gpus": -1}, "gpus"),
        ({"gpus": "20"}, "gpus"),
        ({"until_at": "2026-13-40"}, "until_at"),
        ({"from_at": "2027-01-01T00:00:00"}, "from_at"),
        ({"title": ""}, "title"),
        ({"purpose": "a\0b"}, "purpose"),
        ({"cluster": "nowhere"}, "cluster"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_request_names_the_field(scene, change, attr):
    answer = client_of(scene.vera).post(REQUESTS, {**soon(REQUEST), **change}, format="json")
    problem_require(answer, 400)
    assert attrs_of(answer) == {attr}
    assert not GrantRequest.objects.exists()


@pytest.mark.parametrize(
    ("change", "attr"),
    [
        ({"base_version": -1}, None),
        ({"children": [{**CHILDREN[0], "percent": -1}, CHILDREN[1]]}, "children.0.percent"),
        ({"children": [{**CHILDREN[0], "percent": "NaN"}, CHILDREN[1]]}, "children.0.percent"),
        ({"children": [{**CHILDREN[0], "percent": "0." + "1" * 30}, CHILDREN[1]]}, "children.0.percent"),
        ({"children": [{**CHILDREN[0], "percent": 80}, CHILDREN[1]]}, "children.percent"),
        ({"children": CHILDREN[:1]}, "children"),
        ({"children": [{**CHILDREN[0], "project": "lab/none"}, CHILDREN[1]]}, "children.0.project"),
        ({"effective_at": "2020-01-01T00:00:00Z"}, "effective_at"),
        ({"reason": " "}, "reason"),
    ],
)
def test_a_bad_proposal_names_the_field_and_saves_nothing(scene, change, attr):
    answer = client_of(scene.mona).post(PROPOSALS, {**PROPOSAL, **change}, format="json")
    assert answer.status_code == (409 if attr is None else 400), answer.content
    if attr is not None:
        assert attrs_of(answer) == {attr}
    assert not Proposal.objects.exists()


@pytest.mark.parametrize("number", ["NaN", "1e309", "-Infinity"])
def test_what_is_no_number_is_refused_by_its_field(scene, number):
    client = client_of(scene.vera)
    text = json.dumps(soon(REQUEST)).replace('"gpus": 20', f'"gpus": {number}')
    answer = client.post(REQUESTS, text, content_type="application/json")
    problem_require(answer, 400)
    assert attrs_of(answer) == {"gpus"}


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_a_decision_without_a_reason_names_the_reason(scene, action):
    proposal = proposal_make(scene)
    answer = client_of(scene.max).post(f"{PROPOSALS}{proposal.pk}/{action}/", {"reason": " "}, format="json")
    problem_require(answer, 400)
    assert attrs_of(answer) == {"reason"}


def test_drafts_are_changed_in_part(scene):
    request, proposal = request_make(scene, submit=False), proposal_make(scene, opened=False)
    answer = client_of(scene.vera).patch(f"{REQUESTS}{request.pk}/", {"title": "Smaller"}, format="json").json()
    assert (answer["title"], answer["gpus"]) == ("Smaller", 20)
    answer = client_of(scene.max).patch(f"{PROPOSALS}{proposal.pk}/", {"title": "Less"}, format="json").json()
    assert (answer["title"], answer["children"][1]["share_ppm"]) == ("Less", 300_000)


def test_the_very_same_draft_sent_again_is_the_first(scene):
    vera, mona, body = client_of(scene.vera), client_of(scene.mona), soon(REQUEST)
    assert len({vera.post(REQUESTS, body, format="json").json()["id"] for _ in range(2)}) == 1
    assert len({mona.post(PROPOSALS, PROPOSAL, format="json").json()["id"] for _ in range(2)}) == 1


def test_a_token_that_may_only_read_decides_nothing(scene):
    proposal = proposal_make(scene)
    client = client_of(scene.max, scope="read")
    assert client.get(f"{PROPOSALS}{proposal.pk}/").status_code == 200
    assert client.post(f"{PROPOSALS}{proposal.pk}/reject/", {"reason": "No."}, format="json").status_code == 403


def test_it_says_what_a_planned_change_will_set_back_before_and_after_the_approval(scene):
    ahead = timezone.now() + timedelta(days=5)
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": 30}, at=ahead)
    address = f"{PROPOSALS}{proposal_make(scene).pk}/"
    client = client_of(scene.max)
    before = client.get(address).json()["planned_after"]
    after = client.post(f"{address}approve/", {"reason": "Agreed."}, format="json").json()["planned_after"]
    assert before == after
    [planned] = after
    assert [each["project"] for each in planned["sets_back"]] == ["lab/vision"]
