"""Giving hosts their desired state: after each commit that changed it, and again every while for what got lost."""

from collections.abc import Collection
from datetime import datetime

from django.db import transaction

from portal.clusters.models import Host
from portal.scheduling.desired import desired_of_hosts
from portal.scheduling.transport import desired_publish, sequence_next

AGAIN_SECONDS = 30
"""Hosts that were told nothing for this long are told again."""
TAKEN_IN_SECONDS = 5
"""A host that reports without having taken in what it was told this long ago is told again."""


def hosts_tell(hosts: Collection[int], now: datetime) -> None:
    """Send these hosts what should be on them. A broker that is away is no error: the next telling heals it."""
    with transaction.atomic():
        rows = list(Host.objects.select_for_update(no_key=True).filter(pk__in=hosts, retired_at=None).order_by("pk"))
        bodies = desired_of_hosts(hosts=[host.pk for host in rows])
        sequences = {host.pk: sequence_next(host, now) for host in rows}
    for host in rows:
        if not desired_publish(host, sequences[host.pk], bodies[host.pk]):
            return


def hosts_due(now: datetime) -> set[int]:
    """Hosts whose last telling is long ago. A sequence is the milliseconds of its telling."""
    before = int((now.timestamp() - AGAIN_SECONDS) * 1000)
    return set(Host.objects.filter(retired_at=None, desired_sequence__lt=before).values_list("pk", flat=True))


def is_overdue(host: Host, now: datetime) -> bool:
    """Whether the host had time enough to take in what it was last told."""
    return host.desired_sequence < int((now.timestamp() - TAKEN_IN_SECONDS) * 1000)
