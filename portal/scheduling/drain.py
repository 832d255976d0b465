"""Emptying hosts that are cordoned or unhealthy, as contracts end (R15). A step of every pass.

It looks at what is now and remembers nothing: a drain that is cancelled has no later step.
"""

from datetime import timedelta

from django.db.models import Exists, F, OuterRef, Q

from portal.clusters.health import host_ready
from portal.clusters.models import Host
from portal.clusters.services import DRAINED_STATES
from portal.scheduling.lifecycle import Stop, attempts_stop, grace_seconds_of
from portal.scheduling.round import Round
from portal.workloads.models import Attempt, AttemptState, GpuClaim, Outcome, Standing

OPEN = Q(occupied__upper_inf=True) | Q(held__upper_inf=True)


def drains_carry_out(step: Round) -> int:
    """1. What has no protection left on a closed host is told to stop. 2. Closed hosts that are empty are ready.

    Returns how many attempts were told.
    """
    closed = dict(
        Host.objects.filter(cluster=step.cluster, retired_at=None, state__in=DRAINED_STATES).values_list("pk", "name")
    )
    if not closed:
        return 0
    stops = [_stop(step, attempt, closed) for attempt in _attempts_due(step, closed)]
    if stops:
        attempts_stop(step, stops)
    _ready_note(step, closed)
    return len(stops)


def _attempts_due(step: Round, closed: dict[int, str]) -> list[Attempt]:
    """Unallocated ones at once; allocated ones once the whole gang has run for its minimum runtime (R4)."""
    protected = Q(standing=Standing.PROTECTED) & (
        Q(running_at=None) | Q(running_at__gt=step.now - F("min_runtime_seconds") * timedelta(seconds=1))
    )
    on_closed = GpuClaim.objects.filter(attempt=OuterRef("pk"), host__in=closed, occupied__upper_inf=True)
    rows = Attempt.objects.select_for_update(of=("self",), no_key=True).select_related("workload")
    active = rows.filter(cluster=step.cluster, state__in=(AttemptState.ASSIGNED, AttemptState.RUNNING))
    return list(active.filter(~protected, Exists(on_closed)).order_by("pk"))


def _stop(step: Round, attempt: Attempt, closed: dict[int, str]) -> Stop:
    claims = GpuClaim.objects.filter(attempt=attempt, host__in=closed, occupied__upper_inf=True)
    names = ", ".join(sorted({closed[host] for host in claims.values_list("host", flat=True)}))
    return Stop(
        attempt,
        cause=Outcome.PREEMPTED,
        grace_seconds=grace_seconds_of(attempt, step.policy),
        code="host_drained",
        text=f"{names} is being emptied and nothing protects this attempt: told to stop.",
    )


def _ready_note(step: Round, closed: dict[int, str]) -> None:
    used = GpuClaim.objects.filter(OPEN, host=OuterRef("pk")).exclude(attempt__state=AttemptState.ENDED)
    # A host that reports right now holds its row and waits for us: the next pass looks again.
    free = Host.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
    for host in free.filter(~Exists(used), pk__in=closed, ready_at=None):
        host_ready(host=host, now=step.now)
