"""What becomes of a proposal: approved (which writes the budget change), rejected, withdrawn, or made stale."""

from datetime import datetime

from django.db import transaction

from portal.budgets.services import budget_change_create
from portal.common.errors import Conflict, Forbidden, Refused
from portal.common.units import whole_second
from portal.projects.models import User
from portal.proposals.grants import gpus_given
from portal.proposals.models import Proposal
from portal.proposals.selectors import competing, lines_kept, own_refusal
from portal.proposals.services.proposals import StaleBase, base_require, locked, moved, requests_release
from portal.proposals.services.requests import reason_errors, requests_follow
from portal.proposals.transitions import OPEN, PROPOSAL_STEPS, STALE, step_of


def proposal_approve(*, proposal: Proposal, actor: User, reason: str, now: datetime) -> Proposal:
    """Write the budget change, grant the requests, and make the rivals of the level stale: all or nothing.

    Refused on a stale base, which the proposal then is said to have, and when the time to take effect has passed.
    """
    try:
        return _approved(proposal, actor, reason, now)
    except StaleBase:
        proposals_outdate(proposal=proposal, now=now)
        raise


@transaction.atomic
def _approved(proposal: Proposal, actor: User, reason: str, now: datetime) -> Proposal:
    proposal = locked(proposal, actor, PROPOSAL_STEPS["approve"])
    if proposal.state == STALE:
        base_require(proposal, now)
    if step_of(PROPOSAL_STEPS, "approve", proposal.state, reason=reason, what="proposal") is None:
        return proposal
    if errors := reason_errors(reason):
        raise Refused.many(errors)
    if refusal := own_refusal(user=actor, proposal=proposal):
        raise Forbidden(refusal, code="own_proposal")
    base_require(proposal, now)
    _time_require(proposal, now)
    proposal.change = budget_change_create(
        cluster=proposal.cluster,
        parent=proposal.parent,
        base_version=proposal.base_version,
        lines=lines_kept(proposal=proposal),
        reason=f"Proposal {proposal.pk}, {proposal.title}: {reason.strip()}"[:10_000],
        author=actor,
        effective_at=proposal.effective_at,
        now=now,
    )
    _decided(proposal, "approve", actor, reason, now)
    given = gpus_given(proposal=proposal, requests=proposal.requests.all(), at=proposal.change.effective_at)
    requests_follow(request_ids=list(given), action="grant", actor=actor, now=now, reason=reason.strip(), given=given)
    for rival in competing(cluster=proposal.cluster, parent=proposal.parent, besides=proposal).filter(state=OPEN):
        _outdated(rival, now)
    return proposal


def _time_require(proposal: Proposal, now: datetime) -> None:
    if proposal.effective_at is not None and proposal.effective_at < whole_second(now):
        sentence = (
            f"It was to take effect at {proposal.effective_at.isoformat()}, which has passed. "
            "Take it back to draft and set another time."
        )
        raise Conflict(sentence, attr="effective_at", code="passed")


@transaction.atomic
def proposal_reject(*, proposal: Proposal, actor: User, reason: str, now: datetime) -> Proposal:
    """No, and why; its requests wait to be taken up by another proposal."""
    return _ended(proposal, "reject", actor, reason, now)


@transaction.atomic
def proposal_withdraw(*, proposal: Proposal, actor: User, now: datetime, reason: str = "") -> Proposal:
    """No longer proposed; its requests wait to be taken up by another proposal."""
    return _ended(proposal, "withdraw", actor, reason, now)


def _ended(proposal: Proposal, action: str, actor: User, reason: str, now: datetime) -> Proposal:
    proposal = locked(proposal, actor, PROPOSAL_STEPS[action])
    if step_of(PROPOSAL_STEPS, action, proposal.state, reason=reason, what="proposal") is None:
        return proposal
    if errors := reason_errors(reason):
        raise Refused.many(errors)
    _decided(proposal, action, actor, reason, now)
    requests_release(request_ids=list(proposal.requests.values_list("pk", flat=True)), actor=actor, now=now)
    return proposal


def _decided(proposal: Proposal, action: str, actor: User, reason: str, now: datetime) -> None:
    proposal.decided_at, proposal.decided_by = whole_second(now), actor
    proposal.decision_reason = reason.strip()
    moved(proposal, action, actor, now, reason=reason.strip())


@transaction.atomic
def proposals_outdate(*, proposal: Proposal, now: datetime) -> Proposal:
    """Say that an open proposal is stale, if its level has moved on."""
    proposal = locked(proposal, None, PROPOSAL_STEPS["outdate"])
    if proposal.state == OPEN:
        _outdated(proposal, now)
    return proposal


def _outdated(proposal: Proposal, now: datetime) -> None:
    try:
        base_require(proposal, now)
    except StaleBase as stale:
        moved(proposal, "outdate", None, now, reason=stale.detail[:10_000])
