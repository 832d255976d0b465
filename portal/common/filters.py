"""Filters of lists: an unknown one is refused by name, with those that there are."""

import re
from collections.abc import Mapping
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
        spans_require_order(request, filterset_class.base_filters if filterset_class else {})
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


def spans_require_order(request: Request, filters: Mapping[str, Any]) -> None:
    """Refuse a span that ends before it begins: one moment from which on, one before which, of the same column."""
    moments = {name: each for name, each in filters.items() if isinstance(each, MomentFilter)}
    begins, ends = (
        {each.field_name: name for name, each in moments.items() if each.lookup_expr == expression}
        for expression in ("gte", "lt")
    )
    for column in begins.keys() & ends.keys():
        start, end = begins[column], ends[column]
        texts = request.query_params.get(start, ""), request.query_params.get(end, "")
        if all(texts) and moment_parse(end, texts[1]) < moment_parse(start, texts[0]):
            sentence = f"{end} ({texts[1]}) lies before {start} ({texts[0]})."
            raise ValidationError({end: [sentence]}, code="invalid_span")
