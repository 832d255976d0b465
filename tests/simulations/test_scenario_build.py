"""A scenario and a trace make one run a cluster: trees, gangs, drawn contracts, cuts."""

from time import perf_counter
from typing import Any

import numpy as np
import pytest

from portal.simulations.scenario import Built, ScenarioRefused, build, build_setups, read_scenario
from portal.simulations.scenarios.jobs import gang_replicas
from portal.simulations.traces.reading import read_trace
from portal.simulations.traces.rows import TraceRefused, TraceRows
from scheduler.simulation.setup import Jobs, Setup, check_setup
from scheduler.types import NEVER

HEADER = "job_id,user,project,submit_time_s,duration_s,gpus"


def scenario_of(*budgets: tuple[str, float], **more: Any) -> Any:
    listed = [{"path": path, "share_percent": share} for path, share in budgets]
    clusters = [{"name": "h100", "hosts": 4, "gpus_per_host": 8}]
    return read_scenario({"clusters": clusters, "projects": listed, **more})


def trace_of(*rows: str, columns: str = "") -> TraceRows:
    return read_trace("\n".join([HEADER + columns, *rows]).encode(), name="trace.csv")


def built(scenario: Any, trace: TraceRows, seed: int | None = None) -> Built:
    (one,) = build(scenario, trace, seed)
    assert check_setup(one.setup) == []
    return one


def jobs_of(setup: Setup) -> Jobs:
    assert setup.jobs is not None
    return setup.jobs


def tree_of(setup: Setup) -> dict[str, str | None]:
    names = [project.path for project in setup.projects]
    return {project.path: names[project.parent] if project.parent != NEVER else None for project in setup.projects}


def test_the_common_top_is_the_root() -> None:
    setup = built(scenario_of(("lab/nlp/a", 60), ("lab/nlp/b", 10)), trace_of("a,,lab/nlp,0,60,1")).setup
    assert tree_of(setup) == {"lab": None, "lab/nlp": "lab", "lab/nlp/a": "lab/nlp", "lab/nlp/b": "lab/nlp"}
    shares = dict(zip(setup.shares.project.tolist(), setup.shares.share_ppm.tolist(), strict=True))
    assert shares == {1: 1_000_000, 2: 600_000, 3: 100_000}


def test_projects_without_a_common_top_get_a_root() -> None:
    setup = built(scenario_of(("nlp", 60), ("vision", 40)), trace_of("a,,nlp,0,60,1")).setup
    assert tree_of(setup) == {"all": None, "nlp": "all", "vision": "all"}


def test_a_top_with_a_budget_of_its_own_is_no_root() -> None:
    setup = built(scenario_of(("lab", 80), ("lab/nlp", 60)), trace_of("a,,lab/nlp,0,60,1")).setup
    assert tree_of(setup) == {"all": None, "lab": "all", "lab/nlp": "lab"}


def test_a_project_is_found_by_its_last_name_where_only_one_has_it() -> None:
    one = built(scenario_of(("lab/nlp", 60), ("lab/vision", 40)), trace_of("a,,vision,0,60,1"))
    assert one.setup.projects[int(jobs_of(one.setup).project[0])].path == "lab/vision"
    assert "Projects found by their last name: vision is lab/vision." in one.notes
    two = built(scenario_of(("lab/a/x", 60), ("lab/b", 0)), trace_of("a,,x,0,60,1", "b,,a/x,0,60,1"))
    assert {two.setup.projects[index].path for index in jobs_of(two.setup).project.tolist()} == {"lab/a/x"}


def test_a_project_that_the_scenario_does_not_list_has_no_budget_and_is_named() -> None:
    one = built(scenario_of(("lab/nlp", 60)), trace_of("a,,lab/nlp/x,0,60,1", "b,,guests,0,60,1"))
    assert tree_of(one.setup) == {"lab": None, "lab/nlp": "lab", "lab/nlp/x": "lab/nlp", "guests": "lab"}
    assert one.setup.shares.project.tolist() == [1]
    assert "Projects without a budget: lab/nlp/x, guests." in one.notes


def test_budgets_change_over_time() -> None:
    lines = [
        {"path": "p", "share_percent": 10},
        {"path": "p", "share_percent": 33.33335, "burst_gpus": 16, "from_s": 86_400},
    ]
    scenario = read_scenario({"clusters": [{"name": "c", "hosts": 1}], "projects": lines})
    shares = built(scenario, trace_of("a,,p,0,60,1")).setup.shares
    assert (shares.at.tolist(), shares.share_ppm.tolist()) == ([0, 86_400], [100_000, 333_333])
    assert shares.burst_gpus.tolist() == [NEVER, 16]


@pytest.mark.parametrize(
    ("gpus", "replicas", "each"), [("8", 1, 8), ("9", 3, 3), ("16", 2, 8), ("20", 4, 5), ("17", 17, 1), ("0.5", 1, 1)]
)
def test_what_is_larger_than_a_host_becomes_equal_replicas_on_as_few_hosts_as_possible(
    gpus: str, replicas: int, each: int
) -> None:
    jobs = jobs_of(built(scenario_of(("p", 50)), trace_of(f"a,,p,0,60,{gpus}")).setup)
    assert (jobs.replicas.tolist(), jobs.gpus_per_replica.tolist()) == ([replicas], [each])


def test_replicas_of_the_trace_share_its_gpus_and_parts_are_counted() -> None:
    trace = trace_of("a,,p,0,60,16,4", "b,,p,0,60,8,3", "c,,p,0,60,0.5,", columns=",replicas")
    setup = built(scenario_of(("p", 50)), trace).setup
    assert jobs_of(setup).gpus_per_replica.tolist() == [4, 3, 1]
    assert setup.rounded_jobs == 2


def test_contracts_that_the_trace_lacks_are_drawn_with_the_seed() -> None:
    rows = [f"j{n},,p,{n},{300 if n % 2 else 9000},1" for n in range(2000)]
    scenario = scenario_of(("p", 50), contracts={"zero_min_runtime_fraction": 0.25, "min_runtime_s": 3600})
    first, same, other = (jobs_of(built(scenario, trace_of(*rows), seed).setup) for seed in (1, 1, 2))
    assert np.array_equal(first.min_runtime_seconds, same.min_runtime_seconds)
    assert not np.array_equal(first.min_runtime_seconds, other.min_runtime_seconds)
    assert abs(float((first.min_runtime_seconds == 0).mean()) - 0.25) < 0.04
    short = first.duration_seconds <= 900
    assert set(first.min_runtime_seconds[short].tolist()) == {0, 300}
    assert set(first.min_runtime_seconds[~short].tolist()) == {0, 3600}


def test_the_seed_of_the_scenario_counts_where_none_is_given() -> None:
    rows = [f"j{n},,p,{n},9000,1" for n in range(50)]
    by_scenario = built(scenario_of(("p", 50), workload={"seed": 7}), trace_of(*rows)).setup
    by_hand = built(scenario_of(("p", 50)), trace_of(*rows), 7).setup
    assert by_scenario.seed == by_hand.seed == 7
    assert np.array_equal(jobs_of(by_scenario).min_runtime_seconds, jobs_of(by_hand).min_runtime_seconds)


def test_no_minimum_runtime_is_beyond_the_policy() -> None:
    scenario = read_scenario(
        {
            "clusters": [{"name": "c", "hosts": 1, "policy": {"min_runtime_max_hours": 1}}],
            "projects": [],
            "contracts": {"zero_min_runtime_fraction": 0},
        }
    )
    one = built(scenario, trace_of("a,,p,0,9000,1,", "b,,p,0,60,1,7200", "c,,p,0,60,1,0", columns=",min_runtime_s"))
    assert jobs_of(one.setup).min_runtime_seconds.tolist() == [3600, 3600, 0]
    assert any(note.startswith("1 jobs ask for a minimum runtime outside") for note in one.notes)


def test_what_the_trace_says_of_resumability_and_checkpoints_counts() -> None:
    trace = trace_of("a,,p,0,60,1,0,60", "b,,p,0,60,1,,", columns=",resumable,checkpoint_interval_s")
    jobs = jobs_of(built(scenario_of(("p", 50), contracts={"checkpoint_interval_s": None}), trace).setup)
    assert jobs.resumable.tolist() == [False, True]
    assert jobs.checkpoint_interval_seconds.tolist() == [60, NEVER]


def test_people_are_the_same_in_every_project_and_nobody_is_one_in_each() -> None:
    trace = trace_of("a,ana,p,0,60,1", "b,ana,q,0,60,1", "c,,p,0,60,1", "d,,q,0,60,1", "e,,q,0,60,1")
    user = jobs_of(built(scenario_of(("p", 50)), trace).setup).user.tolist()
    assert user[0] == user[1]
    assert len({user[0], user[2], user[3]}) == 3
    assert user[3] == user[4]


def test_a_trace_longer_than_the_days_is_cut_and_the_notes_say_so() -> None:
    one = built(scenario_of(("p", 50), days=1, warmup_days=1), trace_of("a,,p,172799,60,1", "b,,p,172800,60,1"))
    assert (one.setup.days, one.setup.warmup_days) == (1, 1)
    assert "The trace is cut at day 2: 1 jobs submitted later are left out." in one.notes


def test_a_trace_with_nothing_in_the_days_is_refused() -> None:
    with pytest.raises(TraceRefused, match="has no job in the 1 days"):
        build(scenario_of(("p", 50), days=1), trace_of("a,,p,90000,60,1"))


def test_without_days_a_trace_runs_to_its_end_and_a_generator_for_thirty_days() -> None:
    assert built(scenario_of(("p", 50)), trace_of("a,,p,0,60,1")).setup.days is None
    (setup,) = build_setups(scenario_of(("p", 50), workload={"generator": "research-lab", "teams": 3}), None)
    assert (setup.days, setup.warmup_days, setup.jobs) == (30, 7, None)
    assert setup.generator is not None
    assert setup.generator.teams == 3


def test_a_generator_makes_its_own_teams_where_none_are_listed() -> None:
    (setup,) = build_setups(
        scenario_of(workload={"generator": "research-lab", "teams": 4, "budgets_ppm": 500_000}), None
    )
    assert len(setup.projects) == 5
    assert 499_990 < int(setup.shares.share_ppm.sum()) <= 500_000
    (listed,) = build_setups(scenario_of(("p", 50), workload={"generator": "research-lab"}), None)
    assert tree_of(listed) == {"all": None, "p": "all"}


def test_without_work_there_is_nothing_to_simulate() -> None:
    with pytest.raises(ScenarioRefused, match="workload: there is no work"):
        build(scenario_of(("p", 50)), None)


def two_clusters(*budgets: tuple[str, str, float]) -> Any:
    clusters = [{"name": "h100", "hosts": 1}, {"name": "b200", "hosts": 1, "gpus_per_host": 4}]
    listed = [{"path": path, "cluster": cluster, "share_percent": share} for path, cluster, share in budgets]
    return read_scenario({"clusters": clusters, "projects": listed})


def test_jobs_go_to_the_cluster_that_they_name_or_where_their_project_has_a_budget() -> None:
    trace = trace_of("a,,p,0,60,8,", "b,,q,0,60,8,", "c,,p,0,60,8,b200", columns=",cluster")
    first, second = build_setups(two_clusters(("p", "h100", 50), ("q", "b200", 50)), trace)
    assert (first.name, jobs_of(first).id.tolist(), jobs_of(first).replicas.tolist()) == ("h100", [0], [1])
    assert (second.name, jobs_of(second).id.tolist(), jobs_of(second).replicas.tolist()) == ("b200", [1, 2], [2, 2])


def test_a_cluster_that_the_scenario_lacks_is_refused_with_its_line() -> None:
    with pytest.raises(TraceRefused, match="trace.csv, line 2, column cluster: 'a100' is no cluster of the scenario"):
        build(scenario_of(("p", 50)), trace_of("a,,p,0,60,8,a100", columns=",cluster"))


def test_a_job_that_may_run_on_several_clusters_is_refused() -> None:
    with pytest.raises(TraceRefused, match="line 2, column project: 'p' has no cluster"):
        build(two_clusters(("p", "h100", 50), ("p", "b200", 50)), trace_of("a,,p,0,60,8"))


def test_gangs_spread_over_as_few_hosts_as_divide_them_and_at_once() -> None:
    sizes = np.array([1, 8, 9, 12, 15, 64, 65, 1_048_573, 1_048_573 - 1], dtype=np.int64)
    assert gang_replicas(sizes, 8).tolist() == [1, 1, 3, 2, 3, 8, 13, 1_048_573, 149_796]
    primes = np.array([n for n in range(900_001, 905_000, 2) if all(n % d for d in range(3, 960, 2))], dtype=np.int64)
    began = perf_counter()
    assert gang_replicas(primes, 8).tolist() == primes.tolist()
    assert perf_counter() - began < 5
