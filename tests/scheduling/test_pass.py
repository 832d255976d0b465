"""One pass: what it writes, when it writes nothing, and that it heals."""

import threading
from typing import Any

import pytest
from django.db import IntegrityError, connection

from portal.scheduling import services
from portal.scheduling.models import Balance, BalanceSample, Pass
from portal.scheduling.services import hosts_silence_note, pass_run
from portal.workloads.models import Attempt, GpuClaim, Standing, WorkloadEvent, WorkloadState
from scheduler.types import InvariantBroken
from tests.factories import after
from tests.scheduling.conftest import Lab, attempt_of, fresh, seconds


def test_a_funded_workload_gets_the_lowest_free_gpus_of_one_host(lab: Lab) -> None:
    lab.start(0, gpus=2, minimum=3600)
    second = lab.submit(at=10, gpus=2, minimum=3600)
    lab.make_pass(10)
    claims = GpuClaim.objects.filter(attempt=attempt_of(second))
    assert {(claim.host_id, claim.gpu_index) for claim in claims} == {(lab.hosts[0].pk, 2), (lab.hosts[0].pk, 3)}
    assert attempt_of(second).standing == Standing.PROTECTED


def test_the_host_is_told_after_the_commit(lab: Lab, django_capture_on_commit_callbacks: Any) -> None:
    lab.submit()
    with django_capture_on_commit_callbacks(execute=True):
        lab.make_pass(0)
        assert lab.told == set()
    assert lab.told == {lab.hosts[0].pk}


def test_a_started_workload_is_pending_with_its_reason_until_the_gang_runs(lab: Lab) -> None:
    workload = lab.submit(gpus=1)
    lab.make_pass(0)
    assert (fresh(workload).state, fresh(workload).reason_code) == (WorkloadState.PENDING, "starting")
    lab.all_run(3)
    assert fresh(workload).state == WorkloadState.RUNNING
    assert seconds(attempt_of(workload).running_at) == 3


def test_every_replica_of_a_gang_has_gpus_of_its_own(lab: Lab) -> None:
    workload = lab.submit(gpus=8, replicas=2)
    lab.make_pass(0)
    claims = GpuClaim.objects.filter(attempt=attempt_of(workload))
    assert {(claim.replica, claim.host_id) for claim in claims} == {(0, lab.hosts[0].pk), (1, lab.hosts[1].pk)}
    assert claims.count() == 16


def test_a_pass_run_twice_at_one_instant_changes_nothing_the_second_time(lab: Lab) -> None:
    for gpus in (8, 8, 4):
        lab.submit(gpus=gpus, minimum=3600)
    lab.make_pass(0)
    before = (list(Attempt.objects.values()), list(GpuClaim.objects.values()), WorkloadEvent.objects.count())
    again = lab.make_pass(0)
    assert (again.starts, again.preempts, again.stale) == (0, 0, 0)
    assert before == (list(Attempt.objects.values()), list(GpuClaim.objects.values()), WorkloadEvent.objects.count())


def test_every_pending_workload_has_a_reason_with_names(lab: Lab) -> None:
    lab.start(0, gpus=8, replicas=2, minimum=3600)
    waiting = lab.submit(at=10, gpus=8, project=lab.vision)
    lab.make_pass(10)
    row = fresh(waiting)
    assert row.reason_code == "unallocated_queue"
    assert "position 1" in row.reason_text
    assert row.reason["gpus_ahead"] == 0


def test_an_unchanged_reason_is_not_written_again(lab: Lab) -> None:
    lab.start(0, gpus=8, replicas=2, minimum=3600)
    lab.submit(at=10, gpus=8)
    lab.make_pass(10)
    with connection.cursor() as cursor:
        cursor.execute("SELECT xmin::text FROM workloads_workload ORDER BY id")
        before = cursor.fetchall()
        lab.make_pass(20)
        cursor.execute("SELECT xmin::text FROM workloads_workload ORDER BY id")
        assert cursor.fetchall() == before


def test_balances_are_kept_for_pages_and_sampled_once_an_hour(lab: Lab) -> None:
    lab.start(0, gpus=8, minimum=3600)
    for at in (0, 10, 3590, 3600, 3610):
        lab.make_pass(at)
    balance = Balance.objects.get(project=lab.nlp)
    assert (balance.share_ppb, seconds(balance.at)) == (500_000_000, 3610)
    assert balance.usage_gpu_seconds == 8 * 3610
    assert [seconds(row.at) for row in BalanceSample.objects.filter(project=lab.nlp).order_by("at")] == [0, 3600]


def test_a_clock_that_steps_back_counts_as_no_time(lab: Lab) -> None:
    attempt = lab.start(1000, gpus=1, minimum=3600)
    lab.make_pass(1300)
    stepped = lab.make_pass(1000)
    assert (seconds(stepped.now_at), stepped.clock_step_back_seconds) == (1300, 300)
    assert lab.ledger(attempt) == [(Standing.PROTECTED, 1000, None)]


def test_a_report_after_a_step_back_ends_no_segment_before_its_start(lab: Lab) -> None:
    attempt = lab.start(1000, gpus=1)
    lab.report(lab.hosts[0], 700, exited={(attempt, 0): 0})
    assert lab.ledger(attempt) == []
    assert fresh(attempt).ended_at == after(1000)


def test_a_broken_invariant_writes_no_row_and_is_recorded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise InvariantBroken("host 1 has 9 of 8 GPUs")

    monkeypatch.setattr(services.invariants, "check", broken)
    lab.submit()
    assert "9 of 8 GPUs" in lab.make_pass(0).error
    assert not Attempt.objects.exists()


@pytest.mark.parametrize("step", ["segments_open_many", "attempts_stop"])
def test_a_fault_in_the_middle_of_apply_leaves_nothing_half_written(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    lab.start(0, gpus=8, project=lab.vision)
    lab.start(0, gpus=7, project=lab.vision)
    lab.submit(at=10, gpus=8, minimum=3600)
    lab.submit(at=10, gpus=1, minimum=300)
    before = list(Attempt.objects.values())

    def fault(*_: Any, **__: Any) -> None:
        raise IntegrityError("pulled the plug")

    with monkeypatch.context() as patched, pytest.raises(IntegrityError):
        patched.setattr(f"portal.scheduling.starts.{step}", fault)
        lab.make_pass(10)
    assert list(Attempt.objects.values()) == before
    assert not GpuClaim.objects.filter(held__isnull=False).exists()
    assert Pass.objects.filter(now_at=after(10)).count() == 0
    assert lab.make_pass(10).starts == 2


def test_a_paused_cluster_is_left_alone(lab: Lab) -> None:
    type(lab.cluster).objects.update(paused_at=after(0))
    lab.submit()
    assert pass_run(cluster=lab.cluster, now=after(0), tell=lab.tell) is None
    assert not Attempt.objects.exists()


def test_a_silent_host_takes_no_new_work_until_it_is_heard_again(lab: Lab) -> None:
    for host in lab.hosts:
        lab.report(host, 0)
    running = lab.start(0, gpus=8)
    assert hosts_silence_note(now=after(60)) == []
    assert len(hosts_silence_note(now=after(61))) == 2
    waiting = lab.submit(at=61, gpus=1)
    lab.make_pass(70)
    assert fresh(waiting).reason_code == "no_schedulable_host"
    assert fresh(running).ended_at is None
    lab.report(lab.hosts[1], 80)
    assert lab.make_pass(80).starts == 1


@pytest.mark.django_db(transaction=True)
def test_two_schedulers_at_once_start_everything_once() -> None:
    lab = Lab()
    for _ in range(12):
        lab.submit(gpus=1, minimum=3600)
    results: list[Pass | None] = []
    gate = threading.Barrier(2)

    def schedule() -> None:
        gate.wait(timeout=30)
        results.append(pass_run(cluster=lab.cluster, now=after(0), tell=lab.tell))
        connection.close()

    threads = [threading.Thread(target=schedule) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(results) == 2
    assert sum(done.starts for done in results if done) == 12
    assert Attempt.objects.count() == 12
    assert sum(done.stale for done in results if done) == 0


def test_many_starts_and_stops_in_one_pass_are_written_as_one_by_one(db: None) -> None:
    """Thirty at once go in by COPY: the same rows as `save` would make."""
    lab = Lab(hosts=4)
    for number in range(30):
        lab.submit(at=number % 3, project=lab.vision)
    lab.make_pass(3)
    attempts = Attempt.objects.order_by("pk")
    assert attempts.count() == GpuClaim.objects.filter(occupied__upper_inf=True).count() == 30
    assert {attempt.reason["cause"] for attempt in attempts} == {"zero_min_runtime"}
    assert lab.ledger() == [(Standing.UNALLOCATED, 3, None)] * 30
    assert WorkloadEvent.objects.filter(kind="assigned", attempt__in=attempts).count() == 30
    lab.all_run(4)
    lab.submit(at=10, gpus=8, replicas=4, minimum=600)
    assert lab.make_pass(10).preempts == 30
    lab.all_stop(15)
    assert lab.ledger()[30:60] == [(Standing.STOPPING, 10, 15)] * 30
