"""This portal as a scenario: its hosts and what happened to them, its budgets over time, its policy."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from portal.budgets.selectors import NO_BUDGET, ShareStep, budgets_at, share_history
from portal.clusters.models import Cluster, Host, HostSpan, HostState
from portal.clusters.policies import policy_defaults
from portal.clusters.selectors import host_spans, hosts_installed, policy_values
from portal.common.errors import Refused
from portal.common.units import DAY_SECONDS, epoch_seconds, whole_second
from portal.projects.models import Project
from portal.projects.selectors import ancestor_paths
from portal.simulations.editing import Scenario, share_line
from portal.simulations.scenarios.parts import host_name

WARMUP_DAYS_MOST = 7
"""Usage before the range counts in its first balances (R2): the replay begins so long before it, where history does."""

Change = tuple[int, str]
Hosts = list[tuple[Host, list[HostSpan]]]


def history_known(*, cluster: Cluster, start: datetime, end: datetime) -> tuple[datetime, datetime]:
    """The last whole days of the part of [start, end) from the cluster's first host on; all of it where it has none.

    Refused where there were no hosts.
    """
    known = max(start, whole_second(_first_host_at(cluster, end)))
    days = (end - known).days
    return (end - timedelta(days=days) if days else known), end


def _first_host_at(cluster: Cluster, end: datetime) -> datetime:
    first = HostSpan.objects.filter(cluster=cluster).order_by("start_at").values_list("start_at", flat=True).first()
    if first is None or first >= end:
        raise Refused(f"{cluster.name} had no hosts in this range.", attr="history")
    return first


def scenario_of_history(*, cluster: Cluster, start: datetime, end: datetime) -> Scenario:
    """The scenario in which the history of [start, end) is replayed as it was. Refused where there were no hosts."""
    first = _first_host_at(cluster, end)
    warmup_days = _warmup_days(cluster, start, first)
    begin = start - timedelta(days=warmup_days)
    spans = list(
        host_spans(cluster=cluster, start=begin, end=end).select_related("host").order_by("host_id", "start_at")
    )
    hosts = [(host, list(own)) for host, own in groupby(spans, key=lambda span: span.host)]
    hosts.sort(key=lambda each: (each[0].gpus, each[0].gpu_model))
    return {
        "clusters": [{"name": cluster.name, "hosts": _groups(hosts), "policy": policy_changed(cluster)}],
        "projects": _lines(cluster, begin, end),
        "host_events": [
            {"host": host_name(cluster.name, number), "at_s": at, "event": event}
            for number, (_, own) in enumerate(hosts)
            for at, event in _changes(own, begin, end)
        ],
        "warmup_days": warmup_days,
        # Less than a day is simulated until nothing of it is left.
        "days": (end - start).days or None,
    }


def scenario_of_now(*, cluster: Cluster, at: datetime) -> Scenario:
    """The hosts that are installed, the budgets in force and the policy: what a trace or a generator runs on."""
    hosts: Hosts = [(host, []) for host in hosts_installed(cluster=cluster).order_by("gpus", "gpu_model", "pk")]
    if not hosts:
        raise Refused(f"{cluster.name} has no hosts.", attr="cluster")
    lines = budgets_at(cluster=cluster, at=at)
    paths = dict(Project.objects.filter(pk__in=lines).order_by("path").values_list("pk", "path"))
    granted = [
        share_line(path, cluster.name, lines[pk].share_ppm, lines[pk].burst_gpus, from_seconds=0)
        for pk, path in paths.items()
    ]
    return {
        "clusters": [{"name": cluster.name, "hosts": _groups(hosts), "policy": policy_changed(cluster)}],
        "projects": granted + _without_budget(granted, cluster),
        "warmup_days": WARMUP_DAYS_MOST,
        "days": 14,
    }


def history_begin(start: datetime, scenario: Scenario) -> datetime:
    """Where the replay begins: the warm-up before the range."""
    return start - timedelta(days=scenario.get("warmup_days", 0))


def policy_changed(cluster: Cluster) -> dict[str, Any]:
    """The settings of the cluster's policy that are not the defaults."""
    usual = policy_defaults()
    return {name: value for name, value in policy_values(cluster=cluster).items() if value != usual[name]}


def _warmup_days(cluster: Cluster, start: datetime, first: datetime) -> int:
    lookback_days = policy_values(cluster=cluster)["lookback_seconds"] // DAY_SECONDS
    known_days = max((start - first).days, 0)
    return int(min(lookback_days, known_days, WARMUP_DAYS_MOST))


def _groups(hosts: Hosts) -> list[dict[str, Any]]:
    """Hosts of a kind, in the order in which they are numbered."""
    kinds = groupby((host.gpus, host.gpu_model) for host, _ in hosts)
    return [
        {"count": len(list(same)), "gpus": gpus, **({"model": model} if model else {})} for (gpus, model), same in kinds
    ]


def _lines(cluster: Cluster, begin: datetime, end: datetime) -> list[dict[str, Any]]:
    """Every step of every budget in the range; one in force at its beginning stands at 0."""
    steps = [step for step in share_history(cluster=cluster, since=begin) if step.at < end]
    paths = dict(Project.objects.filter(pk__in={step.project_id for step in steps}).values_list("pk", "path"))
    found = []
    for project_id, own in groupby(steps, key=lambda step: step.project_id):
        for step in _from_begin(list(own), begin):
            seconds = max(0, epoch_seconds(step.at) - epoch_seconds(begin))
            line = share_line(paths[project_id], cluster.name, step.share_ppm, step.burst_gpus, from_seconds=seconds)
            found.append(line)
    found += _without_budget(found, cluster)
    return sorted(found, key=lambda line: (line["path"], line["from_s"]))


def _without_budget(lines: list[dict[str, Any]], cluster: Cluster) -> list[dict[str, Any]]:
    """Ancestors that have no budget have no share here, not the whole that a scenario gives to who isn't listed."""
    listed = {line["path"] for line in lines}
    above = {path for each in listed for path in ancestor_paths(each)[1:]}
    return [share_line(path, cluster.name, 0, None, from_seconds=0) for path in above - listed]


def _from_begin(steps: list[ShareStep], begin: datetime) -> list[ShareStep]:
    """Without those that were over before; a project that had none yet has no share until its first."""
    before = [step for step in steps if step.at <= begin]
    later = [step for step in steps if step.at > begin]
    return [before[-1] if before else ShareStep(steps[0].project_id, begin, *NO_BUDGET), *later]


def _changes(spans: list[HostSpan], begin: datetime, end: datetime) -> Iterator[Change]:
    """When a host stopped taking work, and when it took some again. A host that nobody heard had failed."""
    last = "repair"
    for at, event in _events(spans, begin):
        if at < end and event != last and (last, event) != ("fail", "drain"):
            last = event
            yield epoch_seconds(at) - epoch_seconds(begin), event


def _events(spans: list[HostSpan], begin: datetime) -> Iterator[tuple[datetime, str]]:
    if spans[0].start_at > begin:
        yield begin, "drain"  # not there yet
    for span, following in zip(spans, [*spans[1:], None], strict=True):
        yield max(span.start_at, begin), EVENT_OF.get(span.state, "drain")
        if span.end_at is not None and (following is None or following.start_at > span.end_at):
            yield span.end_at, "drain"  # not there any more


EVENT_OF: dict[str, str] = {HostState.SCHEDULABLE: "repair", HostState.UNREACHABLE: "fail"}
