"""Objects for tests: plain functions that save what they return. Keywords override the defaults."""

import itertools
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import version_of_level
from portal.budgets.services import budget_change_create
from portal.clusters.models import Cluster, Host, HostSpan, HostState
from portal.projects.models import Membership, Project, User
from portal.projects.selectors import ancestor_ids
from portal.usage.models import Segment
from portal.workloads.models import Attempt, AttemptState, GpuClaim, Standing, Workload, WorkloadState

START = datetime(2026, 11, 2, tzinfo=UTC)
"""A Monday, 00:00 UTC: the moment at which everything in tests is made unless they say otherwise."""

_count = itertools.count(1)


def after(seconds: int) -> datetime:
    """That many seconds after START."""
    return START + timedelta(seconds=seconds)


def user_make(*, username: str = "", role: str = "", project: Project | None = None, **fields: Any) -> User:
    """A person; with `role` and `project` also their membership."""
    user = User(username=username or f"user-{next(_count)}", **fields)
    user.set_unusable_password()
    user.save()
    if project is not None:
        membership_make(user=user, project=project, role=role or "member")
    return user


def membership_make(*, user: User, project: Project, role: str = "member") -> Membership:
    return Membership.objects.create(user=user, project=project, role=role, created_at=START)


def project_make(path: str = "", **fields: Any) -> Project:
    """The project at `path` (made with what is missing above it; there is one root)."""
    path = path or f"lab/project-{next(_count)}"
    parent_path, _, slug = path.rpartition("/")
    found = Project.objects.filter(path=path).first()
    if found is not None:
        return found
    parent = project_make(parent_path) if parent_path else None
    defaults = {"name": slug, "created_at": START, "depth": 0 if parent is None else parent.depth + 1}
    return Project.objects.create(parent=parent, slug=slug, path=path, **{**defaults, **fields})


def cluster_make(name: str = "", **fields: Any) -> Cluster:
    return Cluster.objects.create(name=name or f"cluster-{next(_count)}", **{"created_at": START, **fields})


def host_make(*, cluster: Cluster, gpus: int = 8, state: str = HostState.SCHEDULABLE, **fields: Any) -> Host:
    """A host that has stood in `state` since `registered_at` (START)."""
    defaults: dict[str, Any] = {"name": f"host-{next(_count)}", "registered_at": START, "last_heard_at": START}
    host = Host.objects.create(cluster=cluster, gpus=gpus, state=state, **{**defaults, **fields})
    HostSpan.objects.create(host=host, cluster=cluster, gpus=gpus, state=state, start_at=host.registered_at)
    return host


def budget_make(
    *,
    cluster: Cluster,
    parent: Project,
    percent: dict[str, float],
    burst_gpus: dict[str, int] | None = None,
    at: datetime = START,
) -> BudgetChange:
    """A budget change by the system; `percent` maps slugs of children to percent, the rest get 0."""
    children = Project.objects.filter(parent=parent)
    return budget_change_create(
        cluster=cluster,
        parent=parent,
        base_version=version_of_level(cluster=cluster, parent=parent),
        lines=[
            (child, round(percent.get(child.slug, 0) * 10_000), (burst_gpus or {}).get(child.slug))
            for child in children
        ],
        reason="for a test",
        author=None,
        effective_at=at,
        now=at,
    )


def workload_make(
    *,
    project: Project,
    clusters: list[Cluster] | None = None,
    cluster: Cluster | None = None,
    author: User | None = None,
    **fields: Any,
) -> Workload:
    """A pending workload of one GPU, submitted at START."""
    submitted_at = fields.pop("submitted_at", START)
    defaults: dict[str, Any] = {
        "name": f"workload-{next(_count)}",
        "command": ["true"],
        "replicas": 1,
        "gpus_per_replica": 1,
        "min_runtime_seconds": 0,
        "submitted_at": submitted_at,
        "queued_at": submitted_at,
    }
    workload = Workload.objects.create(project=project, author=author or user_make(), **{**defaults, **fields})
    workload.clusters.set(clusters if clusters is not None else [cluster] if cluster is not None else [])
    return workload


def attempt_make(
    *,
    workload: Workload,
    hosts: list[Host],
    standing: str = Standing.FUNDED,
    state: str = AttemptState.RUNNING,
    claim: bool = True,
    **fields: Any,
) -> Attempt:
    """An attempt that was decided, assigned and running at START, one replica on each host in turn, with its claims.

    Its segments are not opened: `segments_open` or `segment_make` do that.
    """
    at = fields.get("decided_at", workload.queued_at)
    defaults: dict[str, Any] = {
        "cluster": hosts[0].cluster,
        "number": workload.attempts.count() + 1,
        "min_runtime_seconds": workload.min_runtime_seconds,
        "queued_at": workload.queued_at,
        "decided_at": at,
        "assigned_at": at,
        "running_at": at if state != AttemptState.ASSIGNED else None,
    }
    attempt = Attempt.objects.create(workload=workload, state=state, standing=standing, **{**defaults, **fields})
    if state == AttemptState.RUNNING:
        Workload.objects.filter(pk=workload.pk).update(state=WorkloadState.RUNNING, ended_at=None)
        workload.state, workload.ended_at = WorkloadState.RUNNING, None
    if claim:
        claims_make(attempt=attempt, hosts=hosts)
    return attempt


def claims_make(*, attempt: Attempt, hosts: list[Host], held: bool = False, first_gpu: int | None = None) -> None:
    """Claims of every replica on the hosts in turn, on the lowest GPUs that no other claim has open."""
    workload = attempt.workload
    start = attempt.assigned_at or attempt.decided_at
    span = DateTimeTZRange(start, attempt.ended_at, "[)")
    for replica in range(workload.replicas):
        host = hosts[replica % len(hosts)]
        taken = set(
            GpuClaim.objects.filter(host=host, occupied__overlap=span).values_list("gpu_index", flat=True)
            if not held
            else GpuClaim.objects.filter(attempt=attempt, host=host).values_list("gpu_index", flat=True)
        )
        free = [index for index in range(first_gpu or 0, host.gpus) if index not in taken]
        for gpu_index in free[: workload.gpus_per_replica]:
            GpuClaim.objects.create(
                attempt=attempt,
                replica=replica,
                host=host,
                gpu_index=gpu_index,
                held=span if held else None,
                occupied=None if held else span,
            )


def segment_make(
    *,
    attempt: Attempt,
    host: Host,
    start_at: datetime,
    end_at: datetime | None = None,
    gpus: int = 1,
    standing: str = Standing.FUNDED,
    **fields: Any,
) -> Segment:
    """A row of the ledger, charged along the project's present path."""
    workload = attempt.workload
    defaults: dict[str, Any] = {
        "workload": workload,
        "cluster": attempt.cluster,
        "project": workload.project,
        "author": workload.author,
        "path": ancestor_ids(project=workload.project),
    }
    return Segment.objects.create(
        attempt=attempt,
        host=host,
        gpus=gpus,
        standing=standing,
        start_at=start_at,
        end_at=end_at,
        **{**defaults, **fields},
    )


def without_tokens(text: str) -> str:
    """A page without what is drawn at random, in which any three letters may stand."""
    return re.sub(r"[A-Za-z0-9]{32,}", "", text)
