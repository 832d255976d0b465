"""What hosts say: gangs run and end, GPUs come free, and what is said too late touches nothing."""

from typing import Any

from portal.clusters.models import Host
from portal.workloads.models import AttemptState, GpuClaim, Outcome, Standing, WorkloadState
from tests.factories import after
from tests.scheduling.conftest import Lab, attempt_of, fresh, seconds


def test_the_minimum_runtime_starts_when_the_last_replica_runs(lab: Lab) -> None:
    workload = lab.submit(gpus=8, replicas=2, minimum=600)
    lab.make_pass(0)
    attempt = attempt_of(workload)
    lab.report(lab.hosts[0], 5, running=[(attempt, 0)])
    assert fresh(attempt).running_at is None
    lab.report(lab.hosts[1], 9, running=[(attempt, 1)])
    assert seconds(fresh(attempt).running_at) == 9
    assert lab.ledger(attempt) == [(Standing.PROTECTED, 0, None)] * 2


def test_a_gang_whose_replicas_all_exit_with_0_has_succeeded(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, replicas=2)
    lab.report(lab.hosts[0], 50, exited={(attempt, 0): 0})
    assert fresh(attempt).state == AttemptState.RUNNING
    lab.report(lab.hosts[1], 60, exited={(attempt, 1): 0})
    workload = fresh(attempt.workload)
    assert (workload.state, workload.exit_code) == (WorkloadState.SUCCEEDED, 0)
    assert lab.ledger(attempt) == [(Standing.UNALLOCATED, 0, 60)] * 2


def test_one_failed_replica_stops_the_others(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, replicas=2, minimum=600)
    lab.report(lab.hosts[0], 50, exited={(attempt, 0): 3})
    assert (fresh(attempt).state, fresh(attempt).stop_grace_seconds) == (AttemptState.STOPPING, 60)
    lab.all_stop(55)
    workload = fresh(attempt.workload)
    assert (workload.state, workload.exit_code) == (WorkloadState.FAILED, 3)
    assert "Replica 0 exited with 3" in workload.reason_text
    assert sorted(lab.ledger(attempt)) == [
        (Standing.PROTECTED, 0, 50),
        (Standing.PROTECTED, 0, 50),
        (Standing.STOPPING, 50, 55),
    ]


def test_a_workload_that_ends_before_it_was_ever_seen_running_is_counted(lab: Lab) -> None:
    workload = lab.submit(minimum=600)
    lab.make_pass(0)
    lab.report(lab.hosts[0], 8, exited={(attempt_of(workload), 0): 0})
    assert fresh(workload).state == WorkloadState.SUCCEEDED
    assert lab.ledger() == [(Standing.PROTECTED, 0, 8)]


def test_a_report_said_twice_changes_nothing_the_second_time(lab: Lab) -> None:
    attempt = lab.start(0)
    for at in (20, 30):
        lab.report(lab.hosts[0], at, exited={(attempt, 0): 0})
    assert lab.ledger(attempt) == [(Standing.UNALLOCATED, 0, 20)]


def test_freed_gpus_start_the_next_workload(lab: Lab) -> None:
    first = lab.start(0, gpus=8, replicas=2)
    waiting = lab.submit(at=10, gpus=8, replicas=2)
    assert lab.make_pass(10).starts == 0
    lab.report(lab.hosts[0], 20, exited={(first, 0): 0})
    lab.report(lab.hosts[1], 20, exited={(first, 1): 0})
    lab.make_pass(20)
    assert attempt_of(waiting).assigned_at == after(20)


def test_a_late_end_report_of_an_earlier_attempt_touches_neither_the_new_one_nor_the_charge(lab: Lab) -> None:
    """ROCm/spur#474: preempted, requeued, started on the same host; then the first attempt's end arrives."""
    old = lab.start(0, gpus=8)
    other = lab.start(0, gpus=8)
    taker = lab.submit(at=10, gpus=8, minimum=600, replicas=2, project=lab.vision)
    lab.make_pass(10)
    lab.all_stop(12)
    assert fresh(old).outcome == Outcome.PREEMPTED
    lab.all_run(13)
    host = lab.hosts[0]
    lab.report(host, 700, exited={(attempt_of(taker), 0): 0})
    lab.report(lab.hosts[1], 700, exited={(attempt_of(taker), 1): 0})
    lab.make_pass(700)
    lab.all_run(701)
    new = attempt_of(old.workload)
    assert new.pk != old.pk
    home = Host.objects.get(claims__attempt=new, claims__gpu_index=0)
    before = lab.ledger()
    lab.report(home, 710, running=[(new, 0)], exited={(old, 0): 143, (other, 0): 143})
    assert (fresh(new).state, fresh(old).ended_at) == (AttemptState.RUNNING, after(12))
    assert lab.ledger() == before


def test_a_host_cannot_speak_of_attempts_on_other_hosts(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8)
    elsewhere = next(host for host in lab.hosts if not host.claims.exists())
    lab.report(elsewhere, 10, exited={(attempt, 0): 1})
    assert fresh(attempt).state == AttemptState.RUNNING


def test_an_attempt_that_a_rebooted_host_no_longer_has_is_requeued(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, minimum=600)
    lab.report(lab.hosts[0], 25, running=[(attempt, 0)])
    lab.report(lab.hosts[0], 30, boot_id="another boot")
    workload = fresh(attempt.workload)
    assert fresh(attempt).outcome == Outcome.HOST_FAILED
    assert (workload.state, workload.queued_at, workload.submitted_at) == (WorkloadState.PENDING, after(30), after(0))
    assert lab.ledger(attempt) == [(Standing.REFUNDED, 0, 25)]


def test_what_is_not_resumable_ends_as_a_host_failure(lab: Lab) -> None:
    attempt = lab.start(0, resumable=False, minimum=600)
    lab.report(lab.hosts[0], 30, exited={(attempt, 0): None})
    assert fresh(attempt.workload).state == WorkloadState.HOST_FAILED


def test_what_a_host_could_not_start_at_all_has_failed_and_is_not_tried_again(lab: Lab) -> None:
    workload = lab.submit()
    lab.make_pass(0)
    said = {"attempt": attempt_of(workload).pk, "replica": 0, "state": "exited", "exit_code": None}
    lab.report(lab.hosts[0], 3, replicas=[{**said, "detail": "no room on the disk", "checkpointed_ago_seconds": None}])
    assert attempt_of(workload).outcome == Outcome.START_FAILED
    assert fresh(workload).state == WorkloadState.FAILED
    assert "no room on the disk" in fresh(workload).reason_text


def test_silence_about_a_running_attempt_counts_once_the_host_is_up_to_date(lab: Lab) -> None:
    attempt = lab.start(0, minimum=600)
    Host.objects.filter(pk=lab.hosts[0].pk).update(desired_sequence=7)
    lab.report(lab.hosts[0], 10, desired_sequence=6)
    assert fresh(attempt).state == AttemptState.RUNNING
    lab.report(lab.hosts[0], 20, desired_sequence=7)
    assert fresh(attempt).outcome == Outcome.HOST_FAILED


def test_an_attempt_that_the_host_was_not_yet_told_of_is_not_missed(lab: Lab) -> None:
    workload = lab.submit()
    lab.make_pass(0)
    lab.report(lab.hosts[0], 1)
    assert attempt_of(workload).state == AttemptState.ASSIGNED


def test_a_host_with_what_it_should_not_have_is_told_again(lab: Lab, django_capture_on_commit_callbacks: Any) -> None:
    attempt = lab.start(0)
    lab.report(lab.hosts[0], 20, exited={(attempt, 0): 0})
    with django_capture_on_commit_callbacks(execute=True):
        lab.report(lab.hosts[0], 30, exited={(attempt, 0): 0})
    assert lab.told == {lab.hosts[0].pk}


def test_checkpoints_are_measured_on_the_servers_clock_and_never_go_back(lab: Lab) -> None:
    attempt = lab.start(0, minimum=600)
    said = {"attempt": attempt.pk, "replica": 0, "state": "running", "exit_code": None, "detail": ""}
    for at, ago, expected in ((100, 40, 60), (110, 80, 60), (200, 5, 195)):
        lab.report(lab.hosts[0], at, replicas=[{**said, "checkpointed_ago_seconds": ago}])
        assert seconds(fresh(attempt).checkpointed_at) == expected


def test_a_host_has_never_fewer_gpus_than_attempts_have_there(lab: Lab) -> None:
    attempt = lab.start(0, gpus=5)
    host = attempt.claims.all()[0].host
    lab.report(host, 20, running=[(attempt, 0)], gpus=2)
    assert fresh(host).gpus == 5
    lab.report(host, 30, exited={(attempt, 0): 0}, gpus=2)
    lab.report(host, 40, gpus=2)
    assert fresh(host).gpus == 2


def test_a_host_cannot_make_up_a_million_gpus(lab: Lab) -> None:
    lab.report(lab.hosts[0], 20, gpus=1_048_576)
    assert fresh(lab.hosts[0]).gpus == 1024


def test_a_host_that_was_registered_larger_keeps_its_gpus(lab: Lab) -> None:
    Host.objects.filter(pk=lab.hosts[0].pk).update(gpus=4096)
    lab.report(lab.hosts[0], 20, gpus=4096)
    assert fresh(lab.hosts[0]).gpus == 4096
    lab.report(lab.hosts[0], 30, gpus=5000)
    assert fresh(lab.hosts[0]).gpus == 4096


def test_a_report_without_news_takes_no_lock_and_few_queries(lab: Lab, django_assert_max_num_queries: Any) -> None:
    attempt = lab.start(0)
    with django_assert_max_num_queries(9):
        lab.report(lab.hosts[0], 10, running=[(attempt, 0)])


def test_no_gpu_is_occupied_by_an_attempt_that_has_ended(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, replicas=2)
    for replica, host in enumerate(lab.hosts):
        lab.report(host, 20, exited={(attempt, replica): 0})
    assert not GpuClaim.objects.filter(occupied__upper_inf=True).exists()
