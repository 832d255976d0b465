"""What-ifs: a scenario with some of it changed. Pure: a scenario in, another out."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from portal.common.errors import Refused
from portal.simulations.scenarios.policies import SPELLINGS

PPM_OF_A_PERCENT = 10_000

Scenario = dict[str, Any]


@dataclass(frozen=True)
class Edits:
    """What is changed; None: left as it is. `shares`: path to (parts per million of the parent, burst cap or none)."""

    shares: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    hosts: int | None = None


def scenario_edited(scenario: Scenario, edits: Edits) -> Scenario:
    """The scenario with the edits in force from its start to its end; the given one is left alone."""
    edited = copy.deepcopy(scenario)
    for cluster in edited["clusters"]:
        cluster["policy"] = _policy_edited(cluster.get("policy", {}), edits.policy)
        if edits.hosts is not None:
            _hosts_set(edited, cluster, edits.hosts)
    if edits.shares:
        _shares_set(edited, edits.shares)
    return edited


def _policy_edited(policy: Mapping[str, Any], edits: Mapping[str, Any]) -> dict[str, Any]:
    """A setting that is changed is given once, however it was spelt."""
    changed = {_setting_of(key) for key in edits}
    return {key: value for key, value in policy.items() if _setting_of(key) not in changed} | dict(edits)


def _setting_of(key: str) -> str:
    """The setting that a key of a policy spells; keys that spell none stand for themselves."""
    return SPELLINGS[key][0] if key in SPELLINGS else key


def _shares_set(scenario: Scenario, shares: Mapping[str, tuple[int, int | None]]) -> None:
    """An edited project has one line on each cluster, from the start on, in place of all that it had."""
    kept = [line for line in scenario["projects"] if line["path"] not in shares]
    clusters = [cluster["name"] for cluster in scenario["clusters"]]
    for path, (share_ppm, burst_gpus) in shares.items():
        for cluster in clusters:
            kept.append(share_line(path, cluster, share_ppm, burst_gpus, from_seconds=0))
    scenario["projects"] = kept


def share_line(path: str, cluster: str, share_ppm: int, burst_gpus: int | None, *, from_seconds: int) -> dict[str, Any]:
    """A line of a scenario's projects."""
    return {
        "path": path,
        "cluster": cluster,
        "share_percent": percent_of(share_ppm),
        "burst_gpus": burst_gpus,
        "from_s": from_seconds,
    }


def percent_of(share_ppm: int) -> int | float:
    """Parts per million as percent: 65,000 is 6.5, exactly as it will be read back."""
    percent = Fraction(share_ppm, PPM_OF_A_PERCENT)
    return int(percent) if percent.denominator == 1 else float(percent)


def hosts_of(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    """A scenario's hosts as groups of `{count, gpus, model}`, whichever way they are written."""
    hosts = cluster["hosts"]
    if isinstance(hosts, int):
        return [{"count": hosts, "gpus": cluster.get("gpus_per_host", 8)}]
    return [dict(group) for group in hosts]


def _hosts_set(scenario: Scenario, cluster: dict[str, Any], count: int) -> None:
    """More hosts are of the kind that most are; fewer: the last ones go, and what happened to them."""
    if count < 1:
        raise Refused("A cluster has at least one host.", attr="hosts")
    groups = hosts_of(cluster)
    more = count - sum(group["count"] for group in groups)
    if more > 0:
        max(groups, key=lambda group: group["count"])["count"] += more
    while more < 0:
        taken = min(groups[-1]["count"], -more)
        groups[-1]["count"] -= taken
        more += taken
        groups = [group for group in groups if group["count"]]
    cluster["hosts"] = groups
