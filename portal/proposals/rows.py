"""Requests and proposals as the API shows them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Max

from portal.budgets.models import BudgetChange
from portal.budgets.rows import planned_rows
from portal.common.units import PPM
from portal.projects.models import User
from portal.proposals.grants import gpus_given
from portal.proposals.models import GrantRequest, Proposal
from portal.proposals.seen import view_of, views_of
from portal.proposals.selectors import DraftRow, change_words, changes_since, draft_rows, planned_of, requests_visible
from portal.simulations.models import Comparison, Run
from portal.simulations.names import names_hidden, text_seen

Rows = list[dict[str, Any]]
RENAMED = {"from": "from_at", "until": "until_at"}


def request_row(request: GrantRequest) -> dict[str, Any]:
    """One request; its project, cluster and people have been read."""
    names = ("id", "state", "title", "purpose", "impact", "gpus", "from_at", "until_at", "created_at", "submitted_at",
             "decided_at", "decision_reason")  # fmt: skip
    last = request.last_grant
    return {
        **{name: getattr(request, name) for name in names},
        "project": request.project.path,
        "cluster": request.cluster.name,
        "author": request.author.username,
        "decided_by": request.decided_by.username if request.decided_by else None,
        "given_gpus": None if request.given_gpus is None else float(request.given_gpus),
        "last_grant": None if last is None else {RENAMED.get(name, name): value for name, value in last.items()},
    }


def proposal_rows(*, proposals: Sequence[Proposal], user: User) -> Rows:
    """Answers for proposals, in four queries however many there are."""
    clusters, parents = ({getattr(each, name) for each in proposals} for name in ("cluster_id", "parent_id"))
    levels = BudgetChange.objects.filter(cluster__in=clusters, parent__in=parents).order_by()
    versions = {
        (cluster_id, parent_id): latest
        for cluster_id, parent_id, latest in levels.values_list("cluster_id", "parent_id").annotate(Max("version"))
    }
    seen = requests_visible(user=user).filter(proposals__in=proposals).select_related(None).order_by("pk")
    taken: dict[int, list[int]] = {}
    for proposal_id, request_id in seen.values_list("proposals", "pk"):
        taken.setdefault(proposal_id, []).append(request_id)
    views = views_of(user=user, proposals=proposals)
    return [
        _proposal_row(
            views[each.pk].proposal(each), versions.get((each.cluster_id, each.parent_id), 0), taken.get(each.pk, [])
        )
        for each in proposals
    ]


def _proposal_row(proposal: Proposal, current_version: int, requests: list[int]) -> dict[str, Any]:
    names = ("id", "title", "state", "reason", "base_version", "effective_at", "created_at", "opened_at",
             "decided_at", "decision_reason")  # fmt: skip
    return {
        **{name: getattr(proposal, name) for name in names},
        "cluster": proposal.cluster.name,
        "parent": proposal.parent.path,
        "author": proposal.author.username,
        "edited_by": proposal.edited_by.username,
        "decided_by": proposal.decided_by.username if proposal.decided_by else None,
        "current_version": current_version,
        "requests": requests,
        "budget_change": proposal.change_id,
    }


def proposal_row(*, proposal: Proposal, user: User, now: datetime) -> dict[str, Any]:
    """One proposal with all that belongs to it."""
    [row] = proposal_rows(proposals=[proposal], user=user)
    view = view_of(user=user, proposal=proposal)
    drafts = draft_rows(proposal=proposal, now=now)
    shown = [each for each in drafts if view.sees(each.project.pk)]
    is_live = proposal.decided_at is None
    since = changes_since(proposal=proposal, now=now) if is_live else []
    planned = [view.planned(each) for each in planned_of(proposal=proposal, now=now)]
    nothing = "no share changed" if view.is_whole else "nothing that you see changed"
    comments = [view.comment(each) for each in proposal.comments.select_related("author")]
    return {
        **row,
        "children": [_child_row(each) for each in shown],
        "asked": _asked_rows(proposal, user, now),
        "others": None if view.is_whole else _others_row(shown),
        "planned_after": planned_rows(each for each in planned if each.sets_back),
        "changed_since": [change_words(view.recorded(each), nothing=nothing) for each in since],
        "comments": [
            {"id": each.pk, "author": each.author.username, "at": each.at, "text": each.text} for each in comments
        ],
        "simulation": _simulation_row(proposal, user),
    }


def _child_row(row: DraftRow) -> dict[str, Any]:
    return {
        "project": row.project.path,
        "share_ppm": row.draft.share_ppm,
        "burst_gpus": row.draft.burst_gpus,
        "today_share_ppm": row.today.share_ppm,
        "today_burst_gpus": row.today.burst_gpus,
    }


def _asked_rows(proposal: Proposal, user: User, now: datetime) -> Rows:
    """What each request that it takes up asks for, and what the draft gives; of a granted one, what it gave."""
    asked = list(requests_visible(user=user).filter(proposals=proposal).order_by("pk"))
    given = gpus_given(proposal=proposal, requests=asked, at=max(proposal.effective_at or now, now))
    if proposal.decided_at is not None:
        given |= {each.pk: each.given_gpus for each in asked if each.given_gpus is not None}
    return [{"request": each.pk, "gpus": each.gpus, "given_gpus": float(given[each.pk])} for each in asked]


def _others_row(shown: Sequence[DraftRow]) -> dict[str, Any]:
    """All that is not shown, what is not given out included: apart, one hidden project would have a figure."""
    return {
        "share_ppm": PPM - sum(row.draft.share_ppm for row in shown),
        "today_share_ppm": PPM - sum(row.today.share_ppm for row in shown),
    }


def _simulation_row(proposal: Proposal, user: User) -> dict[str, Any] | None:
    """Both runs without what is large."""
    rows = Comparison.objects.select_related("today", "draft")
    light = rows.defer(*(f"{side}__{name}" for side in ("today", "draft") for name in ("scenario", "report", "notes")))
    found = light.filter(pk=proposal.comparison_id or 0).first()
    return None if found is None else {"today": _run_row(found.today, user), "draft": _run_row(found.draft, user)}


def _run_row(run: Run, user: User) -> dict[str, Any]:
    error = text_seen(run.error, names_hidden(run=run, user=user)) if run.error else run.error
    return {"id": run.pk, "state": run.state, "progress_ppm": run.progress_ppm, "error": error}
