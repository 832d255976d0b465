"""Reports as tables, side by side, and as CSV."""

import csv
import io
import re
from typing import Any

import pytest

from portal.simulations.answering import answer
from portal.simulations.reporting import (
    CSV_COLUMNS,
    FIGURES,
    clusters_of,
    compare,
    csv_lines,
    duration,
    write_comparison,
    write_report,
    write_table,
)
from portal.simulations.scenario import read_scenario
from portal.simulations.traces.reading import read_trace

TRACE = read_trace(
    b"job_id,user,project,submit_time_s,duration_s,gpus\n"
    b"a,,lab/nlp,0,600,8\nb,,lab/nlp,0,600,8\nc,,=lab,0,0,0.5\nd,,lab/nlp,60,600,800\n"
)


def report_of(hosts: int = 1, names: tuple[str, ...] = ("h100",), scheduler: str = "fifo") -> dict[str, Any]:
    clusters = [{"name": name, "hosts": hosts, "policy": {"scheduler": scheduler}} for name in names]
    listed = [{"path": "lab/nlp", "cluster": names[0], "share_percent": 60}]
    if len(names) > 1:
        listed.append({"path": "=lab", "cluster": names[1], "share_percent": 60})
    return answer(read_scenario({"clusters": clusters, "projects": listed}), TRACE, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (42, "42 s"), (4.25, "4.2 s"), (60, "1 min"), (200, "3 min 20 s"), (3600, "1 h"),
        (7500, "2 h 5 min"), (97_200, "1 d 3 h"), (86_400, "1 d"),
    ],
)  # fmt: skip
def test_a_duration_is_written_in_the_two_units_that_matter(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_columns_stand_under_each_other() -> None:
    assert write_table([("a", "b"), ("long", "1")]) == "a     b\nlong  1"


def test_an_answer_says_what_was_asked_and_how_long_it_took() -> None:
    report = report_of()
    assert (report["cluster"], report["jobs"], report["too_large_jobs"], report["rounded_jobs"]) == ("h100", 3, 1, 1)
    assert report["waits"]["all"]["started"] == 3
    assert report["wall_s"] >= 0
    assert report["jobs_per_s"] > 0
    assert any("duration of 0" in note for note in report["notes"])


def test_what_is_submitted_after_the_end_is_counted_and_said() -> None:
    rows = b"job_id,user,project,submit_time_s,duration_s,gpus\na,,p,86399,600,8\nb,,p,86400,600,8\n"
    clusters = [{"name": "c", "hosts": 1, "policy": {"scheduler": "fifo"}}]
    report = answer(read_scenario({"clusters": clusters, "projects": [], "days": 1}), read_trace(rows), None)
    assert (report["jobs"], report["cut_jobs"], report["waits"]["all"]["started"]) == (1, 1, 1)
    assert "The trace is cut at day 1: 1 jobs submitted later are left out." in report["notes"]


def test_the_same_seed_gives_the_same_figures() -> None:
    first, second = report_of(), report_of()
    for report in (first, second):
        del report["wall_s"], report["jobs_per_s"]
    assert first == second


def test_a_report_names_each_figure_each_project_and_each_note() -> None:
    report = report_of()
    text = write_report(report)
    assert "Cluster h100" in text
    assert re.search(r"larger than the cluster: never start +1\n", text)
    assert "\nlab/nlp " in text
    assert all(f"Note: {note}" in text for note in report["notes"])


def test_two_scenarios_stand_side_by_side() -> None:
    one, two = report_of(1), report_of(2)
    text = write_comparison(["small", "big"], [one, two])
    lines = {line[:24].strip(): line.split() for line in text.splitlines()}
    assert text.splitlines()[1].split() == ["small", "big"]
    assert lines["wait all: mean"][-4:] != lines["wait all: mean"][-2:]
    assert one["waits"]["all"]["mean_s"] > two["waits"]["all"]["mean_s"]


def test_clusters_with_other_names_are_compared_all_the_same() -> None:
    text = write_comparison(["a", "b"], [report_of(names=("h100",)), report_of(names=("b200",))])
    assert text.startswith("Cluster h100, b200\n")


def test_the_figures_of_a_comparison_are_data_too() -> None:
    rows = {row["figure"]: row["values"] for row in compare([report_of(1), report_of(2)])}
    assert len(rows) == len(FIGURES)
    assert rows["jobs"] == [3, 3]
    assert rows["wait all: started of asked"] == [3, 3]


def test_every_cluster_is_in_the_report() -> None:
    report = report_of(names=("h100", "b200"))
    assert [one["cluster"] for one in clusters_of(report)] == ["h100", "b200"]
    assert sum(one["jobs"] for one in clusters_of(report)) == 3
    assert "Cluster h100" in write_report(report)
    assert "Cluster b200" in write_report(report)


def test_the_csv_has_a_line_per_project_and_day_and_no_formula() -> None:
    rows = list(csv.reader(io.StringIO("".join(csv_lines(["base"], [report_of()])))))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert {(row[0], row[1], row[3]) for row in rows[1:]} == {("base", "h100", "0")}
    assert {row[2] for row in rows[1:]} >= {"lab/nlp", "'=lab"}
