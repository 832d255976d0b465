"""The portal's CSV, and the Philly and Alibaba files: what is read, and what is refused with file, line and column."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from portal.simulations.traces.reading import read_trace
from portal.simulations.traces.rows import MISSING, TraceRefused, TraceRows
from portal.simulations.traces.tables import CHUNK_ROWS

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "traces"
CYCLE = "comes back to a project that it has passed: a project can't be inside itself"
HEADER = "job_id,user,project,submit_time_s,duration_s,gpus\n"


def rows_of(text: str | bytes, header: str = HEADER) -> TraceRows:
    data = text if isinstance(text, bytes) else (header + text).encode()
    return read_trace(data, name="trace.csv")


def refusal_of(text: str | bytes, header: str = HEADER) -> TraceRefused:
    with pytest.raises(TraceRefused) as refused:
        rows_of(text, header)
    return refused.value


def test_jobs_come_by_submit_time_and_keep_the_files_order_at_one_time() -> None:
    rows = rows_of("b,,p,50,60,1\na,,q,10,70,2\nc,,p,10,80,3\n")
    assert rows.ids == ["a", "c", "b"]
    assert rows.lines.tolist() == [3, 4, 2]
    assert rows.duration_seconds.tolist() == [70, 80, 60]
    assert [rows.projects[index] for index in rows.project] == ["q", "p", "p"]
    many = rows_of("".join(f"{number},,p,{number % 3},60,1\n" for number in range(200)))
    assert many.ids == [str(number) for time in range(3) for number in range(time, 200, 3)]


def test_what_the_trace_does_not_say_is_missing() -> None:
    rows = rows_of("a,,p,0,60,1\n")
    for column in (rows.replicas, rows.min_runtime_seconds, rows.resumable, rows.checkpoint_interval_seconds):
        assert column.tolist() == [MISSING]
    assert (rows.cluster.tolist(), rows.priority.tolist()) == ([MISSING], [0])


def test_every_optional_column_is_read_where_it_is_filled() -> None:
    header = HEADER.strip() + ",replicas,min_runtime_s,resumable,priority,cluster,checkpoint_interval_s\n"
    rows = rows_of("a,u,p,0,60,16,2,300,no,-5,h100,900\nb,u,p,1,60,8,,,,,,\n", header)
    assert rows.replicas.tolist() == [2, MISSING]
    assert rows.min_runtime_seconds.tolist() == [300, MISSING]
    assert rows.resumable.tolist() == [0, MISSING]
    assert rows.priority.tolist() == [-5, 0]
    assert (rows.clusters, rows.cluster.tolist()) == (("h100",), [0, MISSING])
    assert rows.checkpoint_interval_seconds.tolist() == [900, MISSING]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks_make_no_difference(ending: str, mark: bytes) -> None:
    text = HEADER + "a,ana,p,1,2,3\n\nb,,p,4,5,6\n"
    rows = rows_of(mark + text.replace("\n", ending).encode())
    assert (rows.ids, rows.gpus.tolist(), rows.lines.tolist()) == (["a", "b"], [3, 6], [2, 4])


def test_parts_of_a_gpu_round_up_and_are_marked() -> None:
    rows = rows_of("a,,p,0,60,0.46\nb,,p,0,60,8\nc,,p,0,60,2.01\n")
    assert rows.gpus.tolist() == [1, 8, 3]
    assert rows.rounded.tolist() == [True, False, True]


def test_parts_of_a_second_start_early_and_end_late() -> None:
    rows = rows_of("a,,p,9.9,60.1,1\n")
    assert (rows.submit_at.tolist(), rows.duration_seconds.tolist()) == ([9], [61])


def test_a_duration_of_nothing_is_a_second_and_is_counted() -> None:
    rows = rows_of("a,,p,0,0,1\nb,,p,0,0.0,1\nc,,p,0,5,1\n")
    assert (rows.duration_seconds.tolist(), rows.instant_jobs) == ([1, 1, 5], 2)


def test_columns_that_say_nothing_are_named() -> None:
    rows = rows_of("a,,p,0,60,1,Pass,x\n", HEADER.strip() + ",state,min_runtime\n")
    assert rows.ignored_columns == ("state", "min_runtime")


@pytest.mark.parametrize(
    ("row", "column", "words"),
    [
        ("a,,p,ten,60,1", "submit_time_s", "'ten' is not a number"),
        ("a,,p,,60,1", "submit_time_s", "'' is empty"),
        ("a,,p,-1,60,1", "submit_time_s", "'-1' is not between 0 and 316224000"),
        ("a,,p,1_0,60,1", "submit_time_s", "'1_0' is not a number"),
        ("a,,p,10,-0.5,1", "duration_s", "'-0.5' is not between 0 and 316224000"),
        ("a,,p,10,nan,1", "duration_s", "'nan' is not between 0 and 316224000"),
        ("a,,p,10,1e309,1", "duration_s", "'1e309' is not between 0 and 316224000"),
        ("a,,p,10,60,inf", "gpus", "'inf' is not between 1e-06 and 1048576"),
        ("a,,p,10,60,0", "gpus", "'0' is not between 1e-06 and 1048576"),
        ("a,,p,10,60,99999999999999999999", "gpus", "'99999999999999999999' is not between 1e-06 and 1048576"),
        (",,p,10,60,1", "job_id", "'' must have 1 to 200 plain characters"),
        ("a\0,,p,10,60,1", "job_id", "'a\\x00' must have 1 to 200 plain characters"),
        ("a,,,10,60,1", "project", "'' must have 1 to 200 plain characters"),
        ("a,,p//q,10,60,1", "project", "'p//q' is no path of projects (write it as lab/nlp)"),
        ("a,,x/y/x,10,60,1", "project", f"'x/y/x' {CYCLE}"),
        ("z,,p,10,60,1", "job_id", "'z' is there twice (first in line 2)"),
        ("a,,p,10,60", None, "5 fields, but the header names 6"),
        ('a,,"p,10,60,1', None, "is inside quotes that are never closed"),
    ],
)  # fmt: skip
def test_a_bad_row_is_refused_with_its_line_and_column(row: str, column: str | None, words: str) -> None:
    refused = refusal_of(f"z,,p,0,60,1\n\n{row}\n")
    assert (refused.file, refused.line, refused.column, refused.words) == ("trace.csv", 4, column, words)


def test_a_bad_optional_cell_is_refused_at_its_own_line() -> None:
    refused = refusal_of("a,,p,0,60,1,\nb,,p,0,60,1,maybe\n", HEADER.strip() + ",resumable\n")
    assert str(refused) == "trace.csv, line 3, column resumable: 'maybe' is not one of 1, 0, true, false, yes, no."


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "trace.csv: is empty."),
        (b"\xef\xbb\xbf \r\n", "trace.csv: is empty."),
        (HEADER.encode(), "trace.csv: has no jobs after the header."),
        ((HEADER + "a,,p,1,2,3\n").encode("utf-16"), "trace.csv, line 1: is UTF-16 text; save it as UTF-8."),
        ((HEADER + "a,é,p,1,2,3\n").encode("latin-1"), "trace.csv, line 2: is not UTF-8 text (byte 3 of the line)."),
        (b"job_id,user,gpus\na,b,1\n", "trace.csv, line 1, column project: is missing, like submit_time_s, duration_s"),
        (b"\njob_id,gpus,job_id\n", "trace.csv, line 2, column job_id: is named twice."),
        (b"\x00\x01\x02", "trace.csv, line 1: is no trace that is known"),
        (b"job_id;project\n1;p\n", "trace.csv, line 1: is no trace that is known"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(data: bytes, words: str) -> None:
    assert str(refusal_of(data)).startswith(words)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceRefused, match="No such file"):
        read_trace(tmp_path / "none.csv")


def test_the_philly_weeks_are_read_whole() -> None:
    rows = read_trace(EXAMPLES / "philly_2017_oct_2w.csv")
    assert (len(rows), len(rows.projects), int((rows.gpus * rows.duration_seconds).sum()) // 3600) == (
        26936,
        11,
        183233,
    )
    assert (int(rows.submit_at[0]), int(rows.submit_at[-1]), rows.instant_jobs) == (116, 1209119, 0)


def test_the_alibaba_pods_are_read_with_their_parts_of_gpus() -> None:
    rows = read_trace(EXAMPLES / "alibaba_gpu_v2023.csv")
    assert (len(rows), int(rows.rounded.sum()), sorted(rows.projects)) == (
        6203,
        2573,
        ["BE", "Burstable", "Guaranteed", "LS"],
    )


def test_a_long_trace_is_read_in_pieces_with_the_right_lines() -> None:
    count = 40_000
    text = "".join(f"j{n},u{n % 97},p{n % 13},{n},60,{n % 8 + 1}\n" for n in range(count))
    tracemalloc.start()
    rows = rows_of(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows.lines.tolist() == list(range(2, count + 2))
    assert np.array_equal(rows.gpus, np.arange(count) % 8 + 1)
    assert peak < 1200 * count
    refused = refusal_of(text + "bad,,p,0,60,none\n")
    assert (refused.line, refused.column) == (count + 2, "gpus")


def test_blank_lines_by_the_thousand_lose_no_job() -> None:
    blank = "\n" * (3 * CHUNK_ROWS)
    assert rows_of(f"a,,p,0,60,1\n{blank}b,,p,0,60,1\n{blank}c,,p,0,60,1\n").ids == ["a", "b", "c"]
