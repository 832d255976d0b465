"""Requests: the list, one with its case and what its last grant achieved, writing one, and what is done to it."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.budgets.selectors import NO_BUDGET, budgets_at
from portal.clusters.selectors import cluster_by_name
from portal.common.errors import CommonsError, Forbidden, NotFound
from portal.common.units import PPM
from portal.dashboard import budget_units
from portal.dashboard.forms import errors_into
from portal.dashboard.forms_proposals import DecisionForm, RequestForm, WithdrawForm
from portal.dashboard.frame import frame_of
from portal.dashboard.listing import choice, listing_of
from portal.dashboard.pages import PageRequest, action, form_page, page
from portal.dashboard.proposal_rows import parent_gpus_of
from portal.dashboard.request_words import LastGrant, last_grant_of
from portal.dashboard.views_budgets import ancestors
from portal.projects.models import Project
from portal.projects.selectors import project_by_path, user_may, user_require
from portal.proposals.grants import decimal_words
from portal.proposals.last_grant import last_grant_figures
from portal.proposals.models import GrantRequest, RequestState
from portal.proposals.seen import requests_seen, views_of
from portal.proposals.selectors import projects_led, proposals_visible, request_visible, requests_visible
from portal.proposals.services.requests import (
    request_create,
    request_decline,
    request_edit,
    request_submit,
    request_withdraw,
)
from portal.proposals.transitions import APPROVED, DRAFT, LIVE_STATES, REQUEST_STEPS, SUBMITTED, TAKEN_UP, step_of

Act = Callable[[PageRequest, GrantRequest, dict[str, Any]], str]


@page
def requests(request: PageRequest) -> HttpResponse:
    """Every request that the person sees, the newest first."""
    state = choice(request, "state", RequestState.values)
    rows = requests_visible(user=request.user)
    if state:
        rows = rows.filter(state=state)
    context = {
        "listing": listing_of(request, rows, sorts={"newest": "pk"}, default="-newest", count_most=10_000),
        "state": state,
        "states": RequestState.choices,
        "leads": _projects_to_ask_for(request).exists(),
        "now": frame_of(request).now,
    }
    return render(request, "dashboard/requests.html", context)


def _projects_to_ask_for(request: PageRequest) -> Any:
    """Projects that the person leads and that have somebody above them."""
    return projects_led(user=request.user).filter(archived_at=None, parent__isnull=False).order_by("path")


@form_page
def request_new(request: PageRequest) -> HttpResponse:
    """Ask for a grant."""
    frame = frame_of(request)
    projects = list(_projects_to_ask_for(request))
    if not projects or not frame.clusters:
        return render(request, "dashboard/request_form.html", {"form": None}, status=200)
    initial = {"project": request.GET.get("project", ""), "cluster": frame.cluster.name}
    form = RequestForm(
        request.POST if request.method == "POST" else None, projects=projects, clusters=frame.clusters, initial=initial
    )
    return _form_answer(request, form, None)


@form_page
def request_edited(request: PageRequest, request_id: int) -> HttpResponse:
    """A draft, changed."""
    found = request_visible(user=request.user, request_id=request_id)
    user_require(user=request.user, action="budgets_edit", project=found.project)
    step_of(REQUEST_STEPS, "edit", found.state, what="request")
    data = request.POST if request.method == "POST" else None
    form = RequestForm(data, projects=[], clusters=[], request=found)
    return _form_answer(request, form, found)


def _form_answer(request: PageRequest, form: RequestForm, found: GrantRequest | None) -> HttpResponse:
    status = 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            try:
                saved = _saved(request, form, found)
            except (Forbidden, NotFound):
                raise
            except CommonsError as error:
                errors_into(form, error)
                status = error.status
            else:
                messages.success(request, "The draft is kept. Nobody else sees it until you submit it.")
                return redirect(reverse("dashboard:request", args=[saved.pk]) + frame_of(request).query)
    return render(request, "dashboard/request_form.html", {"form": form, "found": found}, status=status)


def _saved(request: PageRequest, form: RequestForm, found: GrantRequest | None) -> GrantRequest:
    now = frame_of(request).now
    if found is not None:
        return request_edit(request=found, actor=request.user, now=now, **form.said())
    return request_create(
        project=project_by_path(user=request.user, path=form.cleaned_data["project"]),
        cluster=cluster_by_name(name=form.cleaned_data["cluster"]),
        author=request.user,
        now=now,
        **form.said(),
    )


@page
def request_detail(request: PageRequest, request_id: int) -> HttpResponse:
    """One request."""
    return _request_page(request, request_visible(user=request.user, request_id=request_id))


def _request_page(
    request: PageRequest, found: GrantRequest, *, bound: dict[str, forms.Form] | None = None, status: int = 200
) -> HttpResponse:
    parent = found.project.parent
    manages = parent is not None and user_may(user=request.user, action="budgets_edit", project=parent)
    leads = user_may(user=request.user, action="budgets_edit", project=found.project)
    seen = list(proposals_visible(user=request.user).filter(requests=found).order_by("-pk"))
    [shown] = requests_seen(user=request.user, requests=[found])
    views = views_of(user=request.user, proposals=seen)
    context = {
        "found": shown,
        "ancestors": ancestors(found.project),
        "asked": _asked_words(request, found, parent),
        "given": None if found.given_gpus is None else decimal_words(found.given_gpus),
        "last": _last_grant(request, found),
        "proposals": [views[each.pk].proposal(each) for each in seen],
        "unseen": found.proposals.exclude(pk__in=[each.pk for each in seen])
        .filter(state__in=(*LIVE_STATES, APPROVED))
        .count(),
        "may_submit": leads and found.state == DRAFT,
        "may_withdraw": leads and found.state in (DRAFT, SUBMITTED, TAKEN_UP),
        "may_decline": manages and found.state == SUBMITTED,
        "may_propose": manages and found.state in (SUBMITTED, TAKEN_UP),
        "parent": parent,
        "forms": {
            "decline": DecisionForm(auto_id="decline_%s"),
            "withdraw": WithdrawForm(auto_id="withdraw_%s"),
            **(bound or {}),
        },
        "refused": next(iter(bound.values()), None) if bound else None,
        "now": frame_of(request).now,
    }
    return render(request, "dashboard/request.html", context, status=status)


def _last_grant(request: PageRequest, found: GrantRequest) -> LastGrant:
    """As it was kept; of a draft, as the ledger has it now."""
    figures = found.last_grant
    if figures is None:
        figures = last_grant_figures(project=found.project, cluster=found.cluster, now=frame_of(request).now)
    return last_grant_of(figures)


def _asked_words(request: PageRequest, found: GrantRequest, parent: Project | None) -> str:
    """`31.25 % of lab's share, where it has 20 % now (12.8 GPUs)`."""
    if parent is None:
        return ""
    now = frame_of(request).now
    gpus = parent_gpus_of(cluster=found.cluster, parent=parent, at=now)
    line = budgets_at(cluster=found.cluster, at=now).get(found.project_id, NO_BUDGET)
    has = f"{budget_units.percent_text(line.share_ppm)} % ({budget_units.gpus_text(line.share_ppm, gpus)} GPUs)"
    if not gpus:
        return f"{parent.path} holds no GPUs on {found.cluster.name}"
    ppm = int(Fraction(found.gpus) / gpus * PPM)
    more = "" if ppm <= PPM else f", more than all of {parent.path}'s"
    return f"{budget_units.percent_text(ppm)} % of {parent.path}'s share{more}; it has {has} now"


def _acted(
    request: PageRequest, request_id: int, act: Act, *, form: forms.Form | None = None, name: str = ""
) -> HttpResponse:
    """Do it and say so; what is refused comes back on the page, with what was typed."""
    found = request_visible(user=request.user, request_id=request_id)
    form = form or forms.Form(request.POST)
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
            return redirect(reverse("dashboard:request", args=[request_id]) + frame_of(request).query)
    fresh = request_visible(user=request.user, request_id=request_id)
    return _request_page(request, fresh, bound={name: form}, status=status)


@action
def request_submitted(request: PageRequest, request_id: int) -> HttpResponse:
    """Send it to the managers."""

    def act(request: PageRequest, found: GrantRequest, said: dict[str, Any]) -> str:
        request_submit(request=found, actor=request.user, now=frame_of(request).now)
        return "Submitted. What the last grant achieved is kept with it as it is now."

    return _acted(request, request_id, act, name="submit")


@action
def request_withdrawn(request: PageRequest, request_id: int) -> HttpResponse:
    """Take it back."""

    def act(request: PageRequest, found: GrantRequest, said: dict[str, Any]) -> str:
        request_withdraw(request=found, actor=request.user, now=frame_of(request).now, **said)
        return "Withdrawn."

    return _acted(request, request_id, act, form=WithdrawForm(request.POST, auto_id="withdraw_%s"), name="withdraw")


@action
def request_declined(request: PageRequest, request_id: int) -> HttpResponse:
    """Say no."""

    def act(request: PageRequest, found: GrantRequest, said: dict[str, Any]) -> str:
        request_decline(request=found, actor=request.user, now=frame_of(request).now, **said)
        return "Declined."

    return _acted(request, request_id, act, form=DecisionForm(request.POST, auto_id="decline_%s"), name="decline")
