"""Reading workloads: who sees which, the queue in order, the output."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import BigIntegerField, Case, Count, F, Q, QuerySet, Sum, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Length

from portal.clusters.models import Cluster
from portal.common.errors import NotFound
from portal.projects.models import Project, User
from portal.projects.selectors import projects_visible
from portal.workloads.models import (
    Attempt,
    AttemptState,
    GpuClaim,
    LogChunk,
    Standing,
    Workload,
    WorkloadEvent,
    WorkloadState,
)

LOG_BYTES_MAX = 1_048_576


@dataclass(frozen=True)
class QueueRow:
    """One waiting workload, as page, REST and CLI show it. `position` and `gpus_ahead` are the last pass's."""

    workload_id: int
    name: str
    project: str
    author: str
    replicas: int
    gpus_per_replica: int
    min_runtime_seconds: int
    priority: int
    submitted_at: datetime
    queued_at: datetime
    reason_code: str
    reason_text: str
    reason: dict[str, Any]
    position: int | None
    gpus_ahead: int | None


def workloads_visible(*, user: User) -> QuerySet[Workload]:
    """Workloads of the projects that the person sees, and their own."""
    if user.is_site_wide:
        return Workload.objects.all()
    return Workload.objects.filter(Q(project__in=projects_visible(user=user)) | Q(author=user))


def workload_visible(*, user: User, workload_id: int) -> Workload:
    """One workload with its project and author, or the error that does not tell missing from unseen."""
    visible = workloads_visible(user=user).select_related("project", "author", "cancelled_by")
    workload = visible.filter(pk=workload_id).first()
    if workload is None:
        raise NotFound(f"There is no workload {workload_id} that you may see.")
    return workload


def events_told(*, workload: Workload, user: User, limit: int) -> list[WorkloadEvent]:
    """The workload's latest events, newest first, in the words that the person may read: other projects are named
    only to who sees them."""
    events = list(workload.events.select_related("actor", "attempt").order_by("-pk")[:limit])
    named = {project for event in events for project in event.data.get("named_projects", ())}
    if named:
        seen = set(projects_visible(user=user).filter(pk__in=named).values_list("pk", flat=True))
        for event in events:
            if event.data.get("named_text") and seen.issuperset(event.data["named_projects"]):
                event.text = event.data["named_text"]
    return events


def queue_waiting(
    *,
    user: User,
    cluster: Cluster | None = None,
    project: Project | None = None,
    author: str = "",
    reason_code: str = "",
) -> QuerySet[Workload]:
    """What waits and the person may see, unordered."""
    waiting = workloads_visible(user=user).filter(state=WorkloadState.PENDING)
    if cluster is not None:
        waiting = waiting.filter(clusters=cluster)
    if project is not None:
        waiting = waiting.filter(Q(project=project) | Q(project__path__startswith=f"{project.path}/"))
    if author:
        waiting = waiting.filter(author__username=author)
    return waiting.filter(reason_code=reason_code) if reason_code else waiting


def queue_ordered(*, workloads: QuerySet[Workload]) -> QuerySet[Workload]:
    """As the scheduler considers them: what is starting, then the queue by position, then what has none,
    then the unallocated queue, which counts its positions for itself (R8), then what doesn't wait; ties by first
    submit."""
    position = Cast(KeyTextTransform("position", "reason"), BigIntegerField())
    return workloads.annotate(
        position=position,
        gpus_ahead=Cast(KeyTextTransform("gpus_ahead", "reason"), BigIntegerField()),
        band=Case(
            When(~Q(state=WorkloadState.PENDING), then=Value(4)),
            When(reason_code__in=("held", "starting"), then=Value(0)),
            When(reason_code__in=("unallocated_queue", "unallocated_cap"), then=Value(3)),
            When(reason__has_key="position", then=Value(1)),
            default=Value(2),
        ),
    ).order_by("band", F("position").asc(nulls_last=True), "submitted_at", "pk")


def queue_reasons(*, waiting: QuerySet[Workload]) -> list[tuple[str, int, int]]:
    """Of what waits: each reason's code with its workloads and GPUs, most workloads first."""
    gpus = Sum(F("replicas") * F("gpus_per_replica"))
    rows = waiting.order_by().values_list("reason_code").annotate(number=Count("pk"), gpus_together=gpus)
    return sorted(rows, key=lambda row: -row[1])


def queue_rows(
    *,
    user: User,
    cluster: Cluster | None = None,
    project: Project | None = None,
    author: str = "",
    reason_code: str = "",
    limit: int = 100,
    offset: int = 0,
) -> list[QueueRow]:
    """What waits and the person may see, in the order of `queue_ordered`."""
    waiting = queue_waiting(user=user, cluster=cluster, project=project, author=author, reason_code=reason_code)
    ordered = queue_ordered(workloads=waiting)
    names = (
        *("pk", "name", "project__path", "author__username", "replicas", "gpus_per_replica", "min_runtime_seconds"),
        *("priority", "submitted_at", "queued_at", "reason_code", "reason_text", "reason", "position", "gpus_ahead"),
    )
    return [QueueRow(*row) for row in ordered.values_list(*names)[offset : offset + limit]]


def log_size(*, attempt: Attempt, replica: int = 0) -> int:
    """Bytes of output received of a replica, up to its last chunk's end."""
    last = LogChunk.objects.filter(attempt=attempt, replica=replica).order_by("-offset")
    row = last.annotate(size=Length("data")).values_list("offset", "size").first()
    return row[0] + row[1] if row else 0


def attempt_latest(*, workload: Workload) -> Attempt | None:
    """The newest attempt, under way or ended."""
    return Attempt.objects.filter(workload=workload).order_by("-number").first()


@dataclass(frozen=True)
class LogPart:
    """A stretch of output, where to read on, and whether more of it is there already. Where bytes between two kept
    stretches are left out, one line in `data` says how many."""

    data: bytes
    next_offset: int
    has_more: bool


def log_read(
    *, workload: Workload, attempt: int | None = None, replica: int = 0, offset: int = 0, limit: int = LOG_BYTES_MAX
) -> LogPart:
    """Output of a replica from a byte offset on; `attempt` is its number, none the newest."""
    attempts = Attempt.objects.filter(workload=workload)
    chosen = attempts.order_by("-number").first() if attempt is None else attempts.filter(number=attempt).first()
    if chosen is None:
        return LogPart(b"", offset, has_more=False)
    chunks = LogChunk.objects.filter(attempt=chosen, replica=replica)
    first = chunks.filter(offset__lte=offset).order_by("-offset").values_list("offset", flat=True).first()
    output, position, room = bytearray(), offset, limit
    rows = chunks.filter(offset__gte=first or 0).order_by("offset").values_list("offset", "data")
    for start, data in rows.iterator(chunk_size=64):
        if start > position:
            output += f"\n[GPU Commons: {start - position:,} bytes of this output are left out here.]\n".encode()
            position = start
        piece = bytes(data)[position - start :][:room]
        output += piece
        position, room = position + len(piece), room - len(piece)
        if room == 0:
            break
    return LogPart(bytes(output), position, has_more=room == 0)


def workload_log(
    *, workload: Workload, attempt: int | None = None, replica: int = 0, offset: int = 0, limit: int = LOG_BYTES_MAX
) -> bytes:
    """The bytes of `log_read`."""
    return log_read(workload=workload, attempt=attempt, replica=replica, offset=offset, limit=limit).data


def hosts_empty_at(*, host_ids: Iterable[int], now: datetime) -> dict[int, datetime]:
    """When each host is empty if it takes no new attempts from now on: the latest end of what is protected there.

    A contract that has not begun yet counts as beginning now; what nothing protects leaves at once. A host on which
    nothing is, is left out.
    """
    claims = GpuClaim.objects.filter(host__in=list(host_ids)).exclude(attempt__state=AttemptState.ENDED)
    rows = claims.filter(Q(occupied__upper_inf=True) | Q(held__upper_inf=True)).order_by()
    moments: dict[int, datetime] = {}
    for host, *contract in rows.values_list("host", *(f"attempt__{name}" for name in CONTRACT_FIELDS)).distinct():
        moments[host] = max(_protected_until(*contract, now=now), moments.get(host, now))
    return moments


CONTRACT_FIELDS = ("pk", "standing", "running_at", "min_runtime_seconds", "stopping_at", "stop_grace_seconds")


def _protected_until(
    _: int,
    standing: str,
    running_at: datetime | None,
    min_runtime_seconds: int,
    stopping_at: datetime | None,
    stop_grace_seconds: int,
    *,
    now: datetime,
) -> datetime:
    if stopping_at is not None:
        return stopping_at + timedelta(seconds=stop_grace_seconds)
    if standing == Standing.PROTECTED:
        return (running_at or now) + timedelta(seconds=min_runtime_seconds)
    return now
