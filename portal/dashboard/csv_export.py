"""A table as CSV: readable in a spreadsheet whatever the script, and no cell of it runs as a formula."""

from collections.abc import Iterable, Iterator

from django.http import StreamingHttpResponse

from portal.common.csv_text import BOM, CONTENT_TYPE, csv_line
from portal.common.errors import NotFound
from portal.dashboard.charts import Chart, Table


def csv_lines(table: Table) -> Iterator[str]:
    """Line by line; the byte-order mark tells spreadsheets that it is UTF-8."""
    yield BOM
    yield csv_line([column.csv_header for column in table.columns])
    for row in table.rows:
        yield csv_line([cell.raw for cell in row])


def csv_response(table: Table, name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(csv_lines(table), content_type=CONTENT_TYPE)
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def csv_of(charts: Iterable[Chart], key: str) -> StreamingHttpResponse:
    """The numbers of the chart that the address names."""
    by_key = {chart.key: chart for chart in charts}
    if key not in by_key:
        raise NotFound(f"There is no table {key[:40]!r} here; there are: {', '.join(by_key)}.", attr="csv")
    return csv_response(by_key[key].table, key)
