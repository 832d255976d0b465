"""Limit and offset, as every list of the API is paged."""

from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.request import Request

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000
OFFSET_MAX = 2**31 - 1


class LimitOffset(LimitOffsetPagination):
    """100 rows unless asked otherwise, at most 1000; an offset beyond the end is an empty page."""

    default_limit = LIMIT_DEFAULT
    max_limit = LIMIT_MAX

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """Count first, then read the view's `fields` of one page: joins for what is shown don't slow the count."""
        self.request = request
        self.limit, self.offset = self.get_limit(request), self.get_offset(request)
        self.count = self.get_count(queryset)
        if self.offset >= self.count:
            return []
        fields = getattr(view, "fields", ())
        rows = queryset.values(*fields) if fields else queryset
        return list(rows[self.offset : self.offset + self.limit])

    def get_limit(self, request: Request) -> int:
        return whole_parameter(request, "limit", default=LIMIT_DEFAULT, low=1, high=LIMIT_MAX)

    def get_offset(self, request: Request) -> int:
        return whole_parameter(request, "offset", default=0, low=0, high=OFFSET_MAX)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        bounds = {"limit": (1, LIMIT_MAX, "Rows of a page."), "offset": (0, OFFSET_MAX, "Rows to pass over.")}
        return [
            {
                "name": name,
                "in": "query",
                "required": False,
                "description": words,
                "schema": {"type": "integer", "minimum": low, "maximum": high},
            }
            for name, (low, high, words) in bounds.items()
        ]


def whole_parameter(request: Request, name: str, *, default: int, low: int, high: int) -> int:
    """A whole number of the query string between `low` and `high`, or a refusal that names it and its bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) <= 20 and low <= int(text) <= high:
        return int(text)
    raise ValidationError({name: [f"{name} must be a whole number from {low} to {high}."]}, code="out_of_range")
