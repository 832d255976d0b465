"""One budget change, and taking it back; the history of one project's budget."""

from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.budgets.history import Recorded, changes_of_project, changes_recorded, changes_visible, planned_after
from portal.budgets.models import BudgetChange
from portal.budgets.selectors import (
    NO_BUDGET,
    budgets_at,
    changes_ahead,
    effects_of_planned,
    level_at,
    version_of_level,
)
from portal.budgets.undo import budget_change_undo, undo_lines
from portal.common.errors import Conflict, NotFound, Refused
from portal.dashboard.budget_history import ChangeView, change_view, changes_shown, line_text, planned_words
from portal.dashboard.frame import frame_of
from portal.dashboard.listing import listing_of
from portal.dashboard.pages import form_page, page
from portal.dashboard.people import person_of
from portal.dashboard.views_budgets import ancestors, cluster_required
from portal.dashboard.views_budgets_level import changes_after
from portal.projects.models import Project
from portal.projects.selectors import project_by_path, projects_visible, user_may, user_require


class UndoForm(forms.Form):
    """Why a change is taken back, when, and on top of which version."""

    base_version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    reason = forms.CharField(
        label="Reason",
        max_length=10_000,
        help_text="What the others read in the history: why it is taken back.",
        widget=forms.Textarea(attrs={"rows": 2, "class": "prose"}),
        error_messages={"required": "Give the reason for this change."},
    )
    effective_at = forms.DateTimeField(
        required=False,
        label="Takes effect",
        help_text=f"Empty: at once. In {settings.SITE_ZONE}, such as 2026-12-01 08:00.",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "class": "form-control"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
    )

    def __init__(self, data: Any = None, *, version: int, is_planned: bool) -> None:
        super().__init__(data, initial={"base_version": version})
        if is_planned:
            del self.fields["effective_at"]

    def refusal_add(self, refusal: Refused) -> None:
        """Beside its field where the form has one, else at the top."""
        for each in refusal.errors:
            self.add_error(each.attr if each.attr in self.fields else None, each.detail)


@form_page
def change(request: HttpRequest, change_id: int) -> HttpResponse:
    """A change: who, when, why, from and to, what has become of it; and undoing or withdrawing it."""
    found = changes_visible(user=person_of(request)).filter(pk=change_id).first()
    if found is None:
        raise NotFound(f"There is no budget change {change_id} that you may see.")
    [recorded] = changes_recorded(changes=[found], at=frame_of(request).now)
    shown = change_view(recorded, at=frame_of(request).now)
    version = version_of_level(cluster=found.cluster, parent=found.parent)
    if request.method == "POST":
        user_require(user=person_of(request), action="budgets_edit", project=found.parent)
        return _undo_post(request, recorded, shown, version)
    form = UndoForm(version=version, is_planned=shown.is_planned)
    return _change_page(request, recorded, shown, form, version)


def _undo_post(request: HttpRequest, recorded: Recorded, shown: ChangeView, version: int) -> HttpResponse:
    found = recorded.change
    form = UndoForm(request.POST, version=version, is_planned=shown.is_planned)
    if not form.is_valid():
        return _change_page(request, recorded, shown, form, version, status=400)
    try:
        made = budget_change_undo(
            change=found,
            base_version=form.cleaned_data["base_version"],
            reason=form.cleaned_data["reason"],
            author=person_of(request),
            effective_at=form.cleaned_data.get("effective_at"),
            now=frame_of(request).now,
        )
    except Conflict as conflict:
        others = changes_after(request, found.cluster, found.parent, form.cleaned_data["base_version"])
        data = request.POST.copy()
        data["base_version"] = str(conflict.current_version)
        again = UndoForm(data, version=version, is_planned=shown.is_planned)
        return _change_page(request, recorded, shown, again, version, status=409, others=others)
    except Refused as refusal:
        form.refusal_add(refusal)
        return _change_page(request, recorded, shown, form, version, status=400)
    words = "withdrawn" if made.withdraws_id else f"undone by version {made.version}"
    [undoing] = changes_recorded(changes=[made], at=frame_of(request).now)
    planned = planned_words(planned_after(recorded=undoing, at=frame_of(request).now))
    messages.success(request, " ".join([f"Version {found.version} is {words}.", *planned]))
    return redirect(f"{reverse('dashboard:budgets_level', args=[found.parent.path])}?cluster={found.cluster.name}")


def _change_page(
    request: HttpRequest,
    recorded: Recorded,
    shown: ChangeView,
    form: UndoForm,
    version: int,
    *,
    status: int = 200,
    others: list[ChangeView] | None = None,
) -> HttpResponse:
    now, found = frame_of(request).now, recorded.change
    may_edit = user_may(user=person_of(request), action="budgets_edit", project=found.parent)
    may_undo = may_edit and shown.may_be_taken_back
    effects, planned = _undo_effects(recorded, now) if may_undo and not shown.is_planned else ([], [])
    context = {
        "each": shown,
        "change": found,
        "ancestors": ancestors(found.parent),
        "form": form,
        "may_undo": may_undo,
        "may_edit": may_edit,
        "undone_by": list(found.undone_by.select_related("author")),
        "effects": effects,
        "planned_words": planned,
        "newest": version,
        "others": others or [],
        "status": status,
    }
    return render(request, "dashboard/budgets_change.html", context, status=status)


def _undo_effects(recorded: Recorded, now: datetime) -> tuple[list[tuple[str, str, str]], list[str]]:
    """(name, now, then) of what undoing the change at once would move; what of it planned changes would set back."""
    cluster, parent = recorded.change.cluster, recorded.change.parent
    standing = level_at(cluster=cluster, parent=parent, at=now).lines
    lines = undo_lines(recorded=recorded, at=now)
    moves = [
        (project.name, line_text(standing.get(project.pk)), line_text(line))
        for project, line in lines.items()
        if line != standing.get(project.pk, NO_BUDGET)
    ]
    planned = effects_of_planned(
        before=standing,
        after={project.pk: line for project, line in lines.items()},
        ahead=changes_ahead(cluster=cluster, parent=parent, after=now),
        projects={project.pk: project for project in lines},
    )
    return moves, planned_words(planned)


@page
def history(request: HttpRequest, path: str) -> HttpResponse:
    """Every change of one project's budget on the cluster, the newest first."""
    frame, cluster = frame_of(request), cluster_required(request)
    project = project_by_path(user=person_of(request), path=path)
    changes = _moving(changes_of_project(cluster=cluster, project=project), project, frame.now)
    listing = listing_of(request, changes, sorts={"when": "created_at"}, default="-when")
    shown = changes_shown(listing.rows, at=frame.now, project=project)
    parents = set(projects_visible(user=person_of(request)).values_list("pk", flat=True))
    context = {
        "project": project,
        "ancestors": ancestors(project),
        "cluster": cluster,
        "listing": listing,
        "rows": [(each, each.change.parent_id in parents) for each in shown],
        "line": line_text(budgets_at(cluster=cluster, at=frame.now).get(project.pk)),
    }
    return render(request, "dashboard/budgets_history.html", context)


def _moving(changes: QuerySet[BudgetChange], project: Project, now: datetime) -> QuerySet[BudgetChange]:
    """Only the changes that moved the project's own budget."""
    recorded = changes_recorded(changes=changes, at=now, project=project)
    return changes.filter(pk__in=[each.change.pk for each in recorded if each.moves])
