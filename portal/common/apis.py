"""What views of the API share: lists of rows, one row, and who is asking."""

from typing import Any, cast

from django.db.models import Model, QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.common import schema  # noqa: F401 - registers how the API is described
from portal.common.filters import StrictFilterBackend, parameters_require_known
from portal.common.serializers import StrictSerializer

Rows = list[dict[str, Any]]


class RowsView(ListAPIView[Any]):
    """A list. `rows` turns one page of the filtered queryset into answers, in a number of queries of its own.

    With `fields` a page comes as their values, else as objects.
    """

    fields: tuple[str, ...] = ()
    filter_backends = [StrictFilterBackend]

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.rows(page or []))

    def rows(self, page: Any) -> Rows:
        raise NotImplementedError


class RowView(RetrieveAPIView[Any]):
    """One thing, as its `row` says."""

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        parameters_require_known(request, [], paged=False)
        return Response(self.row(**kwargs))

    def row(self, **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError


class UnknownAddress(APIView):
    """404 as a problem for every other address below /api/."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise NotFound("There is no such address; /api/schema/ lists those that there are. Each ends with a slash.")


def person(request: Request) -> Any:
    """The signed-in person of a request that needed one."""
    return cast(Any, request.user)


def body_read(serializer: type[StrictSerializer], request: Request) -> dict[str, Any]:
    """The body in the shape of the serializer, or 400 naming what is not."""
    read = serializer(data=request.data)
    read.is_valid(raise_exception=True)
    return dict(read.validated_data)


def row_or_404(queryset: QuerySet[Any], what: str, **lookup: Any) -> Any:
    """The one row that fits, or 404 in the same words whether it doesn't exist or may not be seen."""
    unknowable = any(isinstance(value, str) and "\0" in value for value in lookup.values())
    row: Model | None = None if unknowable else queryset.filter(**lookup).first()
    if row is None:
        raise NotFound(f"There is no such {what}, or you may not see it.")
    return row
