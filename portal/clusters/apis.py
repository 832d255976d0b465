"""REST: clusters. Their hosts stand with the workloads on them, in portal.workloads."""

from typing import Any

from django.db.models import Count, Max, Q, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.clusters.filters import ClusterFilter
from portal.clusters.models import Cluster, HostState
from portal.clusters.selectors import policies_of
from portal.clusters.serializers import (
    ClusterChangeSerializer,
    ClusterCreateSerializer,
    ClusterSerializer,
    PolicyChangeSerializer,
)
from portal.clusters.services import cluster_change, cluster_create_once, cluster_pause, policy_change
from portal.common.apis import Rows, RowsView, RowView, body_read, person, row_or_404
from portal.common.filters import parameters_require_known

FIELDS = ("id", "name", "description", "engine", "created_at", "paused_at", "version")


class ClusterList(RowsView):
    """Clusters, by name; and making one."""

    queryset = Cluster.objects.all()
    serializer_class = ClusterSerializer
    filterset_class = ClusterFilter

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = clusters_counted()
        return found

    def rows(self, page: Any) -> Rows:
        return cluster_rows(list(page))

    @extend_schema(
        operation_id="cluster_create",
        request=ClusterCreateSerializer,
        responses={
            201: OpenApiResponse(ClusterSerializer, "Made."),
            200: OpenApiResponse(ClusterSerializer, "The very same was made before; Idempotent-Replayed: true."),
        },
    )
    def post(self, request: Request) -> Response:
        """Make a cluster; by operators and administrators."""
        parameters_require_known(request, [], paged=False)
        body = body_read(ClusterCreateSerializer, request)
        cluster, created = cluster_create_once(actor=person(request), now=timezone.now(), **body)
        headers = {"Location": request.build_absolute_uri(f"/api/v1/clusters/{cluster.name}/")}
        if not created:
            headers["Idempotent-Replayed"] = "true"
        return Response(cluster_answer(cluster.name), status=201 if created else 200, headers=headers)


class ClusterDetail(RowView):
    """One cluster, by its name."""

    queryset = Cluster.objects.all()
    serializer_class = ClusterSerializer
    lookup_field = "name"

    def row(self, **kwargs: Any) -> dict[str, Any]:
        return cluster_answer(kwargs["name"])

    @extend_schema(operation_id="cluster_change", request=ClusterChangeSerializer, responses=ClusterSerializer)
    def patch(self, request: Request, name: str) -> Response:
        """Describe a cluster anew; by operators and administrators."""
        parameters_require_known(request, [], paged=False)
        body = body_read(ClusterChangeSerializer, request)
        cluster_change(cluster=cluster_found(name), actor=person(request), now=timezone.now(), **body)
        return Response(cluster_answer(name))


class ClusterPause(APIView):
    """Stopping the passes over a cluster; what runs goes on."""

    @extend_schema(operation_id="cluster_pause", request=None, responses=ClusterSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Start and preempt nothing there until it is resumed; again changes nothing."""
        parameters_require_known(request, [], paged=False)
        cluster_pause(cluster=cluster_found(name), paused=True, actor=person(request), now=timezone.now())
        return Response(cluster_answer(name))


class ClusterResume(APIView):
    """Going on with the passes over a cluster."""

    @extend_schema(operation_id="cluster_resume", request=None, responses=ClusterSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Go on; again changes nothing."""
        parameters_require_known(request, [], paged=False)
        cluster_pause(cluster=cluster_found(name), paused=False, actor=person(request), now=timezone.now())
        return Response(cluster_answer(name))


class ClusterPolicy(APIView):
    """Changing a cluster's policy; by operators and administrators."""

    @extend_schema(operation_id="cluster_policy", request=PolicyChangeSerializer, responses=ClusterSerializer)
    def post(self, request: Request, name: str) -> Response:
        """Replace what its policy says beside the defaults. 409: `base_version` is no longer the policy's."""
        parameters_require_known(request, [], paged=False)
        body = body_read(PolicyChangeSerializer, request)
        policy_change(cluster=cluster_found(name), author=person(request), now=timezone.now(), **body)
        return Response(cluster_answer(name))


def cluster_found(name: str) -> Cluster:
    found: Cluster = row_or_404(Cluster.objects.all(), "cluster", name=name)
    return found


def cluster_answer(name: str) -> dict[str, Any]:
    return cluster_rows([row_or_404(clusters_counted(), "cluster", name=name)])[0]


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
