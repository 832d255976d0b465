"""A run from its start to its end: taken once, heard of every second, given up when its worker is silent."""

from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

from portal.common.models import AuditEntry
from portal.simulations.life import (
    SILENT_SECONDS,
    Heard,
    run_fail,
    run_finish,
    run_give_back,
    run_progress,
    run_start,
    run_stopped,
    runs_sweep,
    traces_sweep,
)
from portal.simulations.models import Run, RunState, Source, UploadedTrace
from portal.simulations.services import run_cancel, trace_store
from tests.factories import after, user_make
from tests.simulations.portal_runs import TINY, TINY_TRACE, run_make

pytestmark = pytest.mark.django_db

REPORT = {"jobs": 1}


def started(at=0, **fields):
    run = run_make(**fields)
    claim = uuid4()
    assert run_start(claim=claim, now=after(at)).pk == run.pk
    return run, claim


def finish(run, claim, at=60):
    return run_finish(
        run_id=run.pk, claim=claim, report=REPORT, notes=[], code_version="1+x", wall_seconds=2.5, now=after(at)
    )


def test_a_run_is_taken_once():
    started()
    assert run_start(claim=uuid4(), now=after(1)) is None


def test_who_has_waited_longest_for_a_turn_goes_first():
    ada, ben = user_make(is_operator=True), user_make(is_operator=True)
    first, second, third = run_make(author=ada), run_make(author=ada), run_make(author=ben)
    order = [run_start(claim=uuid4(), now=after(at)).pk for at in range(3)]
    assert order == [first.pk, third.pk, second.pk]


def test_progress_is_noted_and_only_of_whom_it_is():
    run, claim = started()
    told = run_progress(run_id=run.pk, claim=claim, progress_ppm=250_000, seconds_left=30, now=after(5))
    other = run_progress(run_id=run.pk, claim=uuid4(), progress_ppm=900_000, seconds_left=1, now=after(6))
    run.refresh_from_db()
    assert (told, other) == (Heard.GO_ON, Heard.NOT_YOURS)
    assert (run.progress_ppm, run.seconds_left, run.heard_at) == (250_000, 30, after(5))


def test_a_worker_hears_of_a_cancel_and_the_run_ends_without_a_report():
    run, claim = started()
    run_cancel(run=run, actor=None, now=after(3))
    assert Run.objects.get(pk=run.pk).state == RunState.RUNNING
    heard = run_progress(run_id=run.pk, claim=claim, progress_ppm=1, seconds_left=None, now=after(4))
    assert heard is Heard.CANCEL
    assert run_stopped(run_id=run.pk, claim=claim, now=after(4))
    run.refresh_from_db()
    assert (run.state, run.ended_at, run.report) == (RunState.CANCELLED, after(4), None)


def test_a_whole_report_is_kept_with_the_code_that_made_it():
    run, claim = started()
    assert finish(run, claim)
    run.refresh_from_db()
    assert (run.state, run.report, run.code_version, run.wall_seconds) == (RunState.DONE, REPORT, "1+x", 2.5)
    assert run.progress_ppm == 1_000_000


def test_a_report_comes_in_once():
    run, claim = started()
    assert finish(run, claim)
    assert not finish(run, claim, at=99)
    assert not run_fail(run_id=run.pk, claim=claim, error="late", code_version="", now=after(99))
    assert Run.objects.get(pk=run.pk).ended_at == after(60)
    assert AuditEntry.objects.filter(action="run_done").count() == 1


def test_what_fails_says_why_and_keeps_nothing_else():
    run, claim = started()
    assert run_fail(run_id=run.pk, claim=claim, error="x" * 5000, code_version="1+x", now=after(9))
    run.refresh_from_db()
    assert (run.state, run.report, len(run.error)) == (RunState.FAILED, None, 2000)


def test_a_part_of_a_report_can_not_be_stored():
    run, _ = started()
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(report=REPORT)


def test_a_run_whose_worker_is_silent_waits_again_and_the_old_worker_is_not_heard():
    run, claim = started()
    assert runs_sweep(now=after(SILENT_SECONDS)) == 0
    assert runs_sweep(now=after(SILENT_SECONDS + 1)) == 1
    run.refresh_from_db()
    assert (run.state, run.claim) == (RunState.QUEUED, None)
    assert not finish(run, claim)
    again = uuid4()
    assert run_start(claim=again, now=after(20)).pk == run.pk
    assert not finish(run, claim)
    assert finish(run, again)


def test_after_the_second_silent_worker_it_fails_in_words():
    run, _ = started()
    runs_sweep(now=after(20))
    run_start(claim=uuid4(), now=after(21))
    runs_sweep(now=after(50))
    run.refresh_from_db()
    assert run.state == RunState.FAILED
    assert "ended 2 times" in run.error


def test_a_silent_one_that_was_cancelled_ends_so():
    run, _ = started()
    run_cancel(run=run, actor=None, now=after(2))
    runs_sweep(now=after(40))
    assert Run.objects.get(pk=run.pk).state == RunState.CANCELLED


def test_a_worker_that_is_told_to_stop_gives_its_run_back_untried():
    run, claim = started()
    assert run_give_back(run_id=run.pk, claim=claim, now=after(3))
    run.refresh_from_db()
    assert (run.state, run.tries) == (RunState.QUEUED, 0)


def test_every_step_is_audited():
    run, claim = started()
    runs_sweep(now=after(20))
    claim = uuid4()
    run_start(claim=claim, now=after(21))
    finish(run, claim)
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["run_request", "run_start", "run_requeue", "run_start", "run_done"]


def test_a_trace_that_no_run_uses_is_removed_after_a_day():
    unused = trace_store(name="a", content=b"a", author=None, now=after(0))
    used = trace_store(name="tiny.csv", content=TINY_TRACE, author=None, now=after(0))
    run_make(source=Source.TRACE, trace=used, scenario=TINY)
    assert traces_sweep(now=after(86_400)) == 0
    assert traces_sweep(now=after(86_401)) == 1
    assert set(UploadedTrace.objects.values_list("pk", flat=True)) == {used.pk}
    assert AuditEntry.objects.get(action="trace_remove").target_id == unused.pk
