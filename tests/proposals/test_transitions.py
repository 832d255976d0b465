"""Every step from every state, tried by everybody: what the table does not have is refused and changes nothing."""

import pytest

from portal.common.errors import CommonsError, Forbidden, NotFound, Refused
from portal.common.models import AuditEntry
from portal.proposals.models import GrantRequest, Proposal, ProposalState, RequestState
from portal.proposals.services import decisions, proposals, requests
from portal.proposals.transitions import CONSEQUENCE, PROPOSAL_STEPS, REQUEST_STEPS, WrongState
from tests.proposals.scene import NOW, lines_of, proposal_make, request_make

# Written out by hand beside the table in the code: state -> {action: state after it}.
REQUESTS = {
    "draft": {"edit": "draft", "submit": "submitted", "withdraw": "withdrawn"},
    "submitted": {"submit": "submitted", "withdraw": "withdrawn", "decline": "declined"},
    "taken_up": {"withdraw": "withdrawn"},
    "granted": {},
    "declined": {"decline": "declined"},
    "withdrawn": {"withdraw": "withdrawn"},
}
PROPOSALS = {
    "draft": {"edit": "draft", "open": "open", "revise": "draft", "rebase": "draft", "withdraw": "withdrawn"},
    "open": {
        "open": "open",
        "revise": "draft",
        "rebase": "open",
        "approve": "approved",
        "reject": "rejected",
        "withdraw": "withdrawn",
    },
    "stale": {"revise": "draft", "rebase": "open", "reject": "rejected", "withdraw": "withdrawn"},
    "approved": {"approve": "approved"},
    "rejected": {"reject": "rejected"},
    "withdrawn": {"withdraw": "withdrawn"},
}
REQUEST_ACTIONS = sorted({action for steps in REQUESTS.values() for action in steps})
PROPOSAL_ACTIONS = sorted({action for steps in PROPOSALS.values() for action in steps})
FOLLOWS = {
    "submitted": {"adopt": "taken_up"},
    "taken_up": {"adopt": "taken_up", "release": "submitted", "grant": "granted"},
}


def request_act(scene, request, action, actor):
    more = {"reason": "because"} if action == "decline" else {"title": "Another"} if action == "edit" else {}
    return getattr(requests, f"request_{action}")(request=request, actor=actor, now=NOW, **more)


def proposal_act(scene, proposal, action, actor):
    lines = lines_of(scene)
    more = {
        "edit": {"title": "Another", "reason": "because", "lines": lines, "effective_at": None},
        "rebase": {"base_version": proposal.base_version, "lines": lines, "effective_at": None},
        "approve": {"reason": "because"},
        "reject": {"reason": "because"},
    }.get(action, {})
    module = decisions if hasattr(decisions, f"proposal_{action}") else proposals
    return getattr(module, f"proposal_{action}")(proposal=proposal, actor=actor, now=NOW, **more)


def request_in(scene, state):
    request = request_make(scene, submit=state != "draft")
    if state not in ("draft", "submitted"):
        GrantRequest.objects.filter(pk=request.pk).update(state=state)
    return GrantRequest.objects.get(pk=request.pk)


def proposal_in(scene, state):
    proposal = proposal_make(scene, opened=state != "draft")
    if state == "approved":
        return decisions.proposal_approve(proposal=proposal, actor=scene.max, reason="because", now=NOW)
    Proposal.objects.filter(pk=proposal.pk).update(state=state)
    return Proposal.objects.get(pk=proposal.pk)


def test_the_tables_name_every_state_and_every_step():
    assert set(REQUESTS) == set(RequestState.values)
    assert set(PROPOSALS) == set(ProposalState.values)
    own = {action for action, step in REQUEST_STEPS.items() if step.who != CONSEQUENCE}
    assert own == set(REQUEST_ACTIONS)
    own = {action for action, step in PROPOSAL_STEPS.items() if step.who != CONSEQUENCE}
    assert own - {"rebase_draft", "simulate"} == set(PROPOSAL_ACTIONS)


@pytest.mark.parametrize("action", REQUEST_ACTIONS)
@pytest.mark.parametrize("state", REQUESTS)
def test_a_request_takes_the_steps_of_the_table_and_no_other(scene, state, action):
    request = request_in(scene, state)
    actor = scene.mona if action == "decline" else scene.vera
    if action in REQUESTS[state]:
        assert request_act(scene, request, action, actor).state == REQUESTS[state][action]
    else:
        with pytest.raises(WrongState, match=r"only what is .* can be"):
            request_act(scene, request, action, actor)
    assert GrantRequest.objects.get(pk=request.pk).state == REQUESTS[state].get(action, state)


@pytest.mark.parametrize("action", PROPOSAL_ACTIONS)
@pytest.mark.parametrize("state", PROPOSALS)
def test_a_proposal_takes_the_steps_of_the_table_and_no_other(scene, state, action):
    proposal = proposal_in(scene, state)
    if action in PROPOSALS[state]:
        assert proposal_act(scene, proposal, action, scene.max).state == PROPOSALS[state][action]
    else:
        with pytest.raises(WrongState, match=r"only what is .* can be"):
            proposal_act(scene, proposal, action, scene.max)
    assert Proposal.objects.get(pk=proposal.pk).state == PROPOSALS[state].get(action, state)


@pytest.mark.parametrize("action", ["adopt", "release", "grant"])
@pytest.mark.parametrize("state", RequestState.values)
def test_what_follows_from_a_proposal_moves_only_requests_that_it_may(scene, state, action):
    request = request_in(scene, state)
    requests.requests_follow(request_ids=[request.pk], action=action, actor=scene.mona, now=NOW, reason="")
    after = GrantRequest.objects.get(pk=request.pk).state
    assert after == FOLLOWS.get(state, {}).get(action, state)


@pytest.mark.parametrize("action", REQUEST_ACTIONS)
@pytest.mark.parametrize("state", [state for state in REQUESTS if state != "draft"])
@pytest.mark.parametrize("who", ["viewer", "member", "nils", "stranger"])
def test_who_does_not_lead_moves_no_request(scene, who, state, action):
    request = request_in(scene, state)
    audited = AuditEntry.objects.count()
    with pytest.raises((Forbidden, NotFound)):
        request_act(scene, request, action, getattr(scene, who))
    assert GrantRequest.objects.get(pk=request.pk).state == state
    assert AuditEntry.objects.count() == audited


@pytest.mark.parametrize("action", PROPOSAL_ACTIONS)
@pytest.mark.parametrize("who", ["viewer", "member", "vera", "nils", "stranger"])
def test_who_does_not_lead_the_parent_moves_no_proposal(scene, who, action):
    proposal = proposal_in(scene, "draft" if action in ("edit", "open") else "open")
    state, audited = proposal.state, AuditEntry.objects.count()
    with pytest.raises((Forbidden, NotFound)):
        proposal_act(scene, proposal, action, getattr(scene, who))
    assert Proposal.objects.get(pk=proposal.pk).state == state
    assert AuditEntry.objects.count() == audited


def test_the_lead_of_a_project_does_not_decline_its_own_request(scene):
    with pytest.raises(Forbidden):
        request_act(scene, request_make(scene), "decline", scene.vera)


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_a_proposal_is_not_decided_without_a_reason(scene, action):
    proposal = proposal_make(scene)
    with pytest.raises(Refused) as refused:
        getattr(decisions, f"proposal_{action}")(proposal=proposal, actor=scene.max, reason=" ", now=NOW)
    assert refused.value.errors[0].attr == "reason"
    assert Proposal.objects.get().state == "open"


def test_a_request_is_not_declined_without_a_reason(scene):
    with pytest.raises(Refused, match="reason"):
        requests.request_decline(request=request_make(scene), actor=scene.mona, reason="", now=NOW)


@pytest.mark.parametrize("action", [action for action in PROPOSAL_ACTIONS if action in PROPOSALS["open"]])
def test_every_step_of_a_proposal_is_on_record_with_from_and_to(scene, action):
    proposal = proposal_in(scene, "draft" if action == "open" else "open")
    before = proposal.state
    proposal_act(scene, proposal, action, scene.max)
    entry = AuditEntry.objects.filter(target_type="proposal").order_by("-pk").first()
    assert (entry.action, entry.actor) == (f"proposal_{action}", scene.max)
    assert (entry.before["state"], entry.after["state"]) == (before, PROPOSALS[before][action])


@pytest.mark.parametrize("action", ["submit", "withdraw", "decline"])
def test_every_step_of_a_request_is_on_record_and_once(scene, action):
    request = request_in(scene, "draft" if action == "submit" else "submitted")
    actor = scene.mona if action == "decline" else scene.vera
    before = request.state
    for _ in range(2):
        request_act(scene, request, action, actor)
    entries = AuditEntry.objects.filter(action=f"request_{action}")
    assert [(entry.before["state"], entry.after["state"]) for entry in entries] == [(before, REQUESTS[before][action])]


def test_an_error_of_a_step_is_one_of_ours():
    assert issubclass(WrongState, CommonsError)
    assert WrongState.status == 409
