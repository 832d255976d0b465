"""Requests: asked for by a lead, with the case for them; what the last grant achieved is kept when submitted."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction

from portal.clusters.models import Cluster
from portal.common.errors import FieldError, Forbidden, Refused
from portal.common.services import audit_record
from portal.common.units import whole_second
from portal.projects.models import Project, User
from portal.projects.selectors import user_may, user_require
from portal.proposals.grants import installed_gpus
from portal.proposals.last_grant import last_grant_figures
from portal.proposals.models import GrantRequest
from portal.proposals.transitions import CONSEQUENCE, DRAFT, MANAGER, REQUEST_STEPS, Step, step_of

TITLE_LENGTH_MAX = 200
TEXT_LENGTH_MAX = 10_000
GPUS_MAX = 1_000_000
AHEAD_MAX = timedelta(days=3660)
FIELDS = ("title", "purpose", "impact", "gpus", "from_at", "until_at")


@transaction.atomic
def request_create(
    *,
    project: Project,
    cluster: Cluster,
    title: str,
    purpose: str,
    impact: str,
    gpus: int,
    from_at: datetime,
    until_at: datetime,
    author: User,
    now: datetime,
) -> GrantRequest:
    """A draft of a request, by a lead of the project; nobody else sees it until it is submitted.

    The very same draft again is the first: a retry makes no second one.
    """
    user_require(user=author, action="budgets_edit", project=project)
    given = {
        "title": title, "purpose": purpose, "impact": impact, "gpus": gpus, "from_at": from_at, "until_at": until_at,
    }  # fmt: skip
    errors = _project_errors(project) + _field_errors(given, cluster, now)
    if errors:
        raise Refused.many(errors)
    User.objects.select_for_update(no_key=True).get(pk=author.pk)
    drafts = GrantRequest.objects.filter(author=author, state=DRAFT, project=project, cluster=cluster)
    if first := drafts.filter(**_kept(given)).first():
        return first
    created = GrantRequest.objects.create(
        project=project, cluster=cluster, author=author, created_at=whole_second(now), **_kept(given)
    )
    _audited(created, "create", author, now, before={}, after={"state": DRAFT, **_record(created)})
    return created


@transaction.atomic
def request_edit(*, request: GrantRequest, actor: User, now: datetime, **given: Any) -> GrantRequest:
    """Change a draft: any of title, purpose, impact, gpus, from_at, until_at."""
    request = _locked(request)
    _allowed(request, REQUEST_STEPS["edit"], actor)
    step_of(REQUEST_STEPS, "edit", request.state, what="request")
    wanted = {name: given.get(name, getattr(request, name)) for name in FIELDS}
    if errors := _field_errors(wanted, request.cluster, now):
        raise Refused.many(errors)
    before = _record(request)
    for name, value in _kept(wanted).items():
        setattr(request, name, value)
    after = _record(request)
    changed = [name for name in after if after[name] != before[name]]
    if changed:
        request.save(update_fields=list(FIELDS))
        old, new = ({name: side[name] for name in changed} for side in (before, after))
        _audited(request, "edit", actor, now, old, new)
    return request


@transaction.atomic
def request_submit(*, request: GrantRequest, actor: User, now: datetime) -> GrantRequest:
    """Ask: from here on the managers see it, with what the ledger says the last grant achieved."""
    request = _locked(request)
    _allowed(request, REQUEST_STEPS["submit"], actor)
    if step_of(REQUEST_STEPS, "submit", request.state, what="request") is None:
        return request
    if errors := _project_errors(request.project) + _time_errors(request.from_at, request.until_at, now):
        raise Refused.many(errors)
    request.last_grant = last_grant_figures(project=request.project, cluster=request.cluster, now=now)
    request.submitted_at = whole_second(now)
    return _moved(request, "submit", actor, now)


@transaction.atomic
def request_withdraw(*, request: GrantRequest, actor: User, now: datetime, reason: str = "") -> GrantRequest:
    """No longer wanted; proposals that took it up stay as they are."""
    return _decided(request, "withdraw", actor, now, reason)


@transaction.atomic
def request_decline(*, request: GrantRequest, actor: User, reason: str, now: datetime) -> GrantRequest:
    """A manager says no, and why."""
    return _decided(request, "decline", actor, now, reason)


def _decided(request: GrantRequest, action: str, actor: User, now: datetime, reason: str) -> GrantRequest:
    request = _locked(request)
    _allowed(request, REQUEST_STEPS[action], actor)
    if errors := reason_errors(reason):
        raise Refused.many(errors)
    if step_of(REQUEST_STEPS, action, request.state, reason=reason, what="request") is None:
        return request
    return _moved(request, action, actor, now, reason=reason.strip())


def requests_follow(
    *,
    request_ids: list[int],
    action: str,
    actor: User | None,
    now: datetime,
    reason: str,
    given: Mapping[int, Decimal] | None = None,
) -> None:
    """Take a step that follows from a proposal's; a request that has moved on by itself stays where it is.

    `given`: by request, the GPUs that its project is to hold, where the step grants it.

    To be called inside a transaction.
    """
    step = REQUEST_STEPS[action]
    if step.who != CONSEQUENCE:
        raise ValueError(f"{action} is a step of its own.")
    rows = GrantRequest.objects.select_for_update(of=("self",)).filter(pk__in=request_ids, state__in=step.sources)
    for request in rows.order_by("pk"):
        if request.state != step.target:
            request.given_gpus = (given or {}).get(request.pk)
            _moved(request, action, actor, now, reason=reason)


def _moved(request: GrantRequest, action: str, actor: User | None, now: datetime, *, reason: str = "") -> GrantRequest:
    step = REQUEST_STEPS[action]
    before = request.state
    request.state = step.target or before
    if action in ("decline", "withdraw", "grant"):
        request.decided_at, request.decided_by, request.decision_reason = whole_second(now), actor, reason
    request.save()
    _audited(request, action, actor, now, {"state": before}, {"state": request.state}, reason=reason)
    return request


def _locked(request: GrantRequest) -> GrantRequest:
    """As it is now, and nobody else changes it until the transaction ends."""
    rows = GrantRequest.objects.select_for_update(of=("self",)).select_related("project__parent", "cluster")
    return rows.get(pk=request.pk)


def _allowed(request: GrantRequest, step: Step, actor: User) -> None:
    project = request.project
    if step.who == MANAGER:
        user_require(user=actor, action="view", project=project)
        if project.parent is None:
            raise Forbidden("Nobody decides on a request of the root.")
        if not user_may(user=actor, action="budgets_edit", project=project.parent):
            raise Forbidden(f"Leads of {project.parent.path} decide on this request; you are none.")
        return
    user_require(user=actor, action="budgets_edit", project=project)
    if request.state == DRAFT and request.author_id != actor.pk and not actor.is_superuser:
        raise Forbidden("A draft is its author's alone.")


def _project_errors(project: Project) -> list[FieldError]:
    if project.parent_id is None:
        sentence = f"{project.path} is the root: it holds the whole cluster, there is nobody to ask."
        return [FieldError("project", "root", sentence)]
    if project.archived_at is not None:
        return [FieldError("project", "archived", f"{project.path} is archived: nothing is granted to it.")]
    return []


def _field_errors(given: dict[str, Any], cluster: Cluster, now: datetime) -> list[FieldError]:
    errors = text_errors("title", given["title"], TITLE_LENGTH_MAX, "Give the request a title.")
    errors += text_errors("purpose", given["purpose"], TEXT_LENGTH_MAX, "Say what the GPUs are for.")
    errors += text_errors("impact", given["impact"], TEXT_LENGTH_MAX, "Say what impact is expected.")
    gpus = given["gpus"]
    if not isinstance(gpus, int) or isinstance(gpus, bool) or not 1 <= gpus <= GPUS_MAX:
        errors.append(FieldError("gpus", "invalid", f"A request is for 1 to {GPUS_MAX} GPUs."))
    elif 0 < (installed := installed_gpus(cluster=cluster)) < gpus:
        sentence = f"{cluster.name} has {installed} GPUs installed: no project can hold more."
        errors.append(FieldError("gpus", "too_many", sentence))
    return errors + _time_errors(given["from_at"], given["until_at"], now)


def _time_errors(from_at: datetime, until_at: datetime, now: datetime) -> list[FieldError]:
    if until_at <= from_at:
        return [FieldError("until_at", "invalid", "A grant ends after it begins.")]
    if now - from_at > AHEAD_MAX:
        return [FieldError("from_at", "invalid", "A grant begins at most ten years ago.")]
    if until_at <= now:
        return [FieldError("until_at", "invalid", "A grant ends in the future.")]
    if until_at - now > AHEAD_MAX:
        return [FieldError("until_at", "invalid", "A grant ends within ten years.")]
    return []


def text_errors(attr: str, text: str, most: int, missing: str) -> list[FieldError]:
    """What is wrong with a text that must be there."""
    if not text.strip():
        return [FieldError(attr, "required", missing)]
    if "\0" in text or len(text) > most:
        return [FieldError(attr, "invalid", f"At most {most} characters, none of them NUL.")]
    return []


def reason_errors(reason: str) -> list[FieldError]:
    """What is wrong with a reason that may be left out."""
    return text_errors("reason", reason, TEXT_LENGTH_MAX, "") if reason.strip() else []


def _kept(given: dict[str, Any]) -> dict[str, Any]:
    texts = {name: given[name].strip() for name in ("title", "purpose", "impact")}
    moments = {name: whole_second(given[name]) for name in ("from_at", "until_at")}
    return {**texts, **moments, "gpus": given["gpus"]}


def _record(request: GrantRequest) -> dict[str, Any]:
    values = {name: getattr(request, name) for name in FIELDS}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def _audited(
    request: GrantRequest,
    action: str,
    actor: User | None,
    now: datetime,
    before: dict[str, Any],
    after: dict[str, Any],
    reason: str = "",
) -> None:
    audit_record(
        actor=actor, action=f"request_{action}", target=request, before=before, after=after, now=now, reason=reason
    )
