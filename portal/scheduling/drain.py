"""Hosts that are cordoned or unhealthy and empty by now (R15). A step of every pass.

Who leaves them, and when, is decided by the core: the snapshot names these hosts as draining. It looks at what is now
and remembers nothing: a drain that is cancelled has no later step.
"""

from django.db.models import Exists, OuterRef, Q

from portal.clusters.health import host_ready
from portal.clusters.models import Host
from portal.clusters.services import DRAINED_STATES
from portal.scheduling.round import Round
from portal.workloads.models import AttemptState, GpuClaim

OPEN = Q(occupied__upper_inf=True) | Q(held__upper_inf=True)


def drained_note(step: Round) -> None:
    """Closed hosts on which nothing is left are ready for repair."""
    closed = Host.objects.filter(cluster=step.cluster, retired_at=None, state__in=DRAINED_STATES, ready_at=None)
    used = GpuClaim.objects.filter(OPEN, host=OuterRef("pk")).exclude(attempt__state=AttemptState.ENDED)
    # A host that reports right now holds its row and waits for us: the next pass looks again.
    free = closed.select_for_update(no_key=True, skip_locked=True, of=("self",))
    for host in free.filter(~Exists(used)):
        host_ready(host=host, now=step.now)
