"""Answers of the API about simulations, and requests in its words."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from portal.clusters.models import Cluster
from portal.clusters.selectors import cluster_by_name
from portal.common.csv_text import BOM, csv_line
from portal.common.errors import Forbidden, NotFound, Refused
from portal.common.units import whole_second
from portal.projects.models import User
from portal.projects.selectors import project_by_path
from portal.simulations.editing import Edits, Scenario, scenario_edited
from portal.simulations.models import Run, Source, UploadedTrace
from portal.simulations.names import names_hidden, report_seen, scenario_seen, text_seen
from portal.simulations.portal_scenario import history_known, scenario_of_history, scenario_of_now
from portal.simulations.selectors import sees_all, traces_of
from portal.simulations.services import run_request

FIELDS = (
    "id", "title", "source", "state", "seed", "history_from", "history_to", "created_at", "started_at", "ended_at",
    "cancel_requested_at", "progress_ppm", "seconds_left", "wall_seconds", "code_version", "error",
)  # fmt: skip
DAY_COLUMNS = ("project", "day", "owed", "delivered", "unallocated", "occupied", "waiting", "preemptions")


def run_row(run: Run, hidden: frozenset[str]) -> dict[str, Any]:
    """A simulation in a list; its error names no hidden project."""
    return {
        **{name: getattr(run, name) for name in FIELDS},
        "cluster": run.cluster.name if run.cluster else None,
        "author": run.author.username if run.author else None,
        "trace": run.trace_id,
        "error": text_seen(run.error, hidden),
    }


def run_answer(run: Run, user: User) -> dict[str, Any]:
    """A simulation with its scenario and report, as far as the person may see them."""
    hidden = names_hidden(run=run, user=user)
    return {
        **run_row(run, hidden),
        "notes": [text_seen(note, hidden) for note in run.notes],
        "scenario": scenario_seen(run.scenario, hidden),
        "report": report_seen(run.report, hidden),
    }


def days_csv(run: Run, user: User) -> Iterator[str]:
    """A row a project and day, GPU-hours; of several clusters one after the other."""
    report = report_seen(run.report, names_hidden(run=run, user=user)) or {}
    yield BOM
    yield csv_line(["cluster", *DAY_COLUMNS])
    for part in (report, *report.get("others", [])):
        for row in part["days"]:
            yield csv_line([part["cluster"], *(row[name] for name in DAY_COLUMNS)])


def run_requested(*, body: dict[str, Any], author: User, now: datetime) -> Run:
    """Queue what the body asks for."""
    now = whole_second(now)
    source = body.get("source") or Source.HISTORY
    cluster = _cluster(body.get("cluster"), needed=source == Source.HISTORY or not body.get("scenario"))
    history = _history(body, cluster, now) if source == Source.HISTORY and cluster is not None else None
    return run_request(
        cluster=cluster,
        scenario=_scenario(body, source, cluster, history, author, now),
        title=body["title"],
        author=author,
        now=now,
        source=source,
        history=history,
        trace=_trace(body.get("trace"), author),
        seed=body.get("seed"),
    )


def _cluster(name: str | None, *, needed: bool) -> Cluster | None:
    if name is not None:
        try:
            return cluster_by_name(name=name)
        except NotFound as error:
            raise Refused(error.detail, attr="cluster") from None
    found = list(Cluster.objects.all()[:2]) if needed else []
    if needed and len(found) != 1:
        raise Refused("Name the cluster.", attr="cluster", code="required")
    return found[0] if found else None


def _history(body: dict[str, Any], cluster: Cluster, now: datetime) -> tuple[datetime, datetime]:
    start, end = body.get("history_from"), body.get("history_to") or now
    if start is None:
        raise Refused("Give where the history begins.", attr="history_from", code="required")
    return history_known(cluster=cluster, start=start, end=end)


def _scenario(
    body: dict[str, Any],
    source: str,
    cluster: Cluster | None,
    history: tuple[datetime, datetime] | None,
    author: User,
    now: datetime,
) -> Scenario:
    """The one that is given, or the cluster's with the edits."""
    edited = [name for name in ("shares", "policy", "hosts") if body.get(name) not in (None, [], {})]
    if body.get("scenario") is not None:
        if edited:
            raise Refused("Edits go with the cluster's own scenario, not with one that is given.", attr=edited[0])
        if source == Source.HISTORY and not sees_all(user=author):
            words = (
                "A history's scenario names every project: only who sees all of them may give it. Give edits instead."
            )
            raise Forbidden(words, attr="scenario")
        return dict(body["scenario"])
    if cluster is None:
        raise Refused("Give a scenario, or name the cluster.", attr="scenario", code="required")
    if history is not None:
        base = scenario_of_history(cluster=cluster, start=history[0], end=history[1])
    elif source == Source.GENERATOR:
        base = {**scenario_of_now(cluster=cluster, at=now), "projects": [], "workload": {"generator": "research-lab"}}
    else:
        base = {**scenario_of_now(cluster=cluster, at=now), "days": None, "warmup_days": 0}
    return scenario_edited(base, Edits(_shares(body, author), body.get("policy", {}), body.get("hosts")))


def _shares(body: dict[str, Any], author: User) -> dict[str, tuple[int, int | None]]:
    shares: dict[str, tuple[int, int | None]] = {}
    for line in body.get("shares", []):
        path = _path(author, line["project"])
        if path in shares:
            raise Refused(f"{path} is there twice.", attr="shares")
        shares[path] = line["percent"], line.get("burst_gpus")
    return shares


def _path(author: User, path: str) -> str:
    try:
        return project_by_path(user=author, path=path).path
    except NotFound as error:
        raise Refused(error.detail, attr="shares") from None


def _trace(number: int | None, author: User) -> UploadedTrace | None:
    if number is None:
        return None
    found = traces_of(user=author).filter(pk=number).first()
    if found is None:
        raise Refused(f"There is no trace {number} that you uploaded.", attr="trace", code="unknown")
    return found
