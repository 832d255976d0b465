"""Lists sorted, filtered and paged by the server; what the URL has wrong is refused by name."""

from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from portal.common.errors import Refused

PAGE_ROWS = 50


@dataclass
class Listing:
    """One page of rows and where it stands in the whole."""

    rows: list[Any]
    total: int
    page: int
    sort: str = ""
    size: int = PAGE_ROWS
    filters: dict[str, str] = field(default_factory=dict)
    total_is_bound: bool = False

    @property
    def pages(self) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-self.total // self.size))

    @property
    def first(self) -> int:
        """The number of the first row shown."""
        return (self.page - 1) * self.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The number of the last row shown."""
        return (self.page - 1) * self.size + len(self.rows)

    @property
    def previous_page(self) -> int:
        """The page before."""
        return self.page - 1

    @property
    def next_page(self) -> int:
        """The page after."""
        return self.page + 1


def page_number(request: HttpRequest) -> int:
    """The page that the URL asks for, 1 unless given."""
    text = request.GET.get("page", "1")
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1_000_000:
        raise Refused(f"page is {text[:40]!r}; it must be a whole number from 1.", attr="page")
    return int(text)


def sort_key(request: HttpRequest, allowed: dict[str, str], default: str) -> str:
    """The sort that the URL asks for (`-` in front: descending), one of `allowed`."""
    key = request.GET.get("sort", default)
    if key.removeprefix("-") not in allowed:
        raise Refused(f"sort is {key[:40]!r}; it can be {', '.join(allowed)}, each with - in front.", attr="sort")
    return key


def choice(request: HttpRequest, name: str, allowed: list[str]) -> str:
    """A filter of the URL, one of `allowed` or nothing."""
    value = request.GET.get(name, "")
    if value and value not in allowed:
        raise Refused(f"{name} is {value[:60]!r}; it can be {', '.join(allowed)}.", attr=name)
    return value


def listing_of(
    request: HttpRequest, rows: QuerySet[Any], *, sorts: dict[str, str], default: str, count_most: int = 1_000_000
) -> Listing:
    """Sort and cut `rows` as the URL says. `sorts` maps the URL's words to columns.

    Rows are counted up to `count_most`: a list of a million is not read to show fifty.
    """
    key = sort_key(request, sorts, default)
    column = sorts[key.removeprefix("-")]
    ordered = rows.order_by(f"-{column}" if key.startswith("-") else column, "-pk")
    number = page_number(request)
    counted = rows.order_by()[: count_most + 1].count()
    total = min(counted, count_most)
    page = min(number, max(1, -(-total // PAGE_ROWS)))
    start = (page - 1) * PAGE_ROWS
    found = list(ordered[start : start + PAGE_ROWS])
    return Listing(found, total, page, key, total_is_bound=counted > count_most)
