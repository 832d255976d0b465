"""A host that comes back without what ran on it, and one that says that a GPU is gone (R15)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from portal.clusters.health import FATAL_CODE, host_away, host_recovered, host_unhealthy, is_fatal
from portal.clusters.models import Host
from portal.common.messages import FaultReport, pass_request
from portal.common.units import whole_second
from portal.scheduling.faults import Loss, attempts_lose, attempts_on
from portal.scheduling.gangs import LOST_DETAILS, gang_follow, statuses_note
from portal.scheduling.hearing import Hearing
from portal.scheduling.round import Round, Tell, cluster_clock, state_lock
from portal.workloads.models import Attempt, AttemptState, ReplicaStatus


@dataclass(frozen=True)
class Absence:
    """When the host was last heard before this report, and whether it was started anew since."""

    heard_before: datetime | None
    rebooted: bool

    def since(self, step: Round) -> datetime | None:
        """Its last heartbeat, if what it lost was lost then: it was started anew, or unheard for so long that it
        would have been gone. None: it was heard all along."""
        if self.heard_before is None:
            return None
        unheard = step.now - self.heard_before >= timedelta(seconds=step.policy.host_gone_seconds)
        return whole_second(self.heard_before) if self.rebooted or unheard else None


def attempt_lost(
    step: Round,
    attempt: Attempt,
    host: Host,
    hearing: Hearing,
    replicas: set[int],
    statuses: dict[int, ReplicaStatus],
    since: datetime,
) -> bool:
    """Whether this report says that the attempt was lost while the host was away; if so it ended then.

    `replicas` are those of the attempt that were on this host.
    """
    lost = hearing.lost.get(attempt.pk, set()) | {
        replica
        for replica, said in hearing.exited.get(attempt.pk, {}).items()
        if said.exit_code is None and said.detail in LOST_DETAILS
    }
    if not lost:
        return False
    statuses_note(step, attempt, host, hearing, statuses)
    freed = {replica for replica in replicas if replica in statuses and statuses[replica].freed_at is not None}
    text = f"Host {host.name} was not heard from {since:%F %T} UTC on and no longer has it."
    host_away(host=host, since=since, now=step.now)
    attempts_lose(step, [attempt], Loss(host, since, text, frees=freed == replicas))
    if attempt.state == AttemptState.STOPPING:
        gang_follow(step, attempt, host, Hearing(), statuses)
    return True


def faults_apply(host: Host, faults: Sequence[FaultReport], now: datetime, *, rebooted: bool, tell: Tell) -> None:
    """GPUs that have fallen off the bus: the host is unhealthy, what runs on them ends at once. A person's override
    of a fault stands; one that is not there any more after a new start of the machine is over."""
    codes = {f"{FATAL_CODE}:{fault['gpu']}": fault["gpu"] for fault in faults}
    counted = {code: gpu for code, gpu in codes.items() if code not in host.overridden_codes}
    if not counted:
        if rebooted and is_fatal(host.unhealthy_code):
            host_recovered(host=host, now=now)
        return
    gpus = sorted(counted.values())
    named = f"GPU {gpus[0]} has" if len(gpus) == 1 else f"GPUs {', '.join(map(str, gpus))} have"
    cause = f"{named} fallen off the bus"
    host_unhealthy(host=host, cause=cause, code=",".join(f"{FATAL_CODE}:{gpu}" for gpu in gpus), now=now)
    _gpus_end(host, gpus, now, f"{cause} of host {host.name}.", tell)


def _gpus_end(host: Host, gpus: Sequence[int], now: datetime, text: str, tell: Tell) -> None:
    """What runs on these GPUs is told to stop; the host is there to say when it is gone."""
    state_lock(host.cluster)
    step = Round(host.cluster, cluster_clock(host.cluster, now))
    hit = [attempt for attempt in attempts_on(host, gpus).values() if attempt.state != AttemptState.STOPPING]
    attempts_lose(step, hit, Loss(host, step.now, text, frees=False))
    if hit:
        pass_request(host.cluster_id)
    step.finish(tell)
