"""Numbers and pictures of the pages, without a database."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from portal.dashboard.figures import parts_of, ratio_change
from portal.dashboard.overview import pyramid_figures
from portal.dashboard.templatetags import commons
from portal.dashboard.timeline import timeline_of
from tests.factories import START, after


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (0.004, "<0.01"), (0.42, "0.42"), (3.5, "3.5"), (12.34, "12.3"), (99.96, "100"), (4123, "4,120")],
)
def test_figures_have_three_significant_digits(value, words):
    assert commons.three_digits(value) == words


def test_a_duration_is_exact_on_hover():
    assert commons.duration(7805) == '<span class="num" title="02:10:05">2 h 10 min</span>'


def test_nothing_known_is_a_dash_and_zero_is_zero():
    assert "&ndash;" in commons.duration(None)
    assert ">0 s<" in commons.duration(0)


def test_ago_counts_from_the_moment_given():
    assert ">3 min ago<" in commons.ago(START, after(180))


def test_a_mark_never_stands_for_two_standings():
    shapes = {key: commons.MARKS[key][0] for key in ("protected", "funded", "unallocated", "stopping", "refunded")}
    assert len(set(shapes.values())) == len(shapes)


def test_a_bar_fills_its_width_and_leaves_out_what_is_nothing():
    parts = parts_of({"protected": 6, "funded": 0, "free": 2})
    assert [(part.key, part.x, part.width) for part in parts] == [
        ("protected", "0.00", "750.00"),
        ("free", "750.00", "250.00"),
    ]


def test_a_bar_of_nothing_has_no_parts():
    assert parts_of({"protected": 0}) == []


def test_more_is_good_and_said_in_points():
    change = ratio_change(0.97, 0.94, before="the 7 days before")
    assert (change.words, change.tone, change.direction) == ("3 points against the 7 days before", "good", 1)


def test_a_range_before_without_data_is_said():
    assert ratio_change(0.97, None, before="the 7 days before").words == "nothing to compare in the 7 days before"


def pyramid(**changes):
    facts = {
        "availability": 1.0,
        "occupancy": 0.5,
        "impact": 0.9,
        "utilization": None,
        "utilization_reason": "Simulated GPUs have none.",
        "installed_gpu_seconds": 7200,
        "lost_by_state": {},
        "occupied_by_standing": {"unallocated": 1800},
        "occupied_gpu_seconds": 3600,
        "occupied_unschedulable_gpu_seconds": 0,
        "idle_gpu_seconds": 3600,
        "held_gpu_seconds": 0,
        "owed_gpu_seconds": 36_000,
        "delivered_gpu_seconds": 32_400,
    }
    return SimpleNamespace(**{**facts, **changes})


def test_each_level_of_the_pyramid_names_what_is_lost():
    notes = [figure.note for figure in pyramid_figures(pyramid(), pyramid(), "before")]
    assert notes == [
        "No GPU-hours lost to hosts",
        "1 GPU-hours idle or held; 50 % unallocated",
        "1 of 10 GPU-hours owed not delivered",
        "Simulated GPUs have none.",
    ]


def test_work_on_closed_hosts_is_named_apart_from_occupancy():
    note = pyramid_figures(pyramid(occupied_unschedulable_gpu_seconds=7200), pyramid(), "before")[1].note
    assert note.endswith("50 % unallocated; apart from it, 2.00 GPU-hours ran on closed hosts")


def test_almost_everything_is_never_shown_as_100_percent():
    assert pyramid_figures(pyramid(availability=0.9999), pyramid(), "before")[0].value == "99.9"


def test_unknown_utilization_is_a_dash_with_its_reason():
    figure = pyramid_figures(pyramid(), pyramid(), "before")[3]
    assert (figure.value, figure.unit, figure.note) == ("–", "", "Simulated GPUs have none.")


@dataclass
class Story:
    attempt: object
    stretches: list = field(default_factory=list)


def attempt_at(queued, decided, ended=None, outcome=""):
    return SimpleNamespace(
        number=1,
        queued_at=after(queued),
        decided_at=after(decided),
        ended_at=None if ended is None else after(ended),
        outcome=outcome,
        state="ended" if outcome else "running",
    )


def keys_of(timeline):
    return [[bar.key for bar in line.bars] for line in timeline.lines]


def test_a_waiting_workload_is_one_line_of_waiting():
    timeline = timeline_of(submitted_at=START, ended_at=None, stories=[], now=after(60))
    assert keys_of(timeline) == [["wait"]]


def test_an_attempt_shows_wait_held_and_standings_in_order():
    stretches = [("protected", after(300), after(600)), ("funded", after(600), None)]
    story = Story(attempt_at(0, 200), stretches)
    timeline = timeline_of(submitted_at=START, ended_at=None, stories=[story], now=after(1000))
    assert keys_of(timeline) == [["wait", "held", "protected", "funded"]]
    assert [(bar.x, bar.width) for bar in timeline.lines[0].bars][2:] == [("300.00", "300.00"), ("600.00", "400.00")]


def test_a_requeued_workload_waits_again_after_its_attempt():
    story = Story(attempt_at(0, 0, ended=500, outcome="preempted"), [("funded", START, after(500))])
    timeline = timeline_of(submitted_at=START, ended_at=None, stories=[story], now=after(1000))
    assert keys_of(timeline) == [["funded"], ["wait"]]
    assert timeline.lines[0].words == "Preempted"


def test_no_bar_leaves_the_picture():
    story = Story(attempt_at(0, 0, ended=5000, outcome="failed"), [("funded", START, after(5000))])
    timeline = timeline_of(submitted_at=START, ended_at=after(1000), stories=[story], now=after(1000))
    assert all(float(bar.x) + float(bar.width) <= 1000 for line in timeline.lines for bar in line.bars)
