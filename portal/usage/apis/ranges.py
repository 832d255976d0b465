"""REST: what projects used over a range."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.clusters.filters import cluster_of_parameter
from portal.common.apis import person
from portal.common.filters import moment_parse, parameters_require_known
from portal.common.units import whole_second
from portal.projects.references import project_of_parameter
from portal.projects.selectors import projects_visible
from portal.usage.rows_usage import project_paths, usage_rows

RANGE_DEFAULT = timedelta(days=7)
RANGE_MAX = timedelta(days=400)


class UsageRowSerializer(serializers.Serializer[Any]):
    """A project on a cluster, everything below it included."""

    cluster = serializers.CharField()
    project = serializers.CharField()
    protected_gpu_seconds = serializers.IntegerField()
    funded_gpu_seconds = serializers.IntegerField()
    unallocated_gpu_seconds = serializers.IntegerField()
    stopping_gpu_seconds = serializers.IntegerField()
    refunded_gpu_seconds = serializers.IntegerField()
    charged_gpu_seconds = serializers.IntegerField(help_text="Protected and funded.")


class UsageSerializer(serializers.Serializer[Any]):
    """What ran in a range."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    results = UsageRowSerializer(many=True)


class UsageView(APIView):
    """GPU-seconds by cluster, project and standing, from the ledger, over [start, end)."""

    @extend_schema(
        operation_id="usage_retrieve",
        parameters=[
            OpenApiParameter("cluster", str, description="A cluster by its name."),
            OpenApiParameter("project", str, description="That project and all below it: path or id."),
            OpenApiParameter("start", OpenApiTypes.DATETIME, description="With its offset; none: 7 days before end."),
            OpenApiParameter("end", OpenApiTypes.DATETIME, description="With its offset; none: now."),
        ],
        responses=UsageSerializer,
    )
    def get(self, request: Request) -> Response:
        parameters_require_known(request, ["cluster", "project", "start", "end"], paged=False)
        start, end = _range(request)
        user, asked = person(request), request.query_params
        cluster = cluster_of_parameter(asked["cluster"]).name if "cluster" in asked else None
        below = project_of_parameter(user=user, name="project", value=asked["project"]) if "project" in asked else None
        paths = project_paths(projects_visible(user=user), below)
        rows = usage_rows(projects=paths, cluster_name=cluster, start=start, end=end)
        return Response({"start": start, "end": end, "results": rows})


def _range(request: Request) -> tuple[datetime, datetime]:
    """The range asked for; its end is no later than now, because nothing has run after that."""
    asked = request.query_params
    now = whole_second(timezone.now())
    end = min(whole_second(moment_parse("end", asked["end"])), now) if "end" in asked else now
    try:
        start = whole_second(moment_parse("start", asked["start"])) if "start" in asked else end - RANGE_DEFAULT
    except OverflowError:
        raise ValidationError({"end": ["end lies too long ago."]}, code="invalid_range") from None
    if start >= end:
        raise ValidationError({"start": ["start must lie before end, and before now."]}, code="invalid_range")
    if end - start > RANGE_MAX:
        raise ValidationError({"start": [f"At most {RANGE_MAX.days} days may be asked for."]}, code="invalid_range")
    return start, end
