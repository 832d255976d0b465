"""Workloads: the list, one with its timeline, its log, cancel."""

import re
import shlex
from typing import Any

from django.contrib import messages
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.timezone import localtime

from portal.common.errors import Refused
from portal.common.units import moment_of
from portal.dashboard.frame import frame_of
from portal.dashboard.listing import choice, listing_of
from portal.dashboard.pages import PageRequest, action, page
from portal.dashboard.selectors import active_standings, attempt_stories, hosts_closed, states_in_words
from portal.dashboard.timeline import timeline_of
from portal.projects.selectors import project_by_path, projects_visible, user_may
from portal.workloads.models import Workload
from portal.workloads.selectors import events_told, log_size, workload_log, workload_visible, workloads_visible
from portal.workloads.services import FINAL_STATES, workload_cancel

TAIL_BYTES = 65_536
EVENTS_SHOWN = 200
REPLICAS_SHOWN = 64
LEGEND = ("wait", "held", "protected", "funded", "unallocated", "stopping", "refunded")
PLAIN_WORD = re.compile(r"[\w@%+=:,./{}\[\]~^-]+")
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@page
def workloads(request: PageRequest) -> HttpResponse:
    """Everything that was ever submitted, newest first, as far as the person may see it."""
    states = states_in_words()
    state = choice(request, "state", [key for key, _ in states])
    path = request.GET.get("project", "")
    author = request.GET.get("author", "")[:150].replace("\0", "")
    rows = workloads_visible(user=request.user).select_related("project", "author")
    if state:
        rows = rows.filter(state=state)
    if path:
        project = project_by_path(user=request.user, path=path)
        rows = rows.filter(Q(project=project) | Q(project__path__startswith=f"{project.path}/"))
    if author:
        rows = rows.filter(author__username=author)
    listing = listing_of(request, rows, sorts={"submitted": "pk"}, default="-submitted", count_most=10_000)
    context = {
        "listing": listing,
        "standings": active_standings(workload_ids=[row.pk for row in listing.rows]),
        "states": states,
        "projects": list(projects_visible(user=request.user).values_list("path", flat=True)),
        "chosen": {"state": state, "project": path, "author": author},
        "filtered": bool(state or path or author),
        "now": frame_of(request).now,
    }
    return render(request, "dashboard/workloads.html", context)


@page
def workload(request: PageRequest, workload_id: int) -> HttpResponse:
    """One workload; for htmx the part that refreshes."""
    found = workload_visible(user=request.user, workload_id=workload_id)
    context = _workload(request, found)
    template = "dashboard/parts/workload.html" if request.htmx else "dashboard/workload.html"
    return render(request, template, context)


def _workload(request: PageRequest, found: Workload) -> dict[str, Any]:
    now = frame_of(request).now
    may_end = _is_in_charge(request, found)
    stories = attempt_stories(workload=found, now=now)
    latest = stories[-1] if stories else None
    timeline = timeline_of(submitted_at=found.submitted_at, ended_at=found.ended_at, stories=stories, now=now)
    events = events_told(workload=found, user=request.user, limit=EVENTS_SHOWN)
    return {
        "workload": found,
        "stories": stories,
        "latest": latest,
        "active": latest if latest and latest.attempt.state != "ended" else None,
        "timeline": timeline,
        "charged": sum(story.charged_gpu_seconds for story in stories),
        "protection_seconds": _protection(latest, now),
        "closed_hosts": hosts_closed(cluster=frame_of(request).cluster) if _lacks_hosts(found) else [],
        "events": events,
        "reserved": _reserved(found),
        "is_final": found.state in FINAL_STATES,
        "may_cancel": may_end and found.state not in FINAL_STATES and found.cancel_requested_at is None,
        "shows_values": may_end,
        "legend_keys": [key for key in LEGEND if any(key == bar.key for line in timeline.lines for bar in line.bars)],
        "replicas": range(min(found.replicas, REPLICAS_SHOWN)) if found.replicas > 1 else (),
        "command": command_words(found.command),
        "last_hosts": list(dict.fromkeys(host for host, _, _ in latest.places)) if latest else [],
        "clusters": list(found.clusters.values_list("name", flat=True)),
        "now": now,
        **_log(request, found, stories),
    }


def _lacks_hosts(found: Workload) -> bool:
    return found.state == "pending" and found.reason_code == "no_schedulable_host"


def command_words(command: list[str]) -> str:
    """Its words with the quotes that they need, and no more: as it would be typed."""
    return " ".join(word if PLAIN_WORD.fullmatch(word) else shlex.quote(word) for word in command)


def _reserved(found: Workload) -> dict[str, Any] | None:
    """The hosts that are kept for it and by when it starts (R12), as the last pass told them."""
    if found.reason_code != "reserved" or "reserved_hosts" not in found.reason:
        return None
    return {"hosts": found.reason["reserved_hosts"], "starts_by": moment_of(found.reason["starts_by_at"])}


def _protection(story: Any, now: Any) -> int | None:
    """Seconds of protection left: None when it is not protected."""
    if story is None or story.attempt.state == "ended" or story.attempt.standing != "protected":
        return None
    attempt = story.attempt
    if attempt.running_at is None:
        return int(attempt.min_runtime_seconds)
    run = int((now - attempt.running_at).total_seconds())
    return max(int(attempt.min_runtime_seconds) - run, 0)


def _is_in_charge(request: PageRequest, found: Workload) -> bool:
    """Its author, or a lead above it: may cancel it, and sees what was put into its environment."""
    own = found.author_id == request.user.pk
    return own or user_may(user=request.user, action="cancel_any", project=found.project)


def _whole(request: PageRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Refused(f"{name} is {text[:40]!r}; it must be a whole number.", attr=name)
    return int(text)


def _log(request: PageRequest, found: Workload, stories: list[Any]) -> dict[str, Any]:
    """The end of one replica's output, as text: of the attempt that the URL names, else the newest."""
    number, replica = _whole(request, "attempt"), _whole(request, "replica") or 0
    attempts = [story.attempt for story in stories if number in {None, story.attempt.number}]
    if not attempts:
        return {"log": "", "log_size": 0, "log_cut": False, "log_attempt": None, "log_replica": replica}
    chosen = attempts[-1]
    size = log_size(attempt=chosen, replica=replica)
    start = max(0, size - TAIL_BYTES)
    data = workload_log(workload=found, attempt=chosen.number, replica=replica, offset=start, limit=TAIL_BYTES)
    text = TERMINAL_CODES.sub("", data.decode(errors="replace")).replace("\0", "")
    return {"log": text, "log_size": size, "log_cut": start > 0, "log_attempt": chosen, "log_replica": replica}


@page
def workload_output(request: PageRequest, workload_id: int) -> HttpResponse:
    """The whole output of a replica as plain text, to read or to save."""
    found = workload_visible(user=request.user, workload_id=workload_id)
    attempt = _whole(request, "attempt")
    data = workload_log(workload=found, attempt=attempt, replica=_whole(request, "replica") or 0, limit=16_777_216)
    response = HttpResponse(data, content_type="text/plain; charset=utf-8")
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _clock(request: PageRequest) -> str:
    """The time in the site's zone: a message that stays on a page says when it was true."""
    return f"{localtime(frame_of(request).now):%H:%M}"


@action
def workload_end(request: PageRequest, workload_id: int) -> HttpResponse:
    """Cancel it."""
    found = workload_visible(user=request.user, workload_id=workload_id)
    cancelled = workload_cancel(workload=found, actor=request.user, now=frame_of(request).now)
    if cancelled.state == "cancelled":
        messages.success(request, f"Workload {workload_id} was cancelled at {_clock(request)}.")
    elif cancelled.state in FINAL_STATES:
        messages.warning(request, "It had ended before it could be cancelled.")
    else:
        messages.success(request, f"Workload {workload_id} was told to stop at {_clock(request)}.")
    return redirect("dashboard:workload", workload_id=workload_id)
