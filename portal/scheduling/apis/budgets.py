"""REST: budgets with their balances, as rows and as a CSV of the whole tree."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from portal.budgets.models import BudgetLine
from portal.clusters.filters import cluster_of_parameter
from portal.common.apis import Rows, RowsView, person
from portal.common.csv_text import CONTENT_TYPE
from portal.common.filters import moment_parse, parameters_require_known
from portal.common.units import whole_second
from portal.scheduling.budget_rows import (
    LINE_FIELDS,
    budget_lines_visible,
    budget_rows,
    budgets_csv,
    clusters_sized,
)
from portal.scheduling.filters import BudgetFilter
from portal.scheduling.serializers import BudgetSerializer


class BudgetList(RowsView):
    """Budgets in force now or at a moment, of projects that you may see, by cluster and path."""

    queryset = BudgetLine.objects.all()
    serializer_class = BudgetSerializer
    filterset_class = BudgetFilter
    fields = LINE_FIELDS

    def get_queryset(self) -> QuerySet[Any]:
        at, _ = moment_asked(self.request)
        lines: QuerySet[Any] = budget_lines_visible(user=person(self.request), at=at)
        return lines.order_by("change__cluster__name", "project__path")

    def rows(self, page: Any) -> Rows:
        at, now = moment_asked(self.request)
        return budget_rows(page=page, at=at, now=now)


class CsvRenderer(BaseRenderer):
    """Stands for text/csv where the form of an answer is chosen; the text itself is streamed."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return bytes(data)


class BudgetExport(APIView):
    """Every project that you may see with its budget, on one cluster or all, as `budgets/import/` reads it back."""

    renderer_classes = (CsvRenderer, JSONRenderer)

    @extend_schema(
        operation_id="budget_export",
        parameters=[
            OpenApiParameter("cluster", str, description="A cluster by its name; none: all of them."),
            OpenApiParameter("at", OpenApiTypes.DATETIME, description="As of that moment, with its offset; none: now."),
        ],
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Budgets as CSV."""
        parameters_require_known(request, ["cluster", "at"], paged=False)
        at, now = moment_asked(request)
        named = request.query_params.get("cluster")
        clusters = clusters_sized(**({"pk": cluster_of_parameter(named).pk} if named else {}))
        lines = budgets_csv(user=person(request), clusters=clusters, at=at, now=now)
        response = StreamingHttpResponse(lines, content_type=CONTENT_TYPE)
        response["Content-Disposition"] = f'attachment; filename="budgets-{at:%Y-%m-%dT%H%M%SZ}.csv"'
        return response


def moment_asked(request: Any) -> tuple[datetime, datetime]:
    """The moment of the parameter `at`, none: now; and now."""
    now = whole_second(timezone.now())
    text = request.query_params.get("at", "")
    return (whole_second(moment_parse("at", text)) if text else now), now
