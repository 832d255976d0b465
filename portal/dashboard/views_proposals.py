"""Proposals: the list, one under debate, and what is done to it."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.common.errors import CommonsError, Forbidden, NotFound
from portal.dashboard.budget_history import planned_words
from portal.dashboard.csv_export import csv_of
from portal.dashboard.forms import errors_into
from portal.dashboard.forms_proposals import CommentForm, DecisionForm, WithdrawForm
from portal.dashboard.frame import frame_of
from portal.dashboard.listing import choice, listing_of
from portal.dashboard.pages import PageRequest, action, page
from portal.dashboard.proposal_rows import list_rows, parent_gpus_of, sides_of
from portal.dashboard.proposal_simulation import simulated_of
from portal.dashboard.views_budgets import ancestors
from portal.projects.selectors import user_may
from portal.proposals.grants import decimal_words, gpus_given
from portal.proposals.models import GrantRequest, Proposal, ProposalState
from portal.proposals.seen import view_of, views_of
from portal.proposals.selectors import (
    changes_since,
    current_version,
    may_comment,
    own_refusal,
    planned_of,
    projects_led,
    proposal_visible,
    proposals_touching,
    proposals_visible,
    requests_visible,
)
from portal.proposals.services.comments import comment_add
from portal.proposals.services.decisions import proposal_approve, proposal_reject, proposal_withdraw
from portal.proposals.services.proposals import proposal_open, proposal_revise
from portal.proposals.services.simulations import proposal_simulate
from portal.proposals.transitions import LIVE_STATES, SUBMITTED

LIVE, ANY = "undecided", "all"
REQUESTS_SHOWN = 20
Form = forms.Form


@page
def proposals(request: PageRequest) -> HttpResponse:
    """What is to be decided, and requests that wait to be taken up."""
    frame = frame_of(request)
    state = choice(request, "state", [LIVE, ANY, *ProposalState.values]) or LIVE
    seen = proposals_visible(user=request.user)
    rows = seen if state == ANY else seen.filter(state__in=LIVE_STATES if state == LIVE else [state])
    listing = listing_of(request, rows, sorts={"newest": "pk"}, default="-newest", count_most=10_000)
    listing.rows = list_rows(proposals=listing.rows, user=request.user, now=frame.now)
    waiting = requests_visible(user=request.user).filter(state=SUBMITTED).order_by("pk")
    context = {
        "listing": listing,
        "state": state,
        "states": [(LIVE, "Undecided"), (ANY, "All"), *ProposalState.choices],
        "to_decide": seen.filter(state__in=("open", "stale")).count(),
        "waiting": list(waiting[:REQUESTS_SHOWN]),
        "waiting_count": waiting.count(),
        "leads": projects_led(user=request.user).filter(archived_at=None).exists(),
        "now": frame.now,
    }
    return render(request, "dashboard/proposals.html", context)


@page
def proposal(request: PageRequest, proposal_id: int) -> HttpResponseBase:
    """One proposal; for htmx the part with its simulation."""
    found = proposal_visible(user=request.user, proposal_id=proposal_id)
    if request.htmx:
        simulated = simulated_of(proposal=found, user=request.user, address=request.path)
        answer = render(request, "dashboard/parts/proposal_progress.html", {"simulated": simulated})
        if simulated is None or not simulated.is_open:
            answer["HX-Refresh"] = "true"
        return answer
    return proposal_page(request, found)


def proposal_page(
    request: PageRequest, found: Proposal, *, bound: dict[str, Form] | None = None, status: int = 200
) -> HttpResponseBase:
    """The whole page; `bound` holds the form that was refused."""
    now = frame_of(request).now
    simulated = simulated_of(proposal=found, user=request.user, address=request.path)
    if key := request.GET.get("csv"):
        return csv_of(simulated.charts if simulated else [], key)
    is_live = found.state in LIVE_STATES
    parent_gpus = parent_gpus_of(cluster=found.cluster, parent=found.parent, at=found.decided_at or now)
    may_edit = user_may(user=request.user, action="budgets_edit", project=found.parent)
    newest = current_version(proposal=found)
    view = view_of(user=request.user, proposal=found)
    since = changes_since(proposal=found, now=now) if is_live and newest != found.base_version else []
    context: dict[str, Any] = {
        "proposal": view.proposal(found),
        "is_whole": view.is_whole,
        "ancestors": ancestors(found.parent),
        "sides": sides_of(proposal=found, now=now, parent_gpus=parent_gpus, view=view),
        "parent_gpus": float(parent_gpus),
        "is_live": is_live,
        "newest": newest,
        "is_behind": is_live and newest != found.base_version,
        "since": [view.recorded(each) for each in since],
        "is_late": is_live and found.effective_at is not None and found.effective_at < now,
        "rivals": _rivals(request, found) if is_live else [],
        "requests": _asked(request, found, now),
        "comments": [view.comment(each) for each in found.comments.select_related("author")],
        "may_comment": may_comment(user=request.user, proposal=found),
        "may_edit": may_edit and is_live,
        "own_refusal": own_refusal(user=request.user, proposal=found) if may_edit and is_live else "",
        "planned": planned_words(planned_of(proposal=found, now=now)) if may_edit and is_live else [],
        "simulated": simulated,
        "forms": {**_forms(), **(bound or {})},
        "refused": next(iter(bound.values()), None) if bound else None,
        "now": now,
    }
    return render(request, "dashboard/proposal.html", context, status=status)


def _forms() -> dict[str, Form]:
    """Each with ids of its own: they stand on one page."""
    return {
        "approve": DecisionForm(auto_id="approve_%s"),
        "reject": DecisionForm(auto_id="reject_%s"),
        "withdraw": WithdrawForm(auto_id="withdraw_%s"),
        "comment": CommentForm(auto_id="comment_%s"),
    }


def _asked(request: PageRequest, found: Proposal, now: datetime) -> list[tuple[GrantRequest, str]]:
    """Requests that it takes up, each with the GPUs that it gives, or gave."""
    asked = list(requests_visible(user=request.user).filter(proposals=found).order_by("pk"))
    given = gpus_given(proposal=found, requests=asked, at=max(found.effective_at or now, now))
    kept = {each.pk: each.given_gpus for each in asked if found.decided_at and each.given_gpus is not None}
    return [(each, decimal_words({**given, **kept}[each.pk])) for each in asked]


def _rivals(request: PageRequest, found: Proposal) -> list[Proposal]:
    """Others for the same level, as far as the person sees them."""
    touching = proposals_touching(user=request.user, cluster=found.cluster, parent=found.parent)
    views = views_of(user=request.user, proposals=touching)
    return [views[each.pk].proposal(each) for each in touching if each.pk != found.pk]


Act = Callable[[PageRequest, Proposal, dict[str, Any]], str]


def _acted(
    request: PageRequest, proposal_id: int, act: Act, *, form: Form | None = None, name: str = ""
) -> HttpResponseBase:
    """Do it and say so; what is refused comes back on the page, with what was typed."""
    found = proposal_visible(user=request.user, proposal_id=proposal_id)
    form = form or Form(request.POST)
    status = 400
    if form.is_valid():
        try:
            words = act(request, found, form.cleaned_data)
        except (Forbidden, NotFound):
            raise
        except CommonsError as error:
            errors_into(form, error)
            status = error.status
        else:
            messages.success(request, words)
            return redirect(_address(request, proposal_id))
    fresh = proposal_visible(user=request.user, proposal_id=proposal_id)
    return proposal_page(request, fresh, bound={name: form}, status=status)


def _address(request: HttpRequest, proposal_id: int) -> str:
    return reverse("dashboard:proposal", args=[proposal_id]) + frame_of(request).query


@action
def proposal_opened(request: PageRequest, proposal_id: int) -> HttpResponseBase:
    """Open it for debate."""

    def act(request: PageRequest, found: Proposal, said: dict[str, Any]) -> str:
        proposal_open(proposal=found, actor=request.user, now=frame_of(request).now)
        return "Open for debate: everybody who sees the level sees it now."

    return _acted(request, proposal_id, act, name="open")


@action
def proposal_revised(request: PageRequest, proposal_id: int) -> HttpResponseBase:
    """Take it back to a draft."""

    def act(request: PageRequest, found: Proposal, said: dict[str, Any]) -> str:
        proposal_revise(proposal=found, actor=request.user, now=frame_of(request).now)
        return "It is a draft again; leads of the level see it."

    return _acted(request, proposal_id, act, name="revise")


@action
def proposal_approved(request: PageRequest, proposal_id: int) -> HttpResponseBase:
    """Approve it: the budgets change."""

    def act(request: PageRequest, found: Proposal, said: dict[str, Any]) -> str:
        done = proposal_approve(proposal=found, actor=request.user, now=frame_of(request).now, **said)
        version = done.change.version if done.change else 0
        return f"Approved. The budgets of {done.parent.path} are at version {version}."

    return _acted(request, proposal_id, act, form=DecisionForm(request.POST, auto_id="approve_%s"), name="approve")


@action
def proposal_rejected(request: PageRequest, proposal_id: int) -> HttpResponseBase:
    """Reject it."""

    def act(request: PageRequest, found: Proposal, said: dict[str, Any]) -> str:
        proposal_reject(proposal=found, actor=request.user, now=frame_of(request).now, **said)
        return "Rejected. Requests that no other proposal takes up wait again."

    return _acted(request, proposal_id, act, form=DecisionForm(request.POST, auto_id="reject_%s"), name="reject")


@action
def proposal_withdrawn(request: PageRequest, proposal_id: int) -> HttpResponseBase:
    """Withdraw it."""

    def act(request: PageRequest, found: Proposal, said: dict[str, Any]) -> str:
        proposal_withdraw(proposal=found, actor=request.user, now=frame_of(request).now, **said)
        return "Withdrawn. Requests that no other proposal takes up wait again."

    return _acted(request, proposal_id, act, form=WithdrawForm(request.POST, auto_id="withdraw_%s"), name="withdraw")


@action
def proposal_commented(request: PageRequest, proposal_id: int) -> HttpResponseBase:
    """Say something."""

    def act(request: PageRequest, found: Proposal, said: dict[str, Any]) -> str:
        comment_add(proposal=found, author=request.user, now=frame_of(request).now, **said)
        return "Your comment is on record."

    return _acted(request, proposal_id, act, form=CommentForm(request.POST, auto_id="comment_%s"), name="comment")


@action
def proposal_simulated(request: PageRequest, proposal_id: int) -> HttpResponseBase:
    """Ask the simulator."""

    def act(request: PageRequest, found: Proposal, said: dict[str, Any]) -> str:
        proposal_simulate(proposal=found, actor=request.user, now=frame_of(request).now)
        return "The simulation was asked for: two runs, today's budgets and the draft's."

    return _acted(request, proposal_id, act, name="simulate")
