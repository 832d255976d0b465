"""Filters of lists: an unknown one is refused by name, with those that there are."""

import re
from datetime import UTC, datetime
from typing import Any

import django_filters
from django.db.models import QuerySet
from django.utils.dateparse import parse_datetime
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

PAGING = ("limit", "offset")


class StrictFilterBackend(DjangoFilterBackend):  # type: ignore[misc]
    """django-filter's backend, which by itself ignores what it doesn't know."""

    paged = True

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        filterset_class = self.get_filterset_class(view, queryset)
        parameters_require_known(
            request, list(filterset_class.base_filters) if filterset_class else [], paged=self.paged
        )
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


def moment_parse(name: str, text: str) -> datetime:
    """A moment of the query string: ISO 8601 with its offset. A `+` that came as a blank is put right."""
    try:
        moment = parse_datetime(re.sub(r" (\d\d:?\d\d)$", r"+\1", text.strip()))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        sentence = f"{name} must be a moment with its offset, as 2026-10-01T00:00:00Z, not {text[:40]!r}."
        raise ValidationError({name: [sentence]}, code="invalid_moment")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValidationError({name: [f"{name} is a year that no calendar here has."]}, code="invalid_moment") from None


class MomentFilter(django_filters.CharFilter):  # type: ignore[misc]
    """A comparison with a moment, which must carry its offset. `parameter` is its name in the query string."""

    def __init__(self, *, parameter: str, **options: Any) -> None:
        super().__init__(**options)
        self.parameter = parameter

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        return super().filter(qs, moment_parse(self.parameter, value)) if value else qs
