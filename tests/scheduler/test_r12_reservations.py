"""R12. Hosts and times for heads that can't start: made, kept, told, moved."""

from unittest.mock import patch

from scheduler import events
from scheduler.decide import decide
from scheduler.types import Code, Release, Shift, Standing
from tests.scheduler.reserving import build_world, carry_on, fill, keep_one, reserves
from tests.scheduler.world import (
    DAY,
    HOUR,
    T0,
    WEEK,
    World,
    preempted,
    start_of,
    started,
    wait_of,
)

# ---------------------------------------------------------------- making one


def test_a_head_that_cannot_start_gets_the_hosts_that_are_certain_first() -> None:
    world = build_world(hosts=3)
    world.charge("vision", WEEK)
    fill(world, 3 * HOUR, HOUR, 2 * HOUR)
    head = world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    made = reserves(world.go())[head]
    assert made.at == T0 + 2 * HOUR
    assert made.placement == ((101, 1), (102, 1))


def test_it_starts_at_its_time_and_takes_what_is_past_its_minimum() -> None:
    world = build_world()
    world.charge("vision", WEEK)
    attempts = fill(world, HOUR, 2 * HOUR)
    head = world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    at = reserves(world.go())[head].at
    decisions = carry_on(world, 2 * HOUR)
    assert world.now == at
    assert start_of(decisions[-1], head).victims == tuple(attempts)
    assert start_of(decisions[-1], head).reason.code == Code.RESERVED_START


def test_one_reservation_for_each_child_of_the_root_in_the_order_of_the_walk() -> None:
    world = World(hosts=2)
    for name in ("nlp", "vision", "robots"):
        world.project(name, 30)
    world.charge("robots", 2 * WEEK)
    fill(world, HOUR, HOUR, project="robots")
    nlp = [world.submit("nlp", gpus=8, contract=HOUR) for _ in range(2)]
    vision = [world.submit("vision", gpus=8, contract=HOUR) for _ in range(2)]
    assert list(reserves(world.go())) == [nlp[0], vision[0]]


def test_no_more_reservations_than_the_policy_allows() -> None:
    world = World(hosts=4, reservations_most=1)
    for name in ("nlp", "vision", "robots"):
        world.project(name, 30)
    world.charge("robots", 2 * WEEK)
    fill(world, HOUR, HOUR, HOUR, HOUR, project="robots")
    for name in ("nlp", "vision"):
        world.submit(name, gpus=8, contract=HOUR)
    assert len(reserves(world.go())) == 1


def test_later_heads_get_other_hosts_or_the_time_after() -> None:
    world = World(hosts=1)
    for name in ("nlp", "vision", "robots"):
        world.project(name, 30)
    world.charge("robots", WEEK)
    world.charge("vision", 8 * 3 * HOUR)
    fill(world, HOUR, project="robots")
    first = world.submit("nlp", gpus=8, contract=4 * HOUR)
    second = world.submit("vision", gpus=8, contract=1800)
    made = reserves(world.go())
    assert made[first].at == T0 + HOUR
    assert second not in made or made[second].at >= T0 + 5 * HOUR


def test_what_is_in_the_way_in_its_own_project_gives_no_certainty() -> None:
    world = build_world(hosts=1)
    fill(world, HOUR, project="nlp")
    world.submit("nlp", gpus=8)
    assert reserves(world.go()) == {}


def test_lower_priority_in_its_own_project_does() -> None:
    world = build_world(hosts=1)
    fill(world, HOUR, project="nlp")
    head = world.submit("nlp", gpus=8, priority=1)
    assert reserves(world.go())[head].at == T0 + HOUR


def test_a_contract_that_is_not_deserving_enough_hears_what_would_do() -> None:
    world = build_world(hosts=1)
    world.charge("vision", 8 * 5 * HOUR, ago=2 * HOUR)
    fill(world, HOUR)
    head = world.submit("nlp", gpus=8, contract=8 * HOUR)
    decision = world.go()
    assert reserves(decision) == {}
    told = wait_of(decision, head)
    assert told.code == Code.CONTRACT_TOO_LARGE
    shorter = world.submit("nlp", gpus=8, contract=told.as_dict()["longest_seconds"])
    assert shorter in reserves(world.go())
    longer = world.submit("nlp", gpus=8, contract=told.as_dict()["longest_seconds"] + 1, priority=1)
    assert longer not in reserves(world.go())


def stop_overdue(world: World, seconds: int) -> int:
    """nlp takes 6 GPUs of the host, the 8 of an unallocated attempt are still not free after so long."""
    world.run("vision", gpus=8, contract=0, standing=Standing.UNALLOCATED)
    world.submit("nlp", gpus=6, contract=HOUR)
    assert len(preempted(world.go())) == 1
    world.wait(seconds)
    return world.submit("vision", gpus=1, contract=HOUR)


def test_gpus_that_are_being_freed_are_certain_at_the_end_of_the_grace_time() -> None:
    world = build_world(hosts=1)
    head = stop_overdue(world, 9)
    assert reserves(world.go())[head].at == T0 + 10


def test_when_the_grace_time_is_over_they_are_certain_at_the_silence_limit() -> None:
    # Counted as certain at once, while nobody had them, they left a head that leads without a reservation.
    for seconds in (10, 60, 129):
        world = build_world(hosts=1)
        head = stop_overdue(world, seconds)
        assert reserves(world.go())[head].at == T0 + 10 + 120


def test_behind_a_head_that_is_saved_for_no_later_work_of_its_project_reserves() -> None:
    for saving, made in ((0, 1), (1, 0)):
        world = build_world(hosts=1, save_for_head=saving)
        world.charge("vision", 8 * 5 * HOUR, ago=2 * HOUR)
        fill(world, HOUR)
        world.submit("nlp", gpus=8, contract=8 * HOUR)  # would not lead
        world.submit("nlp", gpus=8, contract=HOUR)
        assert len(reserves(world.go())) == made


def test_who_saved_for_a_head_goes_on_as_soon_as_it_has_its_reservation() -> None:
    # Not only in the next decision at the same instant, which must be empty (R10).
    world = build_world(save_for_head=1)
    world.hosts[1]["gpus"] = 4
    world.charge("vision", WEEK)
    fill(world, HOUR)
    head = world.submit("nlp", gpus=8, contract=HOUR)
    later = world.submit("nlp", gpus=4, contract=HOUR)
    decision = world.go()
    assert list(reserves(decision)) == [head]
    assert started(decision, Standing.PROTECTED) == [later]


def test_nobody_saves_for_unallocated_work() -> None:
    world = build_world(hosts=1, save_for_head=1)
    world.run("vision", gpus=6)
    one, _, other = (world.submit("nlp", gpus=gpus, contract=0) for gpus in (1, 2, 1))
    assert started(world.go()) == [one, other]


def test_where_no_reservation_is_kept_none_is_made() -> None:
    world = build_world(hosts=1)
    world.reserves = False
    fill(world, HOUR)
    world.submit("nlp", gpus=8)
    assert reserves(world.go()) == {}


# ---------------------------------------------------------------- keeping it


def test_what_came_since_is_taken_once_past_its_minimum_whatever_its_balance() -> None:
    world = build_world()
    world.project("robots", 10)
    head, at = keep_one(world, left=2 * HOUR)
    deserving = world.submit("robots", gpus=8, contract=HOUR)
    carry_on(world, 60)
    attempt = world.attempt_of(deserving)["id"]
    world.charge("nlp", WEEK, ago=3 * HOUR)  # nlp now is behind robots
    decisions = carry_on(world, at - world.now)
    assert attempt in start_of(decisions[-1], head).victims


def test_funding_is_judged_when_it_is_made_and_kept() -> None:
    world = build_world()
    head, at = keep_one(world)
    world.charge("nlp", 10 * WEEK, ago=3 * HOUR)  # spent long since
    decisions = carry_on(world, at - world.now)
    assert start_of(decisions[-1], head).standing == Standing.PROTECTED


def test_after_a_step_back_of_the_clock_what_was_found_there_has_not_come_since() -> None:
    # All that was decided ahead of the clock seemed to have come since, and was taken at once.
    for back in (60, 300):
        world = build_world(hosts=1)
        old = world.run("nlp", gpus=4, contract=60, priority=1, standing=Standing.FUNDED)
        world.run("nlp", gpus=4, contract=HOUR, priority=0)
        world.state.now -= back - 60
        row = world.state.attempts.find("id", old)
        for name in ("decided_at", "segments_at", "segment_at", "running_at"):
            world.state.attempts[name][row] = T0
        head = world.submit("nlp", gpus=4, contract=HOUR, priority=1)
        assert head in reserves(world.go())  # `go` decides twice: the second finds nothing to do
        assert world.standing_of(old) == Standing.FUNDED


def test_its_contract_counts_in_what_others_of_the_project_may_start() -> None:
    world = build_world(overdraw_limit_ppm=0)
    world.charge("nlp", 16 * WEEK * 4 // 10 - 8 * 2 * 4 * HOUR - 8 * HOUR + 1, ago=3 * HOUR)
    world.charge("vision", 7 * WEEK, ago=3 * HOUR)
    world.run("vision", gpus=8, contract=2 * HOUR, ran=60, on={1: 1})
    head = world.submit("nlp", gpus=8, replicas=2, contract=4 * HOUR)
    assert head in reserves(world.go())
    other = world.submit("nlp", gpus=8, contract=HOUR)
    assert start_of(world.go(), other).standing == Standing.UNALLOCATED


def test_it_is_over_when_it_loses_a_host_and_may_be_made_anew() -> None:
    world = build_world(hosts=3)
    world.charge("vision", WEEK)
    fill(world, HOUR, 2 * HOUR, 3 * HOUR)
    head = world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    world.go()
    events.cordon(world.state, 100)
    decision = world.go()
    assert [action.workload for action in decision.actions if isinstance(action, Release)] == [head]
    assert reserves(decision)[head].at == T0 + 3 * HOUR


def test_it_starts_before_its_time_when_it_can() -> None:
    world = build_world()
    head, at = keep_one(world)
    world.wait(60)
    events.end(world.state, int(world.state.attempts["id"][0]))
    assert started(world.go()) == [head]
    assert world.now < at


def test_it_starts_before_its_time_on_its_own_hosts_though_those_of_another_are_still_full() -> None:
    # Both ask for as much: that the first found nothing said nothing about the second's hosts.
    world = World(hosts=2)
    for name in ("nlp", "robots", "vision"):
        world.project(name, 30)
    world.charge("vision", 2 * WEEK)
    attempts = fill(world, HOUR, HOUR)
    heads = [world.submit(name, gpus=8) for name in ("nlp", "robots")]
    made = reserves(world.go())
    assert [made[head].placement for head in heads] == [((100, 1),), ((101, 1),)]
    world.wait(60)
    events.end(world.state, attempts[1])
    assert started(world.go()) in ([heads[0]], [heads[1]])


def free_the_other_host(world: World, wait: int) -> tuple[int, list[int]]:
    """A head waits for the contract on host 0, an hour long; meanwhile what is on host 1 can be taken by everybody."""
    world.charge("vision", WEEK)
    attempts = fill(world, HOUR, 2 * HOUR)
    head = world.submit("nlp", gpus=8)
    assert reserves(world.go())[head].placement == ((100, 1),)
    world.wait(wait)
    events.end(world.state, attempts[1])
    return head, [attempts[0], world.run("vision", gpus=8, contract=0, standing=Standing.UNALLOCATED, on={1: 1})]


def test_on_its_own_hosts_it_takes_what_it_waited_for_though_something_cheaper_could_be_taken_elsewhere() -> None:
    world = build_world()
    head, attempts = free_the_other_host(world, HOUR)
    assert start_of(world.go(), head).victims == (attempts[0],)


def test_its_own_hosts_are_not_searched_while_all_that_can_be_taken_there_is_not_enough() -> None:
    world = build_world()
    head, attempts = free_the_other_host(world, 60)
    with patch("scheduler.reserved._take_on_own_hosts", side_effect=AssertionError):
        assert start_of(world.decide(), head).victims == (attempts[1],)


def test_while_its_author_is_banned_it_takes_nothing_on_its_own_hosts_either() -> None:
    world = build_world(taker_ban_seconds=2 * HOUR)
    world.charge("vision", WEEK)
    attempts = fill(world, HOUR)
    world.run("vision", gpus=4, contract=DAY, on={1: 1})
    world.run("vision", gpus=4, contract=0, standing=Standing.UNALLOCATED, on={1: 1})
    head = world.submit("nlp", gpus=8, author=5)
    made = reserves(world.go())[head]
    assert made.placement == ((100, 1),)
    taker = world.submit("nlp", gpus=4, author=5)
    assert len(preempted(world.go())) == 1
    events.end(world.state, world.attempt_of(taker)["id"], cancelled=True)
    world.wait(made.at - world.now)
    assert started(world.go()) == []
    world.wait(HOUR)
    assert start_of(world.go(), head).victims == (attempts[0],)


def test_reserved_work_starts_before_express_and_all_others() -> None:
    world = build_world()
    head, at = keep_one(world)
    world.wait(at - world.now)
    express = world.submit("vision", gpus=1, contract=60)
    assert started(world.go())[0] == head
    assert express in world.state.pending["id"]


def test_who_cancels_one_reserves_nothing_for_a_day() -> None:
    world = build_world()
    head, _ = keep_one(world)
    events.withdraw(world.state, head)
    again = world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    other = world.submit("nlp", gpus=8, replicas=2, contract=HOUR, author=2)
    decision = world.go()
    assert list(reserves(decision)) == [other]
    events.withdraw(world.state, other)
    world.wait(DAY)
    fill(world, HOUR, HOUR)
    assert list(reserves(world.go())) == [again]


def test_longer_work_of_another_author_reserves_though_shorter_work_of_one_who_may_not_is_just_like_it() -> None:
    world = build_world()
    head, _ = keep_one(world)
    events.withdraw(world.state, head)
    world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    other = world.submit("nlp", gpus=8, replicas=2, contract=2 * HOUR, author=2)
    for gpus in (7, 6):  # so many that it is worth asking whether any of them has a chance
        world.submit("nlp", gpus=gpus, replicas=2, contract=HOUR)
    assert list(reserves(decide(world.state, world.policy, waits=False))) == [other]


def test_where_nobody_is_banned_a_step_back_of_the_clock_bans_nobody() -> None:
    world = build_world(reservation_ban_seconds=0)
    head, _ = keep_one(world)
    events.withdraw(world.state, head)
    world.wait(-300)
    again = world.submit("nlp", gpus=8, replicas=2, contract=HOUR)
    assert list(reserves(world.go())) == [again]


def test_an_overrun_is_named_and_the_reservation_kept() -> None:
    world = build_world()
    head, at = keep_one(world)
    late = int(world.state.attempts["id"][0])
    world.state.attempts["running_at"][0] += 600  # it came up later than it said
    world.wait(at - world.now)
    told = wait_of(world.go(), head)
    assert told.code == Code.RESERVED
    assert told.as_dict()["late_attempt"] == late
    world.wait(600)
    assert started(world.go()) == [head]


def test_a_reservation_is_kept_though_its_projects_budget_is_withdrawn() -> None:
    world = build_world()
    head, at = keep_one(world)
    world.wait(60)
    world.budget("nlp", 0)
    decisions = carry_on(world, at - world.now)
    assert start_of(decisions[-1], head).standing == Standing.PROTECTED


# ---------------------------------------------------------------- express


def test_express_starts_may_use_its_hosts_and_move_its_time_once() -> None:
    world = build_world()
    head, at = keep_one(world, left=600)
    first = world.submit("vision", gpus=8, contract=900)
    decision = world.go()
    assert first in started(decision)
    assert [(one.workload, one.at) for one in decision.actions if isinstance(one, Shift)] == [(head, at + 900)]
    world.start_all()
    events.end(world.state, world.attempt_of(first)["id"])
    world.wait(800)
    world.submit("vision", gpus=8, contract=900, resumable=False)
    decision = world.go()
    assert not [one for one in decision.actions if isinstance(one, Shift)]


def test_an_express_start_that_ends_in_time_moves_nothing() -> None:
    world = build_world()
    keep_one(world, left=2 * HOUR)
    world.submit("vision", gpus=8, contract=900)
    decision = world.go()
    assert len(started(decision)) == 1
    assert not [one for one in decision.actions if isinstance(one, Shift)]
