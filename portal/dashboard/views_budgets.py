"""The budgets of a cluster: the whole tree, and one level in the making."""

from datetime import datetime
from fractions import Fraction
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import Level, Line, budgets_at, level_at, level_history, shares_of_cluster
from portal.budgets.services import budget_change_create
from portal.clusters.models import Cluster
from portal.common.errors import Conflict, NotFound, Refused
from portal.common.units import PPM
from portal.dashboard import budget_units
from portal.dashboard.budget_history import ChangeView, changes_shown
from portal.dashboard.forms_budgets import LevelForm
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import form_page, page
from portal.dashboard.people import person_of
from portal.dashboard.project_tree import installed_gpus, tree_rows
from portal.dashboard.ranges import moment_parse
from portal.projects.models import Project
from portal.projects.selectors import project_by_path, user_may, user_require

HISTORY_ROWS = 50


def cluster_required(request: HttpRequest) -> Cluster:
    """The cluster that the address names; without one there is nothing to budget."""
    cluster: Cluster | None = frame_of(request).cluster
    if cluster is None:
        raise NotFound("There is no cluster yet. An operator makes one and registers its hosts.", attr="cluster")
    return cluster


@page
def budgets(request: HttpRequest) -> HttpResponse:
    """The tree of a cluster with every project's budget, use and balance."""
    frame = frame_of(request)
    if frame.cluster is None:
        return render(request, "dashboard/budgets.html", {"rows": []})
    at, then = _moment_given(request, "at"), _moment_given(request, "compare")
    rows = tree_rows(user=person_of(request), cluster=frame.cluster, at=at or frame.now)
    roots = [row for row in rows if row.depth == 0]
    moments = [row.standing.at for row in rows if row.standing.at]
    context = {
        "rows": rows,
        "roots": roots,
        "at": at,
        "then": then,
        "before": _shares_text(frame.cluster, then) if then else {},
        "installed_gpus": rows[0].installed_gpus if rows else 0,
        "balances_at": max(moments, default=None),
        "over": [row for row in rows if row.standing.words == "over-served"],
        "under": [row for row in rows if row.standing.words == "under-served"],
        "any_burst": any(row.line and row.line.burst_gpus is not None for row in rows),
        "without": [row for row in rows if not row.has_budget],
    }
    return render(request, "dashboard/budgets.html", context)


def _moment_given(request: HttpRequest, name: str) -> datetime | None:
    """A date of the address, the whole of it included; nothing when it isn't there."""
    text = request.GET.get(name, "")
    return moment_parse(text, name, day_end=True) if text else None


def _shares_text(cluster: Cluster, at: datetime) -> dict[int, str]:
    """Each project's percent of its parent at that moment."""
    lines = budgets_at(cluster=cluster, at=at)
    return {project_id: budget_units.percent_text(line.share_ppm) for project_id, line in lines.items()}


@form_page
def level(request: HttpRequest, path: str) -> HttpResponse:
    """One level: the children of a project on the cluster, edited together."""
    cluster, parent = cluster_required(request), project_by_path(user=person_of(request), path=path)
    children = list(parent.children.filter(archived_at=None).order_by("slug"))
    if request.method == "POST":
        user_require(user=person_of(request), action="budgets_edit", project=parent)
        return _level_post(request, cluster, parent, children)
    current = level_at(cluster=cluster, parent=parent, at=frame_of(request).now)
    gpus = _parent_gpus(cluster, parent, frame_of(request).now)
    form = LevelForm(children=children, lines=current.lines, parent_gpus=gpus, version=current.current_version)
    return _level_page(request, cluster, parent, form, current)


def _parent_gpus(cluster: Cluster, parent: Project, at: datetime) -> Fraction:
    share = shares_of_cluster(cluster=cluster, at=at).get(parent.pk, Fraction(0))
    return share * installed_gpus(cluster=cluster)


def _level_post(request: HttpRequest, cluster: Cluster, parent: Project, children: list[Project]) -> HttpResponse:
    now = frame_of(request).now
    current = level_at(cluster=cluster, parent=parent, at=now)
    gpus = _parent_gpus(cluster, parent, now)
    form = LevelForm(
        request.POST, children=children, lines=current.lines, parent_gpus=gpus, version=current.current_version
    )
    if not form.is_valid() or "preview" in request.POST:
        return _level_page(request, cluster, parent, form, current, status=200 if form.is_valid() else 400)
    try:
        budget_change_create(
            cluster=cluster,
            parent=parent,
            base_version=form.cleaned_data["base_version"],
            lines=form.line_inputs(),
            reason=form.cleaned_data["reason"],
            author=person_of(request),
            effective_at=form.cleaned_data["effective_at"],
            now=now,
        )
    except Conflict as conflict:
        return _conflict_page(request, cluster, parent, form, current, conflict)
    except Refused as refusal:
        form.refusal_add(refusal)
        return _level_page(request, cluster, parent, form, current, status=400)
    messages.success(request, "Saved. " + ("; ".join(form.effects) + "." if form.effects else "No share changed."))
    return redirect(f"{reverse('dashboard:budgets_level', args=[parent.path])}?cluster={cluster.name}")


def _conflict_page(
    request: HttpRequest, cluster: Cluster, parent: Project, form: LevelForm, current: Level, conflict: Conflict
) -> HttpResponse:
    """409: what is there now beside what was typed; saving again puts it on top of the other's change."""
    base = form.cleaned_data["base_version"]
    since = changes_shown(level_history(cluster=cluster, parent=parent).filter(version__gte=base))
    others = [each for each in since if each.change.version > base]
    data = request.POST.copy()
    data["base_version"] = str(conflict.current_version)
    for child in form.children:
        if form.untouched(child):  # nothing was typed there: it shows what is there now
            for name, text in form.texts_of(child).items():
                data[name] = text
    again = LevelForm(
        data,
        children=form.children,
        lines=current.lines,
        parent_gpus=form.parent_gpus,
        version=current.current_version,
        # Nobody's, when the version that was sent never was.
        theirs={
            line.project_id: Line(line.share_ppm, line.burst_gpus)
            for other in others[:1]
            for line in other.change.lines.all()
        },
    )
    again.is_valid()
    return _level_page(request, cluster, parent, again, current, status=409, others=others)


def _level_page(
    request: HttpRequest,
    cluster: Cluster,
    parent: Project,
    form: LevelForm,
    current: Level,
    *,
    status: int = 200,
    others: list[ChangeView] | None = None,
) -> HttpResponse:
    now = frame_of(request).now
    history: QuerySet[BudgetChange] = level_history(cluster=cluster, parent=parent)
    changes = changes_shown(history[: HISTORY_ROWS + 1])
    total, gpus = form.total_ppm, form.parent_gpus
    context: dict[str, Any] = {
        "parent": parent,
        "ancestors": ancestors(parent),
        "form": form,
        "level": current,
        "may_edit": user_may(user=person_of(request), action="budgets_edit", project=parent),
        "parent_gpus": float(gpus),
        "parent_gpus_text": budget_units.decimal_text(gpus, places=2),
        "total_text": budget_units.percent_text(total),
        "left_text": budget_units.percent_text(abs(PPM - total)),
        "left_gpus_text": budget_units.gpus_words(budget_units.gpus_of_ppm(abs(PPM - total), gpus)),
        "total_permille": total * 1000 // PPM,
        "is_over": total > PPM,
        "others": others or [],
        "changes": changes[:HISTORY_ROWS],
        "more_changes": len(changes) > HISTORY_ROWS,
        "waiting": [each for each in changes if each.change.effective_at > now],
        "status": status,
        "cluster": cluster,
    }
    return render(request, "dashboard/budgets_level.html", context, status=status)


def ancestors(project: Project) -> list[tuple[str, str]]:
    """(name as in the path, path) from the root down to the project itself, for the breadcrumb."""
    parts = project.path.split("/")
    return [(part, "/".join(parts[: position + 1])) for position, part in enumerate(parts)]
