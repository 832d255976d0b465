"""Simulations: the list, one run with its progress and its result, several side by side, downloads, cancel."""

import json
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.common.errors import Refused
from portal.dashboard.chart_simulations import charts_of
from portal.dashboard.csv_export import csv_of, csv_response
from portal.dashboard.frame import frame_of
from portal.dashboard.listing import choice, listing_of
from portal.dashboard.pages import PageRequest, action, page
from portal.dashboard.simulation_shown import Shown
from portal.dashboard.simulation_tables import Reading, comparison_table, days_table, figures_of, inputs_of, reading_of
from portal.dashboard.simulation_words import answer_words
from portal.simulations.models import RunState, Source
from portal.simulations.names import scenario_seen
from portal.simulations.selectors import may_cancel, may_run, run_by_id, runs_ahead, runs_done, runs_listed
from portal.simulations.services import run_cancel

RUNS_COMPARED = 4
OTHERS_OFFERED = 50


@page
def simulations(request: PageRequest) -> HttpResponse:
    """Every run, newest first; anyone may read them."""
    states = [(str(value), label) for value, label in RunState.choices]
    state = choice(request, "state", [value for value, _ in states])
    author = request.GET.get("author", "")[:150].replace("\0", "")
    rows = runs_listed()
    if state:
        rows = rows.filter(state=state)
    if author:
        rows = rows.filter(author__username=author)
    context = {
        "listing": listing_of(request, rows, sorts={"asked": "pk"}, default="-asked", count_most=10_000),
        "states": states,
        "chosen": {"state": state, "author": author},
        "filtered": bool(state or author),
        "may_run": may_run(user=request.user),
        "now": frame_of(request).now,
    }
    template = "dashboard/parts/simulations.html" if request.htmx else "dashboard/simulations.html"
    return render(request, template, context)


@page
def simulation(request: PageRequest, run_id: int) -> HttpResponseBase:
    """One run: while it waits or runs its progress, then its result."""
    reading = reading_of(run_by_id(run_id=run_id), request.user, part=request.GET.get("part", ""))
    run = reading.run
    if request.htmx:
        answer = render(request, "dashboard/parts/simulation.html", _progress(request, reading))
        if not run.is_open:
            answer["HX-Refresh"] = "true"
        return answer
    if run.state != RunState.DONE:
        return render(request, "dashboard/simulation.html", _progress(request, reading))
    address = f"{request.path}?part={reading.cluster}" if reading.others else request.path
    charts = charts_of([Shown("", reading.report)], address=address)
    if key := request.GET.get("csv"):
        return csv_of(charts.values(), key)
    context = {
        **_progress(request, reading),
        "charts": charts,
        "answer": answer_words(reading.report),
        "figures": figures_of(reading.report),
        "inputs": inputs_of(run),
        "others_done": runs_done(but=run.pk)[:OTHERS_OFFERED],
    }
    return render(request, "dashboard/simulation.html", context)


def _progress(request: PageRequest, reading: Reading) -> dict[str, Any]:
    run = reading.run
    return {
        "run": run,
        "reading": reading,
        "ahead": runs_ahead(run=run),
        "may_cancel": run.is_open and run.cancel_requested_at is None and may_cancel(user=request.user, run=run),
        "may_run": may_run(user=request.user),
        "source_words": Source(run.source).label,
        "now": frame_of(request).now,
    }


@action
def simulation_cancel(request: PageRequest, run_id: int) -> HttpResponse:
    """Cancel it; the page says what became of it."""
    run = run_cancel(run=run_by_id(run_id=run_id), actor=request.user, now=frame_of(request).now)
    if run.state == RunState.CANCELLED:
        messages.success(request, f"Simulation {run.pk} is cancelled.")
    elif run.is_open:
        messages.success(request, f"Simulation {run.pk} ends within seconds.")
    else:
        messages.warning(request, f"Simulation {run.pk} had ended before: {RunState(run.state).label.lower()}.")
    return redirect("dashboard:simulation", run_id=run.pk)


@page
def simulation_download(request: PageRequest, run_id: int, what: str) -> HttpResponseBase:
    """The report or the scenario as JSON, or the rows of projects and days as CSV; without names that aren't seen."""
    reading = reading_of(run_by_id(run_id=run_id), request.user, part=request.GET.get("part", ""))
    run = reading.run
    if what == "scenario":
        return _json(scenario_seen(run.scenario, reading.hidden), f"simulation-{run.pk}-scenario")
    if run.state != RunState.DONE:
        raise Refused(f"Simulation {run.pk} has no report: it is {RunState(run.state).label.lower()}.")
    if what == "days":
        return csv_response(days_table(reading.report), f"simulation-{run.pk}-days")
    return _json({**reading.report, "notes": reading.notes}, f"simulation-{run.pk}-report")


def _json(content: Any, name: str) -> HttpResponse:
    answer = HttpResponse(json.dumps(content, indent=1), content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="{name}.json"'
    return answer


@page
def simulations_compare(request: PageRequest) -> HttpResponseBase:
    """Two to four runs side by side: `?run=3&run=5`."""
    numbers = _numbers(request)
    readings = [reading_of(run_by_id(run_id=number), request.user) for number in numbers]
    unfinished = [reading.run for reading in readings if reading.run.state != RunState.DONE]
    if unfinished:
        words = ", ".join(f"{run.pk} is {RunState(run.state).label.lower()}" for run in unfinished)
        raise Refused(f"Only runs that are done can be compared: {words}.", attr="run")
    labels = _labels(readings)
    shown = [Shown(label, reading.report) for label, reading in zip(labels, readings, strict=True)]
    charts = charts_of(shown, address=f"{request.path}?{'&'.join(f'run={number}' for number in numbers)}")
    if key := request.GET.get("csv"):
        return csv_of(charts.values(), key)
    context = {
        "readings": list(zip(labels, readings, strict=True)),
        "charts": charts,
        "table": comparison_table(labels, [reading.report for reading in readings]),
        "hidden": max(reading.hidden_count for reading in readings),
    }
    return render(request, "dashboard/simulations_compare.html", context)


def _numbers(request: HttpRequest) -> list[int]:
    given = list(dict.fromkeys(request.GET.getlist("run")))
    wrong = next((text for text in given if not (text.isascii() and text.isdigit() and len(text) <= 18)), None)
    if wrong is not None:
        raise Refused(f"run is {wrong[:40]!r}; it must be a simulation's number.", attr="run")
    if not 2 <= len(given) <= RUNS_COMPARED:
        words = (
            f"Choose 2 to {RUNS_COMPARED} simulations that are done, as in {reverse('dashboard:simulations_compare')}"
        )
        raise Refused(f"{words}?run=3&run=5.", attr="run")
    return [int(text) for text in given]


def _labels(readings: list[Reading]) -> list[str]:
    """Titles, with the number where two are alike."""
    titles = [reading.run.title for reading in readings]
    return [
        title if titles.count(title) == 1 else f"{title} ({reading.run.pk})"
        for title, reading in zip(titles, readings, strict=True)
    ]
