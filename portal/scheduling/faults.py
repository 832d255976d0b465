"""Fatal faults: what ran on a host that is gone, or on a GPU that is, ends at once and in part uncharged (R15)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models.functions import Greatest, Lower

from portal.clusters.models import Host, TsTzRange
from portal.common.bulk import rows_update
from portal.common.units import HOUR_SECONDS, gpu_hours, whole_second
from portal.scheduling.lifecycle import STOP_FIELDS, attempt_end, attempts_hosts, attempts_locked, grace_seconds_of
from portal.scheduling.round import Round
from portal.usage.refunds import Fault
from portal.usage.services import segments_fault
from portal.workloads.models import Attempt, AttemptState, GpuClaim, Outcome, ReplicaStatus, Standing

OUTDATED_CAUSES = (Outcome.PREEMPTED, Outcome.TIMED_OUT, Outcome.START_FAILED)
"""Orders by the clock or for a taker that came when it was lost already: it has ended by the fault."""
GONE_DETAIL = "The host is gone."


@dataclass(frozen=True)
class Loss:
    """A host's fault at `at`, no later than now. `frees`: nothing of the attempts lives on that host any more."""

    host: Host
    at: datetime
    text: str
    frees: bool


def attempts_on(host: Host, gpus: Collection[int] | None = None) -> dict[int, Attempt]:
    """What occupies GPUs of the host, or some of them, locked."""
    claims = GpuClaim.objects.filter(host=host, occupied__upper_inf=True).exclude(attempt__state=AttemptState.ENDED)
    if gpus is not None:
        claims = claims.filter(gpu_index__in=gpus)
    return attempts_locked(set(claims.values_list("attempt", flat=True)))


def attempts_lose(step: Round, attempts: Iterable[Attempt], loss: Loss) -> None:
    """Each ends by this fault, or stops on its other hosts until they say that it is gone."""
    for attempt in attempts:
        _attempt_lose(step, attempt, loss)


def _attempt_lose(step: Round, attempt: Attempt, loss: Loss) -> None:
    refunded = segments_fault(
        attempt=attempt,
        fault=_fault_of(attempt, loss, step.now),
        lost_hosts={loss.host.pk} if loss.frees else set(),
    )
    if attempt.state != AttemptState.STOPPING:
        _stopping_note(step, attempt, loss)
    elif attempt.stop_cause in OUTDATED_CAUSES and not _stopped_before(attempt, loss):
        attempt.stop_cause = Outcome.HOST_FAILED
        rows_update([attempt], ["stop_cause"])
    if refunded:
        words = "its last checkpoint" if attempt.checkpointed_at else "its start"
        text = f"{gpu_hours(refunded):.2f} GPU-hours charged since {words} are given back."
        step.note(attempt, "refunded", code=Outcome.HOST_FAILED, text=text, gpu_seconds=refunded)
    if loss.frees:
        _host_release(attempt, loss)
        step.freed = True
    step.hosts |= attempts_hosts([attempt.pk])
    if not GpuClaim.objects.filter(attempt=attempt, occupied__upper_inf=True).exists():
        attempt_end(step, attempt, outcome=Outcome(attempt.stop_cause), text=loss.text)


def _fault_of(attempt: Attempt, loss: Loss, now: datetime) -> Fault:
    """The charged time since the last checkpoint is given back, unless the attempt was told to stop before."""
    at = min(whole_second(loss.at), now)
    seconds = 0 if _stopped_before(attempt, loss) else max(attempt.min_runtime_seconds, HOUR_SECONDS)
    since = attempt.checkpointed_at or attempt.assigned_at or at
    return Fault(at, since, seconds)


def _stopped_before(attempt: Attempt, loss: Loss) -> bool:
    return attempt.stopping_at is not None and attempt.stopping_at <= loss.at


def _stopping_note(step: Round, attempt: Attempt, loss: Loss) -> None:
    """Its outcome is the host's failure; what is left of it on other hosts is told to stop."""
    attempt.stop_grace_seconds = grace_seconds_of(attempt, step.policy)
    attempt.state, attempt.standing = AttemptState.STOPPING, Standing.STOPPING
    attempt.stopping_at, attempt.stop_cause, attempt.taker = step.now, Outcome.HOST_FAILED, None
    rows_update([attempt], STOP_FIELDS)
    step.note(attempt, "stopping", code=Outcome.HOST_FAILED, text=loss.text)


def _host_release(attempt: Attempt, loss: Loss) -> None:
    """Its GPUs on the lost host were occupied until the fault; its replicas there are no more."""
    claims = GpuClaim.objects.filter(attempt=attempt, host=loss.host, occupied__upper_inf=True)
    replicas = set(claims.values_list("replica", flat=True))
    claims.update(occupied=TsTzRange(Lower("occupied"), Greatest(Lower("occupied"), loss.at)))
    known = {row.replica: row for row in ReplicaStatus.objects.filter(attempt=attempt, replica__in=replicas)}
    for replica in sorted(replicas):
        status = known.get(replica) or ReplicaStatus(attempt=attempt, replica=replica, host=loss.host)
        if status.freed_at is None:
            status.freed_at, status.detail = loss.at, GONE_DETAIL
            status.save()
