"""The Standard Workload Format: recognised by what stands in it, and refused with its line."""

import pytest

from portal.simulations.traces.reading import read_trace
from portal.simulations.traces.rows import TraceRefused, TraceRows

HEADER = "; Version: 2.2\n; MaxNodes: 128\n\n"


def line(job: int, submit: str = "0", run: str = "100", given: str = "4", asked: str = "4", status: str = "1") -> str:
    return f"{job} {submit} 5 {run} {given} -1 -1 {asked} 200 -1 {status} 3 7 -1 1 1 -1 -1\n"


def rows_of(text: str) -> TraceRows:
    return read_trace(text.encode(), name="log.swf")


def test_processors_are_gpus_and_the_group_is_the_project() -> None:
    rows = rows_of(HEADER + line(1, submit="30", run="99.5"))
    assert (rows.format, rows.ids, rows.projects, rows.users) == ("swf", ["1"], ("group-7",), ("user-3",))
    assert (rows.submit_at.tolist(), rows.duration_seconds.tolist(), rows.gpus.tolist()) == ([30], [100], [4])


def test_a_file_without_comments_is_recognised() -> None:
    assert rows_of(line(1) + line(2)).ids == ["1", "2"]


def test_what_was_asked_counts_where_what_was_given_is_not_known() -> None:
    assert rows_of(line(1, given="-1", asked="16")).gpus.tolist() == [16]


def test_lines_that_are_no_jobs_are_left_out_and_counted() -> None:
    text = line(1) + line(2, run="-1", status="5") + line(3, given="-1", asked="-1") + line(1, status="2")
    rows = rows_of(text)
    assert rows.ids == ["1"]
    assert rows.skipped == {"jobs that never ran": 1, "jobs without processors": 1, "parts of checkpointed jobs": 1}


def test_a_file_without_a_job_says_why() -> None:
    with pytest.raises(TraceRefused, match="has no jobs .1 rows are left out: jobs that never ran"):
        rows_of(line(1, run="-1"))


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        (line(2, submit="-7"), "log.swf, line 5, column submit time: '-7' is not between 0 and 316224000."),
        (line(2, run="x"), "log.swf, line 5, column run time: 'x' is not a number."),
        (
            line(2).replace(" 3 7 ", " 3 x "),
            "log.swf, line 5, column group: 'x' is not a number.",
        ),
        (line(2).replace(" 3 7 ", " a\x01 7 "), "log.swf, line 5, column user: 'a\\x01' is not a number."),
        ("2 0 5\n", "log.swf, line 5: 3 fields, but the Standard Workload Format has 18."),
        (line(1), "log.swf, line 5, column job_id: '1' is there twice (first in line 4)."),
    ],
)
def test_a_bad_line_is_refused_with_its_field(bad: str, where: str) -> None:
    with pytest.raises(TraceRefused) as refused:
        rows_of(HEADER + line(1) + bad)
    assert str(refused.value) == where
