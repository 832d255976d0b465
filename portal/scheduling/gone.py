"""Hosts that are gone: unheard for a while in which the portal heard itself (R15). A step of every pass."""

from datetime import timedelta

from portal.clusters.health import host_gone
from portal.clusters.models import Host
from portal.common.units import whole_second
from portal.scheduling.faults import Loss, attempts_lose, attempts_on
from portal.scheduling.probe import silence_known
from portal.scheduling.round import Round


def gone_carry_out(step: Round) -> int:
    """End what ran on hosts that are gone, as of their last heartbeat; returns how many hosts.

    Silence counts from the last heartbeat, or from when the portal's own messages come through again.
    """
    known = silence_known(now=step.now)
    if known is None:
        return 0
    since, until = known
    limit = timedelta(seconds=step.policy.host_gone_seconds)
    if until - since < limit:
        return 0
    # A host that reports right now holds its row: it is not gone.
    rows = Host.objects.select_for_update(no_key=True, skip_locked=True)
    gone = list(rows.filter(cluster=step.cluster, retired_at=None, gone_at=None, last_heard_at__lte=until - limit))
    for host in gone:
        _host_end(step, host)
    return len(gone)


def _host_end(step: Round, host: Host) -> None:
    host_gone(host=host, now=step.now)
    assert host.last_heard_at is not None  # noqa: S101 - the query asked for it
    heard_at = whole_second(host.last_heard_at)
    text = f"Host {host.name} is gone: not heard since {heard_at:%F %T} UTC."
    attempts_lose(step, attempts_on(host).values(), Loss(host, heard_at, text, frees=True))
