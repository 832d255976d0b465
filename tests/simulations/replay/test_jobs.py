"""A trace as what a replay submits: gangs, drawn contracts, budgets and names."""

import csv
from pathlib import Path

from portal.simulations.replay.jobs import Job, jobs_of
from portal.simulations.replay.world import PHILLY_NODES, budgets_of, slug_of
from portal.simulations.traces.reading import read_trace

TRACES = Path(__file__).resolve().parents[3] / "examples" / "traces"
HEADER = "job_id,user,project,submit_time_s,duration_s,gpus"


def jobs(*rows: str, more: str = "", until: int = 10**6, seed: int = 1) -> list[Job]:
    text = "\n".join([HEADER + more, *rows])
    return jobs_of(read_trace(text.encode()), until_seconds=until, gpus_per_host=8, seed=seed)


def test_jobs_come_by_submit_time_and_end_where_the_hours_do() -> None:
    found = jobs("b,,p,50,60,1", "a,,p,10,60,1", "c,,p,100,60,1", until=100)
    assert [job.job_id for job in found] == ["a", "b"]


def test_a_gang_has_equal_replicas_on_few_hosts_unless_the_trace_says_how_many() -> None:
    found = jobs("a,,p,0,60,20,", "b,,p,0,60,16,4", "c,,p,0,60,0.5,", more=",replicas")
    assert [(job.replicas, job.gpus_per_replica) for job in found] == [(4, 5), (4, 4), (1, 1)]


def test_what_the_trace_says_is_submitted() -> None:
    (found,) = jobs("a,ana,lab/nlp,5,60,1,120,no,7", more=",min_runtime_s,resumable,priority")
    assert found == Job("a", "ana", "lab/nlp", 5, 60, 1, 1, 120, False, 7)


def test_contracts_are_drawn_with_the_seed() -> None:
    rows = [f"j{number},,p,{number},{100 * number},1" for number in range(1, 301)]
    drawn = jobs(*rows)
    assert drawn == jobs(*rows)
    assert drawn != jobs(*rows, seed=2)
    zero = sum(job.min_runtime_seconds == 0 for job in drawn)
    assert 0.08 < zero / len(drawn) < 0.22
    assert {job.min_runtime_seconds for job in drawn[:8]} <= {0, 300}
    assert {job.min_runtime_seconds for job in drawn[20:]} <= {0, 7200}


def test_the_philly_trace_that_is_shipped_is_read_whole() -> None:
    found = jobs_of(read_trace(TRACES / "philly_2017_oct_2w.csv"), until_seconds=10**8, gpus_per_host=8, seed=1)
    assert len(found) == 26_936
    assert {job.project for job in found} <= set(PHILLY_NODES)


def test_the_budgets_of_phillys_clusters_are_their_node_counts() -> None:
    with (TRACES / "philly_vc_nodes.csv").open() as lines:
        nodes = {row["vc"]: int(row["nodes_of_8_gpus"]) for row in csv.DictReader(lines)}
    assert nodes == PHILLY_NODES
    budgets = budgets_of(sorted(nodes))
    assert budgets["6214e9"] == 64 * 1_000_000 // 352
    assert sum(budgets.values()) <= 1_000_000


def test_other_projects_get_equal_budgets() -> None:
    assert budgets_of(["a", "b", "c"]) == {"a": 333_333, "b": 333_333, "c": 333_333}


def test_any_project_name_becomes_a_slug_of_its_own() -> None:
    names = ["nlp", "NLP", "a b", "a-b"]
    slugs = [slug_of(name, names) for name in names]
    assert slugs[0] == "nlp"
    assert len(set(slugs)) == len(names)
