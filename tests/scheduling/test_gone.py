"""Hosts that die, come back, or lose a GPU (R15)."""

from typing import Any

import pytest

from portal.clusters.models import Host, HostEvent, HostSpan, HostState
from portal.clusters.services import host_uncordon
from portal.scheduling.services import hosts_silence_note
from portal.usage.selectors import charged_gpu_seconds, occupancy_by_standing
from portal.workloads.models import Attempt, AttemptState, GpuClaim, Outcome, Standing, WorkloadState
from portal.workloads.services import workload_cancel
from tests.factories import after, user_make
from tests.scheduling.conftest import Lab, attempt_of, fresh, seconds

P, F, U, S, R = Standing.PROTECTED, Standing.FUNDED, Standing.UNALLOCATED, Standing.STOPPING, Standing.REFUNDED


def spans(host: Host) -> list[tuple[str, int, int | None]]:
    rows = HostSpan.objects.filter(host=host).order_by("start_at")
    return [(row.state, seconds(row.start_at), None if row.end_at is None else seconds(row.end_at)) for row in rows]


def ledger_on(host: Host, attempt: Attempt) -> list[tuple[str, int, int | None]]:
    rows = attempt.segments.filter(host=host).order_by("start_at")
    return [(row.standing, seconds(row.start_at), None if row.end_at is None else seconds(row.end_at)) for row in rows]


def saved(attempt: Attempt, ago: int, replica: int = 0) -> dict[str, Any]:
    said = {"attempt": attempt.pk, "replica": replica, "state": "running", "exit_code": None, "detail": ""}
    return {"replicas": [{**said, "checkpointed_ago_seconds": ago}]}


def die(lab: Lab, heard: int, found: int) -> None:
    """The first host was last heard at `heard`; the others and the portal itself are heard until `found`."""
    for at in range(0, found + 1, 10):
        for host in lab.hosts[1:]:
            running = [(claim.attempt, claim.replica) for claim in GpuClaim.objects.filter(host=host).distinct()]
            lab.report(host, at, running={(one, replica) for one, replica in running})
    lab.hear_itself(0, found)
    assert seconds(fresh(lab.hosts[0]).last_heard_at) == heard
    lab.make_pass(found)


def test_what_runs_on_a_host_that_dies_silently_ends_and_is_not_charged_past_the_last_heartbeat(lab: Lab) -> None:
    """skypilot-org/skypilot#7117 (case 48)."""
    attempt = lab.start(0, gpus=8, minimum=600)
    lab.report(lab.hosts[0], 100, **saved(attempt, ago=30))
    die(lab, heard=100, found=150)
    assert fresh(attempt).state == AttemptState.RUNNING
    die(lab, heard=100, found=160)
    ended, workload = fresh(attempt), fresh(attempt.workload)
    assert (ended.outcome, seconds(ended.ended_at)) == (Outcome.HOST_FAILED, 160)
    assert (workload.submitted_at, workload.queued_at) == (after(0), after(160))
    assert ledger_on(lab.hosts[0], attempt) == [(P, 0, 70), (R, 70, 100)]
    assert charged_gpu_seconds(workload=workload, at=after(160)) == 8 * 70
    assert attempt_of(workload).claims.all()[0].host == lab.hosts[1]


def test_the_dead_hosts_history_ends_at_its_last_heartbeat_too(lab: Lab) -> None:
    lab.report(lab.hosts[0], 40)
    die(lab, heard=40, found=120)
    assert spans(lab.hosts[0]) == [("schedulable", 0, 40), ("unreachable", 40, None)]
    assert spans(lab.hosts[1]) == [("schedulable", 0, None)]


def test_what_a_pass_wrote_after_the_last_heartbeat_is_taken_back(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, minimum=105)
    lab.report(lab.hosts[0], 100, running=[(attempt, 0)])
    lab.make_pass(150)
    assert ledger_on(lab.hosts[0], attempt) == [(P, 0, 105), (F, 105, None)]
    die(lab, heard=100, found=170)
    assert ledger_on(lab.hosts[0], attempt) == [(R, 0, 100)]


def test_the_rest_of_a_gang_is_stopping_from_the_last_heartbeat_until_its_hosts_say_that_it_is_gone(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, replicas=2, minimum=600)
    lab.report(lab.hosts[0], 100, running=[(attempt, 0)])
    die(lab, heard=100, found=165)
    assert (fresh(attempt).state, fresh(attempt).stop_cause) == (AttemptState.STOPPING, Outcome.HOST_FAILED)
    assert ledger_on(lab.hosts[0], attempt) == [(R, 0, 100)]
    assert ledger_on(lab.hosts[1], attempt) == [(R, 0, 100), (S, 100, None)]
    lab.report(lab.hosts[1], 180, exited={(attempt, 1): 143})
    assert ledger_on(lab.hosts[1], attempt) == [(R, 0, 100), (S, 100, 180)]
    assert fresh(attempt).outcome == Outcome.HOST_FAILED
    assert fresh(attempt.workload).state == WorkloadState.PENDING


@pytest.mark.parametrize("minimum", [600, 7200])
def test_at_most_an_hour_or_the_minimum_runtime_is_given_back(lab: Lab, minimum: int) -> None:
    attempt = lab.start(0, gpus=8, minimum=minimum)
    lab.report(lab.hosts[0], 10_000, running=[(attempt, 0)])
    lab.report(lab.hosts[1], 10_060)
    lab.hear_itself(9990, 10_070)
    lab.make_pass(10_070)
    given_back = sum(end - start for standing, start, end in lab.ledger(attempt) if standing == R and end)
    assert given_back == max(minimum, 3600)


def test_unallocated_time_is_not_given_back(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8)
    lab.report(lab.hosts[0], 100, running=[(attempt, 0)])
    die(lab, heard=100, found=170)
    assert ledger_on(lab.hosts[0], attempt) == [(U, 0, 100)]


def test_what_is_not_resumable_ends_as_a_host_failure(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, minimum=600, resumable=False)
    die(lab, heard=0, found=60)
    assert fresh(attempt.workload).state == WorkloadState.HOST_FAILED
    assert lab.ledger(attempt) == []


def test_what_a_person_cancelled_stays_cancelled_when_its_host_dies(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, minimum=600)
    workload_cancel(workload=attempt.workload, actor=lab.author, now=after(20))
    lab.make_pass(20)
    lab.report(lab.hosts[0], 30, running=[(attempt, 0)])
    die(lab, heard=30, found=100)
    assert fresh(attempt.workload).state == WorkloadState.CANCELLED
    assert ledger_on(lab.hosts[0], attempt) == [(P, 0, 20), (S, 20, 30)]


@pytest.mark.parametrize(
    ("heard_itself", "found"),
    [
        pytest.param([], 600, id="no probe ever came through"),
        pytest.param([(0, 100)], 600, id="broker or receiver went down"),
        pytest.param([(0, 100), (550, 600)], 600, id="they are back for less than a minute"),
    ],
)
def test_silence_that_may_be_the_portals_own_ends_nothing(
    lab: Lab, heard_itself: list[tuple[int, int]], found: int
) -> None:
    attempt = lab.start(0, gpus=8, replicas=2, minimum=60)
    for host, replica in ((lab.hosts[0], 0), (lab.hosts[1], 1)):
        lab.report(host, 95, running=[(attempt, replica)])
    for since, until in heard_itself:
        lab.hear_itself(since, until)
    hosts_silence_note(now=after(found))
    lab.make_pass(found)
    assert fresh(attempt).state == AttemptState.RUNNING
    assert {fresh(host).gone_at for host in lab.hosts} == {None}


def test_a_probe_that_waited_behind_reports_speaks_only_of_the_time_before_it_was_sent(lab: Lab) -> None:
    """The receiver is slow: what hosts said meanwhile lies behind the probe."""
    from portal.scheduling.models import ReportsProbe
    from portal.scheduling.probe import probe_note

    attempt = lab.start(0, gpus=8, minimum=600)
    lab.hear_itself(0, 40)
    lab.report(lab.hosts[0], 30, running=[(attempt, 0)])
    for sent_at, passed_at in ((50, 60), (60, 80), (70, 100)):
        sequence = int(after(sent_at).timestamp() * 1000)
        probe_note(ReportsProbe.objects.first(), sequence=sequence, now=after(passed_at))
    lab.make_pass(100)
    assert fresh(attempt).state == AttemptState.RUNNING


def test_a_host_that_comes_back_takes_work_once_it_says_that_it_is_empty(
    lab: Lab, django_capture_on_commit_callbacks: Any
) -> None:
    attempt = lab.start(0, gpus=8, minimum=600)
    die(lab, heard=0, found=60)
    with django_capture_on_commit_callbacks(execute=True):
        lab.told.clear()
        lab.report(lab.hosts[0], 200, running=[(attempt, 0)])
    assert lab.told == {lab.hosts[0].pk}
    assert fresh(lab.hosts[0]).state == HostState.UNREACHABLE
    lab.report(lab.hosts[0], 220, exited={(attempt, 0): 143})
    assert fresh(lab.hosts[0]).state == HostState.SCHEDULABLE
    assert spans(lab.hosts[0])[-1] == ("schedulable", 220, None)
    assert "empty" in HostEvent.objects.filter(host=lab.hosts[0]).values_list("kind", flat=True)


def test_a_machine_stopped_for_twenty_minutes_with_the_portal_is_not_charged_nor_schedulable_for_them(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, minimum=600)
    lab.report(lab.hosts[0], 100, **saved(attempt, ago=20))
    lab.make_pass(1300)
    lab.report(lab.hosts[0], 1305, boot_id="another boot")
    assert fresh(attempt).outcome == Outcome.HOST_FAILED
    assert ledger_on(lab.hosts[0], attempt) == [(P, 0, 80), (R, 80, 100)]
    assert spans(lab.hosts[0]) == [("schedulable", 0, 100), ("unreachable", 100, 1305), ("schedulable", 1305, None)]
    assert fresh(attempt.workload).state == WorkloadState.PENDING


def test_a_timeout_that_came_due_while_the_machine_was_off_does_not_end_the_workload(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, minimum=60, timeout_seconds=600)
    lab.report(lab.hosts[0], 100, running=[(attempt, 0)])
    lab.make_pass(1300)
    assert fresh(attempt).stop_cause == Outcome.TIMED_OUT
    lab.report(lab.hosts[0], 1305, boot_id="another boot")
    assert fresh(attempt.workload).state == WorkloadState.PENDING
    assert ledger_on(lab.hosts[0], attempt) == [(R, 0, 100)]


def test_an_agent_that_was_away_and_finds_its_replica_lost_ends_it_at_its_last_heartbeat(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, minimum=600)
    lab.report(lab.hosts[0], 100, running=[(attempt, 0)])
    said = {"attempt": attempt.pk, "replica": 0, "state": "exited", "exit_code": None, "detail": "lost"}
    lab.report(lab.hosts[0], 400, replicas=[{**said, "checkpointed_ago_seconds": None}])
    assert ledger_on(lab.hosts[0], attempt) == [(R, 0, 100)]
    assert ("unreachable", 100, 400) in spans(lab.hosts[0])


def test_a_host_that_was_only_not_heard_keeps_what_it_runs_and_its_history(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, minimum=600)
    lab.report(lab.hosts[0], 400, running=[(attempt, 0)])
    assert ledger_on(lab.hosts[0], attempt) == [(P, 0, None)]
    assert spans(lab.hosts[0]) == [("schedulable", 0, None)]


def test_after_a_host_died_the_ledger_still_equals_occupancy(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, replicas=2, minimum=600)
    lab.report(lab.hosts[0], 100, **saved(attempt, ago=30))
    die(lab, heard=100, found=165)
    lab.report(lab.hosts[1], 180, exited={(attempt, 1): 143})
    by_standing = occupancy_by_standing(
        cluster=lab.cluster, start=after(0), end=after(200), step_seconds=50
    ).by_standing
    occupied = sum(
        (claim.occupied.upper - claim.occupied.lower).total_seconds()
        for claim in GpuClaim.objects.filter(attempt=attempt)
        if not claim.occupied.isempty
    )
    assert sum(sum(column) for column in by_standing.values()) == occupied == 8 * 100 + 8 * 180


def test_gpus_kept_for_a_workload_on_a_host_that_dies_are_given_up(lab: Lab) -> None:
    for _ in lab.hosts:
        lab.start(0, gpus=8, project=lab.vision)
    taker = lab.submit(at=1, gpus=8, replicas=2, minimum=600)
    lab.make_pass(1)
    die(lab, heard=0, found=60)
    assert attempt_of(taker).outcome == Outcome.HOST_FAILED
    assert (fresh(taker).state, fresh(taker).queued_at) == (WorkloadState.PENDING, after(1))
    assert not GpuClaim.objects.filter(held__upper_inf=True).exists()


def test_a_gpu_that_fell_off_the_bus_ends_what_runs_on_it_and_the_host_takes_no_new_work(lab: Lab) -> None:
    hit = lab.start(0, gpus=2, minimum=600)
    spared = lab.start(0, gpus=2, minimum=600)
    host = lab.hosts[0]
    lab.report(host, 50, running=[(hit, 0), (spared, 0)], faults=[{"gpu": 1, "kind": "gpu_lost"}])
    assert (fresh(host).state, fresh(host).state_cause) == (HostState.UNHEALTHY, "GPU 1 has fallen off the bus")
    assert (fresh(hit).state, fresh(spared).state) == (AttemptState.STOPPING, AttemptState.RUNNING)
    assert lab.ledger(hit) == [(R, 0, 50), (S, 50, None)]
    lab.report(host, 55, running=[(spared, 0)], exited={(hit, 0): 143}, faults=[{"gpu": 1, "kind": "gpu_lost"}])
    assert fresh(hit).outcome == Outcome.HOST_FAILED
    assert fresh(host).state == HostState.UNHEALTHY


def test_a_person_who_overrides_a_fault_is_obeyed_until_that_is_lifted(lab: Lab) -> None:
    """planetlabs/draino#17 (case 46)."""
    from portal.clusters.health import host_override_lift

    host, operator = lab.hosts[0], user_make(is_operator=True)
    fault = [{"gpu": 1, "kind": "gpu_lost"}]
    lab.report(host, 50, faults=fault)
    host_uncordon(host=host, actor=operator, now=after(60))
    lab.report(host, 70, faults=fault)
    assert fresh(host).state == HostState.SCHEDULABLE
    lab.report(host, 80, faults=[*fault, {"gpu": 2, "kind": "gpu_lost"}])
    assert fresh(host).state_cause == "GPU 2 has fallen off the bus"
    host_uncordon(host=host, actor=operator, now=after(90))
    host_override_lift(host=host, actor=operator, now=after(100))
    lab.report(host, 110, faults=fault)
    assert fresh(host).state == HostState.UNHEALTHY


def test_a_machine_started_anew_without_the_fault_is_healthy_again(lab: Lab) -> None:
    lab.report(lab.hosts[0], 50, faults=[{"gpu": 1, "kind": "gpu_lost"}])
    lab.report(lab.hosts[0], 60)
    assert fresh(lab.hosts[0]).state == HostState.UNHEALTHY
    lab.report(lab.hosts[0], 600, boot_id="repaired")
    assert fresh(lab.hosts[0]).state == HostState.SCHEDULABLE
