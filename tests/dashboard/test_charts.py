"""Charts say what the ledger says, in the site's zone, and show what people typed as text."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.common.csv_text import neutral
from portal.dashboard.chart_axes import duration_axis, time_axis, time_ticks
from portal.dashboard.chart_data import capacity_of, occupancy_of, steps_of
from portal.dashboard.chart_pyramid import Rung, pyramid_waterfall
from portal.dashboard.chart_usage import (
    Level,
    Step,
    budget_over_use,
    levels_gpu_seconds,
    standings_over_time,
    use_title,
)
from portal.dashboard.chart_waits import (
    WaitStep,
    nearest_rank,
    wait_distribution,
    waits_by_project_chart,
    waits_over_time,
)
from portal.dashboard.chart_words import hours_words
from portal.dashboard.charts import Cell, ChartFrame, Column, Table, chart_failed, direct_labels, time_layout
from portal.dashboard.csv_export import csv_lines
from portal.dashboard.ranges import Span
from tests.factories import (
    START,
    after,
    attempt_make,
    cluster_make,
    host_make,
    project_make,
    segment_make,
    workload_make,
)

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3600


def frame_of(start=START, hours=4, zone=BERLIN):
    end = start + timedelta(hours=hours)
    return ChartFrame(start, end, zone, end, "/x/?from=a&to=b")


def step(position, **gpu_seconds):
    return Step(after(position * HOUR), after((position + 1) * HOUR), gpu_seconds)


def traces_named(chart, name):
    return [trace for trace in chart.traces if trace.get("name") == name]


def test_a_band_shows_the_mean_gpus_of_each_step():
    chart = standings_over_time([step(0, protected=7200), step(1, protected=3600)], frame=frame_of(hours=2), title="t")
    (band,) = traces_named(chart, "protected")
    assert band["y"] == [2, 1, 1]


def test_a_standing_that_never_occurs_has_no_band():
    chart = standings_over_time([step(0, protected=10)], frame=frame_of(hours=1), title="t")
    assert traces_named(chart, "stopping") == []


def test_the_table_and_the_picture_have_the_same_numbers():
    steps = [step(0, protected=5000, unallocated=123), step(1, funded=77)]
    chart = standings_over_time(steps, frame=frame_of(hours=2), title="t")
    column = [each.label for each in chart.table.columns].index("protected")
    assert [row[column].raw for row in chart.table.rows] == [5000, 0]
    assert sum(row[-1].raw for row in chart.table.rows) == 5000 + 123 + 77


def test_five_series_share_a_legend_and_four_are_named_beside_their_ends():
    four = dict.fromkeys(("protected", "funded", "unallocated", "stopping"), 10)
    named = standings_over_time([step(0, **four)], frame=frame_of(hours=1), title="t")
    assert not named.layout["showlegend"]
    crowded = standings_over_time([step(0, **four, refunded=10)], frame=frame_of(hours=1), title="t")
    assert crowded.layout["showlegend"]


def test_labels_that_would_touch_are_moved_apart():
    labels = [
        each["y"] for each in direct_labels([("a", "text", 1), ("b", "text", 1.01)], top=10) if each["text"] in "ab"
    ]
    assert labels[1] - labels[0] >= 0.7


def test_an_empty_range_says_what_to_do_and_draws_nothing():
    chart = standings_over_time([step(0)], frame=frame_of(hours=1), title="t")
    assert (chart.state, chart.drawn) == ("empty", False)
    assert "longer range" in chart.note


def test_a_failed_chart_says_what_failed():
    chart = chart_failed(key="k", title="t", frame=frame_of(), measure="m", note="The ledger could not be read.")
    assert (chart.state, chart.note) == ("failed", "The ledger could not be read.")


def test_a_partial_chart_is_drawn_and_says_what_is_missing():
    chart = standings_over_time([step(0, funded=1)], frame=frame_of(hours=1), title="t").partial("two hosts are silent")
    assert chart.drawn
    assert chart.note == "two hosts are silent"


def test_the_subtitle_names_measure_range_zone_and_age():
    subtitle = frame_of().subtitle("GPU-hours")
    assert subtitle == "GPU-hours · 2 Nov 2026 01:00 to 2 Nov 2026 05:00 (Europe/Berlin) · data of 05:00"


def test_an_allotment_is_drawn_as_the_mean_of_each_step_like_its_use():
    allotted = [10 * HOUR, 4 * HOUR]
    chart = budget_over_use([step(0), step(1)], allotted, frame=frame_of(hours=2), title="t", budget="b")
    (line,) = traces_named(chart, "allotment")
    assert line["x"] == [START.timestamp(), after(HOUR).timestamp(), after(2 * HOUR).timestamp()]
    assert line["y"] == [10, 4, 4]
    assert line["line"]["shape"] == "hv"


def test_a_budget_chart_says_which_budget_it_is_drawn_against():
    chart = budget_over_use([step(0, funded=1)], [1], frame=frame_of(hours=1), title="t", budget="20 % of Lab")
    assert "20 % of Lab" in chart.subtitle


def test_a_project_without_a_budget_has_bars_no_line_and_no_percent():
    chart = budget_over_use([step(0, unallocated=10)], [], frame=frame_of(hours=1), title="t", budget="b")
    assert traces_named(chart, "allotment") == []
    assert "allotted" not in [column.label for column in chart.table.columns]
    assert "%" not in use_title("guests", 0, 0, 7200)


@pytest.mark.parametrize(("used", "words"), [(0, "0 %"), (3852, "107 %"), (9000, "250 %")])
def test_use_is_said_as_it_is_also_above_the_allotment(used, words):
    assert f"used {words} of its allotment" in use_title("vision", used, 3600, 0)


def test_a_step_line_is_worth_what_lies_under_it():
    levels = [Level(START, 10), Level(after(1800), 4)]
    assert levels_gpu_seconds(levels, START, after(HOUR)) == 10 * 1800 + 4 * 1800


def test_ticks_of_less_than_one_are_written_out():
    layout = time_layout(frame_of(hours=1), height=100, unit="GPUs", top=0.5)
    assert (layout["yaxis"]["tickformat"], layout["yaxis"]["exponentformat"]) == (",~r", "none")


def test_a_young_ledgers_axis_has_ticks_at_minutes():
    axis = time_axis(START, after(20 * 60), ZoneInfo("UTC"))
    assert len(axis["tickvals"]) >= 4
    assert all(seconds % 60 == 0 for seconds in axis["tickvals"])


def test_less_than_a_hundredth_is_not_written_as_nothing():
    assert (hours_words(10), hours_words(0), hours_words(36)) == ("<0.01", "0", "0.01")


def test_the_waterfall_hangs_each_loss_from_what_was_left():
    rungs = [
        Rung("installed", 10 * HOUR, "there"),
        Rung("cordoned", 2 * HOUR, "unavailable", loss=True),
        Rung("schedulable", 8 * HOUR, "there"),
        Rung("idle", 3 * HOUR, "lost", loss=True),
        Rung("on closed hosts", HOUR, "lost", gain=True),
        Rung("occupied", 6 * HOUR, "there"),
    ]
    (bars,) = pyramid_waterfall(rungs, frame=frame_of(), title="t").traces
    assert bars["base"] == [0, 8, 0, 5, 5, 0]
    assert bars["x"] == [10, 2, 8, 3, 1, 6]


def test_unknown_utilization_is_a_dash_with_its_reason():
    rungs = [Rung("installed", HOUR, "there"), Rung("useful", None, "there", why="simulated GPUs report no activity")]
    chart = pyramid_waterfall(rungs, frame=frame_of(), title="t")
    assert chart.table.rows[1][2].text == "– simulated GPUs report no activity"
    assert "nan" not in json.dumps(chart.payload).lower()


def test_percentiles_are_nearest_rank():
    assert [nearest_rank([1, 2, 3, 4], percent) for percent in (50, 90, 100)] == [2, 4, 4]
    assert nearest_rank([], 50) is None


def test_p50_and_p90_are_marked_on_the_curve():
    chart = wait_distribution({"debug": [1, 2, 3, 100]}, frame=frame_of(), title="t", key="k")
    marks = [trace for trace in chart.traces if trace["mode"] == "markers"]
    assert [(trace["x"], trace["y"]) for trace in marks] == [([2, 100], [50, 90])]


def test_a_wait_of_nothing_stands_at_the_axis_first_tick():
    chart = wait_distribution({"debug": [0, 0, 5]}, frame=frame_of(), title="t", key="k")
    curve = next(trace for trace in chart.traces if trace["mode"] == "lines")
    assert min(curve["x"]) == 1
    assert duration_axis(5)["ticktext"][0] == "1 s or less"


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=2000))
def test_a_curve_rises_to_a_hundred_percent_with_few_points(waits):
    chart = wait_distribution({"all": sorted(waits)}, frame=frame_of(), title="t", key="k")
    curve = next(trace for trace in chart.traces if trace["mode"] == "lines")
    assert curve["y"] == sorted(curve["y"])
    assert curve["x"] == sorted(curve["x"])
    assert curve["y"][-1] == 100
    assert len(curve["x"]) <= 700


def test_a_step_without_starts_is_a_gap_not_a_zero():
    steps = [WaitStep(after(0), after(HOUR), []), WaitStep(after(HOUR), after(2 * HOUR), [7])]
    chart = waits_over_time({"debug": steps}, frame=frame_of(), title="t", time_axis={})
    assert chart.traces[0]["y"] == [None, 7]


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "=cmd()", "機器人 🤖", "a" * 200, "%{y} & <b>"])
def test_a_name_is_shown_as_text_in_every_chart(name):
    chart = waits_by_project_chart({name: [1, 2]}, frame=frame_of(), title="t")
    drawn = json.dumps(chart.payload["data"]) + json.dumps(chart.layout)
    assert "<script" not in drawn
    assert "<b>" not in drawn
    assert all(name not in (trace.get("hovertemplate") or "") for trace in chart.traces)
    assert chart.table.rows[0][0].text == name


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", " ="])
def test_no_cell_of_a_csv_runs_as_a_formula(start):
    assert str(neutral(f"{start}1+1")).startswith("'")


def test_negative_numbers_stay_numbers_in_a_csv():
    assert neutral(-5) == -5


def test_a_csv_has_a_byte_order_mark_units_and_whole_gpu_seconds():
    table = Table(
        [Column("project", numeric=False), Column("used", "GPU-hours", "GPU-seconds")],
        [[Cell("機器人", "機器人"), Cell("1.00", 3600)]],
    )
    text = "".join(csv_lines(table))
    assert text.startswith("\ufeff")
    assert list(csv.reader(io.StringIO(text[1:]))) == [["project", "used (GPU-seconds)"], ["機器人", "3600"]]


def test_day_ticks_stand_at_local_midnight_also_over_a_clock_change():
    ticks = list(time_ticks(datetime(2026, 10, 22, tzinfo=UTC), datetime(2026, 10, 29, tzinfo=UTC), BERLIN))
    assert {moment.astimezone(BERLIN).hour for moment, _ in ticks} == {0}
    assert [words for _, words in ticks] == ["Fri 23", "Sat 24", "Sun 25", "Mon 26", "Tue 27", "Wed 28", "Thu 29"]


def test_hour_ticks_are_in_the_sites_zone():
    shanghai = ZoneInfo("Asia/Shanghai")
    ticks = list(time_ticks(datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 2, 6, tzinfo=UTC), shanghai))
    assert [words for _, words in ticks][:2] == ["08:00", "09:00"]


@pytest.mark.parametrize("days", [0.1, 1, 7, 30, 90, 365, 1800])
def test_a_range_of_any_length_has_a_readable_number_of_ticks_and_bars(days):
    end = START + timedelta(days=days)
    assert 2 <= len(list(time_ticks(START, end, BERLIN))) <= 14
    span = Span(START, end, "", fixed=True)
    assert span.seconds / span.step_seconds <= 64


@pytest.mark.django_db
def test_the_steps_are_the_ledger_to_the_second():
    cluster, project = cluster_make(), project_make("lab/nlp")
    host = host_make(cluster=cluster, gpus=8)
    attempt = attempt_make(workload=workload_make(project=project, cluster=cluster), hosts=[host], claim=False)
    segment_make(attempt=attempt, host=host, start_at=after(100), end_at=after(4000), gpus=3, standing="protected")
    segment_make(attempt=attempt, host=host, start_at=after(4000), end_at=None, gpus=3, standing="funded")
    occupancy = occupancy_of(cluster=cluster, span=Span(START, after(2 * HOUR), "", fixed=True), project=project)
    steps = steps_of(occupancy)
    assert sum(each.gpu_seconds["protected"] for each in steps) == 3 * 3900
    assert sum(each.gpu_seconds["funded"] for each in steps) == 3 * 3200
    assert {level.gpus for level in capacity_of(occupancy)} == {8}
