"""R12. Who leads by its contract gets a reservation, and the first in R8's order among them; told by the oracle."""

from __future__ import annotations

from hypothesis import given

from scheduler.types import Reserve, Standing
from tests.scheduler.driver import Life, busy_times, do_step, examples, make_busy
from tests.scheduler.oracle import Node, Oracle
from tests.scheduler.world import World

TRIES = 8
"""Unlike heads that one child of the root tries in a decision (docs/decisions/0010)."""


def branch_of(oracle: Oracle, row: int) -> Node:
    """The child of the root that a waiting workload belongs to."""
    return oracle.path(int(oracle.snapshot.pending.project[row]))[0]


def list_siblings(oracle: Oracle, node: Node) -> list[Node]:
    """The nodes beside it, what their parent holds for its own work among them."""
    parent = node[0] if node[1] else oracle.parent[node[0]]
    beside = [(child, False) for child in oracle.children[parent]] + [(parent, True)]
    return [one for one in beside if one != node]


def leads_everywhere(oracle: Oracle, row: int) -> bool:
    """R9 (c) at every level of its path, against every sibling."""
    project = int(oracle.snapshot.pending.project[row])
    seconds = max(int(oracle.snapshot.pending.min_runtime_seconds[row]), oracle.policy.licence_floor_seconds)
    charge = seconds * oracle.gpus_asked(row)
    for node in oracle.path(project):
        mine = oracle.balance(node, charge)
        for sibling in list_siblings(oracle, node):
            theirs = oracle.balance(sibling)
            if mine is None or (theirs is not None and (mine - theirs) * 1_000_000 < oracle.policy.licence_margin_ppm):
                return False
    return True


def has_free_place(oracle: Oracle, row: int) -> bool:
    """Hosts that no reservation keeps could hold it."""
    hosts = oracle.snapshot.hosts
    kept = {host for _, _, places in oracle.bookings for host in places}
    closed = set(oracle.snapshot.draining.tolist())
    size = [
        int(gpus) if open_ and host not in kept and int(number) not in closed else 0
        for host, (number, gpus, open_) in enumerate(zip(hosts.id, hosts.gpus, hosts.schedulable, strict=True))
    ]
    return oracle.fits(row, size)


def is_in_its_own_way(oracle: Oracle, row: int) -> bool:
    """Work of its own project of like or higher priority that it may not take."""
    attempts, pending = oracle.snapshot.attempts, oracle.snapshot.pending
    own = (attempts.project == pending.project[row]) & (attempts.priority >= pending.priority[row])
    allocated = (attempts.standing == Standing.PROTECTED) | (attempts.standing == Standing.FUNDED)
    return bool((own & (allocated | attempts.lapsed)).any())


def can_have_burst_room(oracle: Oracle, row: int) -> bool:
    """R7: beside what is reserved under its caps. All else there can be taken by who leads everywhere."""
    paths = [(booked, oracle.path(int(oracle.snapshot.pending.project[booked]))) for booked, _, _ in oracle.bookings]
    for node in oracle.path(int(oracle.snapshot.pending.project[row])):
        cap = oracle.cap(node)
        asked = oracle.gpus_asked(row) + sum(oracle.gpus_asked(booked) for booked, path in paths if node in path)
        if cap is not None and asked > cap:
            return False
    return True


def list_deserving(oracle: Oracle) -> list[int]:
    """Waiting workloads that R12 owes a reservation, if their child of the root has none yet."""
    return [
        row
        for row in range(len(oracle.snapshot.pending.id))
        if not oracle.is_booked(row)
        and oracle.is_funded(row)
        and can_have_burst_room(oracle, row)
        and leads_everywhere(oracle, row)
        and has_free_place(oracle, row)
        and not is_in_its_own_way(oracle, row)
    ]


def has_tried_enough(oracle: Oracle, branch: Node) -> bool:
    """More unlike heads wait there than are tried."""
    pending = oracle.snapshot.pending
    names = ("project", "priority", "replicas", "gpus_per_replica", "min_runtime_seconds")
    rows = [row for row in range(len(pending.id)) if branch_of(oracle, row) == branch]
    return len({tuple(int(getattr(pending, name)[row]) for name in names) for row in rows}) > TRIES


def build(life: Life) -> World:
    return life[0].build(taker_ban_seconds=0, reservation_ban_seconds=0, leaf_order=("priority", "submitted"))


@examples(15)
@given(busy_times)
def test_a_child_of_the_root_in_which_someone_leads_has_a_reservation(life: Life) -> None:
    world = build(life)
    for step in life[1]:
        do_step(world, step)
        world.go()
        oracle = Oracle(world.state.to_snapshot(), world.policy)
        served = {branch_of(oracle, row) for row, _, _ in oracle.bookings}
        if len(oracle.bookings) < world.policy.reservations_most:
            left = [row for row in list_deserving(oracle) if branch_of(oracle, row) not in served]
            assert [row for row in left if not has_tried_enough(oracle, branch_of(oracle, row))] == []


@examples(15)
@given(busy_times)
def test_inside_a_project_the_first_in_order_gets_it(life: Life) -> None:
    world = build(life)
    for step in life[1]:
        do_step(world, step)
        made = [action.workload for action in world.go().actions if isinstance(action, Reserve)]
        oracle = Oracle(world.state.to_snapshot(), world.policy)
        pending = oracle.snapshot.pending
        place = {
            row: (-int(pending.priority[row]), int(pending.first_submit_at[row]), int(pending.id[row]))
            for row in range(len(pending.id))
        }
        heads = [row for row in place if int(pending.id[row]) in made]
        for row in list_deserving(oracle):
            mine = [head for head in heads if pending.project[head] == pending.project[row]]
            assert all(place[head] < place[row] for head in mine)


def test_the_properties_meet_reservations_at_all() -> None:
    # A property that is never put to the test proves nothing.
    met = 0
    for seed in range(12):
        life = make_busy(seed, 25, calm=False)
        world = build(life)
        for step in life[1]:
            do_step(world, step)
            met += sum(isinstance(action, Reserve) for action in world.go().actions)
    assert met >= 5
