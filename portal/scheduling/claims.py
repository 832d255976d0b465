"""Which GPUs of which host: the portal picks the indexes, the core only counts."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from django.db import connection

from portal.clusters.models import Cluster, Host
from portal.workloads.models import Workload

ACTIVE_CLAIMS = """
SELECT c.host_id, c.gpu_index, c.attempt_id, upper_inf(c.held) IS TRUE
FROM workloads_attempt a JOIN workloads_gpuclaim c ON c.attempt_id = a.id
WHERE a.cluster_id = %s AND a.state <> 'ended' AND (upper_inf(c.occupied) OR upper_inf(c.held))
"""
STILL_OCCUPIED = """
SELECT h.attempt_id, count(*) FROM workloads_gpuclaim h JOIN workloads_gpuclaim o
ON o.host_id = h.host_id AND o.gpu_index = h.gpu_index AND upper_inf(o.occupied)
JOIN workloads_attempt a ON a.id = o.attempt_id AND a.state <> 'ended'
WHERE h.attempt_id = ANY(%s) AND upper_inf(h.held) GROUP BY h.attempt_id
"""

Placed = list[tuple[int, int, int]]
"""(replica, host id, GPU index), one for each GPU of a gang."""


@dataclass
class HostGpus:
    """One host's GPUs: which attempt is on each, and which each is kept for."""

    gpus: int
    occupied: dict[int, int] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)

    def choose(self, count: int, victims: Collection[int]) -> list[int] | None:
        """`count` GPUs, victims' first, so that what is free now stays free for others; then the lowest free."""
        allowed = [
            index
            for index in range(self.gpus)
            if index not in self.held and (index not in self.occupied or self.occupied[index] in victims)
        ]
        allowed.sort(key=lambda index: (index not in self.occupied, index))
        return sorted(allowed[:count]) if len(allowed) >= count else None


class GpuMap:
    """The hosts that a decision touches. Kept true while the decision is applied."""

    def __init__(self, cluster: Cluster) -> None:
        hosts = Host.objects.filter(cluster=cluster).values_list("pk", "gpus")
        self._hosts = {host: HostGpus(gpus) for host, gpus in hosts}
        with connection.cursor() as cursor:
            cursor.execute(ACTIVE_CLAIMS, [cluster.pk])
            for host, index, attempt, is_held in cursor.fetchall():
                kept = self._hosts[host].held if is_held else self._hosts[host].occupied
                kept[index] = attempt

    def place(
        self, workload: Workload, placement: Iterable[tuple[int, int]], victims: Collection[int]
    ) -> Placed | None:
        """GPUs for the whole gang, noted as taken by nobody yet, or None: then nothing is noted."""
        placed: Placed = []
        replica = 0
        for host, replicas in placement:
            indexes = self._choose(host, replicas * workload.gpus_per_replica, victims)
            if indexes is None:
                return None
            for position, index in enumerate(indexes):
                placed.append((replica + position // workload.gpus_per_replica, host, index))
            replica += replicas
        return placed if replica == workload.replicas else None

    def _choose(self, host: int, count: int, victims: Collection[int]) -> list[int] | None:
        gpus = self._hosts.get(host)
        return None if gpus is None else gpus.choose(count, victims)

    def note(self, placed: Placed, attempt: int, *, held: bool) -> None:
        """The GPUs are this attempt's from now on: kept for it, or occupied by it."""
        for _, host, index in placed:
            gpus = self._hosts[host]
            (gpus.held if held else gpus.occupied)[index] = attempt


def gpus_awaited(attempts: Iterable[int]) -> dict[int, int]:
    """For each held attempt, how many of the GPUs kept for it are still occupied by others."""
    wanted = list(attempts)
    with connection.cursor() as cursor:
        cursor.execute(STILL_OCCUPIED, [wanted])
        return {**dict.fromkeys(wanted, 0), **dict(cursor.fetchall())}
