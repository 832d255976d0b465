"""The queue: position, GPUs ahead and the reason of everything that waits."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render

from portal.dashboard.frame import frame_of
from portal.dashboard.listing import PAGE_ROWS, Listing, choice, page_number
from portal.dashboard.pages import PageRequest, page
from portal.dashboard.reasons import REASON_WORDS, reason_word
from portal.dashboard.selectors import hosts_closed
from portal.projects.selectors import project_by_path, projects_visible
from portal.workloads.selectors import queue_reasons, queue_rows, queue_waiting


@page
def queue(request: PageRequest) -> HttpResponse:
    """The whole page, or for htmx the part that refreshes."""
    template = "dashboard/parts/queue.html" if request.htmx else "dashboard/queue.html"
    context = _queue(request)
    if not request.htmx:
        paths = projects_visible(user=request.user).filter(archived_at=None).values_list("path", flat=True)
        context["projects"] = list(paths)
    return render(request, template, context)


def _queue(request: PageRequest) -> dict[str, Any]:
    frame = frame_of(request)
    path = request.GET.get("project", "")
    found = {
        "cluster": frame.cluster,
        "project": project_by_path(user=request.user, path=path) if path else None,
        "author": request.GET.get("author", "")[:150].replace("\0", ""),
        "reason_code": choice(request, "reason", list(REASON_WORDS)),
    }
    reasons = queue_reasons(waiting=queue_waiting(user=request.user, **found))
    total = sum(workloads for _, workloads, _ in reasons)
    number = min(page_number(request), max(1, -(-total // PAGE_ROWS)))
    rows = queue_rows(user=request.user, **found, limit=PAGE_ROWS, offset=(number - 1) * PAGE_ROWS)
    return {
        "listing": Listing(list(rows), total, number),
        "gpus": sum(gpus for _, _, gpus in reasons),
        "reasons": [(code, reason_word(code), workloads) for code, workloads, _ in reasons],
        "reason_words": REASON_WORDS,
        "chosen": {"project": path, "author": found["author"], "reason": found["reason_code"]},
        "filtered": bool(path or found["author"] or found["reason_code"]),
        "closed_hosts": hosts_closed(cluster=frame.cluster) if frame.cluster else [],
        "now": frame.now,
    }
