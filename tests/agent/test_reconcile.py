"""The difference between what should be here and what is, as data."""

import pytest

from portal.agent.reconcile import UNLISTED_GRACE_SECONDS, Drop, Refuse, Seen, Start, Stop, differences
from tests.agent.conftest import run, stop


def seen(state: str, *gpus: int, **fields: object) -> Seen:
    return Seen(state=state, gpus=frozenset(gpus), **fields)


def test_what_is_wanted_and_not_here_is_started():
    assert differences([run(1, "true")], {}) == [Start((1, 0))]


@pytest.mark.parametrize("state", ["starting", "running", "exited"])
def test_what_is_here_is_never_started_again(state):
    assert differences([run(1, "true")], {(1, 0): seen(state, 0)}) == []


def test_what_is_to_stop_is_stopped_once():
    assert differences([stop(1, 60)], {(1, 0): seen("running", 0)}) == [Stop((1, 0), 60)]
    assert differences([stop(1, 60)], {(1, 0): seen("running", 0, stop_grace_seconds=60)}) == []


def test_a_shorter_grace_is_passed_on_and_a_longer_one_is_not():
    stopping = {(1, 0): seen("running", 0, stop_grace_seconds=60)}
    assert differences([stop(1, 5)], stopping) == [Stop((1, 0), 5)]
    assert differences([stop(1, 90)], stopping) == []


def test_what_is_to_stop_and_never_started_is_noted_as_ended():
    assert differences([stop(1)], {}) == [Refuse((1, 0))]


def test_what_nobody_lists_is_stopped_then_dropped_once_its_output_went_up():
    assert differences([], {(1, 0): seen("running", 0)}) == [Stop((1, 0), UNLISTED_GRACE_SECONDS)]
    assert differences([], {(1, 0): seen("exited", 0, logs_pending=True)}) == []
    assert differences([], {(1, 0): seen("exited", 0)}) == [Drop((1, 0))]


def test_what_ended_is_kept_while_it_is_listed():
    assert differences([run(1, "true"), stop(2)], {(1, 0): seen("exited", 0), (2, 0): seen("exited", 1)}) == []


def test_no_start_takes_a_gpu_that_another_still_has():
    observed = {(1, 0): seen("running", 0, 1, stop_grace_seconds=1)}
    assert differences([stop(1), run(2, "true", gpus=(1, 2))], observed) == []
    assert differences([stop(1), run(2, "true", gpus=(2, 3))], observed) == [Start((2, 0))]
    assert differences([run(2, "true", gpus=(1,))], {(1, 0): seen("exited", 1, logs_pending=True)}) == [Start((2, 0))]


def test_two_starts_never_share_a_gpu():
    assert differences([run(1, "true", gpus=(0,)), run(2, "true", gpus=(0, 1))], {}) == [Start((1, 0))]


def test_the_same_in_another_order_gives_the_same():
    listed = [run(3, "true", gpus=(2,)), stop(2), run(1, "true", gpus=(0,))]
    assert differences(listed, {}) == differences(listed[::-1], {}) == [Start((1, 0)), Refuse((2, 0)), Start((3, 0))]
