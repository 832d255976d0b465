"""The old world: levels, opting out, a cap on an author's GPUs."""

from __future__ import annotations

from functools import partial

from scheduler import events
from scheduler.priority import HIGH, LOW, NORMAL, QUEUE_DEPTH, decide
from scheduler.types import Begin, Preempt, Start
from tests.scheduler.world import World, preempted, start_of, started

GRACE = 60


def world(**more):
    """One host of 8 GPUs, one project."""
    lab = World(**more)
    lab.project("lab", 100)
    lab.submit = partial(lab.submit, "lab", contract=0)
    return lab


def go(lab, **more):
    """A decision of the old world, applied."""
    decision = decide(lab.state, lab.policy, **more)
    events.apply(lab.state, decision)
    lab.start_all()
    return decision


def test_the_higher_level_goes_first_then_the_earlier():
    lab = world()
    low, first, second = (lab.submit(gpus=4, priority=level) for level in (LOW, HIGH, HIGH))
    assert started(decide(lab.state, lab.policy)) == [first, second]
    assert [wait.workload for wait in decide(lab.state, lab.policy).waits] == [low]


def test_what_does_not_fit_is_passed_by():
    lab = world()
    lab.submit(gpus=5)
    go(lab)
    large, small = lab.submit(gpus=8), lab.submit(gpus=2)
    decision = go(lab)
    assert started(decision) == [small]
    assert [wait.workload for wait in decision.waits] == [large]


def test_a_higher_level_takes_the_fewest_gpus_of_lower_ones_and_waits_for_them():
    lab = world()
    large, small = lab.submit(gpus=6), lab.submit(gpus=2)
    go(lab)
    taker = lab.submit(gpus=2, priority=HIGH)
    decision = go(lab)
    victim = lab.attempt_of(small)["id"]
    assert preempted(decision) == [victim]
    assert start_of(decision, taker).victims == (victim,)
    assert [a.grace_seconds for a in decision.actions if isinstance(a, Preempt)] == [GRACE]
    lab.wait(GRACE)
    lab.free_stopped()
    assert [type(action) for action in go(lab).actions] == [Begin]
    assert lab.attempt_of(large)["running_at"] < lab.attempt_of(taker)["running_at"]


def test_who_opted_out_of_preemption_is_never_taken():
    lab = world()
    lab.submit(gpus=8, allow_unallocated=False)
    go(lab)
    lab.submit(gpus=1, priority=HIGH)
    assert go(lab).actions == ()


def test_equals_take_nothing_of_each_other():
    lab = world()
    lab.submit(gpus=8, priority=NORMAL)
    go(lab)
    lab.submit(gpus=1, priority=NORMAL)
    assert go(lab).actions == ()


def test_a_gang_takes_whole_gangs_or_nothing():
    lab = world(hosts=2)
    gang = lab.submit(gpus=8, replicas=2)
    go(lab)
    lab.submit(gpus=8, replicas=3, priority=HIGH)
    assert go(lab).actions == ()
    taker = lab.submit(gpus=1, priority=HIGH)
    decision = go(lab)
    assert start_of(decision, taker).victims == (lab.attempt_of(gang)["id"],)


def test_nobody_holds_more_than_the_cap():
    lab = world()
    first, _, other = lab.submit(gpus=4), lab.submit(gpus=2), lab.submit(gpus=2, author=2)
    assert started(go(lab, max_gpus_per_user=5)) == [first, other]


def test_a_held_attempt_whose_host_is_lost_waits_again():
    lab = world(hosts=2)
    lab.submit(gpus=8)
    lab.submit(gpus=8)
    go(lab)
    taker = lab.submit(gpus=8, priority=HIGH)
    host = start_of(go(lab), taker).placement[0][0]
    events.cordon(lab.state, host)
    decision = go(lab)
    assert [type(action).__name__ for action in decision.actions] == ["GiveUp"]
    assert [wait.workload for wait in decision.waits] == [taker]


def test_a_decision_taken_again_is_empty_and_every_wait_has_its_place():
    lab = world()
    for number in range(6):
        lab.submit(gpus=3, priority=number % 3)
    go(lab)
    again = go(lab)
    assert again.actions == ()
    assert list(again.waits.position) == [1, 2, 3, 4]
    assert not [a for a in again.actions if isinstance(a, Start)]


def test_a_pass_gives_up_behind_so_many_that_do_not_fit():
    for before, small_starts in ((QUEUE_DEPTH - 1, True), (QUEUE_DEPTH, False)):
        lab = world()
        lab.submit(gpus=7)
        go(lab)
        for _ in range(before):
            lab.submit(gpus=2)
        small = lab.submit(gpus=1)
        assert (started(go(lab)) == [small]) is small_starts
