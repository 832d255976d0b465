"""Emptying a host as its contracts end (R15)."""

from portal.clusters.models import Host, HostEvent, HostState
from portal.clusters.services import host_cordon, host_uncordon
from portal.workloads.models import Attempt, AttemptState, Outcome, Standing, WorkloadState
from tests.factories import after, user_make
from tests.scheduling.conftest import Lab, attempt_of, fresh, seconds

HOUR = 3600


def cordon(lab: Lab, at: int, host: Host | None = None) -> None:
    host_cordon(host=host or lab.hosts[0], reason="new fans", actor=user_make(is_operator=True), now=after(at))


def uncordon(lab: Lab, at: int) -> None:
    host_uncordon(host=lab.hosts[0], actor=user_make(is_operator=True), now=after(at))


def kinds(lab: Lab) -> list[str]:
    return list(HostEvent.objects.filter(host=lab.hosts[0]).order_by("at", "pk").values_list("kind", flat=True))


def one_host_with_three(lab: Lab) -> tuple[Attempt, Attempt, Attempt]:
    cordon(lab, 0, lab.hosts[1])
    return lab.start(0, minimum=HOUR), lab.start(0, minimum=5 * HOUR), lab.start(0)


def test_a_drained_host_empties_as_contracts_end_and_is_then_ready_for_repair(lab: Lab) -> None:
    """Contracts that end in 1 h and 5 h, and one unallocated workload (case 47)."""
    short, long, free = one_host_with_three(lab)
    cordon(lab, 100)
    lab.make_pass(100)
    assert [fresh(one).state for one in (short, long, free)] == ["running", "running", "stopping"]
    lab.all_stop(105)
    assert (fresh(free.workload).state, fresh(free).outcome) == (WorkloadState.PENDING, Outcome.PREEMPTED)
    waiting = lab.submit(at=110, minimum=60)
    for at in (110, HOUR - 1):
        assert lab.make_pass(at).starts == 0
    assert fresh(short).state == AttemptState.RUNNING
    lab.make_pass(HOUR)
    assert (fresh(short).state, fresh(long).state) == (AttemptState.STOPPING, AttemptState.RUNNING)
    lab.all_stop(HOUR + 20)
    lab.make_pass(5 * HOUR - 1)
    assert (fresh(long).state, fresh(lab.hosts[0]).ready_at) == (AttemptState.RUNNING, None)
    lab.make_pass(5 * HOUR)
    lab.all_stop(5 * HOUR + 30)
    lab.make_pass(5 * HOUR + 30)
    assert seconds(fresh(lab.hosts[0]).ready_at) == 5 * HOUR + 30
    assert kinds(lab) == ["cordoned", "ready"]
    assert fresh(waiting).state == WorkloadState.PENDING
    assert lab.ledger(short) == [(Standing.PROTECTED, 0, HOUR), (Standing.STOPPING, HOUR, HOUR + 20)]


def test_a_drain_that_is_cancelled_has_no_later_step(lab: Lab) -> None:
    """NVIDIA/NVSentinel#121 (case 45)."""
    short, long, free = one_host_with_three(lab)
    cordon(lab, 100)
    lab.make_pass(100)
    lab.all_stop(105)
    uncordon(lab, 200)
    lab.make_pass(200)
    lab.make_pass(HOUR + 10)
    lab.make_pass(6 * HOUR)
    assert [fresh(one).state for one in (short, long)] == ["running", "running"]
    assert attempt_of(free.workload).pk != free.pk
    assert "ready" not in kinds(lab)


def test_a_host_that_is_taken_back_is_no_longer_ready_for_repair(lab: Lab) -> None:
    cordon(lab, 0)
    lab.make_pass(0)
    assert seconds(fresh(lab.hosts[0]).ready_at) == 0
    uncordon(lab, 50)
    assert (fresh(lab.hosts[0]).ready_at, fresh(lab.hosts[0]).state) == (None, HostState.SCHEDULABLE)


def test_an_unhealthy_host_empties_like_a_cordoned_one_and_says_so_once(lab: Lab) -> None:
    """The fault is of a GPU that nothing runs on."""
    free = lab.start(0, resumable=False)
    assert free.claims.all()[0].host == lab.hosts[0]
    lab.report(lab.hosts[0], 10, running=[(free, 0)], faults=[{"gpu": 7, "kind": "gpu_lost"}])
    lab.make_pass(10)
    assert fresh(free).stop_cause == Outcome.PREEMPTED
    lab.all_stop(20)
    for at in (20, 30):
        lab.make_pass(at)
    assert kinds(lab) == ["unhealthy", "ready"]


def test_what_is_still_starting_on_a_drained_host_keeps_its_whole_contract(lab: Lab) -> None:
    workload = lab.submit(gpus=8, minimum=600)
    lab.make_pass(0)
    cordon(lab, 5)
    lab.make_pass(5)
    lab.all_run(10)
    lab.make_pass(609)
    assert attempt_of(workload).state == AttemptState.RUNNING
    lab.make_pass(610)
    assert attempt_of(workload).state == AttemptState.STOPPING


def test_a_gang_with_one_replica_on_a_drained_host_leaves_whole(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, replicas=2)
    cordon(lab, 10)
    lab.make_pass(10)
    lab.all_stop(15)
    assert fresh(attempt).outcome == Outcome.PREEMPTED
    assert lab.ledger(attempt) == [(Standing.UNALLOCATED, 0, 10)] * 2 + [(Standing.STOPPING, 10, 15)] * 2


def test_what_is_drained_and_not_resumable_ends_as_preempted(lab: Lab) -> None:
    attempt = lab.start(0, gpus=8, resumable=False)
    cordon(lab, 10)
    lab.make_pass(10)
    lab.all_stop(15)
    assert fresh(attempt.workload).state == WorkloadState.PREEMPTED


def test_gpus_kept_for_a_workload_do_not_become_its_own_on_a_host_that_was_closed_meanwhile(lab: Lab) -> None:
    for _ in lab.hosts:
        lab.start(0, gpus=8, project=lab.vision)
    taker = lab.submit(at=1, gpus=8, replicas=2, minimum=600)
    lab.make_pass(1)
    cordon(lab, 2)
    lab.all_stop(5)
    assert attempt_of(taker).assigned_at is None
    lab.make_pass(5)
    assert attempt_of(taker).outcome == Outcome.HOST_FAILED
    assert fresh(taker).state == WorkloadState.PENDING
