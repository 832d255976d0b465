"""Which clusters can take a workload at all: hosts large enough, and the bounds of their policies (R14)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from portal.clusters.models import Cluster, Host
from portal.clusters.selectors import policies_of
from portal.common.errors import FieldError
from portal.common.units import duration_words
from portal.workloads.validation import is_whole

NAMES_IN_A_MESSAGE = 20


@dataclass(frozen=True)
class Offer:
    """What a cluster can take: how many hosts it has of each size, and the bounds of a minimum runtime."""

    cluster: Cluster
    hosts_by_gpus: dict[int, int]
    least_seconds: int
    most_seconds: int

    def size_problem(self, replicas: int, gpus_per_replica: int) -> FieldError | None:
        """Why no state of the cluster could ever hold the gang."""
        largest = max(self.hosts_by_gpus, default=0)
        if gpus_per_replica > largest:
            sentence = (
                f"No host of cluster {self.cluster.name} has {gpus_per_replica} GPUs; the largest has {largest}."
                if largest
                else f"Cluster {self.cluster.name} has no hosts yet."
            )
            return FieldError("gpus_per_replica", "no_host_of_that_size", sentence)
        most = sum(gpus // gpus_per_replica * hosts for gpus, hosts in self.hosts_by_gpus.items())
        if replicas > most:
            sentence = (
                f"Cluster {self.cluster.name} has room for {most} replicas of {gpus_per_replica} GPUs, not {replicas}."
            )
            return FieldError("replicas", "larger_than_the_cluster", sentence)
        return None

    def bound_problem(self, min_runtime_seconds: int) -> FieldError | None:
        """A minimum runtime outside the cluster's bounds."""
        if self.least_seconds <= min_runtime_seconds <= self.most_seconds:
            return None
        sentence = (
            f"The minimum runtime must be between {duration_words(self.least_seconds)} and "
            f"{duration_words(self.most_seconds)} on cluster {self.cluster.name} "
            f"({self.least_seconds} to {self.most_seconds} seconds), not {min_runtime_seconds} seconds."
        )
        return FieldError("min_runtime_seconds", "out_of_bounds", sentence)


def offers_of(names: Sequence[str]) -> tuple[list[Offer], list[FieldError]]:
    """Offers of the clusters that are named (none: all), and a complaint about names that don't exist.

    Where none of the names exists the offers are all clusters', so that the other fields are judged by something.
    """
    clusters = list(Cluster.objects.order_by("pk"))
    known = {cluster.name for cluster in clusters}
    unknown = [name for name in names if not isinstance(name, str) or name not in known]
    if unknown:
        shown = ", ".join(repr(str(name).replace("\0", "\\0")[:60]) for name in unknown[:NAMES_IN_A_MESSAGE])
        valid = ", ".join(sorted(known)[:NAMES_IN_A_MESSAGE]) or "none yet"
        sentence = f"There is no cluster {shown}. The clusters are: {valid}."
        chosen = [cluster for cluster in clusters if cluster.name in names] or clusters
        return _offers(chosen), [FieldError("clusters", "unknown", sentence)]
    if not clusters:
        return [], [FieldError("clusters", "unknown", "There is no cluster yet: an operator makes the first.")]
    chosen = [cluster for cluster in clusters if not names or cluster.name in names]
    return _offers(chosen), []


def _offers(clusters: list[Cluster]) -> list[Offer]:
    sizes: dict[int, dict[int, int]] = {cluster.pk: {} for cluster in clusters}
    hosts = Host.objects.filter(cluster__in=clusters, retired_at=None).order_by()
    for cluster_id, gpus, number in hosts.values_list("cluster_id", "gpus").annotate(number=Count("pk")):
        sizes[cluster_id][gpus] = number
    policies = policies_of(clusters=clusters)
    return [
        Offer(
            cluster,
            sizes[cluster.pk],
            policies[cluster.pk]["min_runtime_min_seconds"],
            policies[cluster.pk]["min_runtime_max_seconds"],
        )
        for cluster in clusters
    ]


def offers_accepting(
    offers: list[Offer], body: dict[str, Any], *, named: bool
) -> tuple[list[Cluster], list[FieldError]]:
    """The clusters that can take it, or why none can. A named cluster whose bounds it breaks is an error too."""
    problems: list[FieldError] = []
    fitting = offers
    # A number that is none is complained about elsewhere; the other of the two is judged beside 1.
    replicas, gpus_per_replica = _at_least_1(body["replicas"]), _at_least_1(body["gpus_per_replica"])
    fitting, size_problems = _split(offers, [offer.size_problem(replicas, gpus_per_replica) for offer in offers])
    problems += [] if fitting else size_problems[:NAMES_IN_A_MESSAGE]
    seconds = body["min_runtime_seconds"]
    if is_whole(seconds) and seconds >= 0:
        candidates = offers if named or not fitting else fitting
        allowed, bound_problems = _split(candidates, [offer.bound_problem(seconds) for offer in candidates])
        problems += bound_problems if named or not allowed else []
        fitting = [offer for offer in fitting if offer in allowed]
    return [offer.cluster for offer in fitting], problems


def _at_least_1(value: Any) -> int:
    return value if is_whole(value) and value >= 1 else 1


def _split(offers: list[Offer], problems: list[FieldError | None]) -> tuple[list[Offer], list[FieldError]]:
    fitting = [offer for offer, problem in zip(offers, problems, strict=True) if problem is None]
    return fitting, [problem for problem in problems if problem is not None]
