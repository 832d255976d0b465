"""The life of a run once it is asked for. Every step is compare-and-set: a worker that was given up changes nothing."""

from datetime import datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

from django.db import transaction

from portal.common.services import audit_record
from portal.common.units import PPM, whole_second
from portal.simulations.models import Run, RunState, UploadedTrace
from portal.simulations.selectors import next_queued
from portal.simulations.sending import work_request

SILENT_SECONDS = 15
"""A worker speaks of its run every second; after so long without that it is taken to be gone."""
UNUSED_SECONDS = 86_400
TRIES_MOST = 2
ERROR_LENGTH_MAX = 2000
GIVEN_UP = "Its worker ended {tries} times while it ran: the machine may lack memory, or somebody stopped it."


class Heard(Enum):
    """What a worker is told when it reports."""

    GO_ON = "go on"
    CANCEL = "cancel"
    NOT_YOURS = "not yours"


@transaction.atomic
def run_start(*, claim: UUID, now: datetime) -> Run | None:
    """Take the run whose turn it is; None: none waits. Two workers never take the same one."""
    passed: list[int] = []
    while (run_id := next_queued(passing=passed)) is not None:
        run = (
            Run.objects.select_for_update(skip_locked=True, no_key=True)
            .filter(pk=run_id, state=RunState.QUEUED)
            .first()
        )
        if run is not None:
            run.state, run.claim, run.tries = RunState.RUNNING, claim, run.tries + 1
            run.started_at = run.heard_at = whole_second(now)
            run.progress_ppm, run.seconds_left = 0, None
            run.save()
            _audit(run, "run_start", RunState.QUEUED, now)
            return run
        passed.append(run_id)
    return None


def run_progress(*, run_id: int, claim: UUID, progress_ppm: int, seconds_left: int | None, now: datetime) -> Heard:
    """Note how far it is, and that its worker lives."""
    mine = Run.objects.filter(pk=run_id, claim=claim, state=RunState.RUNNING)
    noted = mine.update(
        progress_ppm=min(max(progress_ppm, 0), PPM), seconds_left=seconds_left, heard_at=whole_second(now)
    )
    if not noted:
        return Heard.NOT_YOURS
    return Heard.CANCEL if mine.filter(cancel_requested_at__isnull=False).exists() else Heard.GO_ON


def run_finish(
    *,
    run_id: int,
    claim: UUID,
    report: dict[str, Any],
    notes: list[str],
    code_version: str,
    wall_seconds: float,
    now: datetime,
) -> bool:
    """Keep the whole report. False: the run is no longer this worker's."""
    return _end(
        run_id,
        claim,
        now,
        state=RunState.DONE,
        report=report,
        more_notes=notes,
        code_version=code_version,
        wall_seconds=wall_seconds,
        progress_ppm=PPM,
    )


def run_fail(*, run_id: int, claim: UUID, error: str, code_version: str, now: datetime) -> bool:
    """It could not be simulated; `error` says why. What was reckoned until then is not kept."""
    return _end(run_id, claim, now, state=RunState.FAILED, error=error[:ERROR_LENGTH_MAX], code_version=code_version)


def run_stopped(*, run_id: int, claim: UUID, now: datetime) -> bool:
    """Its worker has ended it because somebody cancelled it."""
    return _end(run_id, claim, now, state=RunState.CANCELLED)


@transaction.atomic
def _end(run_id: int, claim: UUID, now: datetime, **changes: Any) -> bool:
    run = Run.objects.select_for_update(no_key=True).filter(pk=run_id, claim=claim, state=RunState.RUNNING).first()
    if run is None:
        return False
    run.notes = [*run.notes, *changes.pop("more_notes", [])]
    for name, value in {**changes, "seconds_left": None, "claim": None}.items():
        setattr(run, name, value)
    run.ended_at = max(whole_second(now), run.started_at or run.created_at)
    run.save()
    _audit(run, f"run_{run.state}", RunState.RUNNING, now)
    return True


@transaction.atomic
def run_give_back(*, run_id: int, claim: UUID, now: datetime) -> bool:
    """The worker stops before the run has ended: it waits again, as if it had not been tried."""
    run = Run.objects.select_for_update(no_key=True).filter(pk=run_id, claim=claim, state=RunState.RUNNING).first()
    if run is None:
        return False
    run.tries -= 1
    _wait_again(run, now)
    return True


@transaction.atomic
def runs_sweep(*, now: datetime) -> int:
    """Runs whose worker is silent wait again, or fail after the second time, or end if they were to be cancelled.

    Returns how many wait; the workers are asked to look for them.
    """
    before = now - timedelta(seconds=SILENT_SECONDS)
    silent = Run.objects.select_for_update(skip_locked=True, no_key=True)
    for run in silent.filter(state=RunState.RUNNING, heard_at__lt=before).order_by("pk"):
        if run.cancel_requested_at is not None:
            _end_of_silent(run, RunState.CANCELLED, "", now)
        elif run.tries >= TRIES_MOST:
            _end_of_silent(run, RunState.FAILED, GIVEN_UP.format(tries=run.tries), now)
        else:
            _wait_again(run, now)
    waiting = Run.objects.filter(state=RunState.QUEUED).count()
    if waiting:
        work_request()
    return waiting


@transaction.atomic
def traces_sweep(*, now: datetime) -> int:
    """Remove traces that no run has used for a day; how many."""
    old = UploadedTrace.objects.filter(runs=None, created_at__lt=now - timedelta(seconds=UNUSED_SECONDS)).defer(
        "content"
    )
    found = list(old.select_for_update(skip_locked=True, of=("self",), no_key=True)[:100])
    for trace in found:
        before = {"size_bytes": trace.size_bytes, "sha256": trace.sha256}
        audit_record(actor=None, action="trace_remove", target=trace, before=before, after={}, now=whole_second(now))
        trace.delete()
    return len(found)


def _end_of_silent(run: Run, state: RunState, error: str, now: datetime) -> None:
    run.state, run.error, run.claim, run.seconds_left = state, error, None, None
    run.ended_at = max(whole_second(now), run.created_at)
    run.save()
    _audit(run, f"run_{state}", RunState.RUNNING, now)


def _wait_again(run: Run, now: datetime) -> None:
    run.state, run.claim, run.progress_ppm, run.seconds_left = RunState.QUEUED, None, 0, None
    run.save()
    _audit(run, "run_requeue", RunState.RUNNING, now)
    work_request()


def _audit(run: Run, action: str, before: str, now: datetime) -> None:
    after = {"state": str(run.state), "tries": run.tries}
    audit_record(
        actor=None,
        action=action,
        target=run,
        before={"state": str(before)},
        after=after,
        now=whole_second(now),
        reason=run.error,
    )
