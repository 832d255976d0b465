"""What should be on a host, from rows: the whole of it every time, so that a lost message heals at the next."""

from collections import defaultdict
from collections.abc import Collection

from django.db.models import Q

from portal.clusters.models import Host
from portal.common.messages import DesiredAttempt
from portal.workloads.models import Attempt, AttemptState, GpuClaim

Desired = list[DesiredAttempt]


def desired_of(*, host: Host) -> Desired:
    """The attempts that should be on this host, by id, with what to run or how to stop."""
    return desired_of_hosts(hosts=[host.pk])[host.pk]


def desired_of_hosts(*, hosts: Collection[int]) -> dict[int, Desired]:
    """`desired_of` of several hosts in two queries. What is only held for is on no host yet."""
    claims = (
        GpuClaim.objects.filter(host__in=hosts, occupied__upper_inf=True)
        .filter(~Q(attempt__state=AttemptState.ENDED))
        .order_by("host", "attempt", "replica", "gpu_index")
        .values_list("host", "attempt", "replica", "gpu_index")
    )
    placed: dict[int, dict[int, dict[int, list[int]]]] = {host: defaultdict(dict) for host in hosts}
    for host, attempt, replica, index in claims:
        placed[host][attempt].setdefault(replica, []).append(index)
    pks = {attempt for on_host in placed.values() for attempt in on_host}
    attempts = Attempt.objects.filter(pk__in=pks).select_related("workload").in_bulk() if pks else {}
    return {
        host: [_entry(attempts[pk], replicas) for pk, replicas in sorted(on_host.items())]
        for host, on_host in placed.items()
    }


def _entry(attempt: Attempt, replicas: dict[int, list[int]]) -> DesiredAttempt:
    workload = attempt.workload
    entry: DesiredAttempt = {
        "attempt": attempt.pk,
        "workload": workload.pk,
        "action": "stop" if attempt.state == AttemptState.STOPPING else "run",
        "grace_seconds": attempt.stop_grace_seconds,
        "replicas": [{"replica": replica, "gpus": gpus} for replica, gpus in sorted(replicas.items())],
        "gang_replicas": workload.replicas,
        "environment": workload.environment,
    }
    if workload.command:
        entry["command"] = workload.command
    else:
        entry["script"] = workload.script
    return entry
