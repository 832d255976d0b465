"""The form that submits, and its effect in words before it is sent."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import NON_FIELD_ERRORS
from django.http import HttpResponse
from django.shortcuts import redirect, render

from portal.clusters.models import Cluster
from portal.common.errors import Conflict, Forbidden, NotFound, Refused, Unavailable
from portal.common.units import DurationError, duration_parse
from portal.dashboard.forms import SubmitForm, errors_into, submit_initial
from portal.dashboard.frame import frame_of
from portal.dashboard.pages import PageRequest, form_page, page
from portal.projects.models import Project
from portal.projects.selectors import project_by_path, projects_submittable
from portal.scheduling.preview import Preview, submission_preview
from portal.workloads.selectors import workload_visible
from portal.workloads.services import submission_problems, workload_submit

COUNT_MOST = 1_048_576


@form_page
def submit(request: PageRequest) -> HttpResponse:
    """GET shows the form (`?from=` fills it with an earlier workload), POST submits once."""
    projects = list(projects_submittable(user=request.user).values_list("path", flat=True))
    clusters = [cluster.name for cluster in frame_of(request).clusters]
    if request.method == "POST":
        form = SubmitForm(request.POST, projects=projects, clusters=clusters)
        if not form.is_valid():
            _rules_into(request, form)
        elif answer := _submitted(request, form):
            return answer
    else:
        form = SubmitForm(initial=_initial(request), projects=projects, clusters=clusters)
    context = {"form": form, "has_projects": bool(projects), "has_clusters": bool(clusters), **_effect(request, form)}
    return render(request, "dashboard/submit.html", context, status=_status(form))


def _rules_into(request: PageRequest, form: SubmitForm) -> None:
    """What the rules say of the fields whose shape is right stands beside what is wrong with the shape of others."""
    given, wrong = form.readable()
    if not given.get("project"):
        return
    if problems := submission_problems(author=request.user, given=given, left_out=wrong):
        errors_into(form, Refused.many(problems), SubmitForm.RENAMED)


def _submitted(request: PageRequest, form: SubmitForm) -> HttpResponse | None:
    try:
        workload, created = workload_submit(author=request.user, now=frame_of(request).now, **form.body())
    except (Refused, NotFound, Conflict, Unavailable) as error:
        errors_into(form, error, SubmitForm.RENAMED)
        return None
    if created:
        messages.success(request, f"Workload {workload.pk} is submitted.")
    else:
        messages.warning(request, f"This form was sent before: workload {workload.pk} is the one that it made.")
    return redirect("dashboard:workload", workload_id=workload.pk)


def _status(form: SubmitForm) -> int:
    if form.has_error(NON_FIELD_ERRORS, Unavailable.code):
        return Unavailable.status
    return 400 if form.errors else 200


def _initial(request: PageRequest) -> dict[str, Any]:
    earlier = request.GET.get("from", "")
    if not earlier:
        return {"project": request.GET.get("project", ""), "cluster": request.GET.get("cluster", "")}
    if not earlier.isascii() or not earlier.isdigit() or len(earlier) > 18:
        raise Refused(f"from is {earlier[:40]!r}; it must be a workload's number.", attr="from")
    return submit_initial(workload_visible(user=request.user, workload_id=int(earlier)))


@page
def submit_effect(request: PageRequest) -> HttpResponse:
    """What the form as it stands would mean, for htmx; nothing is changed."""
    data = request.GET
    context = _effect_of(request, {name: data.get(name, "") for name in EFFECT_FIELDS})
    return render(request, "dashboard/parts/submit_effect.html", context)


EFFECT_FIELDS = ("project", "cluster", "replicas", "gpus_per_replica", "min_runtime", "allow_unallocated", "resumable")


def _effect(request: PageRequest, form: SubmitForm) -> dict[str, Any]:
    values = {name: form[name].value() for name in EFFECT_FIELDS}
    if not values["project"]:
        choices = form.fields["project"].widget.choices
        values["project"] = choices[0][0] if choices else ""
    return _effect_of(request, values)


def _effect_of(request: PageRequest, values: dict[str, Any]) -> dict[str, Any]:
    frame = frame_of(request)
    replicas, gpus_per_replica = _count(values["replicas"]), _count(values["gpus_per_replica"])
    seconds = _seconds(values["min_runtime"])
    project = _project(request, str(values["project"] or ""))
    cluster = next((c for c in frame.clusters if c.name == values["cluster"]), frame.cluster)
    if project is None or cluster is None or not replicas or not gpus_per_replica or seconds is None:
        return {"preview": None}
    given = {"replicas": replicas, "gpus_per_replica": gpus_per_replica, "min_runtime_seconds": seconds}
    if refusals := _refusals(request, project, str(values["cluster"] or ""), given):
        return {"preview": None, "refusals": refusals}
    found = _preview(cluster, project, replicas * gpus_per_replica, seconds, frame.now)
    may_run = bool(values["allow_unallocated"]) and bool(values["resumable"])
    return {
        "preview": found,
        "runs_unallocated": may_run or seconds == 0,
        "effect_project": project,
        "seconds": seconds,
    }


def _refusals(request: PageRequest, project: Project, cluster: str, given: dict[str, Any]) -> list[str]:
    """Why it would be refused as it stands; what is not filled in yet is no reason."""
    asked = {**given, "project": project.path, "clusters": [cluster] if cluster else []}
    try:
        problems = submission_problems(author=request.user, given=asked, left_out={"command", "script"})
    except Forbidden as forbidden:
        return [forbidden.detail]
    return [problem.detail for problem in problems]


def _preview(cluster: Cluster, project: Project, gpus: int, seconds: int, now: Any) -> Preview:
    return submission_preview(cluster=cluster, project=project, gpus=gpus, min_runtime_seconds=seconds, now=now)


def _count(text: Any) -> int | None:
    cleaned = str(text or "").strip()
    if not cleaned.isascii() or not cleaned.isdigit() or len(cleaned) > 7:
        return None
    number = int(cleaned)
    return number if 1 <= number <= COUNT_MOST else None


def _seconds(text: Any) -> int | None:
    try:
        return duration_parse(str(text or "0"))
    except DurationError:
        return None


def _project(request: PageRequest, path: str) -> Project | None:
    try:
        return project_by_path(user=request.user, path=path)
    except NotFound:
        return None
