"""REST: who has which role where, and invitations."""

from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.common.apis import Rows, RowsView, RowView, body_read, person, row_or_404
from portal.common.filters import parameters_require_known
from portal.common.pagination import whole_parameter
from portal.projects.filters import InvitationFilter, MembershipFilter
from portal.projects.models import Invitation, Membership
from portal.projects.references import project_of_body
from portal.projects.selectors import invitations_visible, memberships_visible
from portal.projects.serializers import (
    VERSION_MAX,
    InvitationCreateSerializer,
    InvitationMadeSerializer,
    InvitationSerializer,
    MembershipChangeSerializer,
    MembershipCreateSerializer,
    MembershipSerializer,
)
from portal.projects.services import membership_grant, membership_set
from portal.projects.services_invitations import invitation_create, invitation_revoke

MEMBERSHIP_FIELDS = (
    "id", "project__path", "user__username", "user__first_name", "user__last_name", "role", "created_at", "version",
)  # fmt: skip


class MembershipList(RowsView):
    """Roles on projects that you may see, by project and person; and giving one."""

    queryset = Membership.objects.all()
    serializer_class = MembershipSerializer
    filterset_class = MembershipFilter
    fields = MEMBERSHIP_FIELDS

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = memberships_visible(user=person(self.request))
        return found.order_by("project__path", "user__username")

    def rows(self, page: Any) -> Rows:
        return [membership_row(row) for row in page]

    @extend_schema(
        operation_id="membership_set",
        request=MembershipCreateSerializer,
        responses={
            201: OpenApiResponse(MembershipSerializer, "Given."),
            200: OpenApiResponse(MembershipSerializer, "They had a role there; it is this one now."),
        },
    )
    def post(self, request: Request) -> Response:
        """Give a person a role on a project that you lead, and on all below it."""
        parameters_require_known(request, [], paged=False)
        body = body_read(MembershipCreateSerializer, request)
        user = person(request)
        project = project_of_body(user=user, name="project", value=body["project"])
        held, is_new = membership_grant(
            username=body["user"],
            project=project,
            role=body["role"],
            actor=user,
            now=timezone.now(),
            base_version=body.get("base_version"),
        )
        headers = {"Location": request.build_absolute_uri(f"/api/v1/memberships/{held.pk}/")}
        return Response(membership_answer(held.pk), status=201 if is_new else 200, headers=headers)


@extend_schema_view(get=extend_schema(operation_id="membership_retrieve"))
class MembershipDetail(RowView):
    """One role of one person."""

    queryset = Membership.objects.all()
    serializer_class = MembershipSerializer
    lookup_field = "pk"

    def row(self, **kwargs: Any) -> dict[str, Any]:
        return membership_answer(self._seen(kwargs["pk"]).pk)

    def _seen(self, pk: int) -> Membership:
        seen = memberships_visible(user=person(self.request)).select_related("project", "user")
        found: Membership = row_or_404(seen, "membership", pk=pk)
        return found

    @extend_schema(operation_id="membership_change", request=MembershipChangeSerializer, responses=MembershipSerializer)
    def patch(self, request: Request, pk: int) -> Response:
        """Change the role."""
        parameters_require_known(request, [], paged=False)
        body = body_read(MembershipChangeSerializer, request)
        found = self._seen(pk)
        membership_set(user=found.user, project=found.project, actor=person(request), now=timezone.now(), **body)
        return Response(membership_answer(pk))

    @extend_schema(
        operation_id="membership_end",
        request=None,
        parameters=[OpenApiParameter("base_version", int, description="The version that you looked at.")],
        responses={204: None},
    )
    def delete(self, request: Request, pk: int) -> Response:
        """Take the role away. The person keeps what they have above, below and elsewhere."""
        parameters_require_known(request, ["base_version"], paged=False)
        found = self._seen(pk)
        given = "base_version" in request.query_params
        version = whole_parameter(request, "base_version", default=0, low=0, high=VERSION_MAX) if given else None
        actor, now = person(request), timezone.now()
        membership_set(user=found.user, project=found.project, role=None, actor=actor, now=now, base_version=version)
        return Response(status=204)


class InvitationList(RowsView):
    """Invitations to projects that you lead, newest first; and making one."""

    queryset = Invitation.objects.all()
    serializer_class = InvitationSerializer
    filterset_class = InvitationFilter

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = invitations_visible(user=person(self.request))
        return found.select_related("project", "invited_by", "accepted_by").order_by("-created_at", "-pk")

    def rows(self, page: Any) -> Rows:
        return [invitation_row(each) for each in page]

    @extend_schema(
        operation_id="invitation_create", request=InvitationCreateSerializer, responses={201: InvitationMadeSerializer}
    )
    def post(self, request: Request) -> Response:
        """Invite somebody without an account. The link is in this answer only, works once, and for a week."""
        parameters_require_known(request, [], paged=False)
        body = body_read(InvitationCreateSerializer, request)
        user = person(request)
        project = project_of_body(user=user, name="project", value=body.pop("project"))
        invitation, secret = invitation_create(project=project, actor=user, now=timezone.now(), **body)
        link = request.build_absolute_uri(reverse("dashboard:invitation", args=[secret]))
        answer = Response({**invitation_row(invitation), "link": link}, status=201)
        answer["Cache-Control"] = "no-store"
        return answer


class InvitationRevoke(APIView):
    """Withdrawing an invitation; again, or after it was used, changes nothing."""

    @extend_schema(operation_id="invitation_revoke", request=None, responses=InvitationSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Withdraw an invitation: its link works no longer."""
        parameters_require_known(request, [], paged=False)
        user = person(request)
        seen = invitations_visible(user=user).select_related("project", "invited_by", "accepted_by")
        found: Invitation = row_or_404(seen, "invitation", pk=pk)
        invitation_revoke(invitation=found, actor=user, now=timezone.now())
        found.refresh_from_db()
        return Response(invitation_row(found))


def membership_answer(pk: int) -> dict[str, Any]:
    return membership_row(row_or_404(Membership.objects.values(*MEMBERSHIP_FIELDS), "membership", pk=pk))


def membership_row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "project": row["project__path"],
        "user": row["user__username"],
        "name": f"{row['user__first_name']} {row['user__last_name']}".strip(),
        "role": row["role"],
        "created_at": row["created_at"],
        "version": row["version"],
    }


def invitation_row(invitation: Invitation) -> dict[str, Any]:
    return {
        "id": invitation.pk,
        "project": invitation.project.path,
        "role": invitation.role,
        "label": invitation.label,
        "invited_by": invitation.invited_by.username if invitation.invited_by else None,
        "created_at": invitation.created_at,
        "expires_at": invitation.expires_at,
        "accepted_at": invitation.accepted_at,
        "accepted_by": invitation.accepted_by.username if invitation.accepted_by else None,
        "revoked_at": invitation.revoked_at,
    }
