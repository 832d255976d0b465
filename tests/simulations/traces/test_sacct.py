"""What `sacct --parsable2` prints: columns in any order, steps left out, times from the first submission on."""

import pytest

from portal.simulations.traces.reading import read_trace
from portal.simulations.traces.rows import MISSING, TraceRefused, TraceRows

HEADER = "JobID|User|Account|Submit|ElapsedRaw|State|AllocTRES|NNodes\n"
SUBMIT = "2026-01-31T23:59:00"


def rows_of(text: str, header: str = HEADER) -> TraceRows:
    return read_trace((header + text).encode(), name="sacct.txt")


def row(
    job: str, *, submit: str = SUBMIT, elapsed: str = "3600", tres: str = "cpu=16,gres/gpu=16", nodes: str = "2"
) -> str:
    return f"{job}|ana|nlp|{submit}|{elapsed}|COMPLETED|{tres}|{nodes}\n"


def test_the_account_is_the_project_and_nodes_are_replicas() -> None:
    rows = rows_of(row("12"))
    assert (rows.format, rows.projects, rows.users) == ("sacct", ("nlp",), ("ana",))
    assert (rows.gpus.tolist(), rows.replicas.tolist(), rows.duration_seconds.tolist()) == ([16], [2], [3600])
    assert rows.ignored_columns == ("State",)


def test_raw_ids_and_a_bar_at_the_end_of_each_line_are_read_too() -> None:
    text = (HEADER.replace("JobID", "JobIDRaw") + row("12")).replace("\n", "|\n")
    rows = read_trace(text.encode(), name="sacct.txt")
    assert (rows.ids, rows.gpus.tolist(), rows.ignored_columns) == (["12"], [16], ("State",))


def test_times_count_from_the_first_submission_over_a_change_of_month() -> None:
    rows = rows_of(row("2", submit="2026-02-01T00:01:00") + row("1"))
    assert (rows.ids, rows.submit_at.tolist()) == (["1", "2"], [0, 120])


def test_gpus_of_several_models_add_up_where_no_total_is_given() -> None:
    rows = rows_of(row("1", tres="gres/gpu:a100=3,gres/gpu:h100=2", nodes="2"))
    assert (rows.gpus.tolist(), rows.replicas.tolist()) == ([5], [MISSING])


def test_a_total_is_not_counted_again_by_model() -> None:
    assert rows_of(row("1", tres="billing=8,gres/gpu:a100=8,gres/gpu=8,node=1")).gpus.tolist() == [8]


@pytest.mark.parametrize(("text", "seconds"), [("1-02:03:04", 93784), ("02:03:04", 7384), ("03:04", 184)])
def test_elapsed_is_read_as_slurm_writes_it(text: str, seconds: int) -> None:
    header = HEADER.replace("ElapsedRaw", "Elapsed")
    assert rows_of(row("1", elapsed=text), header).duration_seconds.tolist() == [seconds]


def test_steps_and_jobs_without_a_run_or_a_gpu_are_left_out_and_counted() -> None:
    rows = rows_of(row("1") + row("1.batch") + row("2", elapsed="0") + row("3", tres="cpu=4"))
    assert rows.ids == ["1"]
    assert rows.skipped == {"steps of jobs": 1, "jobs that never ran": 1, "jobs without GPUs": 1}


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        (row("2", submit="Unknown"), "line 3, column Submit: 'Unknown' is no moment (write 2026-01-31T08:00:00)."),
        (row("2", elapsed="-5"), "line 3, column ElapsedRaw: '-5' is no elapsed time (write seconds or 1-02:03:04)."),
        (row("2").replace("ana", "a\0"), "line 3, column User: 'a\\x00' must have 1 to 200 plain characters."),
        (row("1"), "line 3, column job_id: '1' is there twice (first in line 2)."),
        ("2|ana|nlp\n", "line 3: 3 fields, but the header names 8."),
    ],
)
def test_a_bad_row_is_refused_with_its_column(bad: str, where: str) -> None:
    with pytest.raises(TraceRefused) as refused:
        rows_of(row("1") + bad)
    assert str(refused.value) == f"sacct.txt, {where}"


@pytest.mark.parametrize("name", ["JobID", "Account", "Submit", "ElapsedRaw", "AllocTRES"])
def test_a_missing_column_is_named(name: str) -> None:
    with pytest.raises(TraceRefused) as refused:
        rows_of(row("1"), HEADER.replace(name, "Other") if name != "JobID" else HEADER.replace("JobID", "JobName"))
    if name == "JobID":
        assert "is no trace that is known" in str(refused.value)
    else:
        assert str(refused.value).startswith(f"sacct.txt, line 1, column {name}: is missing")
