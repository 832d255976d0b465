"""Hosts: every GPU with what it does; one host with its repair log; cordon and uncordon by operators."""

from collections import Counter
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render

from portal.clusters.health import host_override_lift
from portal.clusters.models import Host
from portal.clusters.services import host_cordon, host_uncordon, operator_require
from portal.common.errors import NotFound, Refused
from portal.dashboard.figures import parts_of
from portal.dashboard.forms import ReasonForm, errors_into
from portal.dashboard.frame import frame_of
from portal.dashboard.listing import PAGE_ROWS, Listing, choice, page_number
from portal.dashboard.pages import PageRequest, action, page
from portal.dashboard.selectors import STANDING_ORDER, HostUse, hosts_in_use

EVENTS_SHOWN = 100
KEYS = (*STANDING_ORDER, "held", "free", "unavailable")
STATES = ["schedulable", "cordoned", "unhealthy", "unreachable"]


@page
def hosts(request: PageRequest) -> HttpResponse:
    """The grid and the table; for htmx the part that refreshes."""
    template = "dashboard/parts/hosts.html" if request.htmx else "dashboard/hosts.html"
    return render(request, template, _hosts(request))


def _hosts(request: PageRequest) -> dict[str, Any]:
    frame = frame_of(request)
    state = choice(request, "state", STATES)
    used = hosts_in_use(cluster=frame.cluster, user=request.user, now=frame.now) if frame.cluster else []
    counts: Counter[str] = Counter()
    for host in used:
        counts.update(host.counts)
    shown = [host for host in used if not state or host.host.state == state]
    number = min(page_number(request), max(1, -(-len(shown) // PAGE_ROWS)))
    rows = shown[(number - 1) * PAGE_ROWS : number * PAGE_ROWS]
    ordered = {key: counts[key] for key in KEYS}
    return {
        "listing": Listing(rows, len(shown), number),
        "counts": ordered,
        "parts": parts_of(ordered),
        "gpus": sum(ordered.values()),
        "busy": sum(ordered[key] for key in STANDING_ORDER),
        "states": dict(Counter(host.host.state for host in used)),
        "state_choices": STATES,
        "chosen": state,
        "now": frame.now,
    }


def _host(name: str) -> Host:
    rows = Host.objects.filter(name=name, retired_at=None).select_related("cluster", "cordoned_by", "overridden_by")
    found = None if "\0" in name else rows.first()
    if found is None:
        raise NotFound(f"There is no host {name[:100]!r}.")
    return found


@page
def host(request: PageRequest, name: str) -> HttpResponse:
    """One host."""
    return _host_page(request, _host(name), ReasonForm(), 200)


def _host_page(request: PageRequest, found: Host, form: ReasonForm, status: int) -> HttpResponse:
    now = frame_of(request).now
    use = hosts_in_use(cluster=found.cluster, user=request.user, only=found, now=now)[0]
    context = {
        "host": found,
        "use": use,
        "counts": {key: use.counts.get(key, 0) for key in KEYS},
        "events": list(found.events.select_related("actor")[:EVENTS_SHOWN]),
        "form": form,
        "affected": affected_words(use),
        "may_run": request.user.is_site_wide,
        "now": now,
    }
    return render(request, "dashboard/host.html", context, status=status)


LEAVES = {
    "protected": "keeps its GPUs until its minimum runtime is over, then leaves",
    "funded": "is past its minimum runtime: leaves at once",
    "unallocated": "leaves at once",
    "stopping": "is stopping already",
    "held": "is to start here: decided anew",
}


def affected_words(use: HostUse) -> list[tuple[str, str, int]]:
    """Workloads on a host with what a cordon does to each, and their GPUs here; unseen ones without a name."""
    found: Counter[tuple[str, str]] = Counter()
    for gpu in use.gpus:
        if gpu.key in LEAVES:
            found[(gpu.words or "a workload that you don't see", LEAVES[gpu.key])] += 1
    return [(name, happens, gpus) for (name, happens), gpus in found.items()]


@action
def host_close(request: PageRequest, name: str) -> HttpResponse:
    """Cordon, with a reason."""
    found = _host(name)
    operator_require(request.user)
    form = ReasonForm(request.POST)
    if form.is_valid():
        try:
            reason = form.cleaned_data["reason"]
            host_cordon(host=found, reason=reason, actor=request.user, now=frame_of(request).now)
        except Refused as refused:
            errors_into(form, refused)
        else:
            messages.success(request, f"{name} is cordoned: it takes no new attempts and empties as contracts end.")
            return redirect("dashboard:host", name=name)
    return _host_page(request, found, form, 400)


@action
def host_open(request: PageRequest, name: str) -> HttpResponse:
    """Uncordon."""
    host_uncordon(host=_host(name), actor=request.user, now=frame_of(request).now)
    messages.success(request, f"{name} is uncordoned.")
    return redirect("dashboard:host", name=name)


@action
def host_judge(request: PageRequest, name: str) -> HttpResponse:
    """Lift a person's override: automation may find the host unhealthy again."""
    host_override_lift(host=_host(name), actor=request.user, now=frame_of(request).now)
    messages.success(request, f"Automation judges {name} again.")
    return redirect("dashboard:host", name=name)
