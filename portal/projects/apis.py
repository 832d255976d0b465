"""REST: projects, and who is asking."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.common.apis import Rows, RowsView, RowView, person
from portal.common.filters import parameters_require_known
from portal.projects.filters import ProjectFilter
from portal.projects.models import ApiToken, Project
from portal.projects.references import project_by_reference
from portal.projects.selectors import projects_visible
from portal.projects.serializers import PersonSerializer, ProjectSerializer

FIELDS = ("id", "path", "slug", "name", "description", "depth", "is_demonstration", "created_at", "archived_at")


class ProjectList(RowsView):
    """Projects that you may see, by path."""

    queryset = Project.objects.all()
    serializer_class = ProjectSerializer
    filterset_class = ProjectFilter
    fields = FIELDS

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = projects_visible(user=person(self.request)).order_by("path")
        return found

    def rows(self, page: Any) -> Rows:
        return [project_row(row) for row in page]


@extend_schema_view(get=extend_schema(operation_id="project_retrieve"))
class ProjectDetail(RowView):
    """One project, by its path (`projects/lab/nlp/`) or its id."""

    queryset = Project.objects.all()
    serializer_class = ProjectSerializer

    def row(self, **kwargs: Any) -> dict[str, Any]:
        project = project_by_reference(user=person(self.request), reference=kwargs["reference"])
        return project_row({name: getattr(project, name) for name in FIELDS})


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


def project_row(row: dict[str, Any]) -> dict[str, Any]:
    """The path says the parent: no join, no second query."""
    return {**row, "parent": row["path"].rpartition("/")[0] or None}


def _token_row(token: Any) -> dict[str, Any] | None:
    if not isinstance(token, ApiToken):
        return None
    return {"name": token.name, "prefix": token.prefix, "scope": token.scope, "expires_at": token.expires_at}
