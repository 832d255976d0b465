"""The old world's static partitions: each branch has GPUs of its own, as many as its budget. Pure."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from portal.common.errors import Refused
from portal.simulations.editing import Scenario, hosts_of
from portal.simulations.traces.rows import TraceRows

REST = "rest"
NOTE = (
    "Static partitions: each project below the root has GPUs of its own, as many as its share, and work of others may "
    "not use them; what is not given out is a partition of its own. Hosts that failed or were closed are not modelled."
)


def partitioned(scenario: Scenario) -> Scenario:
    """The scenario with a cluster for each child of the root in place of the one that they share.

    Shares are those in force at its beginning; a host that several would need a part of is split between them.
    """
    (cluster,) = scenario["clusters"]
    branches = _branches(scenario)
    sizes = [group["gpus"] for group in hosts_of(cluster) for _ in range(group["count"])]
    counts = _gpus_of(branches, sum(sizes))
    clusters, projects = [], []
    for name, gpus in counts.items():
        own = _hosts(gpus, sizes[0])
        if own:
            clusters.append({**copy.deepcopy(cluster), "name": name, "hosts": own})
            clusters[-1].pop("gpus_per_host", None)
    kept = {each["name"] for each in clusters}
    for line in scenario["projects"]:
        branch = branch_of(line["path"])
        if branch in kept:
            projects.append({**line, "cluster": branch} | ({"share_percent": 100} if _is_branch(line["path"]) else {}))
    return {**scenario, "clusters": clusters, "projects": projects, "host_events": []}


def branch_of(path: str) -> str:
    """The name of the partition that a project's work runs in; the root's own runs in the rest."""
    parts = path.split("/")
    return f"{parts[0]}-{parts[1]}" if len(parts) > 1 else REST


def is_partitioned(scenario: Scenario) -> bool:
    """Whether each project's budget stands on the cluster that is its partition."""
    lines = scenario["projects"]
    return len(scenario["clusters"]) > 1 and all(line.get("cluster") == branch_of(line["path"]) for line in lines)


def rows_assigned(rows: TraceRows, clusters: list[str]) -> TraceRows:
    """Each workload to its project's partition; work of a project without one to the rest, or to the first."""
    spare = REST if REST in clusters else clusters[0]
    homes = [branch_of(path) if branch_of(path) in clusters else spare for path in rows.projects]
    of_project = np.array([clusters.index(home) for home in homes], dtype=np.int64)
    return replace(rows, clusters=tuple(clusters), cluster=of_project[rows.project])


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
