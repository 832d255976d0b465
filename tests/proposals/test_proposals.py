"""Proposals: what they take up, what a stale base does, whose own they are, and what approving one writes."""

from datetime import timedelta

import pytest
from django.conf import settings as django_settings

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import level_at, version_of_level
from portal.common.errors import Conflict, Forbidden, NotFound, Refused
from portal.common.models import AuditEntry
from portal.projects.models import Membership, User
from portal.proposals.models import Comment, GrantRequest, Proposal
from portal.proposals.selectors import draft_rows, proposals_visible
from portal.proposals.services.comments import comment_add
from portal.proposals.services.decisions import proposal_approve, proposal_reject, proposal_withdraw
from portal.proposals.services.proposals import (
    StaleBase,
    proposal_edit,
    proposal_open,
    proposal_rebase,
    proposal_revise,
)
from portal.proposals.services.requests import request_decline, request_withdraw
from portal.proposals.services.sweep import proposals_sweep
from tests.factories import after, budget_make, cluster_make, project_make, user_make
from tests.proposals.scene import DAY, NOW, lines_of, proposal_make, request_make

LATER = NOW + timedelta(hours=1)


def shares(scene, at=LATER):
    lines = level_at(cluster=scene.cluster, parent=scene.lab, at=at).lines
    return {child.slug: lines[child.pk].share_ppm for child in scene.lab.children.all()}


def level_moves(scene, *, nlp=40):
    """Somebody edits the level beside the proposal."""
    return budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": nlp}, at=after(9 * DAY))


def edited(proposal, actor, lines, **given):
    fields = {"title": proposal.title, "reason": proposal.reason, "effective_at": proposal.effective_at, **given}
    return proposal_edit(proposal=proposal, actor=actor, now=NOW, lines=lines, **fields)


def state_of(thing):
    return type(thing).objects.get(pk=thing.pk).state


def test_approving_writes_the_change_with_its_reason_and_grants_the_requests(scene):
    request = request_make(scene)
    proposal = proposal_make(scene, requests=[request.pk])
    assert state_of(request) == "taken_up"
    approved = proposal_approve(proposal=proposal, actor=scene.max, reason="Agreed on Monday.", now=NOW)
    assert shares(scene) == {"vision": 300_000, "nlp": 300_000}
    assert (approved.change.author, approved.change.version) == (scene.max, 2)
    assert "Agreed on Monday." in approved.change.reason
    assert "More for vision" in approved.change.reason
    request = GrantRequest.objects.get()
    assert (request.state, request.decided_by, request.decision_reason) == ("granted", scene.max, "Agreed on Monday.")


def test_approving_again_writes_nothing_more(scene):
    proposal = proposal_make(scene)
    for actor in (scene.max, scene.max, scene.mona):
        proposal_approve(proposal=proposal, actor=actor, reason="Agreed.", now=NOW)
    assert BudgetChange.objects.count() == 2
    assert AuditEntry.objects.filter(action="proposal_approve").count() == 1


def test_a_stale_base_is_blocked_saying_what_changed_since(scene):
    proposal = proposal_make(scene)
    level_moves(scene)
    with pytest.raises(StaleBase) as stale:
        proposal_approve(proposal=proposal, actor=scene.max, reason="Agreed.", now=NOW)
    for words in ("version 2", "lab/nlp from 30 % to 40 %", "for a test", "Rebase it first"):
        assert words in stale.value.detail
    assert (stale.value.status, stale.value.current_version) == (409, 2)
    assert shares(scene) == {"vision": 200_000, "nlp": 400_000}
    assert state_of(proposal) == "stale"


def test_a_draft_on_a_stale_base_is_not_opened(scene):
    proposal = proposal_make(scene, opened=False)
    level_moves(scene)
    with pytest.raises(StaleBase, match="from 30 % to 40 %"):
        proposal_open(proposal=proposal, actor=scene.mona, now=NOW)
    assert state_of(proposal) == "draft"


def test_a_draft_must_be_based_on_the_newest_version(scene):
    with pytest.raises(Conflict) as conflict:
        proposal_make(scene, base_version=0)
    assert conflict.value.current_version == 1
    assert not Proposal.objects.exists()


def test_a_time_that_has_passed_is_blocked(scene):
    proposal = proposal_make(scene, effective_at=after(11 * DAY))
    with pytest.raises(Conflict, match="which has passed"):
        proposal_approve(proposal=proposal, actor=scene.max, reason="Agreed.", now=after(12 * DAY))
    assert state_of(proposal) == "open"
    assert shares(scene, at=after(13 * DAY))["vision"] == 200_000


def test_a_change_ahead_takes_effect_at_its_time(scene):
    proposal = proposal_make(scene, effective_at=after(11 * DAY))
    proposal_approve(proposal=proposal, actor=scene.max, reason="Agreed.", now=NOW)
    assert shares(scene)["vision"] == 200_000
    assert shares(scene, at=after(11 * DAY))["vision"] == 300_000


def test_a_change_in_the_past_is_not_proposed(scene):
    with pytest.raises(Refused) as refused:
        proposal_make(scene, effective_at=after(DAY))
    assert refused.value.errors[0].attr == "effective_at"


@pytest.mark.parametrize("shares", [(60, 60), (-1, 30), (101, 0)])
def test_what_no_budget_could_be_is_not_proposed(scene, shares):
    with pytest.raises(Refused):
        proposal_make(scene, lines=lines_of(scene, *shares))
    assert not Proposal.objects.exists()


def test_every_child_must_be_listed(scene):
    with pytest.raises(Refused, match="lab/nlp"):
        proposal_make(scene, lines=lines_of(scene)[:1])


def test_of_rivals_the_approved_one_makes_the_others_stale(scene):
    first, second = proposal_make(scene), proposal_make(scene, lines=lines_of(scene, 10, 30))
    draft = proposal_make(scene, opened=False)
    proposal_approve(proposal=first, actor=scene.max, reason="Agreed.", now=NOW)
    assert [state_of(each) for each in (first, second, draft)] == ["approved", "stale", "draft"]
    entry = AuditEntry.objects.get(action="proposal_outdate")
    assert (entry.actor, entry.target_id) == (None, second.pk)
    assert "from 20 % to 30 %" in entry.reason


def test_a_rival_of_another_level_or_cluster_stays_open(scene):
    other = cluster_make("other")
    deeper = project_make("lab/vision/detector")
    rivals = [
        proposal_make(scene, cluster=other, base_version=0),
        proposal_make(scene, parent=scene.vision, base_version=0, lines=[(deeper, 500_000, None)]),
    ]
    proposal_approve(proposal=proposal_make(scene), actor=scene.max, reason="Agreed.", now=NOW)
    assert [state_of(each) for each in rivals] == ["open", "open"]


def test_the_beat_makes_stale_what_was_overtaken_by_an_edit_of_the_level(scene):
    proposal = proposal_make(scene)
    assert proposals_sweep(now=NOW) == 0
    level_moves(scene)
    assert proposals_sweep(now=NOW) == 1
    assert state_of(proposal) == "stale"
    assert proposals_sweep(now=NOW) == 0


def test_a_rebase_shows_base_theirs_and_mine(scene):
    proposal = proposal_make(scene, lines=lines_of(scene, 30, 30))
    level_moves(scene)
    rows = {row.project.slug: row for row in draft_rows(proposal=proposal, now=NOW)}
    vision, nlp = rows["vision"], rows["nlp"]
    assert [line.share_ppm for line in (vision.base, vision.newest, vision.draft)] == [200_000, 200_000, 300_000]
    assert [line.share_ppm for line in (nlp.base, nlp.newest, nlp.draft)] == [300_000, 400_000, 300_000]
    assert (vision.merged.share_ppm, nlp.merged.share_ppm) == (300_000, 400_000)
    assert (vision.clash, nlp.clash) == (False, False)


def test_where_both_moved_a_budget_a_person_must_look(scene):
    proposal = proposal_make(scene, lines=lines_of(scene, 20, 35))
    level_moves(scene)
    rows = {row.project.slug: row for row in draft_rows(proposal=proposal, now=NOW)}
    assert rows["nlp"].clash
    assert rows["nlp"].merged.share_ppm == 350_000


def test_a_rebased_proposal_can_be_approved(scene):
    proposal = proposal_make(scene)
    level_moves(scene)
    proposals_sweep(now=NOW)
    rebased = proposal_rebase(
        proposal=proposal,
        base_version=2,
        lines=lines_of(scene, 30, 40),
        actor=scene.mona,
        now=NOW,
        effective_at=None,
    )
    assert (rebased.state, rebased.base_version) == ("open", 2)
    proposal_approve(proposal=proposal, actor=scene.max, reason="Agreed.", now=NOW)
    assert shares(scene) == {"vision": 300_000, "nlp": 400_000}


def test_a_rebase_onto_a_version_that_is_old_again_is_refused(scene):
    proposal = proposal_make(scene)
    for nlp in (40, 45):
        level_moves(scene, nlp=nlp)
    with pytest.raises(Conflict) as conflict:
        proposal_rebase(
            proposal=proposal, base_version=2, lines=lines_of(scene), actor=scene.mona, now=NOW, effective_at=None
        )
    assert conflict.value.current_version == 3
    assert Proposal.objects.get().base_version == 1


def test_a_child_made_since_is_asked_for_by_a_rebase(scene):
    proposal = proposal_make(scene)
    audio = project_make("lab/audio")
    with pytest.raises(Refused, match="lab/audio"):
        proposal_approve(proposal=proposal, actor=scene.max, reason="Agreed.", now=NOW)
    assert "audio" in [row.project.slug for row in draft_rows(proposal=proposal, now=NOW)]
    lines = [*lines_of(scene), (audio, 0, None)]
    proposal_rebase(proposal=proposal, base_version=1, lines=lines, actor=scene.mona, now=NOW, effective_at=None)
    assert proposal_approve(proposal=proposal, actor=scene.max, reason="Agreed.", now=NOW).state == "approved"


# Whose own it is.


def test_its_author_does_not_approve_it(scene):
    proposal = proposal_make(scene)
    with pytest.raises(Forbidden, match="You wrote it"):
        proposal_approve(proposal=proposal, actor=scene.mona, reason="Mine.", now=NOW)
    assert state_of(proposal) == "open"
    assert BudgetChange.objects.count() == 1


def test_who_set_its_lines_last_does_not_approve_it(scene):
    user_make(role="lead", project=scene.lab)
    proposal = edited(proposal_make(scene, opened=False), scene.max, lines_of(scene, 35, 30))
    proposal_open(proposal=proposal, actor=scene.mona, now=NOW)
    with pytest.raises(Forbidden, match="You wrote it"):
        proposal_approve(proposal=proposal, actor=scene.max, reason="Mine.", now=NOW)


def test_who_asked_for_what_it_grants_does_not_approve_it(scene):
    user_make(role="lead", project=scene.lab)
    request = request_make(scene, author=scene.max)
    proposal = proposal_make(scene, requests=[request.pk])
    with pytest.raises(Forbidden, match="asked for what it grants"):
        proposal_approve(proposal=proposal, actor=scene.max, reason="Mine.", now=NOW)


def test_where_nobody_else_could_its_author_approves_it(scene):
    Membership.objects.filter(user=scene.max).delete()
    proposal = proposal_make(scene)
    assert proposal_approve(proposal=proposal, actor=scene.mona, reason="Alone.", now=NOW).state == "approved"


def test_where_both_managers_made_it_either_approves_it(scene):
    proposal = edited(proposal_make(scene, opened=False), scene.max, lines_of(scene, 35, 30))
    proposal_open(proposal=proposal, actor=scene.mona, now=NOW)
    assert proposal_approve(proposal=proposal, actor=scene.mona, reason="Ours.", now=NOW).state == "approved"


def test_somebody_who_can_no_longer_sign_in_is_nobody_else(scene):
    User.objects.filter(pk=scene.max.pk).update(is_active=False)
    proposal = proposal_make(scene)
    assert proposal_approve(proposal=proposal, actor=scene.mona, reason="Alone.", now=NOW).state == "approved"


def test_a_site_may_forbid_it_even_then_or_allow_it_always(scene, settings):
    proposal = proposal_make(scene)
    settings.OWN_PROPOSALS = "never"
    Membership.objects.filter(user=scene.max).delete()
    with pytest.raises(Forbidden):
        proposal_approve(proposal=proposal, actor=scene.mona, reason="Mine.", now=NOW)
    settings.OWN_PROPOSALS = "always"
    membership = user_make(role="lead", project=scene.lab)
    assert membership.is_active
    assert proposal_approve(proposal=proposal, actor=scene.mona, reason="Mine.", now=NOW).state == "approved"


def test_the_default_is_alone():
    assert django_settings.OWN_PROPOSALS == "alone"


def test_its_author_may_reject_and_withdraw_it(scene):
    assert proposal_reject(proposal=proposal_make(scene), actor=scene.mona, reason="No.", now=NOW).state == "rejected"
    assert proposal_withdraw(proposal=proposal_make(scene), actor=scene.mona, now=NOW).state == "withdrawn"


# Requests in proposals.


def test_a_request_of_another_level_is_not_taken_up(scene):
    deeper = project_make("lab/vision/detector")
    request = request_make(scene, project=deeper)
    with pytest.raises(Refused, match="right below lab"):
        proposal_make(scene, requests=[request.pk])
    assert state_of(request) == "submitted"


def test_a_draft_or_missing_request_is_not_taken_up(scene):
    for pk in (request_make(scene, submit=False).pk, 987_654):
        with pytest.raises(NotFound):
            proposal_make(scene, requests=[pk])


def test_a_declined_request_is_not_taken_up(scene):
    request = request_make(scene)
    request_decline(request=request, actor=scene.mona, reason="Not now.", now=NOW)
    with pytest.raises(Refused, match="declined"):
        proposal_make(scene, requests=[request.pk])


def test_several_proposals_compete_for_one_request_which_is_free_again_when_none_is_left(scene):
    request = request_make(scene)
    first, second = (proposal_make(scene, requests=[request.pk]) for _ in range(2))
    proposal_reject(proposal=first, actor=scene.max, reason="No.", now=NOW)
    assert state_of(request) == "taken_up"
    proposal_withdraw(proposal=second, actor=scene.mona, now=NOW)
    assert state_of(request) == "submitted"


def test_a_draft_that_leaves_a_request_out_frees_it(scene):
    request = request_make(scene)
    proposal = proposal_make(scene, opened=False, requests=[request.pk])
    edited(proposal, scene.mona, lines_of(scene), requests=[])
    assert state_of(request) == "submitted"


def test_a_request_withdrawn_meanwhile_is_not_granted(scene):
    request = request_make(scene)
    proposal = proposal_make(scene, requests=[request.pk])
    request_withdraw(request=request, actor=scene.vera, now=NOW)
    proposal_approve(proposal=proposal, actor=scene.max, reason="Agreed.", now=NOW)
    assert state_of(request) == "withdrawn"


# Drafts and comments.


def test_a_draft_is_seen_by_those_who_lead_the_parent(scene):
    proposal = proposal_make(scene, opened=False)

    def seen():
        people = ("mona", "max", "viewer", "member", "vera", "stranger")
        return [who for who in people if proposals_visible(user=getattr(scene, who)).exists()]

    assert seen() == ["mona", "max"]
    proposal_open(proposal=proposal, actor=scene.mona, now=NOW)
    assert seen() == ["mona", "max", "viewer", "member"]


def test_lines_of_an_open_proposal_are_changed_only_after_it_is_taken_back(scene):
    proposal = proposal_make(scene)
    with pytest.raises(Conflict, match="only what is a draft"):
        edited(proposal, scene.mona, lines_of(scene, 40, 30))
    proposal_revise(proposal=proposal, actor=scene.mona, now=NOW)
    assert edited(proposal, scene.mona, lines_of(scene, 40, 30)).state == "draft"


def test_an_edit_is_on_record_with_the_shares_from_and_to(scene):
    edited(proposal_make(scene, opened=False), scene.mona, lines_of(scene, 40, 30))
    entry = AuditEntry.objects.get(action="proposal_edit")
    assert entry.before == {"lab/vision": {"share_ppm": 300_000, "burst_gpus": None}}
    assert entry.after == {"lab/vision": {"share_ppm": 400_000, "burst_gpus": None}}


def test_members_and_leads_below_comment_and_viewers_do_not(scene):
    proposal = proposal_make(scene)
    leads_below = user_make(role="lead", project=scene.vision)
    Membership.objects.create(user=leads_below, project=scene.lab, role="viewer", created_at=NOW)
    for who in (scene.mona, scene.member, leads_below):
        comment_add(proposal=proposal, text=f"I am {who}.", author=who, now=NOW)
    with pytest.raises(Forbidden):
        comment_add(proposal=proposal, text="Me too.", author=scene.viewer, now=NOW)
    with pytest.raises(NotFound):
        comment_add(proposal=proposal, text="Me too.", author=scene.stranger, now=NOW)
    assert Comment.objects.count() == 3


@pytest.mark.parametrize("text", ["", "  ", "a\0b", "x" * 10_001])
def test_a_comment_that_says_nothing_or_too_much_is_refused(scene, text):
    with pytest.raises(Refused) as refused:
        comment_add(proposal=proposal_make(scene), text=text, author=scene.mona, now=NOW)
    assert refused.value.errors[0].attr == "text"


def test_a_comment_sent_twice_stands_once(scene):
    proposal = proposal_make(scene)
    for _ in range(2):
        comment_add(proposal=proposal, text="Why now?", author=scene.mona, now=NOW)
    assert Comment.objects.count() == 1


def test_the_version_that_an_approved_proposal_wrote_is_the_next(scene):
    proposal = proposal_approve(proposal=proposal_make(scene), actor=scene.max, reason="Agreed.", now=NOW)
    assert proposal.change.version == version_of_level(cluster=scene.cluster, parent=scene.lab) == 2
