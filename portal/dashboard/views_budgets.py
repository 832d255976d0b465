"""The budgets of a cluster: the whole tree, now, as of a moment, or at two moments side by side; and its CSV."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render

from portal.budgets.history import ChangeState
from portal.budgets.selectors import changes_standing
from portal.clusters.models import Cluster
from portal.clusters.selectors import policy_values
from portal.common.csv_text import CONTENT_TYPE
from portal.common.errors import NotFound, Refused
from portal.common.units import duration_words, whole_second
from portal.dashboard import budget_units
from portal.dashboard.budget_history import ChangeView, changes_shown
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import page
from portal.dashboard.people import person_of
from portal.dashboard.project_tree import TreeRow, tree_rows
from portal.dashboard.ranges import moment_parse
from portal.projects.models import Project, User
from portal.projects.selectors import projects_visible
from portal.scheduling.budget_rows import budgets_csv, clusters_sized

PLANNED_MAX = 20
AHEAD_MAX = timedelta(days=3660)


def cluster_required(request: HttpRequest) -> Cluster:
    """The cluster that the address names; without one there is nothing to budget."""
    cluster: Cluster | None = frame_of(request).cluster
    if cluster is None:
        raise NotFound("There is no cluster yet. An operator makes one and registers its hosts.", attr="cluster")
    return cluster


@dataclass(frozen=True)
class Difference:
    """A project's budget at the earlier of two moments, beside its row at the later one."""

    row: TreeRow
    before: TreeRow | None

    @property
    def is_moved(self) -> bool:
        return self.before is None or self._parts(self.before) != self._parts(self.row)

    @property
    def is_given_otherwise(self) -> bool:
        """Whether its own line differs, and not only its share through what is above it."""
        return self.before is None or self.before.line != self.row.line

    @property
    def gpus_text(self) -> str:
        """By how much its GPUs differ, with a sign."""
        moved = self.row.gpus - (self.before.gpus if self.before else Fraction(0))
        text = budget_units.decimal_text(abs(moved), places=2)
        return "0" if text == "0" else f"{'−' if moved < 0 else '+'}{text}"

    @staticmethod
    def _parts(row: TreeRow) -> tuple[object, Fraction]:
        return row.line, row.share


@page
def budgets(request: HttpRequest) -> HttpResponse:
    """The tree of a cluster with every project's budget, use and balance."""
    frame = frame_of(request)
    if frame.cluster is None:
        return render(request, "dashboard/budgets.html", {"rows": []})
    user = person_of(request)
    at, then = _moment_given(request, "at"), _moment_given(request, "compare")
    if then and then > (at or frame.now):
        at, then = then, at or frame.now
        messages.info(request, "The two moments were given the other way round: the earlier one is compared with.")
    rows = tree_rows(user=user, cluster=frame.cluster, at=at or frame.now, now=frame.now)
    moments = [row.standing.at for row in rows if row.standing.at]
    differences = _differences(user, frame.cluster, rows, then) if then else []
    context = {
        "rows": rows,
        "roots": [row for row in rows if row.depth == 0],
        "at": at,
        "then": then,
        "differences": {difference.row.project.pk: difference for difference in differences},
        "moved": [difference for difference in differences if difference.is_moved],
        "installed_gpus": rows[0].installed_gpus if rows else 0,
        "balances_at": max(moments, default=None),
        "any_burst": any(row.line and row.line.burst_gpus is not None for row in rows),
        "may_import": any(row.may_edit for row in rows),
        "window": duration_words(policy_values(cluster=frame.cluster)["lookback_seconds"]),
        "planned": [] if at or then else _planned(user, frame.cluster, frame.now),
        "several_clusters": len(frame.clusters) > 1,
    }
    return render(request, "dashboard/budgets.html", context)


def _moment_given(request: HttpRequest, name: str) -> datetime | None:
    """A moment of the address, of a date the whole day included; nothing when it isn't there."""
    text = request.GET.get(name, "")
    if not text:
        return None
    moment = moment_parse(text, name, day_end=True)
    if moment > frame_of(request).now + AHEAD_MAX:
        raise Refused(f"{name} lies more than ten years ahead.", attr=name)
    return moment


def _differences(user: User, cluster: Cluster, rows: list[TreeRow], then: datetime) -> list[Difference]:
    before = {row.project.pk: row for row in tree_rows(user=user, cluster=cluster, at=then, now=then)}
    return [Difference(row, before.get(row.project.pk)) for row in rows]


def _planned(user: User, cluster: Cluster, now: datetime) -> list[ChangeView]:
    """Changes of all levels that are still ahead, the next first."""
    ahead = changes_standing().filter(cluster=cluster, effective_at__gt=now, parent__in=projects_visible(user=user))
    related = ahead.select_related("author", "parent", "withdraws", "cluster").order_by("effective_at", "pk")
    shown = changes_shown(related[:PLANNED_MAX], at=now)
    return [each for each in shown if each.state is ChangeState.PLANNED]


@page
def export(request: HttpRequest) -> StreamingHttpResponse:
    """The budgets of the cluster, or with `all` of every cluster, now or as of a moment, as CSV."""
    frame, cluster = frame_of(request), cluster_required(request)
    at = _moment_given(request, "at") or frame.now
    every = request.GET.get("all") == "1"
    clusters = clusters_sized(**({} if every else {"pk": cluster.pk}))
    lines = budgets_csv(user=person_of(request), clusters=clusters, at=at, now=frame.now)
    response = StreamingHttpResponse(lines, content_type=CONTENT_TYPE)
    name = "all" if every else cluster.name
    response["Content-Disposition"] = f'attachment; filename="budgets-{name}-{whole_second(at):%Y-%m-%dT%H%M%SZ}.csv"'
    return response


def ancestors(project: Project) -> list[tuple[str, str]]:
    """(name as in the path, path) from the root down to the project itself, for the breadcrumb."""
    parts = project.path.split("/")
    return [(part, "/".join(parts[: position + 1])) for position, part in enumerate(parts)]
