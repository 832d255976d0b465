"""Victims stop, GPUs are held, takers begin: R10 and R11 as rows."""

from typing import Any

from portal.clusters.models import HostState
from portal.workloads.models import Attempt, AttemptState, GpuClaim, Outcome, Standing, WorkloadState
from portal.workloads.selectors import events_told
from portal.workloads.services import workload_cancel
from tests.factories import after, user_make
from tests.scheduling.conftest import Lab, attempt_of, fresh, seconds


def full_of_unallocated(lab: Lab) -> list[Attempt]:
    return [lab.start(0, gpus=8, project=lab.vision) for _ in lab.hosts]


def taker_of(lab: Lab, at: int = 10, **fields: Any) -> Attempt:
    """A funded workload that needs both hosts."""
    workload = lab.submit(at=at, gpus=8, replicas=2, **{"minimum": 600, **fields})
    lab.make_pass(at)
    return attempt_of(workload)


def test_victims_are_told_to_stop_and_their_gpus_are_held_for_the_taker(lab: Lab) -> None:
    victims = full_of_unallocated(lab)
    taker = taker_of(lab)
    assert (taker.state, taker.assigned_at) == (AttemptState.ASSIGNED, None)
    for victim in map(fresh, victims):
        assert (victim.state, victim.taker_id, victim.stop_grace_seconds) == (AttemptState.STOPPING, taker.pk, 10)
    assert GpuClaim.objects.filter(attempt=taker, held__upper_inf=True, occupied=None).count() == 16
    assert fresh(taker.workload).reason_code == "held"


def test_a_victim_reads_who_took_its_gpus_only_where_it_may_see_that_project(lab: Lab) -> None:
    victim, _ = full_of_unallocated(lab)
    taker = taker_of(lab)
    outsider = user_make(project=lab.vision)
    told = {user: events_told(workload=victim.workload, user=user, limit=1)[0].text for user in (outsider, lab.author)}
    assert told[outsider].startswith(
        "Stopped for work of another project of higher balance: it ran unallocated in lab/v"
    )
    assert "nlp" not in told[outsider] and str(taker.workload_id) not in told[outsider]
    assert told[lab.author].startswith(f"Stopped for workload {taker.workload_id} of lab/nlp (balance ")
    assert all(text.endswith("Killed after 10 s at the latest.") for text in told.values())


def test_what_is_kept_of_a_preemption_names_nobody_in_its_text(lab: Lab) -> None:
    victim, _ = full_of_unallocated(lab)
    taker_of(lab)
    event = victim.workload.events.get(kind="stopping")
    assert "nlp" not in event.text
    assert event.data["named_projects"] == [lab.nlp.pk]


def test_a_preempted_attempt_is_occupied_and_not_charged_until_its_host_says_that_it_is_gone(lab: Lab) -> None:
    victim, _ = full_of_unallocated(lab)
    taker_of(lab)
    lab.all_stop(17)
    assert lab.ledger(victim) == [(Standing.UNALLOCATED, 0, 10), (Standing.STOPPING, 10, 17)]


def test_the_taker_begins_when_the_last_of_its_gpus_is_free(lab: Lab) -> None:
    victims = full_of_unallocated(lab)
    taker = taker_of(lab)
    first, second = (victim.claims.all()[0].host for victim in victims)
    lab.report(first, 15, exited={(victims[0], 0): 143})
    assert fresh(taker).assigned_at is None
    assert lab.ledger(taker) == []
    lab.report(second, 18, exited={(victims[1], 0): 143})
    assert fresh(taker).assigned_at == after(18)
    assert lab.ledger(taker) == [(Standing.PROTECTED, 18, None)] * 2


def test_a_preempted_workload_is_requeued_with_its_first_submit_time(lab: Lab) -> None:
    victim, _ = full_of_unallocated(lab)
    taker_of(lab)
    lab.all_stop(17)
    workload = fresh(victim.workload)
    assert (workload.state, workload.reason_code) == (WorkloadState.PENDING, "not_yet_considered")
    assert (workload.submitted_at, workload.queued_at) == (after(0), after(17))


def test_what_is_not_resumable_ends_as_preempted(lab: Lab) -> None:
    victim = lab.start(0, gpus=8, project=lab.vision, resumable=False)
    lab.start(0, gpus=8, project=lab.vision)
    taker_of(lab)
    lab.all_stop(17)
    assert fresh(victim.workload).state == WorkloadState.PREEMPTED


def test_preempted_many_times_is_never_failed(lab: Lab) -> None:
    """ROCm/spur#431."""
    victims = full_of_unallocated(lab)
    at = 10
    for _ in range(2):
        taker = taker_of(lab, at=at, minimum=300, project=lab.nlp)
        lab.all_stop(at + 5)
        lab.all_run(at + 6)
        for replica in (0, 1):
            host = GpuClaim.objects.filter(attempt=taker, replica=replica)[0].host
            lab.report(host, at + 400, exited={(taker, replica): 0})
        lab.make_pass(at + 400)
        lab.all_run(at + 401)
        at += 410
    for victim in victims:
        attempts = Attempt.objects.filter(workload=victim.workload)
        assert attempts.filter(outcome=Outcome.PREEMPTED).count() == 2
        assert fresh(victim.workload).state == WorkloadState.RUNNING


def test_preempted_while_starting_leaves_a_clean_state(lab: Lab) -> None:
    """SchedMD/slurm#216."""
    workload = lab.submit(gpus=8, replicas=2, project=lab.vision)
    lab.make_pass(0)
    victim = attempt_of(workload)
    taker_of(lab, at=5)
    assert fresh(victim).state == AttemptState.STOPPING
    for host in lab.hosts:
        lab.report(host, 6)
    assert (fresh(victim).outcome, fresh(workload).state) == (Outcome.PREEMPTED, WorkloadState.PENDING)
    assert lab.ledger(victim) == [(Standing.UNALLOCATED, 0, 5)] * 2 + [(Standing.STOPPING, 5, 6)] * 2


def test_what_is_preempted_at_the_second_it_started_is_charged_nothing(lab: Lab) -> None:
    """armadaproject/armada#4388: decided and withdrawn at one second."""
    workload = lab.submit(gpus=8, minimum=600)
    lab.make_pass(0)
    workload_cancel(workload=workload, actor=None, now=after(0))
    lab.make_pass(0)
    lab.report(lab.hosts[0], 0)
    assert fresh(workload).state == WorkloadState.CANCELLED
    assert lab.ledger() == []


def test_a_taker_cancelled_during_the_grace_time_loses_no_gpu(lab: Lab) -> None:
    """ROCm/spur#855, R11: the signalled still stop, and are eligible at once."""
    victims = full_of_unallocated(lab)
    taker = taker_of(lab)
    workload_cancel(workload=taker.workload, actor=lab.author, now=after(12))
    lab.make_pass(12)
    assert (fresh(taker).state, fresh(taker.workload).state) == (AttemptState.ENDED, WorkloadState.CANCELLED)
    assert not GpuClaim.objects.filter(held__upper_inf=True).exists()
    assert {fresh(victim).state for victim in victims} == {AttemptState.STOPPING}
    lab.all_stop(15)
    lab.make_pass(15)
    assert {attempt_of(victim.workload).assigned_at for victim in victims} == {after(15)}
    assert lab.ledger(taker) == []


def test_an_author_who_cancelled_a_taker_stops_nobody_for_an_hour(lab: Lab) -> None:
    full_of_unallocated(lab)
    taker = taker_of(lab)
    workload_cancel(workload=taker.workload, actor=lab.author, now=after(12))
    lab.make_pass(12)
    lab.all_stop(15)
    lab.make_pass(15)
    lab.all_run(16)
    again = lab.submit(at=20, gpus=8, minimum=600)
    assert lab.make_pass(20).preempts == 0
    assert lab.make_pass(12 + 3601).preempts == 1
    assert attempt_of(again).assigned_at is None


def test_a_taker_held_for_too_long_makes_the_silent_host_unhealthy_and_is_decided_anew(lab: Lab) -> None:
    full_of_unallocated(lab)
    taker = taker_of(lab)
    lab.make_pass(10 + 10 + 121)
    assert {fresh(host).state for host in lab.hosts} == {HostState.UNHEALTHY}
    assert fresh(taker).outcome == Outcome.HOST_FAILED
    workload = fresh(taker.workload)
    assert (workload.state, workload.queued_at) == (WorkloadState.PENDING, after(10))
    lab.all_stop(200)
    assert {fresh(host).state for host in lab.hosts} == {HostState.SCHEDULABLE}
    lab.make_pass(200)
    assert attempt_of(taker.workload).assigned_at == after(200)


def test_a_victim_that_ended_before_the_decision_was_applied_makes_it_stale(lab: Lab, monkeypatch: Any) -> None:
    """The whole start is skipped and counted: no victim is stopped for a start that does not come."""
    from portal.scheduling import services

    victims = full_of_unallocated(lab)
    real = services.decide

    def and_then_one_ends(*facts: Any) -> Any:
        decision = real(*facts)
        host = victims[0].claims.all()[0].host
        lab.report(host, 10, exited={(victims[0], 0): 0})
        return decision

    monkeypatch.setattr(services, "decide", and_then_one_ends)
    workload = lab.submit(at=10, gpus=8, replicas=2, minimum=600)
    done = lab.make_pass(10)
    assert (done.starts, done.preempts, done.stale) == (0, 0, 3)
    assert not Attempt.objects.filter(workload=workload).exists()
    assert fresh(victims[1]).state == AttemptState.RUNNING


def test_a_workload_cancelled_while_it_is_preempted_is_not_requeued(lab: Lab) -> None:
    victim, _ = full_of_unallocated(lab)
    taker_of(lab)
    workload_cancel(workload=victim.workload, actor=None, now=after(12))
    lab.all_stop(17)
    assert fresh(victim.workload).state == WorkloadState.CANCELLED
    assert seconds(fresh(victim.workload).ended_at) == 17
