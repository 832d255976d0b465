"""Projects by clusters: the tree that a person may see, with share, use and balance on each cluster."""

from collections.abc import Sequence

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from portal.clusters.models import Cluster
from portal.dashboard.chart_words import text_cell
from portal.dashboard.charts import Cell, Column, Table
from portal.dashboard.csv_export import csv_response
from portal.dashboard.frame import frame_of
from portal.dashboard.matrix import MatrixRow, matrix_rows
from portal.dashboard.pages import page
from portal.dashboard.people import person_of


@page
def projects(request: HttpRequest) -> HttpResponseBase:
    """Every project that the person may see against every cluster."""
    frame = frame_of(request)
    rows = matrix_rows(user=person_of(request), clusters=frame.clusters, at=frame.now)
    if request.GET.get("csv"):
        return csv_response(matrix_table(rows, frame.clusters), "projects")
    cells = [cell for row in rows for cell in row.cells]
    words = [cell.standing.words for cell in cells if cell.has_budget]
    context = {
        "rows": rows,
        "under": words.count("under-served"),
        "over": words.count("over-served"),
        "without": sum(not any(cell.has_budget for cell in row.cells) for row in rows),
        "balances_at": max((cell.standing.at for cell in cells if cell.standing.at), default=None),
    }
    return render(request, "dashboard/project_list.html", context)


def matrix_table(rows: Sequence[MatrixRow], clusters: Sequence[Cluster]) -> Table:
    """Every project with its path: own share, share of the cluster, and what stands for its whole subtree."""
    columns = [Column("path", numeric=False), Column("name", numeric=False)]
    for cluster in clusters:
        columns += [
            Column(f"share of parent on {cluster.name}", "%"),
            Column(f"share of {cluster.name}", "%"),
            Column(f"GPUs on {cluster.name}"),
            Column(f"quota on {cluster.name}", csv_unit="GPU-seconds"),
            Column(f"usage with everything below on {cluster.name}", csv_unit="GPU-seconds"),
            Column(f"balance on {cluster.name}", csv_unit="ratio"),
            Column(f"reading on {cluster.name}", numeric=False),
        ]
    return Table(columns, [_line(row) for row in rows])


def _line(row: MatrixRow) -> list[Cell]:
    line = [text_cell(row.project.path), text_cell(row.project.name)]
    for cell in row.cells:
        standing = cell.standing
        balance = "" if standing.balance_ppm is None else standing.balance_ppm / 1_000_000
        line += [text_cell(cell.percent_text), text_cell(cell.cluster_percent_text), text_cell(cell.gpus_text)]
        line += [Cell("", standing.quota_gpu_seconds), Cell("", standing.usage_gpu_seconds), Cell("", balance)]
        line.append(text_cell(standing.words))
    return line
