"""REST: projects, and who is asking. Moving and archiving them reaches into budgets: portal.scheduling."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.common.apis import Rows, RowsView, RowView, body_read, person
from portal.common.filters import parameters_require_known
from portal.projects.filters import ProjectFilter
from portal.projects.models import ApiToken, Project
from portal.projects.references import project_by_reference, project_of_body
from portal.projects.selectors import projects_visible
from portal.projects.serializers import (
    PersonSerializer,
    ProjectChangeSerializer,
    ProjectCreateSerializer,
    ProjectSerializer,
)
from portal.projects.services import project_change, project_create_once

FIELDS = (
    "id", "path", "slug", "name", "description", "depth", "is_demonstration", "created_at", "archived_at", "version",
)  # fmt: skip
REPLAYED_HEADER = "Idempotent-Replayed"


class ProjectList(RowsView):
    """Projects that you may see, by path; and making one."""

    queryset = Project.objects.all()
    serializer_class = ProjectSerializer
    filterset_class = ProjectFilter
    fields = FIELDS

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = projects_visible(user=person(self.request)).order_by("path")
        return found

    def rows(self, page: Any) -> Rows:
        return [project_row(row) for row in page]

    @extend_schema(
        operation_id="project_create",
        request=ProjectCreateSerializer,
        responses={
            201: OpenApiResponse(ProjectSerializer, "Made. It has no budget yet."),
            200: OpenApiResponse(ProjectSerializer, "The very same was made before; Idempotent-Replayed: true."),
        },
    )
    def post(self, request: Request) -> Response:
        """Make a project below another that you lead."""
        parameters_require_known(request, [], paged=False)
        body = body_read(ProjectCreateSerializer, request)
        user = person(request)
        parent = project_of_body(user=user, name="parent", value=body.pop("parent"))
        project, created = project_create_once(parent=parent, actor=user, now=timezone.now(), **body)
        headers = {"Location": request.build_absolute_uri(f"/api/v1/projects/{project.path}/")}
        if not created:
            headers[REPLAYED_HEADER] = "true"
        return Response(project_answer(project), status=201 if created else 200, headers=headers)


@extend_schema_view(get=extend_schema(operation_id="project_retrieve"))
class ProjectDetail(RowView):
    """One project, by its path (`projects/lab/nlp/`) or its id."""

    queryset = Project.objects.all()
    serializer_class = ProjectSerializer

    def row(self, **kwargs: Any) -> dict[str, Any]:
        return project_answer(project_by_reference(user=person(self.request), reference=kwargs["reference"]))

    @extend_schema(operation_id="project_change", request=ProjectChangeSerializer, responses=ProjectSerializer)
    def patch(self, request: Request, reference: str) -> Response:
        """Rename it, describe it, or give it another slug. What is so already changes nothing."""
        parameters_require_known(request, [], paged=False)
        body = body_read(ProjectChangeSerializer, request)
        user = person(request)
        project = project_by_reference(user=user, reference=reference)
        return Response(project_answer(project_change(project=project, actor=user, now=timezone.now(), **body)))


class WhoAmI(APIView):
    """Who the token says you are."""

    @extend_schema(responses=PersonSerializer)
    def get(self, request: Request) -> Response:
        parameters_require_known(request, [], paged=False)
        user = person(request)
        roles = user.memberships.order_by("project__path").values("role", "project__path")
        return Response(
            {
                "username": user.username,
                "name": user.get_full_name(),
                "email": user.email,
                "is_administrator": user.is_superuser,
                "is_operator": user.is_operator,
                "roles": [{"project": row["project__path"], "role": row["role"]} for row in roles],
                "token": _token_row(request.auth),
            }
        )


def project_answer(project: Project) -> dict[str, Any]:
    """One project as the API shows it."""
    return project_row({name: getattr(project, name) for name in FIELDS})


def project_row(row: dict[str, Any]) -> dict[str, Any]:
    """The path says the parent: no join, no second query."""
    return {**row, "parent": row["path"].rpartition("/")[0] or None}


def _token_row(token: Any) -> dict[str, Any] | None:
    if not isinstance(token, ApiToken):
        return None
    return {"name": token.name, "prefix": token.prefix, "scope": token.scope, "expires_at": token.expires_at}
