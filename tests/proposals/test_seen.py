"""The lead who asked, and does not see the level: what of the proposal they see, and what never leaks."""

import pytest
from django.urls import reverse

from portal.proposals.models import Comment, Proposal
from portal.proposals.seen import view_of
from portal.proposals.selectors import proposals_visible
from portal.proposals.services.comments import comment_add
from portal.proposals.services.decisions import proposal_approve
from tests.api.support import client_of as api_of
from tests.dashboard.scene import client_of
from tests.factories import budget_make, project_make, user_make
from tests.proposals.scene import NOW, lines_of, proposal_make, request_make

GOSSIP = "nlp (lab/nlp, once lab/language) and NLP lend a GPU to lab/vision; other/hush too."


@pytest.fixture
def debated(scene) -> Proposal:
    """Taken up and open, with texts that name what vera does not see."""
    project_make("other/hush")
    request = request_make(scene)
    lines = lines_of(scene, 30, 25)
    return proposal_make(scene, requests=[request.pk], title="Less for nlp", reason=GOSSIP, lines=lines)


def page(proposal):
    return reverse("dashboard:proposal", args=[proposal.pk])


def rest(proposal):
    return f"/api/v1/proposals/{proposal.pk}/"


def names_nobody(text):
    return not any(name in text.lower() for name in ("nlp", "lab/language", "hush"))


def test_who_asked_sees_the_debate_with_the_own_line_and_the_others_as_one_sum(scene, debated):
    comment_add(proposal=debated, author=scene.max, text=GOSSIP, now=NOW)
    text = client_of(scene.vera).get(page(debated)).text.replace("\N{NO-BREAK SPACE}", " ")
    for words in ("vision goes from 20 % to 30 %", "Others, and what is not given out", "lend a GPU to lab/vision"):
        assert words in text
    assert names_nobody(text)
    seen = api_of(scene.vera).get(rest(debated))
    assert [child["project"] for child in seen.json()["children"]] == ["lab/vision"]
    assert seen.json()["others"] == {"share_ppm": 700_000, "today_share_ppm": 800_000}
    assert names_nobody(seen.content.decode())


def test_the_lists_and_the_request_name_nobody_either(scene, debated):
    request = debated.requests.get()
    names = {"proposals": [], "requests": [], "request": [request.pk]}
    client = client_of(scene.vera)
    for name, arguments in names.items():
        text = client.get(reverse(f"dashboard:{name}", args=arguments)).text
        assert names_nobody(text), name
    assert "Less for a project" in client.get(reverse("dashboard:proposals")).text
    listed = api_of(scene.vera).get("/api/v1/proposals/")
    assert listed.json()["count"] == 1
    assert names_nobody(listed.content.decode())


def test_what_changed_under_it_is_told_without_the_others(scene, debated):
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": 40}, at=NOW)
    text = client_of(scene.vera).get(page(debated)).text
    assert "nothing that you see changed" in text
    assert names_nobody(text)
    row = api_of(scene.vera).get(rest(debated)).json()
    assert "nothing that you see changed" in row["changed_since"][0]
    assert names_nobody(str(row))


def test_the_decision_is_told_without_the_others(scene, debated):
    proposal_approve(proposal=debated, actor=scene.max, reason=f"Agreed: {GOSSIP}", now=NOW)
    client = client_of(scene.vera)
    api, request = api_of(scene.vera), debated.requests.get()
    answers = [client.get(page(debated)), client.get(reverse("dashboard:request", args=[request.pk]))]
    answers += [api.get(rest(debated)), api.get("/api/v1/requests/"), api.get(f"/api/v1/requests/{request.pk}/")]
    for text in (answer.content.decode() for answer in answers):
        assert "Agreed: a project" in text
        assert names_nobody(text)


def test_who_asked_comments_and_decides_nothing(scene, debated):
    client = client_of(scene.vera)
    client.post(reverse("dashboard:proposal_comment", args=[debated.pk]), {"text": "We need it in May."})
    assert Comment.objects.get().author == scene.vera
    for action in ("approve", "reject", "withdraw", "revise"):
        answer = client.post(reverse(f"dashboard:proposal_{action}", args=[debated.pk]), {"reason": "x"})
        assert answer.status_code in (403, 404), action
    assert Proposal.objects.get().state == "open"


def test_a_draft_that_takes_up_the_request_stays_the_managers(scene):
    proposal_make(scene, requests=[request_make(scene).pk], opened=False)
    assert not proposals_visible(user=scene.vera).exists()


def test_leads_of_other_projects_and_members_of_the_asking_one_see_nothing_of_it(scene, debated):
    member = user_make(username="mel", role="member", project=scene.vision)
    for user in (scene.nils, member, scene.stranger):
        assert not proposals_visible(user=user).exists()


def test_who_sees_the_level_sees_all_of_it(scene, debated):
    for user in (scene.viewer, scene.mona):
        view = view_of(user=user, proposal=debated)
        assert view.is_whole
        assert view.text(GOSSIP) == GOSSIP
    assert api_of(scene.viewer).get(rest(debated)).json()["others"] is None


def test_the_level_itself_and_the_own_project_keep_their_names(scene, debated):
    text = "lab gives lab/vision, not lab/vision/gone, its GPUs."
    assert view_of(user=scene.vera, proposal=debated).text(text) == ("lab gives lab/vision, not a project, its GPUs.")
