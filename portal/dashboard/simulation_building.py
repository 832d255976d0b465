"""From the form of a new simulation to what the service takes: the scenario, and in words what is different in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from portal.clusters.models import Cluster
from portal.clusters.selectors import policy_values
from portal.common.units import duration_words
from portal.dashboard import budget_units
from portal.dashboard.forms_simulations import SCHEDULERS, SimulationForm
from portal.dashboard.ranges import zone
from portal.simulations.editing import Edits, Scenario, hosts_of, scenario_edited, share_line
from portal.simulations.models import Source
from portal.simulations.partitions import NOTE, partitioned
from portal.simulations.portal_scenario import history_known, scenario_of_history, scenario_of_now

History = tuple[datetime, datetime]


@dataclass(frozen=True)
class Wanted:
    """What the form asks for."""

    scenario: Scenario
    changes: list[str]
    history: History | None = None
    seed: int | None = None


def wanted_of(form: SimulationForm, *, cluster: Cluster, now: datetime) -> Wanted:
    """The scenario of a valid form; raises what the portal has to say against it."""
    data = form.cleaned_data
    history = _history(data, cluster, now) if form.source == Source.HISTORY else None
    if data["given"] is not None:
        return Wanted(data["given"], ["The scenario was given as JSON."], history, data.get("seed"))
    if history is not None:
        base = scenario_of_history(cluster=cluster, start=history[0], end=history[1])
    else:
        base = _base_of_now(form, cluster, now)
    edits, changes = _edits(data, base, policy_values(cluster=cluster))
    scenario, changes = scenario_edited(base, edits), changes + _share_words(form)
    if data.get("partitions"):
        scenario, changes = partitioned(scenario), [*changes, NOTE]
    return Wanted(scenario, changes, history, data.get("seed"))


def _history(data: Mapping[str, Any], cluster: Cluster, now: datetime) -> History:
    """From the first day's midnight to the last day's, or to now."""
    start = datetime.combine(data["from"], time.min, zone())
    until = data.get("to")
    end = now if until is None else min(datetime.combine(until + timedelta(days=1), time.min, zone()), now)
    return history_known(cluster=cluster, start=start, end=end)


def _base_of_now(form: SimulationForm, cluster: Cluster, now: datetime) -> Scenario:
    data = form.cleaned_data
    base = {**scenario_of_now(cluster=cluster, at=now), "days": data.get("days")}
    if form.source == Source.TRACE:
        granted = data["budget_lines"]
        base["projects"] = [
            share_line(path, cluster.name, share, burst, from_seconds=0) for path, share, burst in granted
        ]
        return {**base, "warmup_days": 0}
    if data["whose"] == "teams":
        base["projects"] = []
    seed = data["seed"]
    return {**base, "warmup_days": data["warmup_days"], "workload": {"generator": "research-lab", "seed": seed}}


def _edits(data: Mapping[str, Any], base: Scenario, values: Mapping[str, Any]) -> tuple[Edits, list[str]]:
    """What differs from how things are, and each difference in a sentence."""
    policy: dict[str, Any] = {}
    changes = []
    if data["scheduler"] != "budgets":
        policy["scheduler"] = data["scheduler"]
        changes.append(f"Who decides: {dict(SCHEDULERS)[data['scheduler']]}.")
    for field, setting, words in (
        ("lookback", "lookback_seconds", "Lookback window"),
        ("min_runtime_max", "min_runtime_max_seconds", "Cap on minimum runtime"),
    ):
        if data[field] is not None and data[field] != values[setting]:
            policy[setting] = data[field]
            changes.append(f"{words}: {duration_words(data[field])} instead of {duration_words(values[setting])}.")
    if data["project_limit"] is not None:
        policy["project_limit_workloads"] = data["project_limit"]
        changes.append(f"At most {data['project_limit']} unfinished workloads of one project.")
    hosts = sum(group["count"] for group in hosts_of(base["clusters"][0]))
    if data["hosts"] != hosts:
        changes.append(f"{data['hosts']} hosts instead of {hosts}.")
    shares = data["shares"] if base["projects"] else {}
    return Edits(shares, policy, None if data["hosts"] == hosts else data["hosts"]), changes


def _share_words(form: SimulationForm) -> list[str]:
    data, stored = form.cleaned_data, {row.project.path: row.stored for row in form.rows}
    if data.get("whose") == "teams":
        return []
    changes = []
    for path, (share_ppm, burst_gpus) in data["shares"].items():
        words = []
        if share_ppm != stored[path].share_ppm:
            before, after = (budget_units.percent_text(ppm) for ppm in (stored[path].share_ppm, share_ppm))
            words.append(f"{after} % of its parent's share instead of {before} %")
        if burst_gpus != stored[path].burst_gpus:
            words.append("no burst cap" if burst_gpus is None else f"a burst cap of {burst_gpus} GPUs")
        changes.append(f"{path}: {', '.join(words)}.")
    return changes
