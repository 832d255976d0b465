"""Submitting and cancelling. What happens to a workload in between is decided by passes, above this app."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from portal.clusters.models import Cluster
from portal.common.availability import broker_require
from portal.common.errors import CommonsError, Conflict, FieldError, Forbidden, NotFound, Refused
from portal.common.messages import pass_request
from portal.common.services import audit_record
from portal.common.units import whole_second
from portal.projects.models import Project, User
from portal.projects.selectors import project_allowing, user_may
from portal.workloads.acceptance import offers_accepting, offers_of
from portal.workloads.models import Attempt, AttemptState, Workload, WorkloadEvent, WorkloadState
from portal.workloads.validation import KEY_LENGTH_MAX, NAME_LENGTH_MAX, fields_problems

FINAL_STATES = frozenset(set(WorkloadState.values) - {WorkloadState.PENDING, WorkloadState.RUNNING})

DEFAULTS: dict[str, Any] = {
    "project": None, "clusters": [], "name": "", "command": [], "script": "", "replicas": 1, "gpus_per_replica": 1,
    "min_runtime_seconds": 0, "timeout_seconds": None, "resumable": True, "allow_unallocated": True, "priority": 0,
    "environment": {}, "idempotency_key": None,
}  # fmt: skip
"""What a submission says of a field that it doesn't name; `workload_submit` has the same."""


@transaction.atomic
def workload_submit(
    *,
    author: User,
    now: datetime,
    project: Project | str,
    clusters: Sequence[str] = (),
    name: str = "",
    command: Sequence[str] = (),
    script: str = "",
    replicas: int = 1,
    gpus_per_replica: int = 1,
    min_runtime_seconds: int = 0,
    timeout_seconds: int | None = None,
    resumable: bool = True,
    allow_unallocated: bool = True,
    priority: int = 0,
    environment: Mapping[str, str] | None = None,
    idempotency_key: str | None = None,
) -> tuple[Workload, bool]:
    """Queue a workload; returns it and whether it is new.

    All wrong fields are refused together; nothing is saved while the broker is away. The same key with the same body
    gives the first workload again, with another body it is a conflict.
    """
    body: dict[str, Any] = {
        "project": project.path if isinstance(project, Project) else project,
        "clusters": clusters if isinstance(clusters, str) else list(clusters),
        "name": name,
        "command": list(command) if isinstance(command, tuple) else command,
        "script": script,
        "replicas": replicas,
        "gpus_per_replica": gpus_per_replica,
        "min_runtime_seconds": min_runtime_seconds,
        "timeout_seconds": timeout_seconds,
        "resumable": resumable,
        "allow_unallocated": allow_unallocated,
        "priority": priority,
        "environment": {} if environment is None else environment,
    }
    digest = _body_digest(body)
    if first := _first_with_key(author, idempotency_key, digest):
        return first, False
    found, accepted = _checked(author, {**body, "idempotency_key": idempotency_key})
    broker_require()
    now = whole_second(now)
    try:
        # Only a key can be there already: without one there is nothing to go back for.
        with nullcontext() if idempotency_key is None else transaction.atomic():
            workload = _saved(author, found, accepted, body, idempotency_key, digest, now)
    except IntegrityError:
        # Another request with this key was committed between our look and our insert.
        first = _first_with_key(author, idempotency_key, digest)
        if first is None:
            raise
        return first, False
    for cluster in accepted:
        pass_request(cluster.pk)
    return workload, True


def _body_digest(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _first_with_key(author: User, key: str | None, digest: str) -> Workload | None:
    if not isinstance(key, str) or "\0" in key or len(key) > KEY_LENGTH_MAX:
        return None
    first = Workload.objects.filter(author=author, idempotency_key=key).first()
    if first is not None and first.idempotency_digest != digest:
        raise Conflict(
            f"This Idempotency-Key was used for workload {first.pk}, which is a different one.",
            attr="idempotency_key",
            code="key_reused",
        )
    return first


def submission_problems(*, author: User, given: dict[str, Any], left_out: Collection[str]) -> list[FieldError]:
    """What the rules say of a submission whose fields `left_out` can't be read: of these nothing is said."""
    body = {**DEFAULTS, **given}
    _, _, problems = _judged(author, body)
    return [problem for problem in problems if problem.attr not in left_out and not _is_excused(problem, left_out)]


def _is_excused(problem: FieldError, left_out: Collection[str]) -> bool:
    """A command may be missing where a script stands that can't be read."""
    return "script" in left_out and (problem.attr, problem.code) == ("command", "required")


def _checked(author: User, body: dict[str, Any]) -> tuple[Project, list[Cluster]]:
    project, clusters, problems = _judged(author, body, held=True)
    if problems or project is None:
        raise Refused.many(problems)
    return project, clusters


def _judged(
    author: User, body: dict[str, Any], *, held: bool = False
) -> tuple[Project | None, list[Cluster], list[FieldError]]:
    problems = fields_problems(body)
    project = None
    try:
        project = _project_checked(author, body["project"], held)
    except NotFound as missing:
        problems = [FieldError("project", "unknown", missing.detail), *problems]
    clusters, cluster_problems = _clusters_checked(body)
    return project, clusters, problems + cluster_problems


def _project_checked(author: User, path: Any, held: bool) -> Project:
    if not isinstance(path, str):
        raise NotFound("A project is named by its path, like lab/nlp.", attr="project")
    project = project_allowing(user=author, action="submit", path=path, held=held)
    if project.archived_at is not None:
        raise NotFound(f"Project {path} is archived: it takes no more workloads.", attr="project")
    return project


def _clusters_checked(body: dict[str, Any]) -> tuple[list[Cluster], list[FieldError]]:
    """The clusters that can take it; of what is asked for, all is judged, also beside a name that doesn't exist."""
    if isinstance(body["clusters"], str):
        return [], [FieldError("clusters", "invalid", "Clusters must be a list of names.")]
    offers, unknown = offers_of(body["clusters"])
    clusters, problems = offers_accepting(offers, body, named=bool(body["clusters"]) and not unknown)
    if not clusters and not problems and not unknown:
        problems = [FieldError("clusters", "none_fits", "No cluster has both the hosts and the bounds for this.")]
    return ([] if unknown else clusters), unknown + problems


def _saved(
    author: User,
    project: Project,
    clusters: list[Cluster],
    body: dict[str, Any],
    key: str | None,
    digest: str,
    now: datetime,
) -> Workload:
    kept = {name: value for name, value in body.items() if name not in {"project", "clusters", "name"}}
    workload = Workload.objects.create(
        **kept,
        project=project,
        author=author,
        name=body["name"].strip() or _default_name(body),
        submitted_at=now,
        queued_at=now,
        idempotency_key=key,
        idempotency_digest=digest if key is not None else "",
        is_demonstration=project.is_demonstration,
    )
    through = Workload.clusters.through
    through.objects.bulk_create(through(workload_id=workload.pk, cluster_id=cluster.pk) for cluster in clusters)
    WorkloadEvent.objects.create(
        workload=workload,
        at=now,
        kind="submitted",
        actor=author,
        text=f"Submitted to {project.path} by {author.username}.",
        data={"gpus": workload.gpus, "clusters": [cluster.name for cluster in clusters]},
    )
    return workload


def _default_name(body: dict[str, Any]) -> str:
    first_word: str = body["command"][0].rsplit("/", 1)[-1] if body["command"] else "script"
    return first_word[:NAME_LENGTH_MAX].strip() or "workload"


@transaction.atomic
def workload_cancel(*, workload: Workload, actor: User | None, now: datetime) -> Workload:
    """Cancel by its author, a lead above it, or the system. Without an attempt it ends at once;
    else the next pass stops the attempt. Doing it again, or too late, changes nothing.
    """
    _cancel_allowed(workload, actor)
    now = whole_second(now)
    held = Workload.objects.select_for_update(no_key=True).get(pk=workload.pk)
    if held.state in FINAL_STATES or held.cancel_requested_at is not None:
        return held
    before = {"state": held.state}
    held.cancel_requested_at, held.cancelled_by = now, actor
    active = Attempt.objects.filter(workload=held).exclude(state=AttemptState.ENDED).exists()
    if not active:
        held.state, held.ended_at = WorkloadState.CANCELLED, max(now, held.submitted_at)
        held.reason_code = held.reason_text = ""
        held.reason = {}
    held.save()
    who = actor.username if actor else "the system"
    WorkloadEvent.objects.create(
        workload=held,
        at=now,
        kind="cancel_requested" if active else "cancelled",
        actor=actor,
        text=f"Cancelled by {who}." if not active else f"Cancelled by {who}: its attempt is told to stop.",
    )
    audit_record(
        actor=actor,
        action="workload_cancel",
        target=held,
        before=before,
        after={"state": held.state, "cancel_requested_at": now.isoformat()},
        now=now,
    )
    for cluster_id in held.clusters.values_list("pk", flat=True):
        pass_request(cluster_id)
    return held


def _cancel_allowed(workload: Workload, actor: User | None) -> None:
    if actor is None or workload.author_id == actor.pk:
        return
    if not user_may(user=actor, action="view", project=workload.project):
        raise workload_not_found(workload.pk)
    if not user_may(user=actor, action="cancel_any", project=workload.project):
        raise Forbidden(f"Only its author or a lead of {workload.project.path} cancels workload {workload.pk}.")


def workload_not_found(workload_id: int) -> CommonsError:
    """The same error whether it does not exist or may not be seen."""
    return NotFound(f"There is no workload {workload_id} that you may see.")
