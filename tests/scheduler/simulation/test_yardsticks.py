"""fifo and sjf: the order of events, and the values on which other simulators agree."""

from __future__ import annotations

import pytest

from scheduler.simulation.engine import run
from tests.scheduler.simulation.small import jobs_make, philly_make, run_whole, setup_make


def waits_of(scheduler, *rows, **more):
    loop, _ = run_whole(setup_make(jobs_make(*rows), gpus=4, scheduler=scheduler, **more))
    rows = loop.ledger.waits.read()
    return dict(zip(rows["submit"].tolist(), (rows["end"] - rows["start"]).tolist(), strict=True))


def test_the_head_of_the_queue_waits_and_nothing_passes_it():
    long = {"gpus_per_replica": 3, "duration_seconds": 100}
    big = {"gpus_per_replica": 4, "submit_at": 1, "duration_seconds": 10}
    small = {"gpus_per_replica": 1, "submit_at": 2, "duration_seconds": 10}
    assert waits_of("fifo", long, big, small) == {0: 0, 1: 99, 2: 108}


def test_the_shortest_goes_first_and_nothing_passes_it():
    long = {"gpus_per_replica": 3, "duration_seconds": 100}
    big = {"gpus_per_replica": 4, "submit_at": 1, "duration_seconds": 20}
    small = {"gpus_per_replica": 4, "submit_at": 2, "duration_seconds": 10}
    assert waits_of("sjf", long, big, small) == {0: 0, 1: 109, 2: 98}


def test_what_ends_when_another_is_submitted_has_ended_first():
    assert waits_of(
        "fifo",
        {"gpus_per_replica": 4, "duration_seconds": 50},
        {"gpus_per_replica": 4, "submit_at": 50, "duration_seconds": 5},
    ) == {0: 0, 50: 0}


def test_a_gang_is_spread_over_hosts_whole():
    gang = {"replicas": 2, "gpus_per_replica": 4, "duration_seconds": 10}
    assert waits_of("fifo", {"duration_seconds": 30}, {**gang, "submit_at": 1}, hosts=2) == {0: 0, 1: 29}


def test_a_gang_that_fits_in_part_leaves_the_room_as_it_was():
    long = {"gpus_per_replica": 2, "duration_seconds": 30}
    gang = {"replicas": 3, "gpus_per_replica": 3, "submit_at": 1, "duration_seconds": 10}
    last = {"gpus_per_replica": 4, "submit_at": 5, "duration_seconds": 10}
    assert waits_of("fifo", long, gang, last, hosts=3) == {0: 0, 1: 29, 5: 35}


@pytest.mark.parametrize(
    ("scheduler", "mean", "ranks"), [("fifo", 1297.69, (3948, 21791)), ("sjf", 780.04, (2573, 9386))]
)
def test_two_weeks_of_philly_on_one_pool_wait_as_other_simulators_say(scheduler, mean, ranks):
    waits = run(philly_make(1, 640, scheduler=scheduler)).waits["all"]
    assert (waits.started, round(waits.mean_s, 2), waits.p90_s, waits.p99_s) == (26936, mean, *ranks)
