"""REST: clusters. Their hosts stand with the workloads on them, in portal.workloads."""

from typing import Any

from django.db.models import Count, Max, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from portal.clusters.filters import ClusterFilter
from portal.clusters.models import Cluster, HostState
from portal.clusters.selectors import policies_of
from portal.clusters.serializers import ClusterSerializer
from portal.common.apis import Rows, RowsView, RowView, row_or_404

FIELDS = ("id", "name", "description", "engine", "created_at", "paused_at")


class ClusterList(RowsView):
    """Clusters, by name."""

    queryset = Cluster.objects.all()
    serializer_class = ClusterSerializer
    filterset_class = ClusterFilter

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = clusters_counted()
        return found

    def rows(self, page: Any) -> Rows:
        return cluster_rows(list(page))


class ClusterDetail(RowView):
    """One cluster, by its name."""

    queryset = Cluster.objects.all()
    serializer_class = ClusterSerializer
    lookup_field = "name"

    def row(self, **kwargs: Any) -> dict[str, Any]:
        return cluster_rows([row_or_404(clusters_counted(), "cluster", name=kwargs["name"])])[0]


def clusters_counted() -> QuerySet[Cluster]:
    """Clusters with the sums over their hosts."""
    installed = Q(hosts__retired_at=None)
    schedulable = installed & Q(hosts__state=HostState.SCHEDULABLE)
    return Cluster.objects.annotate(
        installed_hosts=Count("hosts", filter=installed),
        installed_gpus=Coalesce(Sum("hosts__gpus", filter=installed), 0),
        schedulable_gpus=Coalesce(Sum("hosts__gpus", filter=schedulable), 0),
    ).order_by("name")


def cluster_rows(clusters: list[Any]) -> list[dict[str, Any]]:
    """Answers, with the policies in two queries for all."""
    policies = policies_of(clusters=clusters)
    ids = [cluster.pk for cluster in clusters]
    versions = dict(
        Cluster.objects.filter(pk__in=ids)
        .values_list("pk")
        .annotate(latest=Coalesce(Max("policy_changes__version"), 0))
    )
    return [
        {
            **{name: getattr(cluster, name) for name in FIELDS},
            "hosts": cluster.installed_hosts,
            "installed_gpus": cluster.installed_gpus,
            "schedulable_gpus": cluster.schedulable_gpus,
            "policy": policies[cluster.pk],
            "policy_version": versions[cluster.pk],
        }
        for cluster in clusters
    ]
