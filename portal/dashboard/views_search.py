"""Search by name or id, from the field at the top of every page."""

from django.http import HttpResponse
from django.shortcuts import redirect, render

from portal.dashboard.pages import PageRequest, page
from portal.dashboard.selectors import active_standings, search


@page
def search_page(request: PageRequest) -> HttpResponse:
    """What was found; a workload's own number leads straight to it."""
    text = request.GET.get("q", "").strip().replace("\0", "")[:200]
    found = search(user=request.user, text=text) if text else None
    if found and text.isdigit() and any(workload.pk == int(text) for workload in found.workloads):
        return redirect("dashboard:workload", workload_id=int(text))
    standings = active_standings(workload_ids=[workload.pk for workload in found.workloads]) if found else {}
    return render(request, "dashboard/search.html", {"text": text, "found": found, "standings": standings})
