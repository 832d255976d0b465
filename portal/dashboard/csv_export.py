"""A table as CSV: readable in a spreadsheet whatever the script, and no cell of it runs as a formula."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

from django.http import StreamingHttpResponse

from portal.common.errors import NotFound
from portal.dashboard.charts import Chart, Table

BOM = "\ufeff"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def neutral(value: str | int | float) -> str | int | float:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA_STARTS) else value


def csv_lines(table: Table) -> Iterator[str]:
    """Line by line; the byte-order mark tells spreadsheets that it is UTF-8."""
    yield BOM
    yield _line([column.csv_header for column in table.columns])
    for row in table.rows:
        yield _line([cell.raw for cell in row])


def _line(values: Sequence[str | int | float]) -> str:
    buffer = StringIO()
    csv.writer(buffer).writerow([neutral(value) for value in values])
    return buffer.getvalue()


def csv_response(table: Table, name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(csv_lines(table), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def csv_of(charts: Iterable[Chart], key: str) -> StreamingHttpResponse:
    """The numbers of the chart that the address names."""
    by_key = {chart.key: chart for chart in charts}
    if key not in by_key:
        raise NotFound(f"There is no table {key[:40]!r} here; there are: {', '.join(by_key)}.", attr="csv")
    return csv_response(by_key[key].table, key)
