"""A scenario's JSON: what may be set, and how each fault is named with its place."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from portal.simulations.scenario import ScenarioRefused, load_scenario, read_scenario
from portal.simulations.scenarios.parts import GENERATOR_BOUNDS
from portal.simulations.traces.nodes import HostGroup, read_hosts, read_vc_nodes
from scheduler.policy import POLICY_BOUNDS, Policy
from scheduler.simulation.setup import HostChange, ResearchLab, Scheduler
from scheduler.types import NEVER

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "docs" / "scenarios"
CLUSTER = {"name": "h100", "hosts": 4, "gpus_per_host": 8}
BASE: dict[str, Any] = {"clusters": [CLUSTER], "projects": [{"path": "lab/nlp", "share_percent": 60}]}


def with_policy(**policy: Any) -> dict[str, Any]:
    return {**BASE, "clusters": [{**CLUSTER, "policy": policy}]}


def projects(*lines: tuple[str, float] | tuple[str, float, int]) -> dict[str, Any]:
    listed = [{"path": line[0], "share_percent": line[1], "from_s": line[2] if len(line) > 2 else 0} for line in lines]
    return {**BASE, "projects": listed}


def problems_of(given: Any) -> dict[str, str]:
    with pytest.raises(ScenarioRefused) as refused:
        read_scenario(given)
    return dict(refused.value.problems)


def test_clusters_and_projects_are_enough() -> None:
    scenario = read_scenario(BASE)
    assert scenario.clusters[0].groups == (HostGroup(4, 8, ""),)
    assert scenario.clusters[0].policy.policy == Policy()
    assert scenario.clusters[0].policy.scheduler is Scheduler.BUDGETS
    assert (scenario.budgets[0].cluster, scenario.budgets[0].share_ppm) == ("h100", 600_000)
    assert (scenario.days, scenario.seed, scenario.generator) == (None, 1, None)


@pytest.mark.parametrize("setting", sorted(POLICY_BOUNDS))
def test_every_setting_of_the_policy_may_be_set_to_both_of_its_bounds_and_no_further(setting: str) -> None:
    bound = POLICY_BOUNDS[setting]
    for value in (bound.least, bound.most):
        other = {"min_runtime_max_seconds": bound.most} if setting == "min_runtime_min_seconds" else {}
        other |= {"min_runtime_min_seconds": 0} if setting == "min_runtime_max_seconds" else {}
        scenario = read_scenario(with_policy(**{setting: value}, **other))
        assert getattr(scenario.clusters[0].policy.policy, setting) == value
    for value in (bound.least - 1, bound.most + 1):
        assert "must be between" in problems_of(with_policy(**{setting: value}))[f"clusters[0].policy.{setting}"]


def test_every_number_of_the_generator_is_a_key_with_bounds() -> None:
    assert set(GENERATOR_BOUNDS) == {field.name for field in fields(ResearchLab)}
    for name, (least, most) in GENERATOR_BOUNDS.items():
        for value in (least, most):
            workload = {"generator": "research-lab", name: value}
            assert getattr(read_scenario({**BASE, "workload": workload}).generator, name) == value
        workload = {"generator": "research-lab", name: least - 1}
        assert f"workload.{name}" in problems_of({**BASE, "workload": workload})
    assert "goes with a generator" in problems_of({**BASE, "workload": {"teams": 3}})["workload.teams"]


def test_every_field_of_the_policy_is_a_key() -> None:
    assert {field.name for field in fields(Policy)} == {*POLICY_BOUNDS, "leaf_order"}
    scenario = read_scenario(with_policy(leaf_order=["submitted", "priority"]))
    assert scenario.clusters[0].policy.policy.leaf_order == ("submitted", "priority")


@pytest.mark.parametrize(
    ("key", "value", "setting", "stored"),
    [
        ("lookback_days", 7, "lookback_seconds", 604_800),
        ("lookback_days", 0.5, "lookback_seconds", 43_200),
        ("min_runtime_max_hours", 4, "min_runtime_max_seconds", 14_400),
        ("grace_allocated_minutes", 1.5, "grace_allocated_seconds", 90),
        ("silence_s", 60, "silence_seconds", 60),
        ("express_share_percent", 0.29, "express_share_ppm", 2_900),
        ("half_life_days", None, "half_life_seconds", None),
        ("save_for_head", True, "save_for_head", 1),
    ],
)
def test_a_setting_may_be_given_in_a_handier_unit(key: str, value: Any, setting: str, stored: int | None) -> None:
    assert getattr(read_scenario(with_policy(**{key: value})).clusters[0].policy.policy, setting) == stored


def test_a_setting_is_given_once() -> None:
    found = problems_of(with_policy(lookback_days=7, lookback_seconds=604_800))
    assert found == {"clusters[0].policy.lookback_seconds": "is lookback_days under another name; give one of them."}


@pytest.mark.parametrize(
    ("given", "place", "valid"),
    [
        ({**BASE, "cluster": []}, "cluster", "(did you mean clusters?); valid are clusters, projects, workload"),
        (with_policy(lookback=7), "clusters[0].policy.lookback", "valid are scheduler, pass_interval_s"),
        ({**BASE, "clusters": [{**CLUSTER, "gpus": 8}]}, "clusters[0].gpus", "valid are name, hosts, gpus_per_host"),
        ({**BASE, "projects": [{"path": "p", "share": 1}]}, "projects[0].share", "valid are path, cluster, share_perc"),
        ({**BASE, "workload": {"seeds": 1}}, "workload.seeds", "(did you mean seed?)"),
        ({**BASE, "contracts": {"debug": {"gpus": 1}}}, "contracts.debug.gpus", "valid are max_gpus, max_duration_s"),
        ({**BASE, "host_events": [{"hosts": "x"}]}, "host_events[0].hosts", "valid are host, at_s, event, repair_s"),
    ],
)
def test_an_unknown_key_is_refused_by_name_with_the_valid_ones(given: Any, place: str, valid: str) -> None:
    words = problems_of(given)[place]
    assert "is not a key that is known" in words
    assert valid in words


def test_budgets_above_a_whole_are_refused_with_the_total_and_the_names() -> None:
    found = problems_of(projects(("lab/nlp", 60), ("lab/vision", 40.5), ("lab/nlp/a", 100)))
    assert found == {
        "projects[1].share_percent": "on h100 the children of lab add up to 100.5 % from second 0 on: "
        "lab/nlp 60 %, lab/vision 40.5 %."
    }


def test_budgets_are_added_up_at_each_moment() -> None:
    read_scenario(projects(("a", 60), ("b", 40), ("a", 30, 100), ("b", 70, 100)))
    found = problems_of(projects(("a", 60), ("b", 40), ("b", 70, 100), ("a", 30, 200)))
    assert "add up to 130 % from second 100 on" in found["projects[2].share_percent"]


def test_an_unlisted_ancestor_has_all_of_its_parent() -> None:
    found = problems_of(projects(("lab/a/x", 10), ("lab/b/y", 10)))
    assert "lab/a 100 % (not listed), lab/b 100 % (not listed)" in found["projects"]


def test_a_project_is_listed_once_at_a_time() -> None:
    found = problems_of(projects(("lab/nlp", 10), ("lab/nlp", 20)))
    assert found["projects[1].path"].startswith(
        "lab/nlp is listed twice on h100 from second 0 on (first as projects[0])"
    )


def test_a_project_is_not_inside_itself() -> None:
    assert "a project can't be inside itself" in problems_of(projects(("a/b/a", 10)))["projects[0].path"]


@pytest.mark.parametrize("share", [-1, 100.1, float("nan"), float("inf"), "10", True, None])
def test_a_share_is_a_percentage(share: Any) -> None:
    given = {**BASE, "projects": [{"path": "p", "share_percent": share}]}
    assert "projects[0].share_percent" in problems_of(given)


def test_of_several_clusters_each_budget_names_one() -> None:
    two = [CLUSTER, {**CLUSTER, "name": "b200"}]
    found = problems_of({"clusters": two, "projects": [{"path": "p", "share_percent": 1}]})
    assert found == {"projects[0].cluster": "must be given: one of h100, b200."}
    assert problems_of({**BASE, "clusters": [CLUSTER, CLUSTER]})["clusters[1].name"] == "h100 is there twice."


def test_hosts_may_be_of_several_kinds() -> None:
    hosts = [{"count": 2, "gpus": 8, "model": "H100"}, {"count": 3, "gpus": 4}]
    scenario = read_scenario({**BASE, "clusters": [{"name": "mixed", "hosts": hosts}]})
    assert scenario.clusters[0].groups == (HostGroup(2, 8, "H100"), HostGroup(3, 4, ""))


@pytest.mark.parametrize("hosts", [0, -1, 1.5, "4", None, [], [{"count": 1}], [{"gpus": 0}], [7], 10**9])
def test_hosts_are_a_number_or_a_list_of_kinds(hosts: Any) -> None:
    given = {**BASE, "clusters": [{"name": "h100", "hosts": hosts}]}
    assert all(place.startswith("clusters[0].hosts") for place in problems_of(given))


def test_something_happens_to_a_host_that_is_there() -> None:
    event = {"host": "h100-003", "at_s": 5, "event": "fail", "repair_s": 60}
    fault = read_scenario({**BASE, "host_events": [event]}).host_events[0]
    assert (fault.host, fault.at, fault.kind, fault.repair_seconds) == (3, 5, HostChange.FAIL, 60)
    drain = read_scenario({**BASE, "host_events": [{"host": "h100-000", "at_s": 0, "event": "drain"}]})
    assert drain.host_events[0].repair_seconds == NEVER
    found = problems_of({**BASE, "host_events": [{**event, "host": "h100-004"}, {**event, "event": "burn"}]})
    assert found["host_events[0].host"] == "'h100-004' is not a host of the scenario (h100-000 to h100-003)."
    assert found["host_events[1].event"] == "must be one of fail, drain, repair, not 'burn'."


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({**BASE, "days": 0}, "days"),
        ({**BASE, "days": 1.5}, "days"),
        ({**BASE, "warmup_days": -1}, "warmup_days"),
        ({**BASE, "workload": {"seed": -1}}, "workload.seed"),
        ({**BASE, "workload": {"generator": "other"}}, "workload.generator"),
        ({**BASE, "contracts": {"zero_min_runtime_fraction": 1.01}}, "contracts.zero_min_runtime_fraction"),
        ({**BASE, "contracts": {"checkpoint_interval_s": 0}}, "contracts.checkpoint_interval_s"),
        ({**BASE, "contracts": {"resumable": 1}}, "contracts.resumable"),
        ({**BASE, "projects": None}, "projects"),
        ({"clusters": [CLUSTER]}, "projects"),
        ({"projects": []}, "clusters"),
        (with_policy(scheduler="lottery"), "clusters[0].policy.scheduler"),
        (with_policy(pass_interval_s=0), "clusters[0].policy.pass_interval_s"),
        (with_policy(leaf_order=["priority", "priority"]), "clusters[0].policy.leaf_order"),
        (with_policy(min_runtime_min_seconds=90_000), "clusters[0].policy.min_runtime_min_seconds"),
        ([], ""),
        (None, ""),
    ],
)
def test_every_fault_names_its_place(given: Any, place: str) -> None:
    assert place in problems_of(given)


def test_all_faults_are_named_at_once() -> None:
    found = problems_of({**BASE, "days": 0, "warmup_days": -1, "colour": "red"})
    assert set(found) == {"days", "warmup_days", "colour"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1, column 2"),
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ('{"days": NaN}', "NaN is no number"),
        ("[" * 100_000, "is not JSON"),
        ("", "is not JSON"),
    ],
)
def test_a_file_that_is_not_json_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(text)
    with pytest.raises(ScenarioRefused, match=words):
        load_scenario(path)


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.json")), ids=lambda path: path.stem)
def test_the_scenarios_of_the_documentation_are_sound(path: Path) -> None:
    given = json.loads(path.read_text())
    if "clusters" in given:  # reports lie there too
        read_scenario(given)


def test_the_philly_scenario_has_the_node_counts_as_budgets() -> None:
    scenario = load_scenario(SCENARIOS / "philly.json")
    nodes = read_vc_nodes(ROOT / "examples" / "traces" / "philly_vc_nodes.csv")
    assert (scenario.clusters[0].hosts, sum(nodes.values())) == (352, 352)
    assert {
        line.path.removeprefix("philly/"): round(line.share_ppm * 352 / 1e6, 2) for line in scenario.budgets
    } == nodes


def test_the_alibaba_scenario_has_the_hosts_of_the_nodes_file() -> None:
    scenario = load_scenario(SCENARIOS / "alibaba.json")
    groups = read_hosts(ROOT / "examples" / "traces" / "alibaba_gpu_v2023.nodes.csv")
    assert scenario.clusters[0].groups == tuple(groups)


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_a_number_too_long_for_any_float_is_outside_its_bounds(number: int) -> None:
    assert "must be between 1 and 3660" in problems_of({**BASE, "days": number})["days"]
    assert "must be between 0 and 9" in problems_of({**BASE, "workload": {"seed": number}})["workload.seed"]
    assert "must be between" in problems_of(with_policy(lookback_days=number))["clusters[0].policy.lookback_days"]


@pytest.mark.parametrize("name", ["h100-0000000009", "h100-00000000004", "h100-004", "h100-\u0663", "h100-", "h100"])
def test_a_host_that_is_not_there_is_refused_however_its_number_is_written(name: str) -> None:
    found = problems_of({**BASE, "host_events": [{"host": name, "at_s": 1}]})
    assert "is not a host of the scenario (h100-000 to h100-003)" in found["host_events[0].host"]
