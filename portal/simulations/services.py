"""Asking for simulations and cancelling them. What happens to a run in between stands in `life`."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from portal.clusters.models import Cluster
from portal.common.errors import FieldError, Forbidden, Refused
from portal.common.services import audit_record
from portal.common.units import DAY_SECONDS, whole_second
from portal.projects.models import Project, User
from portal.simulations.checking import scenario_problems
from portal.simulations.editing import Edits, scenario_edited
from portal.simulations.models import Comparison, Run, RunState, Source, UploadedTrace
from portal.simulations.names import paths_unseen, text_seen
from portal.simulations.portal_scenario import history_known, scenario_of_history
from portal.simulations.scenario import SEED_MAX
from portal.simulations.selectors import may_cancel, may_run, open_runs_of, trace_bytes_of
from portal.simulations.sending import work_request

TITLE_LENGTH_MAX = 200
HISTORY_DAYS_MAX = 366
HISTORY_SECONDS_MIN = 60

Shares = Mapping[int, tuple[int, int | None]]


@transaction.atomic
def run_request(
    *,
    cluster: Cluster | None,
    scenario: dict[str, Any],
    title: str,
    author: User | None,
    now: datetime,
    source: str,
    history: tuple[datetime, datetime] | None = None,
    trace: UploadedTrace | None = None,
    seed: int | None = None,
    changes: Sequence[str] = (),
) -> Run:
    """Queue a simulation. All that is wrong with it is refused together; too many of one person wait: refused.

    `changes` say in words how the scenario differs from how things are: they stand first in the run's notes.
    """
    _runner_require(author)
    now = whole_second(now)
    _queue_room_require(author, runs=1)
    problems = _title_problems(title) + _source_problems(cluster, source, history, trace, now)
    if seed is not None and not 0 <= seed <= SEED_MAX:
        problems.append(FieldError("seed", "invalid", f"The seed must be a whole number between 0 and {SEED_MAX}."))
    problems += scenario_problems(scenario, source=source)
    if problems:
        raise Refused.many(_without_names(problems, author))
    start, end = history or (None, None)
    seed = scenario.get("workload", {}).get("seed", 1) if seed is None else seed
    run = Run.objects.create(
        cluster=cluster,
        title=title.strip(),
        author=author,
        source=source,
        scenario=scenario,
        seed=seed,
        trace=trace,
        history_from=start and whole_second(start),
        history_to=end and whole_second(end),
        projects=_projects_named(scenario),
        notes=list(changes),
        created_at=now,
    )
    _audit(run, "run_request", author, before={}, now=now)
    work_request()
    return run


@transaction.atomic
def run_cancel(*, run: Run, actor: User | None, now: datetime) -> Run:
    """Cancel: at once where it waits, within seconds where it runs. Again, or too late, changes nothing."""
    if actor is not None and not may_cancel(user=actor, run=run):
        raise Forbidden("Only its author, operators and leads of the whole organisation cancel a simulation.")
    now = whole_second(now)
    held = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
    if not held.is_open or held.cancel_requested_at is not None:
        return held
    before = {"state": held.state}
    held.cancel_requested_at, held.cancelled_by = now, actor
    if held.state == RunState.QUEUED:
        held.state, held.ended_at = RunState.CANCELLED, max(now, held.created_at)
    held.save()
    _audit(held, "run_cancel", actor, before=before, now=now)
    return held


@transaction.atomic
def trace_store(*, name: str, content: bytes, author: User | None, now: datetime) -> UploadedTrace:
    """Keep an uploaded trace as it came; it is read by the process that simulates. The same again is the first."""
    _runner_require(author)
    limit = settings.SIMULATION_TRACE_BYTES
    if len(content) > limit:
        raise Refused(f"The trace has more than {limit // 1024**2} MB, the most that may be uploaded.", attr="trace")
    if not content.strip():
        raise Refused("The trace is empty.", attr="trace")
    digest = hashlib.sha256(content).hexdigest()
    if author is not None:
        User.objects.select_for_update(no_key=True).get(pk=author.pk)
        first = UploadedTrace.objects.filter(author=author, sha256=digest).defer("content").first()
        if first is not None:
            return first
        _storage_require(author, len(content))
    shown = "".join(letter for letter in name.strip() if letter.isprintable())[:TITLE_LENGTH_MAX]
    trace = UploadedTrace.objects.create(
        name=shown or "trace",
        author=author,
        created_at=whole_second(now),
        size_bytes=len(content),
        sha256=digest,
        content=zlib.compress(content, 6),
    )
    after = {"size_bytes": trace.size_bytes, "sha256": digest}
    audit_record(actor=author, action="trace_store", target=trace, before={}, after=after, now=trace.created_at)
    return trace


@transaction.atomic
def comparison_request(
    *,
    cluster: Cluster,
    shares: Shares,
    title: str,
    author: User | None,
    now: datetime,
    history_days: int = 14,
) -> Comparison:
    """Replay the portal's last days twice: under the budgets that were in force, and with drafted ones from the start.

    `shares` maps projects to (parts per million of the parent's share, burst cap in GPUs or none).
    """
    _queue_room_require(author, runs=2)
    if not 1 <= history_days <= HISTORY_DAYS_MAX:
        raise Refused(f"history_days must be between 1 and {HISTORY_DAYS_MAX}.", attr="history_days")
    now = whole_second(now)
    history = history_known(cluster=cluster, start=now - timedelta(days=history_days), end=now)
    scenario = scenario_of_history(cluster=cluster, start=history[0], end=history[1])
    edits = Edits(shares=_shares_by_path(shares))

    def ask(scenario: dict[str, Any], words: str) -> Run:
        return run_request(
            cluster=cluster,
            scenario=scenario,
            title=f"{title}: {words}"[:TITLE_LENGTH_MAX],
            author=author,
            now=now,
            source=Source.HISTORY,
            history=history,
        )

    today, draft = ask(scenario, "today"), ask(scenario_edited(scenario, edits), "draft")
    comparison = Comparison.objects.create(
        cluster=cluster,
        title=title.strip()[:TITLE_LENGTH_MAX],
        author=author,
        created_at=now,
        shares={str(project_id): list(line) for project_id, line in shares.items()},
        today=today,
        draft=draft,
    )
    after = {"today": today.pk, "draft": draft.pk}
    audit_record(actor=author, action="comparison_request", target=comparison, before={}, after=after, now=now)
    return comparison


def _runner_require(author: User | None) -> None:
    if author is not None and not may_run(user=author):
        raise Forbidden("Leads of a project and operators run simulations; anyone may read them.")


def _queue_room_require(author: User | None, *, runs: int) -> None:
    """One person's requests are counted one after the other."""
    if author is None:
        return
    User.objects.select_for_update(no_key=True).get(pk=author.pk)
    limit, waiting = settings.SIMULATION_QUEUED_MOST, open_runs_of(user=author)
    if waiting + runs > limit:
        raise Refused(
            f"{waiting} of your simulations wait or run; at most {limit} may. Cancel one, or wait for one to end.",
            attr="title",
            code="too_many",
        )


def _storage_require(author: User, size: int) -> None:
    limit, kept = settings.SIMULATION_STORED_BYTES, trace_bytes_of(user=author)
    if kept + size > limit:
        words = f"{kept / 1024**2:.0f} MB of your traces are kept; with this one they would pass {limit // 1024**2} MB."
        raise Refused(words, attr="trace", code="too_much")


def _without_names(problems: list[FieldError], author: User | None) -> list[FieldError]:
    """What is said of a scenario names no project that its author may not see."""
    hidden = frozenset() if author is None else paths_unseen(user=author)
    return [replace(problem, detail=text_seen(problem.detail, hidden)) for problem in problems]


def _title_problems(title: str) -> list[FieldError]:
    if not title.strip() or len(title.strip()) > TITLE_LENGTH_MAX or "\0" in title:
        return [FieldError("title", "invalid", f"Give a title of 1 to {TITLE_LENGTH_MAX} characters.")]
    return []


def _source_problems(
    cluster: Cluster | None,
    source: str,
    history: tuple[datetime, datetime] | None,
    trace: UploadedTrace | None,
    now: datetime,
) -> list[FieldError]:
    if source not in Source.values:
        return [FieldError("source", "invalid", f"The source must be one of {', '.join(Source.values)}.")]
    if (source == Source.TRACE) != (trace is not None):
        return [FieldError("trace", "invalid", "A trace belongs to the source trace, and to it alone.")]
    if source != Source.HISTORY:
        words = "A range of the history belongs to the source history alone."
        return [FieldError("history", "invalid", words)] if history is not None else []
    if cluster is None:
        return [FieldError("cluster", "required", "Name the cluster whose history is replayed.")]
    return _history_problems(history, now)


def _history_problems(history: tuple[datetime, datetime] | None, now: datetime) -> list[FieldError]:
    if history is None:
        return [FieldError("history", "required", "Give the range of the history that is replayed.")]
    start, end = history
    if end > now:
        return [FieldError("history", "invalid", "The range of the history must end by now.")]
    if not HISTORY_SECONDS_MIN <= (end - start).total_seconds() <= HISTORY_DAYS_MAX * DAY_SECONDS:
        words = f"The range of the history must be 1 minute to {HISTORY_DAYS_MAX} days long."
        return [FieldError("history", "invalid", words)]
    return []


def _projects_named(scenario: dict[str, Any]) -> dict[str, int]:
    """Which of the scenario's paths, ancestors included, are projects of this portal."""
    paths = {str(line["path"]) for line in scenario["projects"]}
    above = {"/".join(parts[:depth]) for path in paths for parts in [path.split("/")] for depth in range(1, len(parts))}
    return dict(Project.objects.filter(path__in=paths | above).values_list("path", "pk"))


def _shares_by_path(shares: Shares) -> dict[str, tuple[int, int | None]]:
    paths = dict(Project.objects.filter(pk__in=shares).values_list("pk", "path"))
    unknown = sorted(set(shares) - set(paths))
    if unknown:
        raise Refused(f"There is no project with the number {unknown[0]}.", attr="shares")
    return {paths[project_id]: line for project_id, line in shares.items()}


def _audit(run: Run, action: str, actor: User | None, *, before: dict[str, Any], now: datetime) -> None:
    after = {"state": str(run.state), "source": str(run.source)}
    audit_record(actor=actor, action=action, target=run, before=before, after=after, now=now)
