"""Forms that change the project tree. Each says in words what it will do before it is saved."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render

from portal.common.errors import CommonsError, Conflict, NotFound, Refused
from portal.common.models import AuditEntry
from portal.dashboard import people_effects
from portal.dashboard.audit_words import changes_of
from portal.dashboard.forms import errors_into
from portal.dashboard.forms_people import ProjectMoveForm, ProjectNewForm, ProjectRenameForm, VersionedForm
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import PageRequest, form_page
from portal.projects.models import Project, User
from portal.projects.selectors import project_by_path, projects_led, user_require
from portal.projects.services import project_change, project_create_once
from portal.projects.tree import parent_lead_require
from portal.scheduling.project_tree import project_archive, project_move, project_unarchive

Values = dict[str, Any]


@dataclass(frozen=True)
class TreeForm:
    """A page with one form: its words, what it would do, and what it does."""

    title: str
    crumb: str
    sub: str
    verb: str
    form: forms.Form
    effects: Callable[[Values], list[str]]
    save: Callable[[Values], Project]
    said: str
    obstacles: tuple[str, ...] = ()
    danger: bool = False
    empty: str = "Fill in the form: this says what it would do."


@form_page
def project_new(request: PageRequest, path: str) -> HttpResponse:
    """A project below another."""
    parent = _led(request, path)
    tree_form = TreeForm(
        title=f"New project below {parent.path}",
        crumb="New project",
        sub="A node of the tree: people and budgets of its own, inherited by what is made below it.",
        verb="Make the project",
        form=ProjectNewForm(_data(request)),
        effects=lambda values: people_effects.create_effects(parent=parent, slug=str(values.get("slug") or "")),
        save=lambda cleaned: project_create_once(parent=parent, actor=request.user, now=_now(request), **cleaned)[0],
        said="{path} is made. It has no budget yet.",
    )
    return _answer(request, parent, tree_form)


@form_page
def project_rename(request: PageRequest, path: str) -> HttpResponse:
    """Another name, path or description."""
    project = _led(request, path)
    initial = {"name": project.name, "slug": project.slug, "description": project.description}

    def effects(values: Values) -> list[str]:
        texts = {name: str(values.get(name) or "").strip() for name in initial}
        return people_effects.rename_effects(project=project, **texts)

    tree_form = TreeForm(
        title=f"Rename {project.path}",
        crumb="Rename",
        sub="Name and description are for people; the slug is its part of the path.",
        verb="Save",
        form=ProjectRenameForm(_data(request), initial={**initial, "base_version": project.version}),
        effects=effects,
        save=lambda cleaned: project_change(project=project, actor=request.user, now=_now(request), **cleaned),
        said="{path} is saved.",
    )
    return _answer(request, project, tree_form)


@form_page
def project_place(request: PageRequest, path: str) -> HttpResponse:
    """Another parent."""
    project = _led_above(request, path)
    if project.parent is None:
        raise Refused("The root of the tree can't be moved.")
    targets = _targets(request.user, project)
    by_path = {target.path: target for target in targets}

    def effects(values: Values) -> list[str]:
        parent = by_path.get(str(values.get("parent") or ""))
        if parent is None:
            return []
        return people_effects.move_effects(project=project, parent=parent, at=_now(request))

    def save(cleaned: Values) -> Project:
        parent = by_path.get(cleaned["parent"]) or _other_parent(request.user, project, cleaned["parent"])
        version, now = cleaned["base_version"], _now(request)
        return project_move(project=project, parent=parent, actor=request.user, now=now, base_version=version)

    tree_form = TreeForm(
        title=f"Move {project.path}",
        crumb="Move",
        sub=f"With all below it. It hangs below {project.parent.path} now.",
        verb="Move it",
        form=ProjectMoveForm(_data(request), targets=targets, initial={"base_version": project.version}),
        effects=effects,
        save=save,
        said="It is {path} now.",
        obstacles=tuple(people_effects.plan_obstacles(project=project, at=_now(request))),
        empty="Choose where it is to hang: this says what that would do.",
    )
    return _answer(request, project, tree_form)


def _targets(user: User, project: Project) -> list[Project]:
    """Where it may hang: live projects that the person leads, neither below it nor where it is."""
    led = projects_led(user=user).filter(archived_at=None).exclude(pk__in=[project.pk, project.parent_id])
    return list(led.exclude(path__startswith=f"{project.path}/").order_by("path"))


def _other_parent(user: User, project: Project, path: str) -> Project:
    """A path that was not offered: the service says what is wrong with it."""
    try:
        return project_by_path(user=user, path=path)
    except NotFound as error:
        raise Refused(error.detail, attr="parent", code="unknown_project") from None


@form_page
def project_close(request: PageRequest, path: str) -> HttpResponse:
    """Archiving."""
    project = _led_above(request, path)
    if project.parent is None:
        raise Refused("The root of the tree can't be archived.")
    tree_form = TreeForm(
        title=f"Archive {project.path}",
        crumb="Archive",
        sub="It closes, and nothing of it is deleted.",
        verb="Archive it",
        form=VersionedForm(_data(request), initial={"base_version": project.version}),
        effects=lambda _: people_effects.archive_effects(project=project, at=_now(request)),
        save=lambda cleaned: project_archive(project=project, actor=request.user, now=_now(request), **cleaned),
        said="{path} is archived.",
        obstacles=tuple(people_effects.archive_obstacles(project=project, at=_now(request))),
        danger=True,
    )
    return _answer(request, project, tree_form)


@form_page
def project_open(request: PageRequest, path: str) -> HttpResponse:
    """Bringing back."""
    project = _led_above(request, path)
    above = project.parent
    obstacles = [f"{above.path} is archived: bring it back first."] if above and above.archived_at else []
    tree_form = TreeForm(
        title=f"Bring {project.path} back",
        crumb="Bring back",
        sub="It was archived; it opens again.",
        verb="Bring it back",
        form=VersionedForm(_data(request), initial={"base_version": project.version}),
        effects=lambda _: people_effects.unarchive_effects(project=project),
        save=lambda cleaned: project_unarchive(project=project, actor=request.user, now=_now(request), **cleaned),
        said="{path} is open again.",
        obstacles=tuple(obstacles),
    )
    return _answer(request, project, tree_form)


def _led(request: PageRequest, path: str) -> Project:
    project = project_by_path(user=request.user, path=path)
    user_require(user=request.user, action="project_edit", project=project)
    return project


def _led_above(request: PageRequest, path: str) -> Project:
    project = project_by_path(user=request.user, path=path)
    parent_lead_require(project, request.user)
    return project


def _data(request: PageRequest) -> Any:
    return request.POST if request.method == "POST" else None


def _now(request: PageRequest) -> Any:
    return frame_of(request).now


def _answer(request: PageRequest, project: Project, page: TreeForm) -> HttpResponse:
    """The form; for htmx what it would do; once sent, what it did or why not."""
    form = page.form
    if request.htmx:
        values = {name: request.GET.get(name, "") for name in form.fields}
        return render(request, "dashboard/parts/tree_effect.html", {"effects": page.effects(values), "page": page})
    status, conflict = 200, None
    if request.method == "POST" and "look" not in request.POST and form.is_valid():
        try:
            saved = page.save(form.cleaned_data)
        except (Refused, Conflict) as error:
            errors_into(form, error, {"base_version": ""})
            status = error.status
            conflict = _what_changed(project) if _is_stale(error) else None
        else:
            messages.success(request, page.said.format(path=saved.path))
            return redirect("dashboard:project_people", path=saved.path)
    if form.is_bound and form.errors and status == 200:
        status = 400
    context = {
        "project": project,
        "page": page,
        "form": form,
        "effects": page.effects({name: form[name].value() for name in form.fields}),
        "conflict": conflict,
        "base_version": _base_version(form, project, conflict is not None),
    }
    return render(request, "dashboard/tree_form.html", context, status=status)


def _base_version(form: forms.Form, project: Project, seen_anew: bool) -> Any:
    """What the next save is based on: after a conflict, what the person sees now."""
    if seen_anew:
        return Project.objects.values_list("version", flat=True).get(pk=project.pk)
    return form["base_version"].value() if "base_version" in form.fields else None


def _is_stale(error: CommonsError) -> bool:
    return isinstance(error, Conflict) and error.current_version is not None


def _what_changed(project: Project) -> dict[str, Any] | None:
    """The latest change of the project: what the person had not seen."""
    mine = AuditEntry.objects.filter(target_type="project", target_id=project.pk).exclude(action="membership_set")
    entry = mine.select_related("actor").first()
    return {"entry": entry, "changes": changes_of(entry)} if entry else None
