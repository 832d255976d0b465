"""Workloads as the API shows them: a whole page in a fixed number of queries."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from django.db.models import QuerySet

from portal.common.units import moment_of
from portal.projects.models import User
from portal.usage.models import Segment
from portal.usage.selectors import charged_by_workload
from portal.workloads.models import Attempt, GpuClaim, Standing, Workload, WorkloadState

WORKLOAD_FIELDS = (
    "id", "name", "project__path", "author__username", "replicas", "gpus_per_replica", "min_runtime_seconds",
    "timeout_seconds", "resumable", "allow_unallocated", "priority", "state", "submitted_at", "queued_at", "ended_at",
    "exit_code", "cancel_requested_at", "is_demonstration", "reason_code", "reason_text", "reason",
)  # fmt: skip
DETAIL_FIELDS = ("command", "script", "environment", "author_id")
ATTEMPT_FIELDS = (
    "id", "workload_id", "number", "cluster__name", "state", "standing", "express", "min_runtime_seconds",
    "queued_at", "decided_at", "assigned_at", "running_at", "stopping_at", "stop_cause", "ended_at", "outcome",
    "exit_code", "reason_code", "reason_text", "reason",
)  # fmt: skip
_RENAMED = {"project__path": "project", "author__username": "author"}
_HIDDEN = {"reason_code", "reason_text", "author_id"}


def workload_rows(*, page: Iterable[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Answers for rows of WORKLOAD_FIELDS: clusters, attempts, GPUs and charges come in one query each."""
    rows = list(page)
    ids = [row["id"] for row in rows]
    clusters = clusters_of(workload_ids=ids)
    attempts = attempts_of(workload_ids=ids)
    charges = charged_by_workload(workload_ids=ids, at=now)
    return [_workload_row(row, clusters[row["id"]], attempts[row["id"]], charged=charges[row["id"]]) for row in rows]


def _workload_row(
    row: dict[str, Any], clusters: list[str], attempts: list[dict[str, Any]], *, charged: int
) -> dict[str, Any]:
    return {
        **{_RENAMED.get(name, name): value for name, value in row.items() if name not in _HIDDEN},
        "clusters": clusters,
        "gpus": row["replicas"] * row["gpus_per_replica"],
        "reason": reason_of(row),
        "queue": queue_of(row),
        "attempts": attempts,
        "charged_gpu_seconds": charged,
    }


def workload_submitted(*, workload: Workload) -> dict[str, Any]:
    """What `workload_detail` says to its author of a workload that is new: nothing was tried or charged yet."""
    row = {name: attrgetter(name.replace("__", "."))(workload) for name in (*WORKLOAD_FIELDS, *DETAIL_FIELDS)}
    return _workload_row(row, clusters_of(workload_ids=[workload.pk])[workload.pk], [], charged=0)


def workload_detail(
    *, workloads: QuerySet[Workload], workload_id: int, user: User, now: datetime
) -> dict[str, Any] | None:
    """One workload with what it runs; its environment, which may hold secrets, only for those whose it is."""
    found = workloads.filter(pk=workload_id).values(*WORKLOAD_FIELDS, *DETAIL_FIELDS).first()
    if found is None:
        return None
    if found["author_id"] != user.pk and not user.is_superuser:
        found["environment"] = None
    return workload_rows(page=[found], now=now)[0]


def reason_of(row: dict[str, Any]) -> dict[str, Any]:
    """The reason's numbers, moments as moments, and over them its code and sentence."""
    numbers = row["reason"] if isinstance(row["reason"], dict) else {}
    shown = {
        name: moment_of(value) if name.endswith("_at") and isinstance(value, int) else value
        for name, value in numbers.items()
    }
    return {**shown, "code": row["reason_code"], "text": row["reason_text"]}


def queue_of(row: dict[str, Any]) -> dict[str, Any] | None:
    """Position and GPUs ahead as the last pass saw them; none before it, and none once it runs."""
    if row["state"] != WorkloadState.PENDING:
        return None
    return {name: row["reason"].get(name) for name in ("position", "gpus_ahead")}


def clusters_of(*, workload_ids: list[int]) -> dict[int, list[str]]:
    """Names of the clusters that each workload accepts."""
    names: dict[int, list[str]] = defaultdict(list)
    through = Workload.clusters.through.objects.filter(workload_id__in=workload_ids).order_by("cluster__name")
    for workload_id, name in through.values_list("workload_id", "cluster__name"):
        names[workload_id].append(name)
    return names


def attempts_of(*, workload_ids: list[int]) -> dict[int, list[dict[str, Any]]]:
    """Attempts of each workload, in order, with the GPUs that each replica has or had."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    rows = list(
        Attempt.objects.filter(workload_id__in=workload_ids).order_by("workload_id", "number").values(*ATTEMPT_FIELDS)
    )
    hosts = hosts_of(attempt_ids=[row["id"] for row in rows])
    before = standings_before_stopping(attempt_ids=[row["id"] for row in rows if row["standing"] == Standing.STOPPING])
    for row in rows:
        found[row["workload_id"]].append(_attempt_row(row, hosts[row["id"]], before.get(row["id"])))
    return found


def standings_before_stopping(*, attempt_ids: list[int]) -> dict[int, str]:
    """How attempts that were told to stop stood until then, from the ledger; without those that never had GPUs."""
    if not attempt_ids:
        return {}
    segments = Segment.objects.filter(attempt_id__in=attempt_ids).exclude(standing=Standing.STOPPING)
    latest = segments.order_by("attempt_id", "-start_at").distinct("attempt_id")
    return dict(latest.values_list("attempt_id", "standing"))


def hosts_of(*, attempt_ids: list[int]) -> dict[int, list[dict[str, Any]]]:
    """For each attempt, its replicas' hosts and GPUs there."""
    places: dict[int, dict[tuple[int, str], list[int]]] = defaultdict(lambda: defaultdict(list))
    claims = GpuClaim.objects.filter(attempt_id__in=attempt_ids).order_by("attempt_id", "replica", "gpu_index")
    for attempt_id, replica, host, gpu in claims.values_list("attempt_id", "replica", "host__name", "gpu_index"):
        places[attempt_id][replica, host].append(gpu)
    answer: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for attempt_id, gpus_by_place in places.items():
        answer[attempt_id] = [
            {"replica": replica, "host": host, "gpus": gpus} for (replica, host), gpus in gpus_by_place.items()
        ]
    return answer


def _attempt_row(row: dict[str, Any], hosts: list[dict[str, Any]], before: str | None) -> dict[str, Any]:
    hidden = {"id", "workload_id", "cluster__name", "reason_code", "reason_text"}
    return {
        **{name: value for name, value in row.items() if name not in hidden},
        "cluster": row["cluster__name"],
        "standing_before_stopping": before,
        "protected_until": _protected_until(row),
        "reason": reason_of(row),
        "hosts": hosts,
    }


def _protected_until(row: dict[str, Any]) -> datetime | None:
    """The end of the contract, from when the whole gang runs; none before that, and none without protection."""
    running_at: datetime | None = row["running_at"]
    if row["standing"] != Standing.PROTECTED or running_at is None or row["ended_at"] is not None:
        return None
    return running_at + timedelta(seconds=row["min_runtime_seconds"])
