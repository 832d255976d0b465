"""Filters of lists: an unknown one is refused by name, with those that there are."""

from typing import Any

from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

PAGING = ("limit", "offset")


class StrictFilterBackend(DjangoFilterBackend):  # type: ignore[misc]
    """django-filter's backend, which by itself ignores what it doesn't know."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        filterset_class = self.get_filterset_class(view, queryset)
        parameters_require_known(request, list(filterset_class.base_filters) if filterset_class else [])
        filtered: QuerySet[Any] = super().filter_queryset(request, queryset, view)
        return filtered


def parameters_require_known(request: Request, known: list[str], *, paged: bool = True) -> None:
    """Refuse parameters of the query string that mean nothing here, naming those that do."""
    valid = sorted({*known, *(PAGING if paged else ())})
    words = f"those that there are: {', '.join(valid)}" if valid else "there are none here"
    unknown = {
        name: [f"There is no parameter {name!r}; {words}."] for name in request.query_params if name not in valid
    }
    if unknown:
        raise ValidationError(unknown, code="unknown_parameter")
