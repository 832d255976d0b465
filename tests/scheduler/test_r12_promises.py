"""R12. What people are told is kept: a workload with a reservation runs by the time that it names.

Faults and people aside; the 15 minutes that express starts may take are in the time that is named.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import events
from scheduler.explain import words
from scheduler.types import NEVER, Decision, Reason, Reserve, Shift
from tests.scheduler.driver import Life, Step, calm_times, do_step, examples, make_busy, pick
from tests.scheduler.reserving import build_world, fill, reserves
from tests.scheduler.world import HOUR, T0, WEEK, World, wait_of

PASS_SECONDS, START_SECONDS = 8, 45
"""A pass comes that late at most, and a gang takes that long to start: together less than the minute's allowance."""


class Clockwork:
    """Time as on a real cluster: late passes, victims that use their grace time, gangs that take time to start."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.draw = world, Random(seed)
        self.promised: dict[int, int] = {}
        self.pass_at: dict[int, int] = {}  # of a workload with a reservation: the pass after its time
        self.runs_at: dict[int, int] = {}
        self.gone_at: dict[int, int] = {}

    def go_on(self, seconds: int) -> None:
        """That many seconds, a pass at each moment at which something happens."""
        until = self.world.now + seconds
        while True:
            self.report()
            self.note(self.world.decide())
            if min([*self.runs_at.values(), *self.gone_at.values()], default=until + 1) <= self.world.now:
                continue  # hosts may answer at once
            coming = [*self.runs_at.values(), *self.gone_at.values(), *self.pass_at.values()]
            following = min((at for at in coming if self.world.now < at <= until), default=until)
            if following <= self.world.now:
                return
            self.world.wait(following - self.world.now)

    def report(self) -> None:
        """What hosts say by now: gone, running."""
        for attempt in [one for one, at in self.gone_at.items() if at <= self.world.now]:
            del self.gone_at[attempt]
            row = self.world.state.attempts.row(self.world.state.attempts.find("id", attempt))
            events.end(self.world.state, attempt, requeue=bool(row["resumable"]))
        for attempt in [one for one, at in self.runs_at.items() if at <= self.world.now]:
            del self.runs_at[attempt]
            events.run(self.world.state, attempt)
            index = self.world.state.attempts.find("id", attempt)
            workload = int(self.world.state.attempts["workload"][index])
            assert self.world.now <= self.promised.pop(workload, self.world.now)

    def note(self, decision: Decision) -> None:
        """Carry the decision out, and remember what it promises."""
        events.apply(self.world.state, decision)
        for action in decision.actions:
            if isinstance(action, Reserve | Shift):
                self.promised[action.workload] = action.reason.as_dict()["starts_by_at"]
                self.pass_at[action.workload] = action.at + self.draw.randint(0, PASS_SECONDS)
        attempts = self.world.state.attempts
        for index in range(attempts.count):
            row = attempts.row(index)
            if row["stopping_at"] != NEVER:
                self.runs_at.pop(row["id"], None)
                self.gone_at.setdefault(row["id"], self.world.now + self.draw.randint(0, row["grace_seconds"]))
            elif row["segments_at"] != NEVER and row["running_at"] == NEVER:
                self.runs_at.setdefault(row["id"], self.world.now + self.draw.randint(0, START_SECONDS))

    def do(self, step: Step) -> None:
        """A step of a life; what hosts do follows from the clock alone."""
        name, value = step
        if name in ("wait", "run_all"):
            self.go_on(value)
        elif name == "end":
            self.end(value)
        elif name == "submit":
            do_step(self.world, step)

    def end(self, number: int) -> None:
        """Something that runs is done."""
        attempts = self.world.state.attempts
        running = (attempts["running_at"] != NEVER) & (attempts["stopping_at"] == NEVER)
        if (attempt := pick(attempts["id"][running], number)) is not None:
            events.end(self.world.state, attempt)


@examples(25)
@given(calm_times)
def test_a_workload_with_a_reservation_runs_by_the_time_it_names(life: Life) -> None:
    keep_promises(life)


@examples(25)
@given(calm_times, st.lists(st.sampled_from([NEVER, 8, 12]), min_size=6, max_size=6))
def test_so_does_one_that_reserved_room_under_a_burst_cap(life: Life, caps: list[int]) -> None:
    keep_promises((life[0].cap(caps), life[1]))


def test_what_starts_under_the_cap_elsewhere_does_not_keep_it_from_its_time() -> None:
    # Found by chance: it was taken into account only on the hosts that were reserved.
    lab, history = make_busy(100250, 24, calm=True)
    keep_promises((lab.cap([NEVER, 8, NEVER, 8]), history))


@pytest.mark.parametrize(("seed", "length"), [(1356321087, 25), (4061095821, 30), (1807288009, 29), (390117038, 36)])
def test_a_late_pass_does_not_shut_it_out_of_hosts_that_a_later_reservation_has_next(seed: int, length: int) -> None:
    keep_promises(make_busy(seed, length, calm=True))


def keep_promises(life: Life) -> None:
    """Live it to the end, and until every reservation has been kept."""
    lab, history = life
    clock = Clockwork(lab.build(), seed=len(history))
    for step in history:
        clock.do(step)
    while clock.promised:
        clock.go_on(max(min(clock.promised.values()) - clock.world.now, 0) + 1)
        assert min(clock.promised.values(), default=clock.world.now) >= clock.world.now - 1


def told_to(world: World, workload: int) -> Reason:
    return wait_of(world.decide(), workload)


def test_the_named_time_leaves_a_grace_time_and_a_start_after_its_gpus_can_be_taken() -> None:
    world = build_world()
    world.charge("vision", WEEK)
    fill(world, HOUR, 2 * HOUR)
    head = world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    made = reserves(world.go())[head]
    assert made.at == T0 + 2 * HOUR
    assert made.reason.as_dict()["starts_by_at"] == T0 + 2 * HOUR + 60 + 60
    told = told_to(world, head)
    assert told.as_dict()["starts_by_at"] == T0 + 2 * HOUR + 120
    assert f"starts by <at {T0 + 2 * HOUR + 120}>" in words(told)


def test_a_contract_of_half_an_hour_that_does_not_lead_hears_that_no_shorter_one_would_do() -> None:
    world = build_world(hosts=1)
    fill(world, 4 * HOUR)
    heads = [world.submit("nlp", gpus=8, contract=1000, first_start=False) for _ in range(2)]
    world.charge("nlp", 8 * 4 * HOUR, ago=3 * HOUR)
    decision = world.go()
    assert reserves(decision) == {}
    for position, head in enumerate(heads, 1):  # like heads hear alike
        told = wait_of(decision, head)
        assert told.code == "contract_too_large"
        assert told.as_dict()["position"] == position
        assert "longest_seconds" not in told.as_dict()
        assert words(told).endswith("No shorter one would do: it counts as at least 30 min.")


def test_where_its_own_project_is_in_the_way_no_contract_is_too_large() -> None:
    world = build_world(hosts=1)
    fill(world, HOUR, project="nlp")
    head = world.submit("nlp", gpus=8)
    assert told_to(world, head).code == "full_of_protected"
