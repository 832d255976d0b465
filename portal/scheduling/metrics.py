"""What Prometheus scrapes at /metrics, read from the database in a few queries, with nothing about persons."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from django.db.models import Count, F, OuterRef, Subquery, Sum
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from portal.clusters.models import Cluster, Host, HostState
from portal.scheduling.models import Pass
from portal.usage.models import Segment
from portal.workloads.models import Standing, Workload, WorkloadState


class CommonsCollector(Collector):
    """The portal's figures at `now`."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def collect(self) -> Iterable[Metric]:
        clusters = list(Cluster.objects.order_by("name").values_list("name", flat=True))
        yield from self._workloads()
        yield from self._gpus(clusters)
        yield from self._passes()

    def _workloads(self) -> Iterator[Metric]:
        counts = dict(Workload.objects.order_by().values_list("state").annotate(Count("pk")))
        workloads = GaugeMetricFamily("commons_workloads", "Workloads by state.", labels=["state"])
        for state in WorkloadState.values:
            workloads.add_metric([state], counts.get(state, 0))
        yield workloads
        pending = Workload.objects.filter(state=WorkloadState.PENDING)
        gpus = pending.aggregate(gpus=Sum(F("replicas") * F("gpus_per_replica")))["gpus"] or 0
        yield GaugeMetricFamily("commons_pending_gpus", "GPUs that pending workloads ask for.", value=gpus)

    def _gpus(self, clusters: list[str]) -> Iterator[Metric]:
        hosts: dict[tuple[str, str], tuple[int, int]] = {
            (cluster, state): (count, gpus)
            for cluster, state, count, gpus in Host.objects.filter(retired_at=None)
            .order_by()
            .values_list("cluster__name", "state")
            .annotate(Count("pk"), Sum("gpus"))
        }
        by_state = GaugeMetricFamily("commons_hosts", "Hosts by cluster and state.", labels=["cluster", "state"])
        gpus_by_state = GaugeMetricFamily(
            "commons_installed_gpus", "Installed GPUs by cluster and state of their host.", labels=["cluster", "state"]
        )
        for cluster in clusters:
            for state in HostState.values:
                count, gpus = hosts.get((cluster, state), (0, 0))
                by_state.add_metric([cluster, state], count)
                gpus_by_state.add_metric([cluster, state], gpus)
        yield by_state
        yield gpus_by_state
        usable = {cluster: hosts.get((cluster, HostState.SCHEDULABLE), (0, 0))[1] for cluster in clusters}
        yield from self._occupied(usable)

    def _occupied(self, usable: dict[str, int]) -> Iterator[Metric]:
        rows = Segment.objects.filter(end_at=None).order_by().values_list("cluster__name", "standing")
        occupied = {(cluster, standing): gpus for cluster, standing, gpus in rows.annotate(Sum("gpus"))}
        by_standing = GaugeMetricFamily(
            "commons_occupied_gpus", "Occupied GPUs by cluster and standing.", labels=["cluster", "standing"]
        )
        ratio = GaugeMetricFamily("commons_occupancy_ratio", "Occupied GPUs over schedulable ones.", labels=["cluster"])
        for cluster, schedulable in usable.items():
            for standing in Standing.values:
                by_standing.add_metric([cluster, standing], occupied.get((cluster, standing), 0))
            busy = sum(occupied.get((cluster, standing), 0) for standing in Standing.values)
            if schedulable:
                ratio.add_metric([cluster], busy / schedulable)
        yield by_standing
        yield ratio

    def _passes(self) -> Iterator[Metric]:
        newest = Pass.objects.filter(cluster=OuterRef("pk")).order_by("-id").values("pk")[:1]
        ids = Cluster.objects.annotate(newest=Subquery(newest)).values_list("newest", flat=True)
        age = GaugeMetricFamily("commons_pass_age_seconds", "Time since the last pass.", labels=["cluster"])
        took = GaugeMetricFamily("commons_pass_duration_seconds", "How long the last pass took.", labels=["cluster"])
        failed = GaugeMetricFamily("commons_pass_failed", "1 when the last pass ended in an error.", labels=["cluster"])
        for last in Pass.objects.filter(pk__in=[pk for pk in ids if pk is not None]).select_related("cluster"):
            name = last.cluster.name
            age.add_metric([name], max((self.now - last.now_at).total_seconds(), 0.0))
            took.add_metric([name], (last.snapshot_ms + last.decide_ms + last.apply_ms) / 1000)
            failed.add_metric([name], int(bool(last.error)))
        yield age
        yield took
        yield failed
