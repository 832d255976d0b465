"""Limit and offset, as every list of the API is paged."""

from rest_framework.pagination import LimitOffsetPagination


class LimitOffset(LimitOffsetPagination):
    """100 rows unless asked otherwise, at most 1000."""

    default_limit = 100
    max_limit = 1000
