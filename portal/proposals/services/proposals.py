"""Proposals: drafted by a manager on a version of a level, opened for debate, changed, rebased by a person."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from portal.budgets.selectors import version_of_level
from portal.budgets.services import LineInput, lines_errors, moment_errors
from portal.clusters.models import Cluster
from portal.common.errors import Conflict, FieldError, NotFound, Refused
from portal.common.services import audit_record
from portal.common.units import whole_second
from portal.projects.models import Project, User
from portal.projects.selectors import user_require
from portal.proposals.models import GrantRequest, Proposal, ProposalLine
from portal.proposals.selectors import change_words, changes_since, lines_kept, requests_visible
from portal.proposals.services.requests import TEXT_LENGTH_MAX, TITLE_LENGTH_MAX, requests_follow, text_errors
from portal.proposals.transitions import DRAFT, LIVE_STATES, PROPOSAL_STEPS, SUBMITTED, TAKEN_UP, Step, step_of

REQUESTS_MAX = 100


class StaleBase(Conflict):
    """409: the level has changed since the version that the proposal is based on."""


@transaction.atomic
def proposal_create(
    *,
    cluster: Cluster,
    parent: Project,
    base_version: int,
    title: str,
    reason: str,
    lines: Sequence[LineInput],
    author: User,
    effective_at: datetime | None,
    now: datetime,
    requests: Sequence[int] = (),
) -> Proposal:
    """A draft of a budget change of one level, by a lead of the parent, taking up requests by their ids.

    The very same draft again is the first: a retry makes no second one.
    """
    user_require(user=author, action="budgets_edit", project=parent)
    level_lock(parent)
    current = version_of_level(cluster=cluster, parent=parent)
    if base_version != current:
        sentence = f"These budgets are at version {current} by now; yours were based on version {base_version}."
        raise Conflict(sentence, attr="base_version", current_version=current)
    taken = _requests_of(author, cluster, parent, requests)
    errors = _field_errors(title, reason, effective_at, now) + lines_errors(parent, lines)
    if errors:
        raise Refused.many(errors)
    said = {
        "title": title.strip(),
        "reason": reason.strip(),
        "base_version": base_version,
        "effective_at": whole_second(effective_at) if effective_at else None,
    }
    if first := _same_draft(author, cluster, parent, said, lines, taken):
        return first
    proposal = Proposal.objects.create(
        cluster=cluster, parent=parent, author=author, edited_by=author, created_at=whole_second(now), **said
    )
    _lines_set(proposal, lines)
    proposal.requests.set(taken)
    requests_follow(request_ids=[each.pk for each in taken], action="adopt", actor=author, now=now, reason="")
    audited(proposal, "create", author, now, before={}, after={"state": DRAFT, **record_of(proposal)})
    return proposal


@transaction.atomic
def proposal_edit(
    *,
    proposal: Proposal,
    title: str,
    reason: str,
    lines: Sequence[LineInput],
    actor: User,
    effective_at: datetime | None,
    now: datetime,
    requests: Sequence[int] | None = None,
) -> Proposal:
    """Set what a draft says; requests None leaves those that it takes up."""
    proposal = locked(proposal, actor, PROPOSAL_STEPS["edit"])
    step_of(PROPOSAL_STEPS, "edit", proposal.state, what="proposal")
    had = list(proposal.requests.all())
    taken = had if requests is None else _requests_of(actor, proposal.cluster, proposal.parent, requests, had=had)
    errors = _field_errors(title, reason, effective_at, now) + lines_errors(proposal.parent, lines)
    if errors:
        raise Refused.many(errors)
    before = record_of(proposal)
    proposal.title, proposal.reason = title.strip(), reason.strip()
    proposal.effective_at = whole_second(effective_at) if effective_at else None
    if _lines_set(proposal, lines):
        proposal.edited_by, proposal.comparison = actor, None
    proposal.save()
    proposal.requests.set(taken)
    requests_follow(request_ids=[each.pk for each in taken], action="adopt", actor=actor, now=now, reason="")
    requests_release(request_ids=[each.pk for each in had if each not in taken], actor=actor, now=now)
    after = record_of(proposal)
    changed = [name for name in after if after[name] != before[name]]
    if changed:
        old, new = ({name: side[name] for name in changed} for side in (before, after))
        audited(proposal, "edit", actor, now, old, new)
    return proposal


@transaction.atomic
def proposal_open(*, proposal: Proposal, actor: User, now: datetime) -> Proposal:
    """For debate: from here on everybody who sees the level sees it. A stale base is refused."""
    proposal = locked(proposal, actor, PROPOSAL_STEPS["open"])
    if step_of(PROPOSAL_STEPS, "open", proposal.state, what="proposal") is None:
        return proposal
    base_require(proposal, now)
    errors = _moment_errors(proposal.effective_at, now) + lines_errors(proposal.parent, lines_kept(proposal=proposal))
    if errors:
        raise Refused.many(errors)
    proposal.opened_at = whole_second(now)
    return moved(proposal, "open", actor, now)


@transaction.atomic
def proposal_revise(*, proposal: Proposal, actor: User, now: datetime) -> Proposal:
    """Back to a draft, to be changed; what was said stays."""
    proposal = locked(proposal, actor, PROPOSAL_STEPS["revise"])
    if step_of(PROPOSAL_STEPS, "revise", proposal.state, what="proposal") is None:
        return proposal
    return moved(proposal, "revise", actor, now)


@transaction.atomic
def proposal_rebase(
    *,
    proposal: Proposal,
    base_version: int,
    lines: Sequence[LineInput],
    actor: User,
    now: datetime,
    effective_at: datetime | None,
) -> Proposal:
    """Put it on top of the newest version, with lines that a person has looked at beside what changed."""
    action = "rebase_draft" if proposal.state == DRAFT else "rebase"
    proposal = locked(proposal, actor, PROPOSAL_STEPS[action])
    action = "rebase_draft" if proposal.state == DRAFT else "rebase"
    step_of(PROPOSAL_STEPS, action, proposal.state, what="proposal")
    current = version_of_level(cluster=proposal.cluster, parent=proposal.parent)
    if base_version != current:
        sentence = f"The level has changed again: it is at version {current}, you looked at version {base_version}."
        raise Conflict(sentence, attr="base_version", current_version=current)
    errors = _moment_errors(effective_at, now) + lines_errors(proposal.parent, lines)
    if errors:
        raise Refused.many(errors)
    before = {"state": proposal.state, **record_of(proposal)}
    proposal.base_version, proposal.comparison, proposal.edited_by = current, None, actor
    proposal.effective_at = whole_second(effective_at) if effective_at else None
    proposal.state = PROPOSAL_STEPS[action].target or proposal.state
    _lines_set(proposal, lines)
    proposal.save()
    audited(proposal, "rebase", actor, now, before, {"state": proposal.state, **record_of(proposal)})
    return proposal


def level_lock(parent: Project) -> None:
    """Nobody else changes or decides anything about this level until the transaction ends.

    The level comes before the proposal: who approves one makes its rivals stale.
    """
    Project.objects.select_for_update(no_key=True).get(pk=parent.pk)


def locked(proposal: Proposal, actor: User | None, step: Step) -> Proposal:
    """The proposal as it is now, its level locked; refused to who may not take the step."""
    if actor is not None:
        user_require(user=actor, action="budgets_edit", project=proposal.parent)
    level_lock(proposal.parent)
    rows = Proposal.objects.select_for_update(of=("self",)).select_related("parent", "cluster")
    return rows.get(pk=proposal.pk)


def base_require(proposal: Proposal, now: datetime) -> None:
    """Refuse what is based on an older version, saying what has changed since."""
    current = version_of_level(cluster=proposal.cluster, parent=proposal.parent)
    if proposal.base_version != current:
        since = "; ".join(change_words(each) for each in changes_since(proposal=proposal, now=now))
        sentence = (
            f"The budgets of {proposal.parent.path} are at version {current}, this proposal is based on version "
            f"{proposal.base_version}. Since then: {since}. Rebase it first."
        )
        raise StaleBase(sentence, attr="base_version", code="stale", current_version=current)


def moved(proposal: Proposal, action: str, actor: User | None, now: datetime, *, reason: str = "") -> Proposal:
    """Take the step and record it."""
    before = proposal.state
    proposal.state = PROPOSAL_STEPS[action].target or before
    proposal.save()
    audited(proposal, action, actor, now, {"state": before}, {"state": proposal.state}, reason=reason)
    return proposal


def requests_release(*, request_ids: Sequence[int], actor: User | None, now: datetime) -> None:
    """Requests that no live proposal takes up any more wait to be taken up again."""
    still = GrantRequest.objects.filter(pk__in=request_ids, proposals__state__in=LIVE_STATES)
    free = sorted(set(request_ids) - set(still.values_list("pk", flat=True)))
    requests_follow(request_ids=free, action="release", actor=actor, now=now, reason="")


def _requests_of(
    author: User, cluster: Cluster, parent: Project, ids: Sequence[int], *, had: Sequence[GrantRequest] = ()
) -> list[GrantRequest]:
    """The requests with these ids, if each asks for a child of the parent on this cluster and waits to be decided."""
    if len(ids) > REQUESTS_MAX:
        raise Refused(f"A proposal takes up {REQUESTS_MAX} requests at most.", attr="requests")
    found = {each.pk: each for each in requests_visible(user=author).filter(pk__in=ids)}
    if missing := sorted(set(ids) - set(found)):
        raise NotFound(f"There is no request {missing[0]} that you may see.", attr="requests")
    errors = []
    for request in found.values():
        if request.project.parent_id != parent.pk or request.cluster_id != cluster.pk:
            sentence = f"Request {request.pk} is not for a project right below {parent.path} on {cluster.name}."
            errors.append(FieldError("requests", "other_level", sentence))
        elif request.state not in (SUBMITTED, TAKEN_UP) and request not in had:
            sentence = f"Request {request.pk} is {request.state}: it can't be taken up."
            errors.append(FieldError("requests", "wrong_state", sentence))
    if errors:
        raise Refused.many(errors)
    return [found[pk] for pk in sorted(found)]


def _same_draft(
    author: User,
    cluster: Cluster,
    parent: Project,
    said: dict[str, Any],
    lines: Sequence[LineInput],
    taken: Sequence[GrantRequest],
) -> Proposal | None:
    wanted = {project.pk: (share_ppm, burst_gpus) for project, share_ppm, burst_gpus in lines}
    drafts = Proposal.objects.filter(author=author, cluster=cluster, parent=parent, state=DRAFT, **said)
    for draft in drafts.prefetch_related("lines", "requests"):
        same_lines = {line.project_id: (line.share_ppm, line.burst_gpus) for line in draft.lines.all()} == wanted
        if same_lines and set(draft.requests.all()) == set(taken):
            return draft
    return None


def _lines_set(proposal: Proposal, lines: Sequence[LineInput]) -> bool:
    """Replace the lines; whether that changed anything."""
    had = {line.project_id: (line.share_ppm, line.burst_gpus) for line in proposal.lines.all()}
    wanted = {project.pk: (share_ppm, burst_gpus) for project, share_ppm, burst_gpus in lines}
    if had == wanted:
        return False
    proposal.lines.all().delete()
    ProposalLine.objects.bulk_create(
        ProposalLine(proposal=proposal, project=project, share_ppm=share_ppm, burst_gpus=burst_gpus)
        for project, share_ppm, burst_gpus in lines
    )
    return True


def _field_errors(title: str, reason: str, effective_at: datetime | None, now: datetime) -> list[FieldError]:
    errors = text_errors("title", title, TITLE_LENGTH_MAX, "Give the proposal a title.")
    errors += text_errors("reason", reason, TEXT_LENGTH_MAX, "Give the case for it: it becomes the change's reason.")
    return errors + _moment_errors(effective_at, now)


def _moment_errors(effective_at: datetime | None, now: datetime) -> list[FieldError]:
    return moment_errors(whole_second(effective_at), whole_second(now)) if effective_at else []


def record_of(proposal: Proposal) -> dict[str, Any]:
    """What the audit log keeps of it."""
    lines = {
        line.project.path: {"share_ppm": line.share_ppm, "burst_gpus": line.burst_gpus}
        for line in proposal.lines.select_related("project")
    }
    return {
        "title": proposal.title,
        "reason": proposal.reason,
        "base_version": proposal.base_version,
        "effective_at": proposal.effective_at.isoformat() if proposal.effective_at else None,
        "requests": ", ".join(str(pk) for pk in proposal.requests.order_by("pk").values_list("pk", flat=True)),
        **lines,
    }


def audited(
    proposal: Proposal,
    action: str,
    actor: User | None,
    now: datetime,
    before: dict[str, Any],
    after: dict[str, Any],
    reason: str = "",
) -> None:
    audit_record(
        actor=actor, action=f"proposal_{action}", target=proposal, before=before, after=after, now=now, reason=reason
    )
