"""Clusters, the policy in force, and how many GPUs could be scheduled when."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Max, Q, QuerySet

from portal.clusters.models import Cluster, Host, HostSpan, HostState, PolicyChange
from portal.clusters.policies import policy_defaults
from portal.common.errors import NotFound


class CapacityStep(NamedTuple):
    """From `at` on, until the next step."""

    at: datetime
    schedulable_gpus: int
    installed_gpus: int


def cluster_by_name(*, name: str) -> Cluster:
    """The cluster, or an error that names those there are."""
    cluster = None if "\0" in name else Cluster.objects.filter(name=name).first()
    if cluster is None:
        names = ", ".join(Cluster.objects.values_list("name", flat=True)[:20]) or "none yet"
        shown = name.replace("\0", "\\0")[:100]
        raise NotFound(f"There is no cluster {shown!r}. The clusters are: {names}.", attr="clusters")
    return cluster


def policy_version(*, cluster: Cluster) -> int:
    """The version of the policy in force; 0: the defaults, never changed."""
    return PolicyChange.objects.filter(cluster=cluster).aggregate(latest=Max("version"))["latest"] or 0


def policy_values(*, cluster: Cluster) -> dict[str, Any]:
    """Every setting of the cluster: the defaults, and over them what its policy says."""
    change = PolicyChange.objects.filter(cluster=cluster).order_by("-version").first()
    return {**policy_defaults(), **(change.overrides if change else {})}


def policies_of(*, clusters: Iterable[Cluster]) -> dict[int, dict[str, Any]]:
    """`policy_values` of several clusters by id, in one query."""
    latest = PolicyChange.objects.filter(cluster__in=clusters).order_by("cluster_id", "-version").distinct("cluster_id")
    overrides = {change.cluster_id: change.overrides for change in latest}
    return {cluster.pk: {**policy_defaults(), **overrides.get(cluster.pk, {})} for cluster in clusters}


def hosts_installed(*, cluster: Cluster | None = None) -> QuerySet[Host]:
    """Hosts that are not retired, of one cluster or of all."""
    hosts = Host.objects.filter(retired_at=None).select_related("cluster")
    return hosts if cluster is None else hosts.filter(cluster=cluster)


def host_spans(*, cluster: Cluster, start: datetime, end: datetime | None = None) -> QuerySet[HostSpan]:
    """Spans that reach into [start, end)."""
    spans = HostSpan.objects.filter(cluster=cluster).filter(Q(end_at=None) | Q(end_at__gt=start))
    return spans if end is None else spans.filter(start_at__lt=end)


def capacity_steps(*, cluster: Cluster, since: datetime) -> list[CapacityStep]:
    """How many GPUs were schedulable and installed from `since` on: the step in force then, and all after it.

    Before the first step there were none.
    """
    schedulable: Counter[datetime] = Counter()
    installed: Counter[datetime] = Counter()
    rows = host_spans(cluster=cluster, start=since).values_list("start_at", "end_at", "gpus", "state")
    for start_at, end_at, gpus, state in rows:
        for at, change in ((max(start_at, since), gpus), (end_at, -gpus)):
            if at is not None:
                installed[at] += change
                schedulable[at] += change if state == HostState.SCHEDULABLE else 0
    steps: list[CapacityStep] = []
    usable = total = 0
    for at in sorted(installed):
        usable, total = usable + schedulable[at], total + installed[at]
        if not steps or (usable, total) != steps[-1][1:]:
            steps.append(CapacityStep(at, usable, total))
    return steps
