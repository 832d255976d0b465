"""REST: requests, and what becomes of them."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.clusters.models import Cluster
from portal.clusters.selectors import cluster_by_name
from portal.common.apis import Rows, RowsView, RowView, body_read, person, row_or_404
from portal.common.errors import NotFound, Refused
from portal.common.filters import parameters_require_known
from portal.projects.models import User
from portal.projects.references import project_of_body
from portal.proposals.filters import RequestFilter
from portal.proposals.models import GrantRequest
from portal.proposals.rows import request_row
from portal.proposals.seen import requests_seen
from portal.proposals.selectors import requests_visible
from portal.proposals.serializers import (
    DecisionSerializer,
    RequestCreateSerializer,
    RequestEditSerializer,
    RequestSerializer,
)
from portal.proposals.services.requests import (
    request_create,
    request_decline,
    request_edit,
    request_submit,
    request_withdraw,
)


@extend_schema_view(get=extend_schema(operation_id="request_list"))
class RequestList(RowsView):
    """Requests for projects that you may see, the newest first; and writing one."""

    queryset = GrantRequest.objects.all()
    serializer_class = RequestSerializer
    filterset_class = RequestFilter

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = requests_visible(user=person(self.request)).order_by("-pk")
        return found

    def rows(self, page: Any) -> Rows:
        return [request_row(each) for each in requests_seen(user=person(self.request), requests=list(page))]

    @extend_schema(operation_id="request_create", request=RequestCreateSerializer, responses={201: RequestSerializer})
    def post(self, request: Request) -> Response:
        """Draft a request for a project that you lead; `requests/{id}/submit/` sends it."""
        parameters_require_known(request, [], paged=False)
        body = body_read(RequestCreateSerializer, request)
        user = person(request)
        project = project_of_body(user=user, name="project", value=body.pop("project"))
        cluster = cluster_of_body(body.pop("cluster"))
        created = request_create(project=project, cluster=cluster, author=user, now=timezone.now(), **body)
        headers = {"Location": request.build_absolute_uri(f"/api/v1/requests/{created.pk}/")}
        return Response(_answer(user, created.pk), status=201, headers=headers)


def cluster_of_body(name: str) -> Cluster:
    """The cluster that the field `cluster` names, or 400 with those that there are."""
    try:
        return cluster_by_name(name=name)
    except NotFound as error:
        raise Refused(error.detail, attr="cluster", code="unknown_cluster") from None


@extend_schema_view(get=extend_schema(operation_id="request_retrieve"))
class RequestDetail(RowView):
    """One request."""

    queryset = GrantRequest.objects.all()
    serializer_class = RequestSerializer
    lookup_field = "pk"

    def row(self, **kwargs: Any) -> dict[str, Any]:
        return _answer(person(self.request), kwargs["pk"])

    @extend_schema(operation_id="request_edit", request=RequestEditSerializer, responses=RequestSerializer)
    def patch(self, request: Request, pk: int) -> Response:
        """Change a draft of yours; what is left out stays."""
        parameters_require_known(request, [], paged=False)
        user = person(request)
        found = _found(user, pk)
        body = RequestEditSerializer(data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        request_edit(request=found, actor=user, now=timezone.now(), **body.validated_data)
        return Response(_answer(user, pk))


class RequestSubmit(APIView):
    """Submitting, with what the ledger says of the last grant."""

    @extend_schema(operation_id="request_submit", request=None, responses=RequestSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Submit a draft of yours; again changes nothing."""
        parameters_require_known(request, [], paged=False)
        user = person(request)
        request_submit(request=_found(user, pk), actor=user, now=timezone.now())
        return Response(_answer(user, pk))


class RequestWithdraw(APIView):
    """Withdrawing, by a lead of the project."""

    @extend_schema(operation_id="request_withdraw", request=DecisionSerializer, responses=RequestSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Withdraw a request that is not decided; again changes nothing."""
        parameters_require_known(request, [], paged=False)
        user = person(request)
        found = _found(user, pk)
        request_withdraw(request=found, actor=user, now=timezone.now(), **body_read(DecisionSerializer, request))
        return Response(_answer(user, pk))


class RequestDecline(APIView):
    """Declining, by a lead of the parent."""

    @extend_schema(operation_id="request_decline", request=DecisionSerializer, responses=RequestSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Decline a submitted request, with a reason; again changes nothing."""
        parameters_require_known(request, [], paged=False)
        user = person(request)
        found = _found(user, pk)
        request_decline(request=found, actor=user, now=timezone.now(), **body_read(DecisionSerializer, request))
        return Response(_answer(user, pk))


def _found(user: User, pk: int) -> GrantRequest:
    found: GrantRequest = row_or_404(requests_visible(user=user), "request", pk=pk)
    return found


def _answer(user: User, pk: int) -> dict[str, Any]:
    [found] = requests_seen(user=user, requests=[_found(user, pk)])
    return request_row(found)
