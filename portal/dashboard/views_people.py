"""People: the project tree with its leads, one project's people, their roles, and invitations by link."""

from typing import Any

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from portal.common.errors import Conflict, NotFound, Refused
from portal.common.models import AuditEntry
from portal.dashboard.audit_words import changes_of
from portal.dashboard.forms import errors_into
from portal.dashboard.forms_people import AcceptForm, InviteForm, RoleChangeForm, RoleForm
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import PageRequest, action, page
from portal.projects.models import Invitation, Membership, Project, Role
from portal.projects.selectors import invitations_visible, project_by_path, user_may, user_require
from portal.projects.selectors_people import memberships_reaching, places
from portal.projects.services import membership_grant, membership_set
from portal.projects.services_invitations import (
    invitation_accept,
    invitation_create,
    invitation_of_secret,
    invitation_revoke,
    invitation_take,
    invitations_open,
)

HISTORY_ROWS = 40


@page
def people(request: PageRequest) -> HttpResponse:
    """The tree that the person may see, with the people who have a role right in each project."""
    archived = request.GET.get("archived", "") == "1"
    rows = places(user=request.user, archived=True)
    shown = [row for row in rows if archived or row.project.archived_at is None]
    context = {
        "rows": shown,
        "archived": archived,
        "archived_count": sum(row.project.archived_at is not None for row in rows),
        "led": sum(row.own_role == Role.LEAD for row in shown),
        "leaderless": [row for row in shown if row.project.parent_id is None and not row.leads],
    }
    return render(request, "dashboard/people.html", context)


@page
def project_people(request: PageRequest, path: str) -> HttpResponse:
    """Who has a role in one project, and what was changed in it."""
    return _project_page(request, project_by_path(user=request.user, path=path))


def _project_page(
    request: PageRequest,
    project: Project,
    *,
    role_form: RoleForm | None = None,
    invite_form: InviteForm | None = None,
    link: str = "",
    status: int = 200,
) -> HttpResponse:
    now = frame_of(request).now
    may_edit = user_may(user=request.user, action="project_edit", project=project)
    above = project.parent or project
    reaching = memberships_reaching(project=project)
    invitations = list(invitations_open(project=project, now=now).select_related("invited_by")) if may_edit else []
    context = {
        "project": project,
        "own": [each for each in reaching if each.project_id == project.pk],
        "inherited": [each for each in reaching if each.project_id != project.pk],
        "roles": Role.choices,
        "may_edit": may_edit,
        "may_place": user_may(user=request.user, action="project_edit", project=above),
        "role_form": role_form or RoleForm(),
        "invite_form": invite_form or InviteForm(),
        "invitations": invitations,
        "link": link,
        "history": [(entry, changes_of(entry)) for entry in _history(project, with_invitations=may_edit)],
        "now": now,
    }
    response = render(request, "dashboard/project_people.html", context, status=status)
    response["Cache-Control"] = "no-store"
    return response


def _history(project: Project, *, with_invitations: bool) -> list[AuditEntry]:
    """The newest changes of the project itself and of its people."""
    about = Q(target_type="project", target_id=project.pk)
    if with_invitations:
        ids = list(Invitation.objects.filter(project=project).values_list("pk", flat=True)[:1000])
        about |= Q(target_type="invitation", target_id__in=ids)
    return list(AuditEntry.objects.filter(about).select_related("actor").order_by("-at", "-pk")[:HISTORY_ROWS])


@action
def role_give(request: PageRequest, path: str) -> HttpResponse:
    """A role for somebody by their user name."""
    project = project_by_path(user=request.user, path=path)
    user_require(user=request.user, action="project_edit", project=project)
    form = RoleForm(request.POST)
    if form.is_valid():
        username, role = form.cleaned_data["user"], form.cleaned_data["role"]
        now = frame_of(request).now
        try:
            membership_grant(username=username, project=project, role=role, actor=request.user, now=now)
        except (Refused, Conflict) as error:
            errors_into(form, error)
        else:
            messages.success(request, f"{username} is {role} of {project.path} and all below it.")
            return redirect("dashboard:project_people", path=project.path)
    return _project_page(request, project, role_form=form, status=400)


@action
def role_change(request: PageRequest, path: str) -> HttpResponse:
    """Another role for somebody in the list, or none; what was refused is said in the page."""
    project = project_by_path(user=request.user, path=path)
    user_require(user=request.user, action="project_edit", project=project)
    form = RoleChangeForm(request.POST)
    if not form.is_valid():
        raise Refused("The form is incomplete: open the page again.")
    username, role = form.cleaned_data["user"], form.cleaned_data["role"] or None
    held = Membership.objects.filter(project=project, user__username=username).select_related("user").first()
    if held is None and role is not None:
        raise NotFound(f"{username} has no role in {project.path} any more.")
    if held is not None:
        try:
            membership_set(
                user=held.user,
                project=project,
                role=role,
                actor=request.user,
                now=frame_of(request).now,
                base_version=form.cleaned_data["base_version"],
            )
        except (Refused, Conflict) as error:
            messages.error(request, error.detail)
            return _project_page(request, project, status=error.status)
    messages.success(request, f"{username} is {role} of {project.path}." if role else f"{username} is removed.")
    return redirect("dashboard:project_people", path=project.path)


@action
def invite(request: PageRequest, path: str) -> HttpResponse:
    """An invitation; its link is in this answer and nowhere else."""
    project = project_by_path(user=request.user, path=path)
    user_require(user=request.user, action="project_edit", project=project)
    form = InviteForm(request.POST)
    if form.is_valid():
        label, role = form.cleaned_data["label"], form.cleaned_data["invite_role"]
        now = frame_of(request).now
        try:
            _, secret = invitation_create(project=project, role=role, label=label, actor=request.user, now=now)
        except Refused as refused:
            errors_into(form, refused, {"role": "invite_role"})
        else:
            link = request.build_absolute_uri(reverse("dashboard:invitation", args=[secret]))
            return _project_page(request, project, link=link)
    return _project_page(request, project, invite_form=form, status=400)


@action
def invitation_end(request: PageRequest, invitation_id: int) -> HttpResponse:
    """Withdraw an invitation."""
    seen = invitations_visible(user=request.user).select_related("project")
    invitation = seen.filter(pk=invitation_id).first()
    if invitation is None:
        raise NotFound("There is no such invitation to a project that you lead.")
    invitation_revoke(invitation=invitation, actor=request.user, now=frame_of(request).now)
    messages.success(request, f"The invitation for {invitation.label} is withdrawn: its link works no longer.")
    return redirect("dashboard:project_people", path=invitation.project.path)


@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """The page behind a link: make an account, or take the role with the one that has signed in."""
    now = frame_of(request).now
    found = invitation_of_secret(secret=secret, now=now)
    form = AcceptForm(request.POST if request.method == "POST" and not request.user.is_authenticated else None)
    status = 200
    if request.method == "POST":
        answer, status = _accepted(request, secret, form)
        if answer is not None:
            return answer
    context: dict[str, Any] = {"invitation": found, "form": form, "now": now}
    response = render(request, "dashboard/invitation.html", context, status=status)
    response["Cache-Control"] = "no-store"
    return response


def _accepted(request: HttpRequest, secret: str, form: AcceptForm) -> tuple[HttpResponse | None, int]:
    now = frame_of(request).now
    if request.user.is_authenticated:
        taken = invitation_take(secret=secret, user=request.user, now=now)
        messages.success(request, f"You are {taken.role} of {taken.project.path} now.")
        return redirect("dashboard:project", path=taken.project.path), 200
    if not form.is_valid():
        return None, 400
    username, password = form.cleaned_data["username"], form.cleaned_data["password"]
    try:
        invitation_accept(secret=secret, username=username, password=password, now=now)
    except Refused as refused:
        errors_into(form, refused)
        return None, refused.status
    messages.success(request, f"The account {username} is made. Sign in with it.")
    return redirect("account_login"), 200
