"""The first page: is the lab well served, what runs, what waits, what changed."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render

from portal.budgets.models import BudgetChange
from portal.common.units import PPM, WEEK_SECONDS, percent_words
from portal.dashboard.figures import parts_of
from portal.dashboard.frame import Frame, frame_of
from portal.dashboard.overview import pyramid_figures
from portal.dashboard.pages import PageRequest, page
from portal.dashboard.reasons import reason_word
from portal.dashboard.selectors import STANDING_ORDER, ended_counts, gpus_by_standing, running_now
from portal.projects.selectors import projects_visible
from portal.usage.selectors import pyramid, window_segments
from portal.workloads.selectors import queue_reasons, queue_rows, queue_waiting

ROWS = 6


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
    current = pyramid(cluster=frame.cluster, start=frame.start_at, end=frame.now, columns=ledger)
    previous = pyramid(cluster=frame.cluster, start=frame.previous_start_at, end=frame.start_at, columns=ledger)
    context.update(
        figures=pyramid_figures(current, previous, frame.range.previous_words),
        answer=answer_words(current, context, frame),
        changes=_changes(request, frame),
        ended=_ended(request, frame),
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
        "running": running_now(user=user, cluster=frame.cluster, limit=ROWS),
        "now": frame.now,
    }


def answer_words(current: Any, now: dict[str, Any], frame: Frame) -> str:
    """The page's answer: how much of what was owed was delivered, and how the cluster stands."""
    if not now["gpus"]:
        return f"{frame.cluster.name} has no hosts yet"
    if current.impact is None:
        owed = f"No project was owed GPU-time in the {frame.range.words}"
    else:
        percent = percent_words(round(current.impact * PPM))
        owed = f"Projects got {percent} of the GPU-hours they were owed in the {frame.range.words}"
    waits = "nothing waits" if not now["waiting"] else f"{now['waiting']:,} {'wait' if now['waiting'] > 1 else 'waits'}"
    return f"{owed}; {now['busy']:,} of {now['gpus']:,} GPUs work and {waits}"


def _changes(request: PageRequest, frame: Frame) -> Sequence[BudgetChange]:
    """Budget changes of the last week on levels that the person sees."""
    since = frame.now - timedelta(seconds=WEEK_SECONDS)
    visible = projects_visible(user=request.user)
    rows = BudgetChange.objects.filter(cluster=frame.cluster, parent__in=visible, created_at__gte=since)
    return list(rows.select_related("author", "parent").order_by("-created_at", "-pk")[:ROWS])


def _ended(request: PageRequest, frame: Frame) -> list[tuple[str, int, int]]:
    """Workloads that ended in the range, by state, with the number of the range before."""
    counts = ended_counts(
        user=request.user, cluster=frame.cluster, since=frame.previous_start_at, boundary=frame.start_at
    )
    order = ("succeeded", "failed", "timed_out", "cancelled", "preempted", "host_failed")
    return [(state, *counts[state]) for state in order if state in counts]
