"""REST: budget changes, undoing them, budgets from a CSV. Budgets with balances stand in portal.scheduling."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.budgets.csv_import import budgets_import, budgets_plan
from portal.budgets.filters import BudgetChangeFilter
from portal.budgets.history import changes_visible
from portal.budgets.models import BudgetChange
from portal.budgets.rows import change_row, change_rows, import_row
from portal.budgets.serializers import (
    BudgetChangeDetailSerializer,
    BudgetChangeRequestSerializer,
    BudgetChangeSerializer,
    ImportRequestSerializer,
    ImportSerializer,
    UndoRequestSerializer,
)
from portal.budgets.services import budget_change_create
from portal.budgets.undo import budget_change_undo
from portal.clusters.models import Cluster
from portal.clusters.selectors import cluster_by_name
from portal.common.apis import Rows, RowsView, RowView, person, row_or_404
from portal.common.errors import CommonsError, Conflict, FieldError, NotFound, Refused
from portal.common.filters import parameters_require_known
from portal.common.parsers import ExactJSONParser
from portal.common.units import whole_second
from portal.projects.models import Project, User
from portal.projects.selectors import project_by_path, projects_visible

# What the rules call a field, as the body of a change names it.
FIELD_OF = {"lines": "children", "share_ppm": "children.percent", "burst_gpus": "children.burst_gpus"}


@extend_schema_view(get=extend_schema(operation_id="budget_change_list"))
class BudgetChangeList(RowsView):
    """Changes of levels that you may see, the newest first; and making one."""

    queryset = BudgetChange.objects.all()
    serializer_class = BudgetChangeSerializer
    filterset_class = BudgetChangeFilter
    parser_classes = [ExactJSONParser]

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = changes_visible(user=person(self.request))
        return found

    def rows(self, page: Any) -> Rows:
        return change_rows(changes=page, at=_now())

    @extend_schema(
        operation_id="budget_change_create",
        request=BudgetChangeRequestSerializer,
        responses={200: BudgetChangeDetailSerializer, 201: BudgetChangeDetailSerializer},
    )
    def post(self, request: Request) -> Response:
        """Set the budgets of all children of one parent. 409: `base_version` is no longer the newest.

        200: they stand so already, nothing was made, and the answer is the change in force.
        """
        parameters_require_known(request, [], paged=False)
        body = BudgetChangeRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given, user = body.validated_data, person(request)
        cluster, parent, lines = _references(user, given)
        try:
            change = budget_change_create(
                cluster=cluster,
                parent=parent,
                base_version=given["base_version"],
                lines=lines,
                reason=given["reason"],
                author=user,
                effective_at=given.get("effective_at"),
                now=timezone.now(),
                nothing_is_kept=False,
            )
        except Conflict:
            raise
        except Refused as refusal:
            raise _named(refusal) from None
        if change.version <= given["base_version"]:
            return Response(change_row(change=_change(user, change.pk), at=_now()))
        return _change_made(request, change)


@extend_schema_view(get=extend_schema(operation_id="budget_change_retrieve"))
class BudgetChangeDetail(RowView):
    """One change, with every child's budget."""

    queryset = BudgetChange.objects.all()
    serializer_class = BudgetChangeDetailSerializer
    lookup_field = "pk"

    def row(self, **kwargs: Any) -> dict[str, Any]:
        return change_row(change=_change(person(self.request), kwargs["pk"]), at=_now())


class BudgetChangeUndo(APIView):
    """Taking a change back by a new one."""

    parser_classes = [ExactJSONParser]

    @extend_schema(
        operation_id="budget_change_undo",
        request=UndoRequestSerializer,
        responses={201: BudgetChangeDetailSerializer},
    )
    def post(self, request: Request, pk: int) -> Response:
        """Set back what a change moved, and leave what others moved since; a change still ahead is withdrawn."""
        parameters_require_known(request, [], paged=False)
        change = _change(person(request), pk)
        body = UndoRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        try:
            undone = budget_change_undo(
                change=change,
                base_version=given["base_version"],
                reason=given["reason"],
                author=person(request),
                effective_at=given.get("effective_at"),
                now=timezone.now(),
            )
        except Conflict:
            raise
        except Refused as refusal:
            raise _named(refusal) from None
        return _change_made(request, undone)


class BudgetImport(APIView):
    """Budgets of all levels from a CSV."""

    parser_classes = [ExactJSONParser]

    @extend_schema(operation_id="budget_import", request=ImportRequestSerializer, responses=ImportSerializer)
    def post(self, request: Request) -> Response:
        """Change every level in which the file differs from what is in force, at once and together, or nothing.

        A dry run answers with what it would do and what is wrong, by line. 409: the file is of older versions.
        """
        parameters_require_known(request, [], paged=False)
        body = ImportRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given, user, now = body.validated_data, person(request), timezone.now()
        text, effective_at = given["csv"], given.get("effective_at")
        plan = budgets_plan(text=text, user=user, effective_at=effective_at, now=now)
        if given["dry_run"]:
            return Response(import_row(plan=plan, dry_run=True))
        made = budgets_import(text=text, reason=given["reason"], author=user, effective_at=effective_at, now=now)
        return Response(import_row(plan=plan, dry_run=False, changes=made))


def _now() -> datetime:
    return whole_second(timezone.now())


def _change(user: User, pk: int) -> BudgetChange:
    change: BudgetChange = row_or_404(changes_visible(user=user), "budget change", pk=pk)
    return change


def _change_made(request: Request, change: BudgetChange) -> Response:
    seen = _change(person(request), change.pk)
    headers = {"Location": request.build_absolute_uri(f"/api/v1/budget-changes/{change.pk}/")}
    return Response(change_row(change=seen, at=_now()), status=201, headers=headers)


def _references(user: User, given: dict[str, Any]) -> tuple[Cluster, Project, list[tuple[Project, int, int | None]]]:
    """Cluster, parent and children by their names; every name that there isn't is said at once."""
    errors: list[FieldError] = []
    cluster = parent = None
    try:
        cluster = cluster_by_name(name=given["cluster"])
    except NotFound as error:
        errors.append(FieldError("cluster", "unknown_cluster", error.detail))
    try:
        parent = project_by_path(user=user, path=given["parent"].strip("/"))
    except NotFound as error:
        errors.append(FieldError("parent", "unknown_project", error.detail))
    found = _projects(user, [child["project"] for child in given["children"]])
    for position, child in enumerate(given["children"]):
        if child["project"] not in found:
            sentence = f"There is no project {child['project'][:200]!r} that you may see."
            errors.append(FieldError(f"children.{position}.project", "unknown_project", sentence))
    if errors or cluster is None or parent is None:
        raise Refused.many(errors)
    lines = [(found[child["project"]], child["percent"], child.get("burst_gpus")) for child in given["children"]]
    return cluster, parent, lines


def _projects(user: User, paths: Sequence[str]) -> dict[str, Project]:
    return {project.path: project for project in projects_visible(user=user).filter(path__in=paths)}


def _named(refusal: CommonsError) -> Refused:
    """The refusal with its fields named as the body names them."""
    return Refused.many(
        [FieldError(FIELD_OF.get(error.attr, error.attr), error.code, error.detail) for error in refusal.errors]
    )
