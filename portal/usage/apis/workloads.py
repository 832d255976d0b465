"""REST: workloads with their charges, submitting and cancelling them, their output."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.common.apis import Rows, RowsView, RowView, person, row_or_404
from portal.common.errors import Refused
from portal.common.filters import parameters_require_known
from portal.common.pagination import whole_parameter
from portal.common.serializers import fields_bad
from portal.common.units import whole_second
from portal.usage.rows import WORKLOAD_FIELDS, workload_detail, workload_rows, workload_submitted
from portal.workloads.filters import WorkloadFilter
from portal.workloads.models import AttemptState, Workload
from portal.workloads.selectors import LOG_BYTES_MAX, log_read, workloads_visible
from portal.workloads.serializers import SubmissionSerializer, WorkloadRowSerializer, WorkloadSerializer
from portal.workloads.services import submission_problems, workload_cancel, workload_submit

KEY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotent-Replayed"
OFFSET_MAX = 2**53
NUMBER_MAX = 2**31 - 1


@extend_schema_view(get=extend_schema(operation_id="workload_list"))
class WorkloadList(RowsView):
    """Workloads that you may see, newest first; and submitting one."""

    queryset = Workload.objects.all()
    serializer_class = WorkloadRowSerializer
    filterset_class = WorkloadFilter
    fields = WORKLOAD_FIELDS

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = workloads_visible(user=person(self.request)).order_by("-pk")
        return found

    def rows(self, page: Any) -> Rows:
        return workload_rows(page=page, now=whole_second(timezone.now()))

    @extend_schema(
        operation_id="workload_submit",
        request=SubmissionSerializer,
        parameters=[
            OpenApiParameter(
                KEY_HEADER, str, OpenApiParameter.HEADER, description="The same key gives the same workload again."
            )
        ],
        responses={
            201: OpenApiResponse(WorkloadSerializer, "Submitted."),
            200: OpenApiResponse(WorkloadSerializer, "Submitted earlier with this key; Idempotent-Replayed: true."),
        },
    )
    def post(self, request: Request) -> Response:
        """Submit a workload."""
        parameters_require_known(request, [], paged=False)
        submission = SubmissionSerializer(data=request.data)
        user = person(request)
        key = request.headers.get(KEY_HEADER)
        submission_check(submission, user, key)
        workload, created = workload_submit(
            author=user,
            now=timezone.now(),
            idempotency_key=key,
            **submission.validated_data,
        )
        answer = workload_submitted(workload=workload) if created else _detail(user, workload.pk)
        headers = {"Location": request.build_absolute_uri(f"/api/v1/workloads/{workload.pk}/")}
        if not created:
            headers[REPLAYED_HEADER] = "true"
        return Response(answer, status=201 if created else 200, headers=headers)


def submission_check(submission: SubmissionSerializer, user: Any, key: str | None) -> None:
    """Refuse a body of the wrong shape, and with it all that the rules say of the fields whose shape is right."""
    if submission.is_valid():
        return
    if not isinstance(submission.initial_data, dict):
        raise ValidationError(submission.errors)
    shape = fields_bad(submission)
    wrong = {problem.attr for problem in shape}
    rest = {name: value for name, value in submission.initial_data.items() if name not in wrong}
    readable = SubmissionSerializer(data=rest, partial=True)
    readable.is_valid(raise_exception=True)
    given = {**readable.validated_data, "idempotency_key": key}
    raise Refused.many(shape + submission_problems(author=user, given=given, left_out=wrong))


@extend_schema_view(get=extend_schema(operation_id="workload_retrieve"))
class WorkloadDetail(RowView):
    """One workload: its state and reason, its attempts, what it was charged."""

    queryset = Workload.objects.all()
    serializer_class = WorkloadSerializer
    lookup_field = "pk"

    def row(self, **kwargs: Any) -> dict[str, Any]:
        return _detail(person(self.request), kwargs["pk"])


class WorkloadCancel(APIView):
    """Cancelling, by the author or a lead; again, or too late, changes nothing."""

    @extend_schema(operation_id="workload_cancel", request=None, responses=WorkloadSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Cancel a workload."""
        parameters_require_known(request, [], paged=False)
        user = person(request)
        workload = row_or_404(workloads_visible(user=user), "workload", pk=pk)
        workload_cancel(workload=workload, actor=user, now=timezone.now())
        return Response(_detail(user, pk))


class LogRenderer(BaseRenderer):
    """Bytes as they are."""

    media_type = "text/plain"
    format = "text"
    charset = "utf-8"
    render_style = "binary"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return bytes(data)


class WorkloadLog(APIView):
    """What a replica wrote, from a byte offset on, at most 1 MiB at a time.

    Of a long output the first 1 MiB and the last 3 MiB are kept; where bytes are left out, a line says how many.
    `X-Log-Next-Offset` is where to read on, `X-Log-Attempt` the attempt that was read, and `X-Log-Complete` true
    once that attempt has ended.
    """

    renderer_classes = (LogRenderer, JSONRenderer)

    @extend_schema(
        operation_id="workload_logs",
        parameters=[
            OpenApiParameter("attempt", OpenApiTypes.INT, description="An attempt's number; none: the latest."),
            OpenApiParameter("replica", OpenApiTypes.INT, description="A replica, from 0."),
            OpenApiParameter("offset", OpenApiTypes.INT, description="The byte to read from."),
        ],
        responses={(200, "text/plain"): OpenApiTypes.STR},
    )
    def get(self, request: Request, pk: int) -> Response:
        parameters_require_known(request, ["attempt", "replica", "offset"], paged=False)
        workload = row_or_404(workloads_visible(user=person(request)), "workload", pk=pk)
        attempt = _attempt_asked(request, workload)
        replica = _replica_asked(request, workload)
        offset = whole_parameter(request, "offset", default=0, low=0, high=OFFSET_MAX)
        number = attempt.number if attempt else None
        part = log_read(workload=workload, attempt=number, replica=replica, offset=offset, limit=LOG_BYTES_MAX)
        ended = attempt is not None and attempt.state == AttemptState.ENDED
        complete = (ended or (attempt is None and workload.ended_at is not None)) and not part.has_more
        headers = {"X-Log-Next-Offset": str(part.next_offset), "X-Log-Complete": str(complete).lower()}
        if number is not None:
            headers["X-Log-Attempt"] = str(number)
        request.accepted_renderer = LogRenderer()
        return Response(part.data, headers=headers, content_type="text/plain; charset=utf-8")


def _attempt_asked(request: Request, workload: Workload) -> Any:
    if "attempt" not in request.query_params:
        return workload.attempts.order_by("-number").first()
    number = whole_parameter(request, "attempt", default=1, low=1, high=NUMBER_MAX)
    attempt = workload.attempts.filter(number=number).first()
    if attempt is None:
        last = workload.attempts.count()
        sentence = f"There is no attempt {number}; the last is {last}." if last else "It has no attempts yet."
        raise ValidationError({"attempt": [sentence]}, code="unknown_attempt")
    return attempt


def _replica_asked(request: Request, workload: Workload) -> int:
    replica = whole_parameter(request, "replica", default=0, low=0, high=NUMBER_MAX)
    if replica >= workload.replicas:
        last = workload.replicas - 1
        those = f"replicas 0 to {last}" if last else "one replica, replica 0"
        raise ValidationError({"replica": [f"There is no replica {replica}: it has {those}."]}, code="unknown_replica")
    return replica


def _detail(user: Any, workload_id: int) -> dict[str, Any]:
    visible = workloads_visible(user=user)
    answer = workload_detail(workloads=visible, workload_id=workload_id, user=user, now=whole_second(timezone.now()))
    if answer is None:
        raise NotFound("There is no such workload, or you may not see it.")
    return answer
