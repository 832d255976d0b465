"""The steps of an attempt's life as rows. The caller holds the cluster's state lock and passes its round.

Each step changes the attempt, its claims, the ledger and its workload together.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.db.models.functions import Lower

from portal.clusters.models import TsTzRange
from portal.common.bulk import ids_among, rows_update
from portal.common.units import duration_words
from portal.scheduling.round import Round
from portal.usage.services import Turn, segments_apply_many, segments_close, segments_open
from portal.workloads.models import (
    CHARGED_STANDINGS,
    Attempt,
    AttemptState,
    GpuClaim,
    Outcome,
    Standing,
    Workload,
    WorkloadState,
)
from scheduler.types import Policy

FINAL_STATES = {
    Outcome.SUCCEEDED: WorkloadState.SUCCEEDED,
    Outcome.FAILED: WorkloadState.FAILED,
    Outcome.CANCELLED: WorkloadState.CANCELLED,
    Outcome.TIMED_OUT: WorkloadState.TIMED_OUT,
    Outcome.PREEMPTED: WorkloadState.PREEMPTED,
    Outcome.HOST_FAILED: WorkloadState.HOST_FAILED,
    Outcome.START_FAILED: WorkloadState.FAILED,
}
REQUEUED_OUTCOMES = (Outcome.PREEMPTED, Outcome.HOST_FAILED)
STOP_FIELDS = ("state", "standing", "stopping_at", "stop_grace_seconds", "stop_cause", "taker")
UNREAD = ("reason", "workload__command", "workload__script", "workload__environment", "workload__reason")
NOT_YET = ("not_yet_considered", "Not yet considered.")


def is_held(attempt: Attempt) -> bool:
    """Whether GPUs are still being emptied for it: it has none yet."""
    return attempt.assigned_at is None


def grace_seconds_of(attempt: Attempt, policy: Policy) -> int:
    """From the warning signal to the kill (R11)."""
    allocated = attempt.standing in CHARGED_STANDINGS
    return policy.grace_allocated_seconds if allocated else policy.grace_unallocated_seconds


def attempts_hosts(attempts: Iterable[int]) -> set[int]:
    """The hosts on which these attempts occupy GPUs or have some kept for them."""
    claims = GpuClaim.objects.filter(attempt__in=ids_among(attempts))
    active = claims.filter(Q(occupied__upper_inf=True) | Q(held__upper_inf=True)).order_by()
    return set(active.values_list("host", flat=True).distinct())


def attempt_begin(step: Round, attempt: Attempt) -> None:
    """All the GPUs that were kept for it are free: they are its own, and its segments start (R3, R10)."""
    claims = GpuClaim.objects.filter(attempt=attempt)
    claims.update(held=TsTzRange(Lower("held"), step.now), occupied=(step.now, None))
    attempt.assigned_at = step.now
    attempt.save(update_fields=["assigned_at"])
    segments_open(attempt=attempt, at=step.now, standing=Standing(attempt.standing))
    reason_set(attempt.workload, "starting", "Its GPUs are free and assigned: the hosts are starting it.")
    step.note(attempt, "assigned", code="gpus_free", text="The GPUs kept for it are free and assigned to it.")
    step.hosts |= attempts_hosts([attempt.pk])


def attempt_running(step: Round, attempt: Attempt) -> None:
    """The whole gang runs: the minimum runtime starts now (R4)."""
    attempt.state = AttemptState.RUNNING
    attempt.running_at = step.now
    attempt.save(update_fields=["state", "running_at"])
    Workload.objects.filter(pk=attempt.workload_id, state=WorkloadState.PENDING).update(
        state=WorkloadState.RUNNING, reason_code="", reason_text="", reason={}
    )
    attempt.workload.state = WorkloadState.RUNNING
    step.note(attempt, "running", text="All replicas run.")


@dataclass(frozen=True)
class Stop:
    """Warn an attempt, to be killed after its grace time: for whom, or why.

    `text` is what everybody may read who sees the attempt; `named_text` names other projects, those with the ids
    `named_projects`, and is for who may see all of them.
    """

    attempt: Attempt
    cause: Outcome
    grace_seconds: int
    taker: Attempt | None = None
    code: str = ""
    text: str = ""
    named_text: str = ""
    named_projects: tuple[int, ...] = ()


def attempts_stop(step: Round, stops: Sequence[Stop]) -> None:
    """From now on these are occupied and no longer charged, until their hosts say that they are gone (R3, R11)."""
    for stop in stops:
        attempt = stop.attempt
        attempt.state, attempt.standing = AttemptState.STOPPING, Standing.STOPPING
        attempt.stopping_at = step.now
        attempt.stop_grace_seconds, attempt.stop_cause, attempt.taker = stop.grace_seconds, stop.cause, stop.taker
        words = stop.text or f"Told to stop ({stop.cause.label.lower()})."
        killed = f"Killed after {duration_words(stop.grace_seconds)} at the latest."
        data: dict[str, Any] = {"grace_seconds": stop.grace_seconds}
        if stop.named_text:
            data |= {"named_text": f"{stop.named_text} {killed}", "named_projects": stop.named_projects}
        step.note(attempt, "stopping", code=stop.code or stop.cause, text=f"{words} {killed}", **data)
    attempts = [stop.attempt for stop in stops]
    rows_update(attempts, STOP_FIELDS)
    segments_apply_many(turns=[Turn(attempt, step.now, Standing.STOPPING) for attempt in attempts])
    step.hosts |= attempts_hosts(attempt.pk for attempt in attempts)


def attempt_release(step: Round, attempt: Attempt, hosts: Collection[int]) -> None:
    """These hosts say that its GPUs there are free: nothing of it is occupied or charged there any more."""
    occupied = GpuClaim.objects.filter(attempt=attempt, host__in=hosts, occupied__upper_inf=True)
    occupied.update(occupied=TsTzRange(Lower("occupied"), step.now))
    segments_close(attempt=attempt, at=step.now, host_ids=hosts)
    step.hosts |= set(hosts)
    step.freed = True


def attempt_end(
    step: Round, attempt: Attempt, *, outcome: Outcome, exit_code: int | None = None, text: str = ""
) -> None:
    """Nothing of it is left on any host: it has ended, and its workload ends or waits again."""
    if is_held(attempt):
        claims = GpuClaim.objects.filter(attempt=attempt, held__upper_inf=True)
        claims.update(held=TsTzRange(Lower("held"), step.now))
    attempt.state = AttemptState.ENDED
    attempt.outcome = outcome
    attempt.exit_code = exit_code
    attempt.ended_at = step.now
    attempt.save(update_fields=["state", "outcome", "exit_code", "ended_at"])
    step.note(attempt, "ended", code=outcome, text=text or f"The attempt ended: {outcome.label.lower()}.")
    step.freed = True
    workload_follow(step, attempt, outcome=outcome, exit_code=exit_code, text=text)


def workload_follow(
    step: Round, attempt: Attempt, *, outcome: Outcome, exit_code: int | None = None, text: str = ""
) -> None:
    """What becomes of the workload: requeued with its first submit time kept, or final."""
    workload = Workload.objects.select_for_update(of=("self",), no_key=True).get(pk=attempt.workload_id)
    requeued = outcome in REQUEUED_OUTCOMES and (workload.resumable or is_held(attempt))
    if requeued and workload.cancel_requested_at is None:
        workload.state = WorkloadState.PENDING
        workload.queued_at = attempt.queued_at if is_held(attempt) else step.now
        workload.reason_code, workload.reason_text = NOT_YET
        workload.reason = {}
        step.note(attempt, "requeued", code=outcome, text="Back in the queue with its first submit time.")
    else:
        final = Outcome.CANCELLED if requeued else outcome
        workload.state = FINAL_STATES[final]
        workload.ended_at = step.now
        workload.exit_code = exit_code
        workload.reason_code, workload.reason_text = final, text or f"{final.label}."
        workload.reason = {}
    workload.save(update_fields=["state", "queued_at", "ended_at", "exit_code", "reason_code", "reason_text", "reason"])


def reason_set(workload: Workload, code: str, text: str) -> None:
    """Why a pending workload isn't running yet, outside of the core's words."""
    workload.reason_code, workload.reason_text, workload.reason = code, text, {}
    workload.save(update_fields=["reason_code", "reason_text", "reason"])


def attempts_locked(pks: Iterable[int]) -> dict[int, Attempt]:
    """The attempts with their workloads, their rows locked in the order of their ids."""
    attempts = Attempt.objects.select_for_update(of=("self",), no_key=True).filter(pk__in=ids_among(pks))
    attempts = attempts.select_related("workload").defer(*UNREAD).order_by("pk")
    return {attempt.pk: attempt for attempt in attempts}
