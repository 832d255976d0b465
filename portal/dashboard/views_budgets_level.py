"""One level of budgets in the making: all children of a project on a cluster, saved together or not at all."""

from datetime import datetime
from fractions import Fraction
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from portal.budgets.history import ChangeState
from portal.budgets.selectors import (
    Level,
    Line,
    changes_ahead,
    level_at,
    level_history,
    planned_effects,
    shares_of_cluster,
)
from portal.budgets.services import budget_change_create
from portal.clusters.models import Cluster
from portal.common.errors import Conflict, Refused
from portal.common.units import PPM
from portal.dashboard import budget_units
from portal.dashboard.budget_history import ChangeView, changes_shown, planned_data, planned_words
from portal.dashboard.forms_budgets import LevelForm
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import form_page
from portal.dashboard.people import person_of
from portal.dashboard.project_tree import installed_gpus, standings_at_last_pass
from portal.dashboard.views_budgets import ancestors, cluster_required
from portal.projects.models import Project
from portal.projects.selectors import project_by_path, user_may, user_require
from portal.proposals.selectors import proposals_touching
from portal.proposals.transitions import STALE

HISTORY_ROWS = 50


@form_page
def level(request: HttpRequest, path: str) -> HttpResponse:
    """One level: the children of a project on the cluster, edited together."""
    cluster, parent = cluster_required(request), project_by_path(user=person_of(request), path=path)
    current = level_at(cluster=cluster, parent=parent, at=frame_of(request).now)
    if request.method == "POST":
        user_require(user=person_of(request), action="budgets_edit", project=parent)
        return _level_post(request, cluster, parent, current)
    return _level_page(request, cluster, parent, _form(request, cluster, parent, current), current)


def _form(
    request: HttpRequest,
    cluster: Cluster,
    parent: Project,
    current: Level,
    data: Any = None,
    theirs: dict[int, Line] | None = None,
) -> LevelForm:
    share = shares_of_cluster(cluster=cluster, at=frame_of(request).now).get(parent.pk, Fraction(0))
    return LevelForm(
        data,
        children=list(parent.children.filter(archived_at=None).order_by("slug")),
        lines=current.lines,
        parent_gpus=share * installed_gpus(cluster=cluster),
        parent_share=share,
        version=current.current_version,
        theirs=theirs,
    )


def _level_post(request: HttpRequest, cluster: Cluster, parent: Project, current: Level) -> HttpResponse:
    form = _form(request, cluster, parent, current, request.POST)
    if not form.is_valid() or "preview" in request.POST:
        return _level_page(request, cluster, parent, form, current, status=200 if form.is_valid() else 400)
    planned = _planned_words(request, cluster, parent, form)
    try:
        change = budget_change_create(
            cluster=cluster,
            parent=parent,
            base_version=form.cleaned_data["base_version"],
            lines=form.line_inputs(),
            reason=form.cleaned_data["reason"],
            author=person_of(request),
            effective_at=form.cleaned_data["effective_at"],
            now=frame_of(request).now,
            nothing_is_kept=False,
        )
    except Conflict as conflict:
        return _conflict_page(request, cluster, parent, form, current, conflict)
    except Refused as refusal:
        form.refusal_add(refusal)
        return _level_page(request, cluster, parent, form, current, status=400)
    if change.version <= form.cleaned_data["base_version"]:
        messages.info(request, f"Nothing changes: the budgets stand so already, in version {change.version}.")
        return _level_page(request, cluster, parent, form, current)
    effects = "; ".join(form.effects) + "." if form.effects else "No share changed."
    said = [_saved_word(request, form.cleaned_data["effective_at"]), effects, *planned]
    messages.success(request, " ".join(said))
    return redirect(f"{reverse('dashboard:budgets_level', args=[parent.path])}?cluster={cluster.name}")


def _saved_word(request: HttpRequest, effective_at: datetime | None) -> str:
    """Said first once a level is saved: what is planned is not in force yet."""
    if effective_at is None:
        return "Saved."
    at = timezone.localtime(effective_at)
    return f"Planned for {at:%-d %b %Y %H:%M} ({frame_of(request).zone}), not in force yet."


def _planned_words(request: HttpRequest, cluster: Cluster, parent: Project, form: LevelForm) -> list[str]:
    """What the changes still ahead would set back of what is typed."""
    effective_at = getattr(form, "cleaned_data", {}).get("effective_at")
    effects = planned_effects(
        cluster=cluster,
        parent=parent,
        lines=form.lines_typed(),
        effective_at=effective_at,
        now=frame_of(request).now,
    )
    return planned_words(effects)


def _conflict_page(
    request: HttpRequest, cluster: Cluster, parent: Project, form: LevelForm, current: Level, conflict: Conflict
) -> HttpResponse:
    """409: what is there now beside what was typed; saving again puts it on top of the other's change."""
    others = changes_after(request, cluster, parent, form.cleaned_data["base_version"])
    data = request.POST.copy()
    data["base_version"] = str(conflict.current_version)
    for child in form.children:
        if form.untouched(child):  # nothing was typed there: it shows what is there now
            for name, text in form.texts_of(child).items():
                data[name] = text
    # Nobody's, when the version that was sent never was.
    theirs = {line.project_id: Line(line.share_ppm, line.burst_gpus) for line in _newest_lines(others)}
    again = _form(request, cluster, parent, current, data, theirs)
    again.is_valid()
    return _level_page(request, cluster, parent, again, current, status=409, others=others)


def _newest_lines(others: list[ChangeView]) -> Any:
    """The lines of the newest of them that has any: a withdrawal has none."""
    return next((each.change.lines.all() for each in others if each.change.withdraws_id is None), ())


def changes_after(request: HttpRequest, cluster: Cluster, parent: Project, version: int) -> list[ChangeView]:
    """What others changed of a level since that version, the newest first."""
    since = level_history(cluster=cluster, parent=parent).filter(version__gt=version)
    return changes_shown(since, at=frame_of(request).now, moves_most=None)


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
    changes = changes_shown(level_history(cluster=cluster, parent=parent)[: HISTORY_ROWS + 1], at=now)
    standings = standings_at_last_pass(clusters=[cluster])
    total, gpus = form.total_ppm, form.parent_gpus
    touching = proposals_touching(user=person_of(request), cluster=cluster, parent=parent)
    context: dict[str, Any] = {
        "parent": parent,
        "ancestors": ancestors(parent),
        "form": form,
        "level": current,
        "planned_words": _planned_words(request, cluster, parent, form) if form.is_bound else [],
        "planned_data": planned_data(changes_ahead(cluster=cluster, parent=parent, after=now)),
        "may_edit": user_may(user=person_of(request), action="budgets_edit", project=parent),
        "standings": {child.pk: standings.get((cluster.pk, child.pk)) for child in form.children},
        "parent_gpus": float(gpus),
        "touching": touching,
        "all_stale": all(each.state == STALE for each in touching),
        "parent_exact": gpus,
        "parent_share": form.wholes.get("cluster", Fraction(0)) / 100,
        "parent_gpus_text": budget_units.decimal_text(gpus, places=2),
        "total_text": budget_units.percent_text(total),
        "left_text": budget_units.percent_text(abs(PPM - total)),
        "left_gpus_text": budget_units.gpus_words(budget_units.gpus_of_ppm(abs(PPM - total), gpus)),
        "total_permille": total * 1000 // PPM,
        "is_over": total > PPM,
        "others": others or [],
        "changes": changes[:HISTORY_ROWS],
        "more_changes": len(changes) > HISTORY_ROWS,
        "waiting": [each for each in reversed(changes) if each.state is ChangeState.PLANNED],
        "status": status,
        "cluster": cluster,
    }
    return render(request, "dashboard/budgets_level.html", context, status=status)
