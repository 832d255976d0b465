"""Writing a proposal: a new draft, a draft changed, and a rebase by a person who sees base, theirs and mine."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.budgets.selectors import Level, Line, level_at, shares_of_cluster
from portal.clusters.models import Cluster
from portal.common.errors import CommonsError, Forbidden, NotFound
from portal.common.units import PPM
from portal.dashboard import budget_units
from portal.dashboard.forms import errors_into
from portal.dashboard.forms_proposals import ProposalForm
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import PageRequest, form_page
from portal.dashboard.project_tree import installed_gpus
from portal.dashboard.proposal_rows import lines_asked
from portal.dashboard.views_budgets import ancestors, cluster_required
from portal.projects.models import Project
from portal.projects.selectors import project_by_path, user_require
from portal.proposals.models import GrantRequest, Proposal
from portal.proposals.selectors import (
    changes_since,
    competing,
    current_version,
    draft_rows,
    projects_led,
    proposal_visible,
    requests_visible,
)
from portal.proposals.services.proposals import proposal_create, proposal_edit, proposal_rebase
from portal.proposals.transitions import PROPOSAL_STEPS, SUBMITTED, TAKEN_UP, step_of

Saved = Callable[[ProposalForm], Proposal]


@form_page
def proposal_new(request: PageRequest) -> HttpResponse:
    """A draft for a level: which one, then its budgets, with the requests that the address names taken up."""
    cluster, path = cluster_required(request), request.GET.get("parent", "")
    if not path:
        levels = projects_led(user=request.user).filter(archived_at=None, children__archived_at=None)
        levels = levels.filter(children__isnull=False).distinct().order_by("path")
        return render(request, "dashboard/proposal_level.html", {"levels": list(levels), "cluster": cluster})
    parent = project_by_path(user=request.user, path=path)
    user_require(user=request.user, action="budgets_edit", project=parent)
    now = frame_of(request).now
    children, level = _children(parent), level_at(cluster=cluster, parent=parent, at=now)
    asked = _requests_open(request, cluster, parent)
    chosen = [each for each in asked if str(each.pk) in request.GET.getlist("request")]
    held = _held(cluster, parent, now)
    gpus = held["parent_gpus"]
    form = ProposalForm(
        request.POST if request.method == "POST" else None,
        children=children,
        lines=level.lines,
        draft=lines_asked(children=children, today=level.lines, requests=chosen, parent_gpus=gpus),
        **held,
        version=level.current_version,
        open_requests=asked,
        said=_said_by(chosen, now),
    )

    def saved(form: ProposalForm) -> Proposal:
        return proposal_create(
            cluster=cluster,
            parent=parent,
            base_version=form.cleaned_data["base_version"],
            lines=form.line_inputs(),
            author=request.user,
            effective_at=form.effective(),
            requests=form.cleaned_data["requests"],
            now=now,
            **_said(form),
        )

    page = {"rivals": competing(cluster=cluster, parent=parent).count(), "asked": asked}
    return _form_answer(
        request, cluster, parent, form, level, saved, page, "The draft is kept. Open it for debate next."
    )


@form_page
def proposal_edited(request: PageRequest, proposal_id: int) -> HttpResponse:
    """A draft, changed."""
    found = _may_edit(request, proposal_id)
    step_of(PROPOSAL_STEPS, "edit", found.state, what="proposal")
    now = frame_of(request).now
    level = level_at(cluster=found.cluster, parent=found.parent, at=now)
    taken = list(found.requests.select_related("project"))
    asked = taken + [each for each in _requests_open(request, found.cluster, found.parent) if each not in taken]
    form = ProposalForm(
        request.POST if request.method == "POST" else None,
        children=_children(found.parent),
        lines=level.lines,
        draft={row.project.pk: row.draft for row in draft_rows(proposal=found, now=now)},
        **_held(found.cluster, found.parent, now),
        version=found.base_version,
        open_requests=asked,
        said={
            "requests": [each.pk for each in taken],
            "title": found.title,
            "reason": found.reason,
            "effective_at": found.effective_at,
        },
    )

    def saved(form: ProposalForm) -> Proposal:
        return proposal_edit(
            proposal=found,
            lines=form.line_inputs(),
            actor=request.user,
            effective_at=form.effective(),
            requests=form.cleaned_data["requests"],
            now=now,
            **_said(form),
        )

    rivals = competing(cluster=found.cluster, parent=found.parent, besides=found).count()
    page = {"proposal": found, "rivals": rivals, "asked": asked}
    return _form_answer(request, found.cluster, found.parent, form, level, saved, page, "The draft is changed.")


@form_page
def proposal_rebased(request: PageRequest, proposal_id: int) -> HttpResponse:
    """Base, theirs and mine beside one another; what is saved stands on the newest version."""
    found = _may_edit(request, proposal_id)
    step_of(PROPOSAL_STEPS, "rebase_draft" if found.state == "draft" else "rebase", found.state, what="proposal")
    now = frame_of(request).now
    level = level_at(cluster=found.cluster, parent=found.parent, at=now)
    sides = {row.project.pk: row for row in draft_rows(proposal=found, now=now)}
    form = ProposalForm(
        request.POST if request.method == "POST" else None,
        children=_children(found.parent),
        lines={pk: row.newest for pk, row in sides.items()},
        draft={pk: row.merged for pk, row in sides.items()},
        **_held(found.cluster, found.parent, now),
        version=current_version(proposal=found),
        said={"title": found.title, "reason": found.reason, "effective_at": found.effective_at},
    )
    for name in ("title", "reason", "requests"):
        form.fields[name].required = False

    def saved(form: ProposalForm) -> Proposal:
        return proposal_rebase(
            proposal=found,
            base_version=form.cleaned_data["base_version"],
            lines=form.line_inputs(),
            actor=request.user,
            effective_at=form.effective(),
            now=now,
        )

    page = {
        "proposal": found,
        "sides": {pk: _side_words(row.base, row.newest, row.draft, row.clash) for pk, row in sides.items()},
        "since": changes_since(proposal=found, now=now),
        "newest": current_version(proposal=found),
    }
    words = "Rebased. It stands on the newest version now."
    return _form_answer(request, found.cluster, found.parent, form, level, saved, page, words)


def _said_by(chosen: Sequence[GrantRequest], now: datetime) -> dict[str, Any]:
    """What a new draft takes over from the requests: of one its title, and the first moment if that is ahead."""
    begin = min((each.from_at for each in chosen), default=now)
    return {
        "requests": [each.pk for each in chosen],
        "title": chosen[0].title if len(chosen) == 1 else "",
        "effective_at": begin if begin > now else None,
    }


def _side_words(base: Line, newest: Line, draft: Line, clash: bool) -> dict[str, Any]:
    names = {"base": base, "theirs": newest, "mine": draft}
    words: dict[str, Any] = {name: budget_units.percent_text(line.share_ppm) for name, line in names.items()}
    return {**words, "clash": clash}


def _may_edit(request: PageRequest, proposal_id: int) -> Proposal:
    found = proposal_visible(user=request.user, proposal_id=proposal_id)
    user_require(user=request.user, action="budgets_edit", project=found.parent)
    return found


def _held(cluster: Cluster, parent: Project, at: datetime) -> dict[str, Any]:
    """What the parent holds of the cluster: as a share, and in GPUs."""
    share = shares_of_cluster(cluster=cluster, at=at).get(parent.pk, Fraction(0))
    return {"parent_share": share, "parent_gpus": share * installed_gpus(cluster=cluster)}


def _children(parent: Project) -> list[Project]:
    return list(parent.children.filter(archived_at=None).order_by("slug"))


def _requests_open(request: PageRequest, cluster: Cluster, parent: Project) -> list[GrantRequest]:
    """Requests of the level that can be taken up."""
    rows = requests_visible(user=request.user).filter(cluster=cluster, project__parent=parent)
    return list(rows.filter(state__in=[SUBMITTED, TAKEN_UP]).order_by("pk"))


def _said(form: ProposalForm) -> dict[str, str]:
    return {"title": form.cleaned_data["title"], "reason": form.cleaned_data["reason"]}


def _form_answer(
    request: PageRequest,
    cluster: Cluster,
    parent: Project,
    form: ProposalForm,
    level: Level,
    saved: Saved,
    page: Mapping[str, Any],
    words: str,
) -> HttpResponse:
    """The form, with what was refused; or on to the proposal."""
    status = 200
    if request.method == "POST":
        status = 200 if form.is_valid() else 400
        if form.is_valid() and "preview" not in request.POST:
            try:
                proposal = saved(form)
            except (Forbidden, NotFound):
                raise
            except CommonsError as error:
                errors_into(form, error)
                status = error.status
            else:
                messages.success(request, words)
                return redirect(reverse("dashboard:proposal", args=[proposal.pk]) + frame_of(request).query)
    context = {
        "cluster": cluster,
        "parent": parent,
        "ancestors": ancestors(parent),
        "form": form,
        "level": level,
        "status": status,
        **_totals(form),
        **page,
    }
    return render(request, "dashboard/proposal_form.html", context, status=status)


def _totals(form: ProposalForm) -> dict[str, Any]:
    total, gpus = form.total_ppm, form.parent_gpus
    left: Fraction = budget_units.gpus_of_ppm(abs(PPM - total), gpus)
    return {
        "parent_exact": gpus,
        "parent_share": form.wholes.get("cluster", Fraction(0)) / 100,
        "parent_gpus_text": budget_units.decimal_text(gpus, places=2),
        "total_text": budget_units.percent_text(total),
        "left_text": budget_units.percent_text(abs(PPM - total)),
        "left_gpus_text": budget_units.gpus_words(left),
        "total_permille": total * 1000 // PPM,
        "is_over": total > PPM,
    }
