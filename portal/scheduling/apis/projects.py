"""REST: moving and archiving projects."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.common.apis import body_read, person
from portal.common.filters import parameters_require_known
from portal.projects.apis.projects import project_answer
from portal.projects.references import project_by_reference, project_of_body
from portal.projects.serializers import BaseVersionSerializer, ProjectMoveSerializer, ProjectSerializer
from portal.projects.tree import parent_lead_require
from portal.scheduling.project_tree import project_archive, project_move, project_unarchive


class ProjectMove(APIView):
    """Moving, by who leads the old parent and the new one."""

    @extend_schema(operation_id="project_move", request=ProjectMoveSerializer, responses=ProjectSerializer)
    def post(self, request: Request, reference: str) -> Response:
        """Hang a project, with all below it, below another. Its budget goes back to the old parent.

        Where it is already, nothing changes. Never below its own child.
        """
        parameters_require_known(request, [], paged=False)
        body = body_read(ProjectMoveSerializer, request)
        user = person(request)
        project = project_by_reference(user=user, reference=reference)
        parent_lead_require(project, user)  # who may not move it doesn't learn which parents there are
        parent = project_of_body(user=user, name="parent", value=body.pop("parent"))
        return Response(
            project_answer(project_move(project=project, parent=parent, actor=user, now=timezone.now(), **body))
        )


class ProjectArchive(APIView):
    """Archiving, by who leads the parent."""

    @extend_schema(operation_id="project_archive", request=BaseVersionSerializer, responses=ProjectSerializer)
    def post(self, request: Request, reference: str) -> Response:
        """Close a project and all below it; 409 while workloads wait or run there. Its budget goes back."""
        return Response(_changed(request, reference, project_archive))


class ProjectUnarchive(APIView):
    """Bringing back, by who leads the parent."""

    @extend_schema(operation_id="project_unarchive", request=BaseVersionSerializer, responses=ProjectSerializer)
    def post(self, request: Request, reference: str) -> Response:
        """Open a project again, with what was archived along with it; it has no budget then."""
        return Response(_changed(request, reference, project_unarchive))


def _changed(request: Request, reference: str, service: Any) -> dict[str, Any]:
    parameters_require_known(request, [], paged=False)
    body = body_read(BaseVersionSerializer, request)
    user = person(request)
    project = project_by_reference(user=user, reference=reference)
    return project_answer(service(project=project, actor=user, now=timezone.now(), **body))
