"""REST: the audit log, for operators and administrators."""

from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request

from portal.common.apis import Rows, RowsView, person
from portal.common.audit_export import FILE_NAME, audit_csv
from portal.common.csv_text import CONTENT_TYPE
from portal.common.filters import StrictFilterBackend
from portal.common.models import AuditEntry
from portal.projects.filters import AuditFilter
from portal.projects.selectors import auditor_require
from portal.projects.serializers import AuditEntrySerializer

FIELDS = (
    "id", "at", "actor__username", "action", "target_type", "target_id", "target_name", "before", "after", "reason",
)  # fmt: skip


@extend_schema_view(get=extend_schema(operation_id="audit_list"))
class AuditList(RowsView):
    """Every change, newest first: who did what to what, from what, to what. Site-wide people only."""

    queryset = AuditEntry.objects.all()
    serializer_class = AuditEntrySerializer
    filterset_class = AuditFilter
    fields = FIELDS

    def get_queryset(self) -> QuerySet[Any]:
        auditor_require(user=person(self.request))
        found: QuerySet[Any] = AuditEntry.objects.order_by("-at", "-pk")
        return found

    def rows(self, page: Any) -> Rows:
        return [
            {
                **{name: value for name, value in row.items() if name != "actor__username"},
                "actor": row["actor__username"],
            }
            for row in page
        ]


class CsvRenderer(BaseRenderer):
    """Says that the answer may be CSV; what is streamed is not rendered again."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return JSONRenderer().render(data)


class UnpagedFilterBackend(StrictFilterBackend):
    """Filters of a list that is given whole: it has no pages to ask for."""

    paged = False


class AuditExport(RowsView):
    """The whole log, or what the filters leave of it, as CSV: a line for each changed field, streamed."""

    queryset = AuditEntry.objects.all()
    serializer_class = AuditEntrySerializer
    filterset_class = AuditFilter
    filter_backends = [UnpagedFilterBackend]
    pagination_class = None
    renderer_classes = [CsvRenderer]

    def get_queryset(self) -> QuerySet[Any]:
        auditor_require(user=person(self.request))
        found: QuerySet[Any] = AuditEntry.objects.order_by("-at", "-pk")
        return found

    @extend_schema(
        operation_id="audit_export",
        responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, "CSV with a byte-order mark.")},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> StreamingHttpResponse:  # type: ignore[override]
        """The audit log as CSV."""
        entries = self.filter_queryset(self.get_queryset())
        answer = StreamingHttpResponse(audit_csv(entries), content_type=CONTENT_TYPE)
        answer["Content-Disposition"] = f'attachment; filename="{FILE_NAME}"'
        return answer
