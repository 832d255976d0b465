"""REST: proposals, the debate about them, and decisions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.budgets.services import LineInput
from portal.common.apis import Rows, RowsView, RowView, body_read, person, row_or_404
from portal.common.errors import CommonsError, Conflict, FieldError, Refused
from portal.common.filters import parameters_require_known
from portal.common.parsers import ExactJSONParser
from portal.common.units import whole_second
from portal.projects.models import User
from portal.projects.references import project_of_body
from portal.projects.selectors import projects_visible
from portal.proposals.apis.requests import cluster_of_body
from portal.proposals.filters import ProposalFilter
from portal.proposals.models import Proposal
from portal.proposals.rows import proposal_row, proposal_rows
from portal.proposals.selectors import lines_kept, proposals_visible
from portal.proposals.serializers import (
    ProposalCreateSerializer,
    ProposalDetailSerializer,
    ProposalEditSerializer,
    ProposalSerializer,
    RebaseSerializer,
)
from portal.proposals.services.proposals import proposal_create, proposal_edit, proposal_rebase

# What the rules call a field, as a body names it.
FIELD_OF = {"lines": "children", "share_ppm": "children.percent", "burst_gpus": "children.burst_gpus"}


@extend_schema_view(get=extend_schema(operation_id="proposal_list"))
class ProposalList(RowsView):
    """Proposals for levels that you may see, the newest first; and writing one."""

    queryset = Proposal.objects.all()
    serializer_class = ProposalSerializer
    filterset_class = ProposalFilter
    parser_classes = [ExactJSONParser]

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = proposals_visible(user=person(self.request)).order_by("-pk")
        return found

    def rows(self, page: Any) -> Rows:
        return proposal_rows(proposals=page, user=person(self.request))

    @extend_schema(
        operation_id="proposal_create", request=ProposalCreateSerializer, responses={201: ProposalDetailSerializer}
    )
    def post(self, request: Request) -> Response:
        """Draft a budget change of one level that you lead. 409: `base_version` is no longer the newest."""
        parameters_require_known(request, [], paged=False)
        body, user = body_read(ProposalCreateSerializer, request), person(request)
        parent = project_of_body(user=user, name="parent", value=body["parent"])
        cluster = cluster_of_body(body["cluster"])
        lines = lines_of_body(user, body["children"])
        with_names = {name: body[name] for name in ("title", "reason", "base_version")}
        try:
            created = proposal_create(
                cluster=cluster,
                parent=parent,
                lines=lines,
                author=user,
                effective_at=body.get("effective_at"),
                requests=body.get("requests", []),
                now=timezone.now(),
                **with_names,
            )
        except Refused as refusal:
            raise named(refusal) from None
        headers = {"Location": request.build_absolute_uri(f"/api/v1/proposals/{created.pk}/")}
        return Response(answer(user, created.pk), status=201, headers=headers)


@extend_schema_view(get=extend_schema(operation_id="proposal_retrieve"))
class ProposalDetail(RowView):
    """One proposal."""

    queryset = Proposal.objects.all()
    serializer_class = ProposalDetailSerializer
    lookup_field = "pk"
    parser_classes = [ExactJSONParser]

    def row(self, **kwargs: Any) -> dict[str, Any]:
        return answer(person(self.request), kwargs["pk"])

    @extend_schema(operation_id="proposal_edit", request=ProposalEditSerializer, responses=ProposalDetailSerializer)
    def patch(self, request: Request, pk: int) -> Response:
        """Change a draft; what is left out stays."""
        parameters_require_known(request, [], paged=False)
        user = person(request)
        found = proposal_found(user, pk)
        body = ProposalEditSerializer(data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        try:
            proposal_edit(
                proposal=found,
                title=given.get("title", found.title),
                reason=given.get("reason", found.reason),
                effective_at=given.get("effective_at", found.effective_at),
                lines=lines_of_body(user, given["children"]) if "children" in given else lines_kept(proposal=found),
                requests=given.get("requests"),
                actor=user,
                now=timezone.now(),
            )
        except Refused as refusal:
            raise named(refusal) from None
        return Response(answer(user, pk))


class ProposalRebase(APIView):
    """Rebasing: a person's act."""

    parser_classes = [ExactJSONParser]

    @extend_schema(operation_id="proposal_rebase", request=RebaseSerializer, responses=ProposalDetailSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Put it on top of the newest version, with the budgets that it is to have there."""
        parameters_require_known(request, [], paged=False)
        user = person(request)
        found = proposal_found(user, pk)
        body = body_read(RebaseSerializer, request)
        try:
            proposal_rebase(
                proposal=found,
                base_version=body["base_version"],
                lines=lines_of_body(user, body["children"]),
                effective_at=body.get("effective_at", found.effective_at),
                actor=user,
                now=timezone.now(),
            )
        except Refused as refusal:
            raise named(refusal) from None
        return Response(answer(user, pk))


def proposal_found(user: User, pk: int) -> Proposal:
    found: Proposal = row_or_404(proposals_visible(user=user), "proposal", pk=pk)
    return found


def answer(user: User, pk: int) -> dict[str, Any]:
    return proposal_row(proposal=proposal_found(user, pk), user=user, now=_now())


def lines_of_body(user: User, children: Sequence[dict[str, Any]]) -> list[LineInput]:
    """Budgets by the projects' paths; every path that there isn't is said at once."""
    paths = [child["project"] for child in children]
    found = {project.path: project for project in projects_visible(user=user).filter(path__in=paths)}
    errors = [
        FieldError(f"children.{place}.project", "unknown_project", f"There is no project {path[:200]!r} that you see.")
        for place, path in enumerate(paths)
        if path not in found
    ]
    if errors:
        raise Refused.many(errors)
    return [(found[child["project"]], child["percent"], child.get("burst_gpus")) for child in children]


def named(refusal: CommonsError) -> CommonsError:
    """The refusal with its fields named as the body names them."""
    if isinstance(refusal, Conflict):
        return refusal
    return Refused.many(
        [FieldError(FIELD_OF.get(error.attr, error.attr), error.code, error.detail) for error in refusal.errors]
    )


def _now() -> datetime:
    return whole_second(timezone.now())
