"""Trace files: what is read, and what is refused with its file, line and column."""

import csv
from pathlib import Path

import pytest

from portal.scheduling.replay.contracts import contracts_draw, gang_replicas
from portal.scheduling.replay.trace import Job, TraceError, trace_read
from portal.scheduling.replay.world import PHILLY_NODES, budgets_of, slug_of

TRACES = Path(__file__).resolve().parents[2] / "examples" / "traces"
HEADER = "job_id,user,project,submit_time_s,duration_s,gpus\n"


def trace_of(folder: Path, text: str | bytes) -> Path:
    path = folder / "trace.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def jobs_of(folder: Path, rows: str, header: str = HEADER) -> list[Job]:
    return trace_read(trace_of(folder, header + rows), until_seconds=10**6)


def test_jobs_come_by_submit_time_and_end_where_the_hours_do(tmp_path: Path) -> None:
    path = trace_of(tmp_path, f"{HEADER}b,,p,50,60,1\na,,p,10,60,1\nc,,p,100,60,1\n")
    assert [job.job_id for job in trace_read(path, until_seconds=100)] == ["a", "b"]


def test_a_byte_order_mark_extra_columns_and_empty_lines_are_read_over(tmp_path: Path) -> None:
    header = HEADER.strip() + ",state\n"
    path = trace_of(tmp_path, b"\xef\xbb\xbf" + f"{header}\na,,p,10,60,1,Pass\n\n".encode())
    assert len(trace_read(path, until_seconds=100)) == 1


def test_parts_of_a_gpu_round_up_and_are_marked(tmp_path: Path) -> None:
    (job,) = jobs_of(tmp_path, "a,,p,10,60.2,0.46\n")
    assert (job.gpus, job.rounded, job.duration_seconds) == (1, True, 61)


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ("a,,p,ten,60,1", "line 2, column submit_time_s: 'ten' is not a number"),
        ("a,,p,-1,60,1", "line 2, column submit_time_s: '-1' is not between 0 and"),
        ("a,,p,10,nan,1", "line 2, column duration_s: 'nan' is not between"),
        ("a,,p,10,60,0", "line 2, column gpus: '0' is not between"),
        ("a,,p,10,60,1e30", "line 2, column gpus: '1e30' is not between"),
        (",,p,10,60,1", "line 2, column job_id: '' must have 1 to 100 characters"),
        ("a,,,10,60,1", "line 2, column project: '' must have 1 to 100 characters"),
        ("a,,p,10,60", "line 2: 5 fields, not 6"),
    ],
)
def test_a_bad_cell_is_refused_with_its_line_and_column(tmp_path: Path, row: str, where: str) -> None:
    with pytest.raises(TraceError) as refusal:
        jobs_of(tmp_path, row + "\n")
    assert f"trace.csv, {where}" in str(refusal.value)


@pytest.mark.parametrize(
    ("column", "cell", "what"),
    [
        ("replicas", "1.5", "is not a whole number"),
        ("resumable", "maybe", "is not one of 1, 0, true"),
        ("priority", "1000", "is not between"),
    ],
)
def test_a_bad_optional_cell_is_refused_too(tmp_path: Path, column: str, cell: str, what: str) -> None:
    with pytest.raises(TraceError, match=what):
        jobs_of(tmp_path, f"a,,p,10,60,1,{cell}\n", header=f"{HEADER.strip()},{column}\n")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "no column job_id"),
        (b"job_id,project,submit_time_s,duration_s\n", "no column gpus"),
        (HEADER.encode(), "no jobs after the header"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (b"job_id,job_id,project,submit_time_s,duration_s,gpus\na,a,p,1,1,1\n", "named twice"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, text: bytes, what: str) -> None:
    with pytest.raises(TraceError, match=what):
        trace_read(trace_of(tmp_path, text), until_seconds=100)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere.csv: No such file"):
        trace_read(tmp_path / "nowhere.csv", until_seconds=100)


def test_the_philly_trace_that_is_shipped_is_read_whole() -> None:
    jobs = trace_read(TRACES / "philly_2017_oct_2w.csv", until_seconds=10**8)
    assert len(jobs) == 26_936
    assert {job.project for job in jobs} <= set(PHILLY_NODES)


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


@pytest.mark.parametrize(("gpus", "replicas"), [(1, 1), (8, 1), (9, 3), (16, 2), (20, 4), (13, 13)])
def test_what_is_larger_than_a_host_becomes_equal_replicas_on_few_hosts(gpus: int, replicas: int) -> None:
    assert gang_replicas(gpus, 8) == replicas


def test_contracts_are_drawn_with_the_seed(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, "".join(f"j{number},,p,{number},{100 * number},1\n" for number in range(1, 301)))
    drawn = contracts_draw(jobs, gpus_per_host=8, seed=1)
    assert drawn == contracts_draw(jobs, gpus_per_host=8, seed=1)
    assert drawn != contracts_draw(jobs, gpus_per_host=8, seed=2)
    zero = sum(contract.min_runtime_seconds == 0 for contract in drawn)
    assert 0.08 < zero / len(drawn) < 0.22
    assert {contract.min_runtime_seconds for contract in drawn[:8]} <= {0, 300}
    assert {contract.min_runtime_seconds for contract in drawn[20:]} <= {0, 7200}
