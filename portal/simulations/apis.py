"""REST: simulations, cancelling them, their rows by project and day, traces for them."""

from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiRequest, extend_schema, extend_schema_view
from rest_framework.exceptions import APIException
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.common.apis import Rows, RowsView, RowView, body_read, person
from portal.common.csv_text import CONTENT_TYPE
from portal.common.errors import Conflict
from portal.common.filters import parameters_require_known
from portal.common.parsers import ExactJSONParser
from portal.simulations.filters import RunFilter
from portal.simulations.models import Run, RunState
from portal.simulations.names import paths_unseen
from portal.simulations.rows import days_csv, run_answer, run_requested, run_row
from portal.simulations.selectors import run_by_id, runs_listed
from portal.simulations.serializers import RunRequestSerializer, RunRowSerializer, RunSerializer, TraceSerializer
from portal.simulations.services import run_cancel, trace_store


@extend_schema_view(get=extend_schema(operation_id="simulation_list"))
class RunList(RowsView):
    """Simulations, newest first, whoever asked for them; and asking for one."""

    queryset = Run.objects.all()
    serializer_class = RunRowSerializer
    parser_classes = [ExactJSONParser]
    filterset_class = RunFilter

    def get_queryset(self) -> QuerySet[Any]:
        return runs_listed().order_by("-pk")

    def rows(self, page: Any) -> Rows:
        user = person(self.request)
        hidden = frozenset() if user.is_site_wide else paths_unseen(user=user)
        return [run_row(run, hidden) for run in page]

    @extend_schema(operation_id="simulation_create", request=RunRequestSerializer, responses={201: RunSerializer})
    def post(self, request: Request) -> Response:
        """Queue a simulation; by leads of a project, operators and administrators."""
        parameters_require_known(request, [], paged=False)
        body = body_read(RunRequestSerializer, request)
        user = person(request)
        run = run_requested(body=body, author=user, now=timezone.now())
        headers = {"Location": request.build_absolute_uri(f"/api/v1/simulations/{run.pk}/")}
        return Response(run_answer(run, user), status=201, headers=headers)


@extend_schema_view(get=extend_schema(operation_id="simulation_retrieve"))
class RunDetail(RowView):
    """One simulation: how far it is, what it was made from, and its report once it is done."""

    queryset = Run.objects.all()
    serializer_class = RunSerializer
    lookup_field = "pk"

    def row(self, **kwargs: Any) -> dict[str, Any]:
        return run_answer(run_by_id(run_id=kwargs["pk"]), person(self.request))


class RunCancel(APIView):
    """Cancelling, by its author, operators and leads of the root; again, or too late, changes nothing."""

    @extend_schema(operation_id="simulation_cancel", request=None, responses=RunSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Cancel a simulation."""
        parameters_require_known(request, [], paged=False)
        user = person(request)
        run_cancel(run=run_by_id(run_id=pk), actor=user, now=timezone.now())
        return Response(run_answer(run_by_id(run_id=pk), user))


class CsvRenderer(BaseRenderer):
    """Stands for text/csv where the form of an answer is chosen; the text itself is streamed."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return bytes(data)


class RunDays(APIView):
    """The report's rows, one a project and simulated day, GPU-hours. 409: there is no report."""

    renderer_classes = (CsvRenderer, JSONRenderer)

    @extend_schema(operation_id="simulation_days", responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request, pk: int) -> StreamingHttpResponse:
        """Projects and days as CSV."""
        parameters_require_known(request, [], paged=False)
        run = run_by_id(run_id=pk)
        if run.state != RunState.DONE:
            raise Conflict(f"Simulation {pk} has no report: it is {RunState(run.state).label.lower()}.")
        response = StreamingHttpResponse(days_csv(run, person(request)), content_type=CONTENT_TYPE)
        response["Content-Disposition"] = f'attachment; filename="simulation-{pk}-days.csv"'
        return response


class TraceTooLarge(APIException):
    """413: the trace is longer than the portal keeps."""

    status_code = 413
    default_code = "too_large"


class TraceParser(BaseParser):
    """The body as it is, up to the bound; what it means is for the process that simulates."""

    media_type = "text/csv"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        limit = settings.SIMULATION_TRACE_BYTES
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise TraceTooLarge(f"The trace has more than {limit // 1024**2} MB, the most that may be uploaded.")
        return bytes(raw)


class PlainTraceParser(TraceParser):
    """SWF and the output of sacct are no CSV."""

    media_type = "text/plain"


class TraceUpload(APIView):
    """Traces for simulations: CSV, SWF or the output of `sacct --parsable2`."""

    parser_classes = [TraceParser, PlainTraceParser]

    @extend_schema(
        operation_id="simulation_trace_upload",
        request={
            "text/csv": OpenApiRequest(OpenApiTypes.STR),
            "text/plain": OpenApiRequest(OpenApiTypes.STR),
        },
        parameters=[OpenApiParameter("name", str, description="What errors and lists call it.")],
        responses={201: TraceSerializer},
    )
    def post(self, request: Request) -> Response:
        """Keep a trace; the same again gives the first."""
        parameters_require_known(request, ["name"], paged=False)
        content = request.data if isinstance(request.data, bytes) else b""
        name = request.query_params.get("name", "trace").replace("\0", "")
        trace = trace_store(name=name, content=content, author=person(request), now=timezone.now())
        fields = ("id", "name", "size_bytes", "sha256", "created_at")
        return Response({field: getattr(trace, field) for field in fields}, status=201)
