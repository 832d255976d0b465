"""Whatever is thrown at the readers, they read it or refuse it in words."""

import csv
import io
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from portal.simulations.scenario import ScenarioRefused, build, read_scenario
from portal.simulations.scenarios.policies import SPELLINGS
from portal.simulations.traces.reading import read_trace
from portal.simulations.traces.rows import TraceRefused
from scheduler.simulation.setup import check_setup

CELLS = st.one_of(
    st.sampled_from(["", "0", "-1", "nan", "inf", "1e309", "1_0", "0.5", "9" * 40, "a", "p/q", "p//q", "p/p", "٣"]),
    st.integers(-5, 10**6).map(str),
    st.floats(allow_nan=True).map(str),
    st.text(max_size=8),
)
HEADER = ("job_id", "user", "project", "submit_time_s", "duration_s", "gpus", "replicas", "resumable", "cluster")
BASE: dict[str, Any] = {
    "clusters": [{"name": "c", "hosts": 2, "policy": {"lookback_days": 7}}],
    "projects": [{"path": "p", "share_percent": 50}],
    "workload": {"seed": 1},
    "host_events": [{"host": "c-000", "at_s": 1, "event": "fail", "repair_s": 60}],
    "contracts": {"debug": {"max_gpus": 8}, "min_runtime_s": 600},
    "days": 2,
}
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
PLACES = [
    ("clusters",), ("clusters", 0), ("clusters", 0, "hosts"), ("clusters", 0, "name"), ("clusters", 0, "policy"),
    ("clusters", 0, "gpus_per_host"), ("projects",), ("projects", 0), ("projects", 0, "path"),
    ("projects", 0, "from_s"),
    ("projects", 0, "share_percent"), ("projects", 0, "burst_gpus"), ("workload",), ("workload", "seed"),
    ("workload", "generator"), ("host_events",), ("host_events", 0), ("host_events", 0, "host"), ("contracts",),
    ("contracts", "debug"), ("contracts", "checkpoint_interval_s"), ("days",), ("warmup_days",), ("anything",),
]  # fmt: skip


def changed(given_: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at one place."""
    copy = json.loads(json.dumps(given_))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return copy


def table(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([HEADER, *rows])
    return text.getvalue().encode()


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_are_a_trace_or_are_refused(data: bytes) -> None:
    try:
        assert len(read_trace(data)) > 0
    except TraceRefused as refused:
        assert str(refused).startswith("trace")


@given(st.lists(st.lists(CELLS, min_size=len(HEADER), max_size=len(HEADER)), max_size=4))
@settings(deadline=None)
def test_any_table_is_a_trace_that_can_be_simulated_or_is_refused(rows: list[list[str]]) -> None:
    try:
        trace = read_trace(table(rows))
        setups = [built.setup for built in build(read_scenario({**BASE, "days": None}), trace)]
    except TraceRefused:
        return
    assert [check_setup(setup) for setup in setups] == [[]] * len(setups)


@given(st.sampled_from(PLACES), VALUES)
@settings(deadline=None, max_examples=300)
def test_any_value_anywhere_is_read_or_refused_with_its_place(place: tuple[Any, ...], value: Any) -> None:
    try:
        scenario = read_scenario(changed(BASE, place, value))
    except ScenarioRefused as refused:
        assert all(words for _, words in refused.problems)
        return
    trace = read_trace(b"job_id,project,submit_time_s,duration_s,gpus\na,p,0,60,1\n")
    for built in build(scenario, trace):
        assert check_setup(built.setup) == []


@given(st.sampled_from(sorted(SPELLINGS)), VALUES)
@settings(deadline=None, max_examples=300)
def test_any_value_of_a_setting_is_within_its_bounds_or_refused(key: str, value: Any) -> None:
    try:
        scenario = read_scenario(changed(BASE, ("clusters", 0, "policy"), {key: value}))
    except ScenarioRefused as refused:
        assert all(place.startswith("clusters[0].policy.") for place, _ in refused.problems)
        return
    (built,) = build(scenario, read_trace(b"job_id,project,submit_time_s,duration_s,gpus\na,p,0,60,1\n"))
    assert check_setup(built.setup) == []
