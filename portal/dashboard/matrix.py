"""The matrix of balances: a row a project, a cell a cluster. A fixed number of queries for each cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from portal.clusters.models import Cluster
from portal.dashboard.project_tree import TreeRow, tree_rows
from portal.projects.models import Project, User


@dataclass(frozen=True)
class MatrixRow:
    """A project on every cluster, in the clusters' order."""

    project: Project
    depth: int
    cells: list[TreeRow]


def matrix_rows(*, user: User, clusters: Sequence[Cluster], at: datetime) -> list[MatrixRow]:
    """Every project that the person may see, parents before their children; no cluster: none."""
    columns = [tree_rows(user=user, cluster=cluster, at=at) for cluster in clusters]
    return [MatrixRow(cells[0].project, cells[0].depth, list(cells)) for cells in zip(*columns, strict=True)]
