"""Static partitions: each branch has GPUs of its own; one report of all together."""

import pytest

from portal.common.errors import Refused
from portal.simulations.merging import reports_merge
from portal.simulations.partitions import REST, branch_of, is_partitioned, partitioned, rows_assigned
from portal.simulations.scenario import build, read_scenario
from portal.simulations.traces.reading import read_trace
from scheduler.simulation import engine
from scheduler.simulation.figures import build_report
from tests.simulations.portal_runs import HALVES, TINY, TINY_TRACE

UNEVEN = {
    **TINY,
    "projects": [
        {"path": "lab/nlp", "cluster": "tiny", "share_percent": 35},
        {"path": "lab/nlp/deep", "cluster": "tiny", "share_percent": 50},
        {"path": "lab/vision", "cluster": "tiny", "share_percent": 20},
        {"path": "lab/none", "cluster": "tiny", "share_percent": 0},
    ],
}


def gpus_of(scenario):
    return {
        cluster["name"]: sum(group["count"] * group["gpus"] for group in cluster["hosts"])
        for cluster in scenario["clusters"]
    }


def test_each_branch_has_its_share_in_whole_gpus_and_the_rest_its_own():
    made = partitioned(UNEVEN)
    assert gpus_of(made) == {"partition-1": 6, "partition-2": 3, REST: 7}
    shares = {line["path"]: (line["cluster"], line["share_percent"]) for line in made["projects"]}
    assert shares == {
        "lab/nlp": ("partition-1", 100),
        "lab/nlp/deep": ("partition-1", 50),
        "lab/vision": ("partition-2", 100),
    }
    assert is_partitioned(made) and not is_partitioned(UNEVEN)
    read_scenario(made)


def test_work_goes_to_its_branch_and_what_has_none_to_the_rest():
    rows = read_trace(TINY_TRACE.replace(b"4,ben,lab/vision", b"4,ben,lab/none"), name="t")
    assigned = rows_assigned(rows, partitioned(UNEVEN))
    assert [assigned.clusters[index] for index in assigned.cluster] == [
        *("partition-1", "partition-1"),
        "partition-2",
        REST,
    ]
    assert branch_of("lab") == REST


def test_without_a_budget_below_the_root_there_is_nothing_to_divide():
    with pytest.raises(Refused, match="need budgets"):
        partitioned({**TINY, "projects": []})


def test_the_report_of_all_together_adds_up():
    scenario = partitioned(HALVES)
    rows = rows_assigned(read_trace(TINY_TRACE, name="t"), scenario)
    loops, reports = [], []
    for built in build(read_scenario(scenario), rows):
        loop = engine.start_run(built.setup)
        loop.run(None)
        loops.append(loop)
        reports.append({"cluster": built.setup.name, **build_report(loop).to_dict()})
    merged = reports_merge(reports, loops)
    assert (merged["cluster"], merged["jobs"], len(reports)) == ("all", 4, 2)
    assert merged["capacity_gpu_hours"] == pytest.approx(16 * max(report["measured_hours"] for report in reports))
    assert merged["waits"]["all"]["n"] == 4
    assert set(merged["delivery"]) == {"lab/nlp", "lab/vision"}
    sums = [sum(report["gpu_hours"].values()) for report in (merged, *reports)]
    assert sums[0] == pytest.approx(sum(sums[1:]))
    assert merged["occupancy"] == pytest.approx(sums[0] / merged["capacity_gpu_hours"])
    idle = reports_merge(reports, loops, idle_gpus=16)
    assert idle["occupancy"] == pytest.approx(merged["occupancy"] / 2)
    assert set(merged) >= set(reports[0])
    assert len(merged["series"]["hour"]) == len(merged["series"]["waiting_gpus"])
