"""What becomes of a gang when a host speaks of its replicas."""

from portal.clusters.models import Host
from portal.scheduling.hearing import Hearing, Said
from portal.scheduling.lifecycle import (
    Stop,
    attempt_end,
    attempt_release,
    attempt_running,
    attempts_stop,
    grace_seconds_of,
)
from portal.scheduling.round import Round
from portal.workloads.models import Attempt, AttemptState, GpuClaim, Outcome, ReplicaStatus

LOST_DETAIL = "The host no longer has it."
LOST_DETAILS = (LOST_DETAIL, "lost")
"""What is said of replicas that the host had and has no more, by us and by its agent."""


def gang_follow(
    step: Round, attempt: Attempt, host: Host, hearing: Hearing, statuses: dict[int, ReplicaStatus]
) -> None:
    """1. Note what the host says. 2. The whole gang runs? 3. Has a replica failed? 4. What is free, and is it over?

    `statuses` are the gang's replicas on all hosts, as far as they were heard of, by number.
    """
    statuses_note(step, attempt, host, hearing, statuses)
    heard = [statuses[replica] for replica in sorted(statuses)]
    if attempt.state == AttemptState.ASSIGNED and _all_ran(attempt, heard):
        attempt_running(step, attempt)
    if attempt.state != AttemptState.STOPPING:
        _end_if_over(step, attempt, heard)
    if attempt.state == AttemptState.STOPPING:
        _release_freed(step, attempt, heard)


def statuses_note(
    step: Round, attempt: Attempt, host: Host, hearing: Hearing, statuses: dict[int, ReplicaStatus]
) -> None:
    """What the host says of the gang's replicas on it, as rows; `statuses` follow."""
    running, exited = hearing.running.get(attempt.pk, set()), hearing.exited.get(attempt.pk, {})
    lost, starting = hearing.lost.get(attempt.pk, set()), hearing.starting.get(attempt.pk, set())
    news = sorted({*running, *exited, *lost, *starting})
    for replica in news:
        status = statuses.setdefault(replica, ReplicaStatus(attempt=attempt, replica=replica, host=host))
        if replica in exited:
            _exit_note(status, exited[replica], step)
        elif replica in lost:
            status.freed_at, status.detail = step.now, LOST_DETAIL
        elif replica in running:
            status.running_at = step.now
    ReplicaStatus.objects.bulk_create(
        [statuses[replica] for replica in news],
        update_conflicts=True,
        unique_fields=["attempt", "replica"],
        update_fields=["running_at", "freed_at", "exit_code", "detail"],
    )


def _exit_note(status: ReplicaStatus, said: Said, step: Round) -> None:
    status.freed_at, status.exit_code, status.detail = step.now, said.exit_code, said.detail
    if said.exit_code is not None and status.running_at is None:
        status.running_at = step.now


def _all_ran(attempt: Attempt, statuses: list[ReplicaStatus]) -> bool:
    return sum(status.running_at is not None for status in statuses) == attempt.workload.replicas


def _end_if_over(step: Round, attempt: Attempt, statuses: list[ReplicaStatus]) -> None:
    """All replicas exited with 0: succeeded. One failed, or is lost with its host: the others are told to stop."""
    exited = [status for status in statuses if status.freed_at is not None]
    bad = [status for status in exited if status.exit_code != 0]
    if bad:
        cause = _cause_of(bad)
        grace = grace_seconds_of(attempt, step.policy)
        attempts_stop(step, [Stop(attempt, cause, grace, text=_failure_words(bad[0]))])
    elif len(exited) == attempt.workload.replicas:
        attempt_release(step, attempt, _hosts_of(statuses))
        attempt_end(step, attempt, outcome=Outcome.SUCCEEDED, exit_code=0, text="All replicas exited with 0.")


def _cause_of(bad: list[ReplicaStatus]) -> Outcome:
    """The workload's own failure outranks the host's: a replica that could not be started at all is no lost one."""
    if any(status.exit_code is not None for status in bad):
        return Outcome.FAILED
    never_ran = any(status.running_at is None and status.detail not in LOST_DETAILS for status in bad)
    return Outcome.START_FAILED if never_ran else Outcome.HOST_FAILED


def _failure_words(status: ReplicaStatus) -> str:
    if status.exit_code is None and status.detail in LOST_DETAILS:
        return f"Replica {status.replica} was lost: its host no longer has it. The attempt is over."
    without_code = "was lost" if status.running_at is not None else "did not start"
    what = without_code if status.exit_code is None else f"exited with {status.exit_code}"
    detail = f" ({status.detail.rstrip('.')})" if status.detail else ""
    return f"Replica {status.replica} {what}{detail}: the attempt is over."


def _release_freed(step: Round, attempt: Attempt, statuses: list[ReplicaStatus]) -> None:
    """Hosts on which none of it is left are free; after the last, the attempt has ended (R11)."""
    freed = {status.replica for status in statuses if status.freed_at is not None}
    held: dict[int, set[int]] = {}
    occupied = GpuClaim.objects.filter(attempt=attempt, occupied__upper_inf=True)
    for host, replica in occupied.values_list("host", "replica").distinct():
        held.setdefault(host, set()).add(replica)
    free = {host for host, replicas in held.items() if replicas <= freed}
    if free:
        attempt_release(step, attempt, free)
    if free == set(held):
        _end_stopped(step, attempt, statuses)


def _end_stopped(step: Round, attempt: Attempt, statuses: list[ReplicaStatus]) -> None:
    """Its outcome is why it was stopped; words name the replica that was the cause, the first to go."""
    outcome = Outcome(attempt.stop_cause)
    bad = sorted(
        (status for status in statuses if status.exit_code != 0), key=lambda status: status.freed_at or step.now
    )
    causes = {
        Outcome.FAILED: [status for status in bad if status.exit_code is not None],
        Outcome.HOST_FAILED: [status for status in bad if status.exit_code is None],
        Outcome.START_FAILED: [status for status in bad if status.exit_code is None],
    }.get(outcome, [])
    codes = [status.exit_code for status in [*causes, *bad] if status.exit_code is not None]
    text = _failure_words(causes[0]) if causes else ""
    attempt_end(step, attempt, outcome=outcome, exit_code=codes[0] if codes else None, text=text)


def _hosts_of(statuses: list[ReplicaStatus]) -> set[int]:
    return {status.host_id for status in statuses}
