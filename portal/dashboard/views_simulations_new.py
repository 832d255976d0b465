"""Asking for a simulation: pick what is replayed, change what shall be different, upload a trace."""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.timezone import localdate
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from portal.budgets.selectors import budgets_at
from portal.clusters.models import Cluster
from portal.clusters.selectors import hosts_installed, policy_values
from portal.common.errors import Conflict, Forbidden, NotFound, Refused
from portal.dashboard.forms_simulations import SimulationForm, policy_initial
from portal.dashboard.frame import frame_of
from portal.dashboard.listing import choice
from portal.dashboard.pages import PageRequest, form_page
from portal.dashboard.simulation_building import Wanted, wanted_of
from portal.projects.models import Project
from portal.projects.selectors import projects_visible
from portal.simulations.models import Run, Source, UploadedTrace
from portal.simulations.names import names_hidden, scenario_seen
from portal.simulations.selectors import may_run, run_by_id, sees_all, traces_of
from portal.simulations.services import run_request, trace_store

DAYS = 14
TRACES_OFFERED = 20
FORM_BYTES = 4 * 1024**2
"""What the form may have beside its file."""
SOURCE_WORDS = {
    Source.HISTORY: "What ran here is submitted again, at the moments at which it was, and runs as long as it did.",
    Source.TRACE: "A file with jobs of this or another place runs on this cluster's hosts.",
    Source.GENERATOR: "A research laboratory that asks for two to three times what there is.",
}

View = Callable[..., HttpResponseBase]


def upload_bounded(view: View) -> View:
    """Refuse a body that is too large before any of it is read."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        length = request.META.get("CONTENT_LENGTH") or "0"
        if int(length) > settings.SIMULATION_TRACE_BYTES + FORM_BYTES:
            megabytes = settings.SIMULATION_TRACE_BYTES // 1024**2
            raise Refused(f"The trace has more than {megabytes} MB, the most that may be uploaded.", attr="upload")
        return view(request, *args, **kwargs)

    return checked


# The form's secret is read from the body, and so looked for after its size.
@csrf_exempt
@form_page
@upload_bounded
@csrf_protect
def simulation_new(request: PageRequest) -> HttpResponseBase:
    """GET shows the form (`?from=` fills it with an earlier run), POST queues the run."""
    if not may_run(user=request.user):
        raise Forbidden("Leads of a project and operators run simulations; anyone may read them.")
    cluster = frame_of(request).cluster
    if cluster is None:
        raise NotFound("There is no cluster yet. An operator makes one and registers its hosts.", attr="cluster")
    earlier = _earlier(request)
    source = choice(request, "source", list(Source.values)) or (earlier.source if earlier else str(Source.HISTORY))
    if request.method == "POST":
        form = _form(request, cluster, source, data=request.POST, files=request.FILES)
        if form.is_valid() and (answer := _asked(request, form, cluster)) is not None:
            return answer
    else:
        form = _form(request, cluster, source, initial=_initial(request, cluster, source, earlier))
    context = {
        "form": form,
        "source": source,
        "sources": [(value, label, SOURCE_WORDS[Source(value)]) for value, label in Source.choices],
        "cluster": cluster,
        "rows_left_out": form.rows_left_out,
        "sees_all": sees_all(user=request.user),
        "may_json": source != Source.HISTORY or sees_all(user=request.user),
        "earlier": earlier,
    }
    return render(request, "dashboard/simulation_new.html", context, status=400 if form.errors else 200)


def _form(request: PageRequest, cluster: Cluster, source: str, **given: Any) -> SimulationForm:
    visible = projects_visible(user=request.user).filter(archived_at=None, parent__isnull=False)
    projects: list[Project] = sorted(visible[:5000], key=lambda each: each.path.split("/"))
    traces = [
        (trace.pk, f"{trace.name}, {trace.created_at:%-d %b %Y}")
        for trace in traces_of(user=request.user)[:TRACES_OFFERED]
    ]
    return SimulationForm(
        given.pop("data", None),
        given.pop("files", None),
        source=source,
        projects=projects,
        lines=budgets_at(cluster=cluster, at=frame_of(request).now),
        traces=traces,
        **given,
    )


def _initial(request: PageRequest, cluster: Cluster, source: str, earlier: Run | None) -> dict[str, Any]:
    today = localdate()
    hosts = hosts_installed(cluster=cluster).count()
    initial = {
        **policy_initial(policy_values(cluster=cluster)),
        "from": today - timedelta(days=DAYS),
        "hosts": hosts or None,
        "days": DAYS if source == Source.GENERATOR else None,
        "warmup_days": 7,
        "seed": 1,
        "whose": "teams",
    }
    if earlier is None:
        return initial
    if earlier.history_from and earlier.history_to:
        initial |= {"from": localdate(earlier.history_from), "to": localdate(earlier.history_to)}
    initial |= {"title": f"{earlier.title}, again"[:200], "seed": earlier.seed, "kept": earlier.trace_id}
    hidden = names_hidden(run=earlier, user=request.user)
    if source != Source.HISTORY or not hidden:
        initial["json"] = json.dumps(scenario_seen(earlier.scenario, hidden), indent=2)
    return initial


def _earlier(request: PageRequest) -> Run | None:
    text = request.GET.get("from", "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Refused(f"from is {text[:40]!r}; it must be a simulation's number.", attr="from")
    return run_by_id(run_id=int(text))


def _asked(request: PageRequest, form: SimulationForm, cluster: Cluster) -> HttpResponse | None:
    """Queue it; or, where the form was asked for its JSON, put that into it. None: something is refused."""
    now = frame_of(request).now
    if form.cleaned_data["given"] is not None and form.source == Source.HISTORY and not sees_all(user=request.user):
        form.add_error("json", "A history's scenario names every project: only who sees all of them may write it.")
        return None
    try:
        wanted = wanted_of(form, cluster=cluster, now=now)
        if "as_json" in request.POST:
            _json_into(request, form, wanted)
            return None
        run = run_request(
            cluster=cluster,
            scenario=wanted.scenario,
            title=form.cleaned_data["title"],
            author=request.user,
            now=now,
            source=form.source,
            history=wanted.history,
            trace=_trace(request, form),
            seed=wanted.seed,
            changes=wanted.changes,
        )
    except (Refused, NotFound, Conflict) as error:
        form.refusal_add(error)
        return None
    messages.success(request, f"Simulation {run.pk} is queued.")
    return redirect("dashboard:simulation", run_id=run.pk)


def _json_into(request: PageRequest, form: SimulationForm, wanted: Wanted) -> None:
    data = request.POST.copy()
    data["json"] = json.dumps(wanted.scenario, indent=2)
    form.data = data


def _trace(request: PageRequest, form: SimulationForm) -> UploadedTrace | None:
    if form.source != Source.TRACE:
        return None
    upload = form.cleaned_data.get("upload")
    if upload is not None:
        return trace_store(name=upload.name, content=upload.read(), author=request.user, now=frame_of(request).now)
    return traces_of(user=request.user).filter(pk=form.cleaned_data["kept"]).first()
