"""The old world's static partitions: each branch has GPUs of its own, as many as its budget. Pure."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from portal.common.errors import Refused
from portal.simulations.editing import Scenario, hosts_of
from portal.simulations.traces.rows import TraceRows

REST = "rest"
PARTITION = "partition-"
NOTE = (
    "Static partitions: each project below the root has GPUs of its own, as many as its share, and work of others may "
    "not use them; what is not given out is a partition of its own. Hosts that failed or were closed are not modelled."
)


def partitioned(scenario: Scenario) -> Scenario:
    """The scenario with a cluster for each child of the root in place of the one that they share.

    Shares are those in force at its beginning; a host that several would need a part of is split between them.
    Partitions have numbers: their readers may not see the name of each project.
    """
    (cluster,) = scenario["clusters"]
    sizes = [group["gpus"] for group in hosts_of(cluster) for _ in range(group["count"])]
    counts = _gpus_of(_branches(scenario), sum(sizes))
    names = {branch: f"{PARTITION}{number}" for number, branch in enumerate(counts, start=1)} | {REST: REST}
    clusters = [
        {"name": names[branch], "hosts": _hosts(gpus, sizes[0]), "policy": copy.deepcopy(cluster.get("policy", {}))}
        for branch, gpus in counts.items()
        if gpus
    ]
    projects = [
        {**line, "cluster": names[branch]} | ({"share_percent": 100} if branch == line["path"] else {})
        for line in scenario["projects"]
        if counts.get(branch := branch_of(line["path"]))
    ]
    return {**scenario, "clusters": clusters, "projects": projects, "host_events": []}


def branch_of(path: str) -> str:
    """The child of the root whose partition a project's work runs in; the root's own runs in the rest."""
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 1 else REST


def is_partitioned(scenario: Scenario) -> bool:
    """Whether its clusters are partitions."""
    names = [cluster["name"] for cluster in scenario["clusters"]]
    return len(names) > 1 and all(name == REST or name.startswith(PARTITION) for name in names)


def rows_assigned(rows: TraceRows, scenario: Scenario) -> TraceRows:
    """Each workload to its project's partition; work of a project without one to the rest, or to the first."""
    clusters = [cluster["name"] for cluster in scenario["clusters"]]
    spare = REST if REST in clusters else clusters[0]
    homes = {branch_of(line["path"]): line["cluster"] for line in scenario["projects"]}
    of_project = [clusters.index(homes.get(branch_of(path), spare)) for path in rows.projects]
    return replace(rows, clusters=tuple(clusters), cluster=np.array(of_project, dtype=np.int64)[rows.project])


def _is_branch(path: str) -> bool:
    return path.count("/") == 1


def _branches(scenario: Scenario) -> dict[str, float]:
    """Percent of each child of the root at the beginning."""
    first: dict[str, tuple[int, float]] = {}
    for line in scenario["projects"]:
        if _is_branch(line["path"]):
            step = (int(line.get("from_s", 0)), float(line["share_percent"]))
            first[branch_of(line["path"])] = min(first.get(branch_of(line["path"]), step), step)
    if not any(share for _, share in first.values()):
        raise Refused("Static partitions need budgets of projects below the root.", attr="partitions")
    return {name: share for name, (_, share) in first.items()}


def _gpus_of(branches: dict[str, float], gpus: int) -> dict[str, int]:
    """Whole GPUs: each its share cut down, what is left to those that lost most by that; the rest is its own."""
    exact = {name: share * gpus / 100 for name, share in branches.items()}
    given = {name: int(value) for name, value in exact.items()}
    left = round(sum(exact.values())) - sum(given.values())
    for name in sorted(exact, key=lambda name: (given[name] - exact[name], name))[: max(left, 0)]:
        given[name] += 1
    return {**given, REST: gpus - sum(given.values())}


def _hosts(gpus: int, size: int) -> list[dict[str, Any]]:
    whole, part = divmod(gpus, size)
    groups = [{"count": whole, "gpus": size}] if whole else []
    return groups + ([{"count": 1, "gpus": part}] if part else [])
