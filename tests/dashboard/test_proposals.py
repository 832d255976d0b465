"""The pages of requests and proposals: what they show to whom, what is refused how, and two people at once."""

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import level_at
from portal.common.units import whole_second
from portal.dashboard.budget_units import UNITS
from portal.dashboard.ranges import zone
from portal.proposals.models import Comment, GrantRequest, Proposal
from portal.proposals.services.comments import comment_add
from portal.proposals.services.decisions import proposal_approve, proposal_reject
from tests.dashboard.scene import client_of
from tests.factories import budget_make, project_make
from tests.proposals.scene import NOW, lines_of, proposal_make, request_make, scene_make

TROUBLE = "<script>alert(1)</script>"


@pytest.fixture
def scene(db):
    return scene_make()


def page(name, *arguments):
    return reverse(f"dashboard:{name}", args=arguments)


def form_of(scene, percent, *, base=1, **more):
    """What the browser sends of a level: every field as it was shown, and what was typed over it."""
    ids = {child.slug: child.pk for child in scene.lab.children.all()}
    shown = {"vision": ("20", "20", "12.8", "2150.4"), "nlp": ("30", "30", "19.2", "3225.6")}
    data = {"title": "More for vision", "reason": "It pays.", "base_version": base, "effective_at": "", "save": "1"}
    for slug, texts in shown.items():
        for unit, text in zip(UNITS, texts, strict=True):
            data[f"{unit}_{ids[slug]}"] = text
        data[f"burst_{ids[slug]}"] = data[f"unit_{ids[slug]}"] = ""
        data[f"shown_{ids[slug]}"] = "|".join([*texts, f"{texts[0]}0000"])
    for slug, text in percent.items():
        data[f"percent_{ids[slug]}"] = text
    return {**data, **more}


def new_address():
    return f"{page('proposal_new')}?parent=lab"


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


def shares(scene):
    lines = level_at(cluster=scene.cluster, parent=scene.lab, at=timezone.now() + timedelta(minutes=1)).lines
    return {child.slug: lines[child.pk].share_ppm for child in scene.lab.children.all()}


def test_from_a_request_to_new_budgets_in_the_browser(scene):
    vera, mona, max_ = (client_of(user) for user in (scene.vera, scene.mona, scene.max))
    made = vera.post(page("request_new"), request_form(), follow=True)
    request = GrantRequest.objects.get()
    assert "Nobody else sees it until you submit it" in made.text
    vera.post(page("request_submit", request.pk))
    shown = mona.get(f"{new_address()}&request={request.pk}").text
    assert 'value="31.25"' in shown
    assert re.search(rf'value="{request.pk}" id="\w+" checked', shown)
    mona.post(new_address(), form_of(scene, {"vision": "30"}, requests=[request.pk]))
    proposal = Proposal.objects.get()
    mona.post(page("proposal_open", proposal.pk))
    seen = max_.get(page("proposal", proposal.pk)).text
    for words in ("vision goes from 20 % to 30 %: 6.4 GPUs more", "+6.4", "3,225", "A larger detector"):
        assert words in seen
    done = max_.post(page("proposal_approve", proposal.pk), {"reason": "Agreed."}, follow=True)
    assert "Approved. The budgets of lab are at version 2." in done.text
    assert shares(scene) == {"vision": 300_000, "nlp": 300_000}
    granted = vera.get(page("request", request.pk)).text
    assert "<b>Granted</b>: 20 GPUs asked, 19.2 given, by max" in granted
    assert f'href="{page("proposal", proposal.pk)}"' in granted
    assert "20 GPUs asked, 19.2 given" in granted
    assert "20 GPUs asked for lab/vision, 19.2 given" in seen
    assert "A larger detector: 20 GPUs asked, 19.2 given" in seen


@pytest.mark.parametrize("action", ["approve", "reject", "withdraw", "open", "revise", "comment", "simulate"])
def test_nothing_is_done_to_a_proposal_by_get(scene, action):
    proposal = proposal_make(scene)
    assert client_of(scene.max).get(page(f"proposal_{action}", proposal.pk)).status_code == 405
    assert Proposal.objects.get().state == "open"
    assert BudgetChange.objects.count() == 1


@pytest.mark.parametrize("action", ["submit", "withdraw", "decline"])
def test_nothing_is_done_to_a_request_by_get(scene, action):
    request = request_make(scene)
    assert client_of(scene.mona).get(page(f"request_{action}", request.pk)).status_code == 405
    assert GrantRequest.objects.get().state == "submitted"


@pytest.mark.parametrize("action", ["approve", "reject", "comment"])
def test_an_action_needs_the_forms_secret(scene, action):
    proposal = proposal_make(scene)
    client = client_of(scene.max)
    client.handler.enforce_csrf_checks = True
    assert client.post(page(f"proposal_{action}", proposal.pk), {"reason": "x", "text": "x"}).status_code == 403
    assert Proposal.objects.get().state == "open"


def test_what_one_may_not_see_is_not_found_and_what_one_may_not_do_is_forbidden(scene):
    proposal, request = proposal_make(scene), request_make(scene)
    for who, seen, done in (("stranger", 404, 404), ("vera", 404, 404), ("viewer", 200, 403), ("member", 200, 403)):
        client = client_of(getattr(scene, who))
        assert client.get(page("proposal", proposal.pk)).status_code == seen, who
        assert client.post(page("proposal_approve", proposal.pk), {"reason": "x"}).status_code == done, who
        assert client.get(page("proposal_edit", proposal.pk)).status_code == done, who
        assert client.get(page("proposal_rebase", proposal.pk)).status_code == done, who
    assert client_of(scene.nils).get(page("request", request.pk)).status_code == 404
    assert client_of(scene.viewer).post(page("request_decline", request.pk), {"reason": "x"}).status_code == 403


def test_a_viewer_is_offered_nothing_that_they_may_not_do(scene):
    text = client_of(scene.viewer).get(page("proposal", proposal_make(scene).pk)).text
    for words in ("ask-approve", "ask-reject", "Simulate", "Back to draft"):
        assert words not in text


def test_its_author_is_told_who_approves_it(scene):
    proposal = proposal_make(scene)
    client = client_of(scene.mona)
    text = client.get(page("proposal", proposal.pk)).text
    assert "You wrote it: somebody else who leads lab approves it (max)." in text
    assert 'data-opens="ask-approve"' not in text
    answer = client.post(page("proposal_approve", proposal.pk), {"reason": "Mine."})
    assert answer.status_code == 403
    assert Proposal.objects.get().state == "open"


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_a_blank_reason_stands_beside_its_field(scene, action):
    proposal = proposal_make(scene)
    answer = client_of(scene.max).post(page(f"proposal_{action}", proposal.pk), {"reason": " "})
    assert answer.status_code == 400
    assert f'id="{action}_reason_error"' in answer.text
    assert Proposal.objects.get().state == "open"


def test_a_stale_proposal_shows_what_changed_and_offers_a_rebase(scene):
    proposal = proposal_make(scene)
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": 40}, at=NOW)
    client = client_of(scene.max)
    answer = client.post(page("proposal_approve", proposal.pk), {"reason": "Agreed."})
    assert answer.status_code == 409
    assert "lab/nlp from 30 % to 40 %" in answer.text
    text = client.get(page("proposal", proposal.pk)).text
    assert "nlp from 30 % to 40 %" in text
    assert page("proposal_rebase", proposal.pk) in text
    assert 'data-opens="ask-approve"' not in text


def test_a_rebase_shows_base_theirs_and_mine_and_saves_on_the_newest(scene):
    proposal = proposal_make(scene)
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": 40}, at=NOW)
    client = client_of(scene.max)
    text = client.get(page("proposal_rebase", proposal.pk)).text
    row = re.search(r'data-name="nlp".*?</tr>', text, re.S).group()
    assert [re.sub("<.*?>", "", cell) for cell in re.findall(r'<td class="n".*?</td>', row, re.S)] == ["30", "40", "30"]
    assert 'value="40"' in row
    answer = client.post(page("proposal_rebase", proposal.pk), form_of(scene, {"vision": "30", "nlp": "40"}, base=2))
    assert answer.status_code == 302
    proposal.refresh_from_db()
    assert (proposal.state, proposal.base_version, proposal.edited_by) == ("open", 2, scene.max)
    assert (proposal.title, proposal.reason) == ("More for vision", "The detector pays for itself.")


def test_a_rebase_on_what_has_changed_again_keeps_what_was_typed(scene):
    proposal = proposal_make(scene)
    for nlp in (40, 45):
        budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": nlp}, at=NOW)
    form = form_of(scene, {"vision": "31", "nlp": "40"}, base=2)
    answer = client_of(scene.max).post(page("proposal_rebase", proposal.pk), form)
    assert answer.status_code == 409
    assert 'value="31"' in answer.text
    assert "it is at version 3" in answer.text


def test_a_time_that_has_passed_is_said(scene):
    proposal = proposal_make(scene)
    Proposal.objects.update(effective_at=timezone.now() - timedelta(hours=1))
    client = client_of(scene.max)
    assert "which has passed" in client.get(page("proposal", proposal.pk)).text
    assert client.post(page("proposal_approve", proposal.pk), {"reason": "Agreed."}).status_code == 409
    assert BudgetChange.objects.count() == 1


def test_of_two_managers_who_decide_the_second_is_told_what_the_first_did(scene):
    proposal = proposal_make(scene)
    proposal_reject(proposal=proposal, actor=scene.mona, reason="Too much.", now=NOW)
    answer = client_of(scene.max).post(page("proposal_approve", proposal.pk), {"reason": "Agreed."})
    assert answer.status_code == 409
    for words in ("This proposal is rejected", "Too much.", "by mona"):
        assert words in answer.text


def test_more_than_the_whole_is_refused_with_the_names_and_nothing_typed_is_lost(scene):
    answer = client_of(scene.mona).post(new_address(), form_of(scene, {"vision": "80"}, title="Nearly all"))
    assert answer.status_code == 400
    for words in ("110 %", "lab/vision 80 %", 'value="80"', "Nearly all"):
        assert words in answer.text
    assert not Proposal.objects.exists()


@pytest.mark.parametrize("text", ["-5", "NaN", "1e309", "a", "101"])
def test_what_is_no_budget_stands_beside_its_row(scene, text):
    answer = client_of(scene.mona).post(new_address(), form_of(scene, {"vision": text}))
    assert answer.status_code == 400
    assert not Proposal.objects.exists()


def test_a_draft_on_a_version_that_is_old_is_refused(scene):
    answer = client_of(scene.mona).post(new_address(), form_of(scene, {"vision": "30"}, base=0))
    assert answer.status_code == 409
    assert "at version 1 by now" in answer.text


def test_a_draft_is_edited_and_begins_with_what_it_says(scene):
    proposal = proposal_make(scene, opened=False)
    client = client_of(scene.mona)
    text = client.get(page("proposal_edit", proposal.pk)).text
    row = re.search(r'data-name="vision".*?</tr>', text, re.S).group()
    assert 'value="30"' in row
    assert 'data-label="Today (%)">20' in row
    client.post(page("proposal_edit", proposal.pk), form_of(scene, {"vision": "25"}, title="Less"))
    proposal.refresh_from_db()
    assert (proposal.title, proposal.lines.get(project=scene.vision).share_ppm) == ("Less", 250_000)


def test_the_effect_is_shown_before_anything_is_kept(scene):
    form = form_of(scene, {"vision": "30"}, preview="1")
    answer = client_of(scene.mona).post(new_address(), form)
    assert answer.status_code == 200
    assert "vision goes from 20 % to 30 %: 6.4 GPUs more" in answer.text
    assert not Proposal.objects.exists()


def test_an_open_proposal_is_not_edited(scene):
    proposal = proposal_make(scene)
    assert client_of(scene.mona).get(page("proposal_edit", proposal.pk)).status_code == 409


def test_rivals_are_named_to_each_other(scene):
    first = proposal_make(scene)
    proposal_make(scene, title="Less for vision", lines=lines_of(scene, 10, 30))
    assert "Less for vision" in client_of(scene.max).get(page("proposal", first.pk)).text
    assert "2 other proposals touch this level" in client_of(scene.max).get(new_address()).text


def test_names_cases_and_comments_are_shown_as_text(scene):
    project_make("lab/x", name=TROUBLE)
    request = request_make(scene, title=TROUBLE, purpose=TROUBLE, impact=f"{TROUBLE}\n\nAnd more.")
    lines = [*lines_of(scene), (project_make("lab/x"), 100_000, None)]
    proposal = proposal_make(scene, title=TROUBLE, reason=TROUBLE, requests=[request.pk], lines=lines)
    comment_add(proposal=proposal, author=scene.member, text=TROUBLE, now=NOW)
    client = client_of(scene.mona)
    for address in (
        page("proposals"),
        page("requests"),
        page("proposal", proposal.pk),
        page("request", request.pk),
        f"{new_address()}&request={request.pk}",
    ):
        text = client.get(address).text
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert" in text


def test_a_comment_is_added_and_stays(scene):
    proposal = proposal_make(scene)
    client = client_of(scene.member)
    text = client.post(page("proposal_comment", proposal.pk), {"text": "Why now?"}, follow=True).text
    assert "Why now?" in text
    assert client.post(page("proposal_comment", proposal.pk), {"text": ""}).status_code == 400
    assert Comment.objects.count() == 1


def test_the_list_counts_what_is_to_decide_and_what_waits(scene):
    proposal_make(scene)
    request_make(scene)
    text = client_of(scene.mona).get(page("proposals")).text
    assert "1 proposal to decide; 1 request waits to be taken up" in text
    assert "vision 20 % → 30 %" in text
    assert client_of(scene.mona).get(page("proposals"), {"state": "gone"}).status_code == 400


PINNED = {"proposals": 16, "requests": 6, "proposal": 35, "request": 14, "proposal_new": 14}


@pytest.mark.parametrize("name", PINNED)
def test_the_pages_take_a_fixed_number_of_queries(scene, name, django_assert_num_queries):
    client = client_of(scene.mona)
    request = request_make(scene)
    proposal = proposal_make(scene, requests=[request.pk])
    arguments = {"proposal": [proposal.pk], "request": [request.pk]}.get(name, [])
    address = new_address() if name == "proposal_new" else page(name, *arguments)
    client.get(address)
    for number in range(4):
        more = request_make(scene, title=f"{number}")
        other = proposal_make(scene, title=f"{number}", requests=[more.pk, request.pk])
        comment_add(proposal=proposal, author=scene.mona, text=f"{number}", now=NOW)
        comment_add(proposal=other, author=scene.mona, text=f"{number}", now=NOW)
    with django_assert_num_queries(PINNED[name]):
        assert client.get(address).status_code == 200


def test_the_navigation_leads_to_them(scene):
    assert f'href="{page("proposals")}"' in client_of(scene.viewer).get("/").text


def test_an_approved_proposal_keeps_showing_what_it_changed(scene):
    proposal = proposal_approve(proposal=proposal_make(scene), actor=scene.max, reason="Agreed.", now=NOW)
    text = client_of(scene.viewer).get(page("proposal", proposal.pk)).text
    for words in ("Before, beside the draft", 'data-label="Before (%)"', "+6.4", "<b>Approved</b> by max", "Agreed."):
        assert words in text


def test_the_level_of_budgets_says_which_proposals_touch_it(scene):
    proposal_make(scene)
    proposal_make(scene, title="Only a draft", opened=False)
    address = reverse("dashboard:budgets_level", args=["lab"])
    assert "2 proposals touch this level and become stale" in client_of(scene.mona).get(address).text
    assert "1 proposal touches this level and becomes stale" in client_of(scene.viewer).get(address).text
    Proposal.objects.update(state="stale")
    assert "2 proposals touch this level: " in client_of(scene.mona).get(address).text


def test_the_requests_beginning_is_when_the_draft_takes_effect_while_it_is_ahead(scene):
    begin = whole_second(timezone.now()).replace(second=0) + timedelta(days=3)
    ahead = request_make(scene, from_at=begin, until_at=begin + timedelta(days=30))
    client = client_of(scene.mona)
    text = client.get(f"{new_address()}&request={ahead.pk}").text
    local = timezone.localtime(begin, zone())
    assert f'value="{local:%Y-%m-%dT%H:%M}"' in text
    GrantRequest.objects.update(from_at=timezone.now() - timedelta(days=1))
    field = re.search(r'<input[^>]*name="effective_at"[^>]*>', client.get(f"{new_address()}&request={ahead.pk}").text)
    assert "value=" not in field.group()


def test_the_approve_dialog_says_what_a_planned_change_will_set_back(scene):
    ahead = timezone.now() + timedelta(days=5)
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": 35}, at=ahead)
    text = client_of(scene.max).get(page("proposal", proposal_make(scene).pk)).text
    dialog = text[text.index('id="ask-approve"') :]
    assert "The change planned for" in dialog
    assert "sets vision from 30 % to 20 %" in dialog


def test_no_line_of_a_heading_ends_between_a_number_and_its_unit(scene):
    text = client_of(scene.max).get(page("proposal", proposal_make(scene).pk)).text
    heading = re.search(r"<h1>(.*?)</h1>", text, re.S).group(1)
    words = "More for vision: vision goes from 20_% to 30_%: 6.4_GPUs more"
    assert heading == words.replace("_", "\N{NO-BREAK SPACE}")
