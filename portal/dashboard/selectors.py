"""What the pages read that belongs to no single app below: GPUs in use, attempts with their places, search."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from portal.clusters.models import Cluster, Host
from portal.clusters.selectors import hosts_installed
from portal.common.units import whole_second
from portal.projects.models import Project, User
from portal.projects.selectors import projects_visible
from portal.usage.models import Segment
from portal.workloads.models import Attempt, GpuClaim, Workload, WorkloadState
from portal.workloads.selectors import hosts_empty_at, workloads_visible

STANDING_ORDER = ("protected", "funded", "unallocated", "stopping")
SEARCH_ROWS = 20


@dataclass(frozen=True)
class GpuUse:
    """What one GPU does now: `key` is a standing, `held`, `free` or `unavailable`."""

    index: int
    key: str
    workload_id: int | None = None
    words: str = ""


@dataclass
class HostUse:
    """A host with what each of its GPUs does."""

    host: Host
    gpus: list[GpuUse]
    counts: dict[str, int] = field(default_factory=dict)
    empty_at: datetime | None = None


def gpu_claims_now(*, cluster: Cluster) -> dict[int, dict[int, tuple[str, int]]]:
    """Host id -> GPU index -> (standing or `held`, workload id), of every claim that is open."""
    rows = (
        GpuClaim.objects.filter(attempt__cluster=cluster)
        .exclude(attempt__state="ended")
        .filter(Q(occupied__upper_inf=True) | Q(held__upper_inf=True))
        .values_list("host_id", "gpu_index", "occupied", "attempt__standing", "attempt__workload_id")
    )
    claims: dict[int, dict[int, tuple[str, int]]] = defaultdict(dict)
    for host_id, index, occupied, standing, workload_id in rows.order_by("occupied"):
        is_occupied = occupied is not None and occupied.upper is None
        if is_occupied or index not in claims[host_id]:
            claims[host_id][index] = (standing if is_occupied else "held", workload_id)
    return claims


def hosts_in_use(*, cluster: Cluster, user: User, now: datetime, only: Host | None = None) -> list[HostUse]:
    """Every installed host with its GPUs and the time at which it will be empty; workloads are named only to those
    who may see them."""
    hosts = [only] if only else list(hosts_installed(cluster=cluster))
    claims = gpu_claims_now(cluster=cluster)
    ids = {workload for by_index in claims.values() for _, workload in by_index.values()}
    names = dict(workloads_visible(user=user).filter(pk__in=ids).values_list("pk", "name")) if ids else {}
    empty_at = hosts_empty_at(host_ids=[host.pk for host in hosts], now=whole_second(now))
    return [_host_use(host, claims.get(host.pk, {}), names, empty_at.get(host.pk)) for host in hosts]


def _host_use(
    host: Host, claims: dict[int, tuple[str, int]], names: dict[int, str], empty_at: datetime | None
) -> HostUse:
    empty = "free" if host.state == "schedulable" else "unavailable"
    gpus = []
    counts: dict[str, int] = defaultdict(int)
    for index in range(host.gpus):
        key, workload_id = claims.get(index, (empty, None))
        counts[key] += 1
        seen = workload_id in names
        words = f"{workload_id} {names[workload_id]}" if seen and workload_id else ""
        gpus.append(GpuUse(index, key, workload_id if seen else None, words))
    return HostUse(host, gpus, dict(counts), empty_at)


def hosts_closed(*, cluster: Cluster) -> list[tuple[str, str]]:
    """(name, state) of every host that takes no new attempts."""
    rows = hosts_installed(cluster=cluster).exclude(state="schedulable").order_by("name")
    return list(rows.values_list("name", "state"))


def gpus_by_standing(*, cluster: Cluster) -> dict[str, int]:
    """GPUs of the cluster by what they do now, standings first, then held, free and unavailable."""
    claims = gpu_claims_now(cluster=cluster)
    counts = dict.fromkeys((*STANDING_ORDER, "held", "free", "unavailable"), 0)
    for host_id, gpus, state in hosts_installed(cluster=cluster).values_list("pk", "gpus", "state"):
        used = claims.get(host_id, {})
        for key, _ in used.values():
            counts[key] = counts.get(key, 0) + 1
        counts["free" if state == "schedulable" else "unavailable"] += max(gpus - len(used), 0)
    return counts


@dataclass
class AttemptStory:
    """An attempt with where it runs and the stretches of its standings."""

    attempt: Attempt
    places: list[tuple[str, int, list[int]]]
    stretches: list[tuple[str, datetime, datetime | None]]
    charged_gpu_seconds: int


def attempt_stories(*, workload: Workload, now: datetime) -> list[AttemptStory]:
    """Every attempt of the workload, first to last, in four queries."""
    attempts = list(workload.attempts.select_related("taker", "cluster").order_by("number"))
    places: dict[int, dict[tuple[str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    claims = GpuClaim.objects.filter(attempt__workload=workload).order_by(
        "attempt", "host__name", "replica", "gpu_index"
    )
    for attempt_id, host, replica, index in claims.values_list("attempt_id", "host__name", "replica", "gpu_index"):
        places[attempt_id][(host, replica)].append(index)
    stretches: dict[int, dict[tuple[str, datetime, datetime | None], None]] = defaultdict(dict)
    charged: dict[int, int] = defaultdict(int)
    segments = Segment.objects.filter(workload=workload).order_by("attempt", "start_at", "host")
    for attempt_id, standing, start_at, end_at, gpus in segments.values_list(
        "attempt_id", "standing", "start_at", "end_at", "gpus"
    ):
        stretches[attempt_id][(standing, start_at, end_at)] = None
        if standing in {"protected", "funded"}:
            end = end_at or whole_second(now)
            charged[attempt_id] += gpus * max(int((end - start_at).total_seconds()), 0)
    return [
        AttemptStory(
            attempt,
            [(host, replica, indexes) for (host, replica), indexes in places[attempt.pk].items()],
            list(stretches[attempt.pk]),
            charged[attempt.pk],
        )
        for attempt in attempts
    ]


def running_now(*, user: User, cluster: Cluster, limit: int) -> list[Attempt]:
    """Attempts under way that the person may see, newest first."""
    visible = workloads_visible(user=user)
    return list(
        Attempt.objects.filter(cluster=cluster, workload__in=visible)
        .exclude(state="ended")
        .select_related("workload", "workload__project", "workload__author")
        .order_by("-decided_at", "-pk")[:limit]
    )


def active_standings(*, workload_ids: list[int]) -> dict[int, str]:
    """Workload id -> the standing of its attempt under way."""
    rows = Attempt.objects.filter(workload__in=workload_ids).exclude(state="ended")
    return dict(rows.values_list("workload_id", "standing"))


@dataclass(frozen=True)
class Found:
    """What a search found; each list at most `SEARCH_ROWS` long."""

    workloads: list[Workload]
    projects: list[Project]
    hosts: list[Host]

    @property
    def number(self) -> int:
        """How many things were found."""
        return len(self.workloads) + len(self.projects) + len(self.hosts)


def search(*, user: User, text: str) -> Found:
    """Workloads by id or name, projects by path or name, hosts by name: what the person may see."""
    by_id = Q(pk=int(text)) if text.isascii() and text.isdigit() and len(text) < 19 else Q(pk=None)
    workloads = workloads_visible(user=user).filter(by_id | Q(name__icontains=text)).select_related("project", "author")
    projects = projects_visible(user=user).filter(Q(path__icontains=text) | Q(name__icontains=text))
    hosts = Host.objects.filter(retired_at=None, name__icontains=text).select_related("cluster")
    return Found(
        list(workloads.order_by("-pk")[:SEARCH_ROWS]),
        list(projects.order_by("path")[:SEARCH_ROWS]),
        list(hosts.order_by("name")[:SEARCH_ROWS]),
    )


def states_in_words() -> list[tuple[str, str]]:
    """Every workload state, for filters."""
    return [(str(value), str(label)) for value, label in WorkloadState.choices]
