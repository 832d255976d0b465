"""The first page: is the lab well served, what runs, what waits, what changed."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render

from portal.budgets.models import BudgetChange
from portal.common.units import PPM, WEEK_SECONDS, percent_words
from portal.dashboard.chart_data import waits_by_project
from portal.dashboard.chart_waits import nearest_rank
from portal.dashboard.figures import parts_of
from portal.dashboard.frame import Frame, frame_of
from portal.dashboard.overview import pyramid_figures
from portal.dashboard.pages import PageRequest, page
from portal.dashboard.reasons import reason_word
from portal.dashboard.selectors import STANDING_ORDER, gpus_by_standing, hosts_closed, running_now
from portal.dashboard.states import STATE_WORDS
from portal.projects.selectors import projects_visible
from portal.usage.selectors import (
    AttemptColumns,
    endings,
    pyramid,
    wait_samples,
    window_attempts,
    window_segments,
)
from portal.workloads.selectors import queue_reasons, queue_rows, queue_waiting

ROWS = 6
NOTABLE_WAIT_SECONDS = 60


@page
def overview(request: PageRequest) -> HttpResponse:
    """The whole page; for htmx what is true now (the bar, what runs, what waits)."""
    frame = frame_of(request)
    if frame.cluster is None:
        return render(request, "dashboard/overview_empty.html")
    context = _now(request, frame)
    if request.htmx:
        return render(request, "dashboard/parts/overview_now.html", context)
    ledger = window_segments(cluster=frame.cluster, start=frame.previous_start_at, end=frame.now)
    attempts = window_attempts(cluster=frame.cluster, start=frame.previous_start_at, end=frame.now)
    known = {"cluster": frame.cluster, "columns": ledger, "attempts": attempts}
    current = pyramid(start=frame.start_at, end=frame.now, **known)
    previous = pyramid(start=frame.previous_start_at, end=frame.start_at, **known)
    paths = dict(projects_visible(user=request.user).order_by().values_list("pk", "path"))
    context.update(
        figures=pyramid_figures(current, previous, frame.range.previous_words),
        answer=answer_words(current, context, frame, _longest_wait(paths, attempts, frame)),
        changes=_changes(request, frame),
        ended=_ended(paths, attempts, frame),
    )
    return render(request, "dashboard/overview.html", context)


def _now(request: PageRequest, frame: Frame) -> dict[str, Any]:
    user = request.user
    counts = gpus_by_standing(cluster=frame.cluster)
    reasons = queue_reasons(waiting=queue_waiting(user=user, cluster=frame.cluster))
    return {
        "counts": counts,
        "parts": parts_of(counts),
        "gpus": sum(counts.values()),
        "busy": sum(counts[key] for key in STANDING_ORDER),
        "waiting": sum(workloads for _, workloads, _ in reasons),
        "waiting_gpus": sum(gpus for _, _, gpus in reasons),
        "reasons": [(code, reason_word(code), workloads) for code, workloads, _ in reasons],
        "rows": queue_rows(user=user, cluster=frame.cluster, limit=ROWS),
        "closed": hosts_closed(cluster=frame.cluster),
        "all_seen": user.is_site_wide,
        "running": running_now(user=user, cluster=frame.cluster, limit=ROWS),
        "now": frame.now,
    }


def _longest_wait(paths: dict[int, str], attempts: AttemptColumns, frame: Frame) -> str:
    """The project that waited longest for its first starts, of those that the person sees; none if nobody waited."""
    samples = wait_samples(start=frame.start_at, end=frame.now, cluster=frame.cluster, attempts=attempts)
    waits = waits_by_project(samples, paths)
    p90 = {path: nearest_rank(each, 90) or 0 for path, each in waits.items()}
    longest = max(sorted(p90), key=lambda path: p90[path], default="")
    return longest if len(p90) > 1 and p90[longest] >= NOTABLE_WAIT_SECONDS else ""


def answer_words(current: Any, now: dict[str, Any], frame: Frame, longest: str = "") -> str:
    """The page's answer: how much of what was owed was delivered, and how the cluster stands."""
    if not now["gpus"]:
        return f"{frame.cluster.name} has no hosts yet"
    if current.impact is None:
        owed = f"No project was owed GPU-time in the {frame.range.words}"
    else:
        percent = percent_words(round(current.impact * PPM))
        owed = f"Projects got {percent} of the GPU-hours they were owed in the {frame.range.words}"
    waited = f"; {longest} waited longest" if longest else ""
    return f"{owed}{waited}. Now {now['busy']:,} of {now['gpus']:,} GPUs work, {waiting_words(now)}{closed_words(now)}"


def waiting_words(now: dict[str, Any]) -> str:
    """`12 workloads wait`; said to be a part where the person does not see all."""
    whose = "" if now["all_seen"] else " of your projects"
    if not now["waiting"]:
        return "nothing waits" if now["all_seen"] else f"nothing{whose} waits"
    one = now["waiting"] == 1
    return f"{now['waiting']:,} workload{'' if one else 's'}{whose} wait{'s' if one else ''}"


def closed_words(now: dict[str, Any]) -> str:
    """Hosts that take no new work, by name while they are few."""
    closed = now["closed"]
    if len(closed) == 1:
        name, state = closed[0]
        return f"; {name} is {STATE_WORDS[state].lower()}"
    return f"; {len(closed)} hosts take no new work" if closed else ""


def _changes(request: PageRequest, frame: Frame) -> Sequence[BudgetChange]:
    """Budget changes of the last week on levels that the person sees."""
    since = frame.now - timedelta(seconds=WEEK_SECONDS)
    visible = projects_visible(user=request.user)
    rows = BudgetChange.objects.filter(cluster=frame.cluster, parent__in=visible, created_at__gte=since)
    return list(rows.select_related("author", "parent").order_by("-created_at", "-pk")[:ROWS])


def _ended(paths: dict[int, str], attempts: AttemptColumns, frame: Frame) -> list[tuple[str, int, int]]:
    """Workloads that ended in the range, by state, with the number of the range before, as far as one sees them."""
    since, boundary = frame.previous_start_at, frame.start_at
    counts = endings(attempts=attempts, project_ids=paths, since=since, boundary=boundary)
    order = ("succeeded", "failed", "timed_out", "cancelled", "preempted", "host_failed")
    return [(state, *counts[state]) for state in order if state in counts]
