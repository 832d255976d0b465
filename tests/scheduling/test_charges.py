"""The ledger under passes and reports: what is charged, to the second."""

import threading

import pytest
from django.db import connection

from portal.scheduling.models import Balance
from portal.usage.selectors import charged_gpu_seconds
from portal.workloads.models import Attempt, AttemptState, Outcome, Standing, WorkloadState
from portal.workloads.services import workload_cancel
from tests.factories import after
from tests.scheduling.conftest import Lab, attempt_of, fresh


def usage(lab: Lab, at: int) -> int:
    """GPU-seconds that count against the project after a pass."""
    lab.make_pass(at)
    return Balance.objects.get(project=lab.nlp).usage_gpu_seconds


def test_a_long_contract_that_ends_early_is_charged_for_what_it_ran(lab: Lab) -> None:
    """openpbs/openpbs#2407: while it ran, the remainder counted against the balance."""
    attempt = lab.start(0, gpus=4, minimum=8 * 3600)
    assert usage(lab, 300) == 4 * 8 * 3600
    lab.report(lab.hosts[0], 600, exited={(attempt, 0): 0})
    assert usage(lab, 610) == 4 * 600
    assert charged_gpu_seconds(workload=attempt.workload) == 4 * 600


@pytest.mark.parametrize(("at", "standing"), [(599, "protected"), (600, "funded"), (601, "funded")])
def test_protection_ends_at_exactly_the_minimum_runtime(lab: Lab, at: int, standing: str) -> None:
    attempt = lab.start(0, minimum=600)
    lab.make_pass(at)
    assert fresh(attempt).standing == standing


def test_the_turn_to_funded_is_written_at_its_exact_second_however_late_the_pass_is(lab: Lab) -> None:
    attempt = lab.start(0, minimum=605)
    lab.make_pass(5000)
    assert lab.ledger(attempt) == [(Standing.PROTECTED, 0, 605), (Standing.FUNDED, 605, None)]


def test_what_was_decided_and_withdrawn_before_it_started_is_charged_nothing(lab: Lab) -> None:
    """kubernetes-sigs/kueue#12787."""
    for _ in lab.hosts:
        lab.start(0, gpus=8, project=lab.vision)
    workload = lab.submit(at=10, gpus=8, minimum=3600)
    lab.make_pass(10)
    assert usage(lab, 12) == 8 * 3600
    workload_cancel(workload=workload, actor=lab.author, now=after(14))
    assert usage(lab, 20) == 0
    assert charged_gpu_seconds(workload=workload) == 0


def test_a_workload_of_20_seconds_between_two_passes_is_charged_20_seconds(lab: Lab) -> None:
    workload = lab.submit(minimum=300)
    lab.make_pass(0)
    lab.all_run(0)
    lab.report(lab.hosts[0], 20, exited={(attempt_of(workload), 0): 0})
    assert usage(lab, 60) == 20


def test_unallocated_time_is_charged_nothing(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8)
    lab.make_pass(36_000)
    assert usage(lab, 36_000) == 0
    assert charged_gpu_seconds(workload=attempt.workload) == 0


def test_usage_is_the_same_whether_read_as_it_runs_or_afterwards_from_segments(lab: Lab) -> None:
    """kueue#12891, volcano#5193: nothing is kept but the segments, so a kill in between can't lose a charge."""
    attempt = lab.start(0, gpus=2, minimum=300)
    assert usage(lab, 5000) == 2 * 5000
    lab.report(lab.hosts[0], 5000, exited={(attempt, 0): 0})
    Balance.objects.all().delete()
    assert usage(lab, 9000) == 2 * 5000


@pytest.mark.django_db(transaction=True)
def test_two_workers_that_record_starts_at_once_keep_both() -> None:
    """kubernetes-sigs/kueue#13287."""
    lab = Lab()
    attempts = []
    for _ in range(2):
        workload = lab.submit(gpus=2, minimum=600)
        lab.make_pass(0)
        attempts.append(attempt_of(workload))
    gate = threading.Barrier(2)

    def say(attempt: Attempt) -> None:
        gate.wait(timeout=30)
        lab.report(lab.hosts[0], 5, running=[(attempt, 0)])
        connection.close()

    threads = [threading.Thread(target=say, args=[attempt]) for attempt in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert {fresh(attempt).running_at for attempt in attempts} == {after(5)}


@pytest.mark.parametrize("cut", [1, 37, 600, 615, 700, 2000])
def test_the_ledger_equals_occupancy_over_any_range_cut_anywhere(lab: Lab, cut: int) -> None:
    """The same GPUs, counted from claims (what was occupied) and from segments (what was recorded)."""
    first = lab.start(0, gpus=8, minimum=600)
    lab.start(3, gpus=8, project=lab.vision)
    lab.submit(at=610, gpus=8, minimum=600, project=lab.nlp)
    lab.make_pass(610)
    lab.all_stop(618)
    lab.all_run(619)
    lab.report(first.claims.all()[0].host, 700, exited={(first, 0): 0})
    lab.make_pass(700)
    with connection.cursor() as cursor:
        cursor.execute(CLAIMS, [after(cut)])
        occupied = cursor.fetchone()[0]
        cursor.execute(SEGMENTS, [after(cut)])
        assert cursor.fetchone()[0] == occupied > 0


CLAIMS = """
SELECT sum(extract(epoch FROM upper(part) - lower(part)))::bigint FROM (
    SELECT occupied * tstzrange('2026-11-01', %s) AS part FROM workloads_gpuclaim) AS parts
"""
SEGMENTS = """
SELECT sum(gpus * extract(epoch FROM upper(part) - lower(part)))::bigint FROM (
    SELECT gpus, tstzrange(start_at, end_at) * tstzrange('2026-11-01', %s) AS part FROM usage_segment) AS parts
"""


def test_the_timeout_counts_from_the_gangs_running_and_ends_it_as_timed_out(lab: Lab) -> None:
    workload = lab.submit(minimum=60, timeout_seconds=100)
    lab.make_pass(0)
    lab.all_run(7)
    lab.make_pass(106)
    assert attempt_of(workload).state == AttemptState.RUNNING
    lab.make_pass(107)
    assert attempt_of(workload).stop_cause == Outcome.TIMED_OUT
    lab.all_stop(109)
    assert fresh(workload).state == WorkloadState.TIMED_OUT


def test_a_running_workload_that_is_cancelled_gets_its_grace_time_uncharged(lab: Lab) -> None:
    attempt = lab.start(0, minimum=600)
    workload_cancel(workload=attempt.workload, actor=lab.author, now=after(100))
    lab.make_pass(100)
    assert fresh(attempt).stop_grace_seconds == 60
    lab.all_stop(120)
    assert fresh(attempt.workload).state == WorkloadState.CANCELLED
    assert lab.ledger(attempt) == [(Standing.PROTECTED, 0, 100), (Standing.STOPPING, 100, 120)]


def test_a_gang_that_is_not_running_in_ten_minutes_has_failed_to_start(lab: Lab) -> None:
    workload = lab.submit(minimum=600)
    lab.make_pass(0)
    lab.report(lab.hosts[0], 598)
    lab.make_pass(599)
    assert attempt_of(workload).state == AttemptState.ASSIGNED
    lab.make_pass(601)
    assert attempt_of(workload).stop_cause == Outcome.START_FAILED
    lab.report(lab.hosts[0], 610)
    assert fresh(workload).state == WorkloadState.FAILED


def test_work_past_its_minimum_lapses_when_the_budget_is_spent_and_returns_when_it_recovers(lab: Lab) -> None:
    """Twice its share for four days spends more than the window's quota; two days later enough has left the window."""
    attempt = lab.start(0, gpus=8, replicas=2, minimum=600)
    day = 86_400
    lab.make_pass(4 * day)
    assert (fresh(attempt).standing, fresh(attempt).lapsed) == (Standing.UNALLOCATED, True)
    lapsed_at = 4 * day
    lab.make_pass(9 * day)
    assert fresh(attempt).standing == Standing.FUNDED
    standings = [standing for standing, *_ in lab.ledger(attempt)]
    assert standings[::2] == [Standing.PROTECTED, Standing.FUNDED, Standing.UNALLOCATED, Standing.FUNDED]
    assert lab.ledger(attempt)[2][2] == lapsed_at
