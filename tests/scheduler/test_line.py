"""The line of what waits, kept in step, is the line of the rows that are left."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.facts import take_rows
from scheduler.line import Line
from scheduler.types import Pending, Policy
from tests.scheduler.driver import examples

ROWS = 40


def make_pending(seed: int) -> Pending:
    rng = np.random.default_rng(seed)
    numbers = {
        "project": 3,
        "author": 3,
        "first_submit_at": 9,
        "queued_at": 9,
        "priority": 3,
    }
    flags = {name: rng.random(ROWS) < 0.5 for name in ("resumable", "allow_unallocated", "first_start")}
    return Pending(
        id=np.arange(ROWS) + 100,
        replicas=rng.integers(1, 3, ROWS),
        gpus_per_replica=rng.choice([1, 8], ROWS),
        min_runtime_seconds=rng.choice([0, 300, 7200], ROWS),
        **{name: rng.integers(0, most, ROWS) for name, most in numbers.items()},
        **flags,
    )


def tell(line: Line) -> tuple[object, ...]:
    """Queues by workload, and the names of the kinds that stand somewhere."""
    kinds, items = line.kinds, line.items
    queues = {project: [items.workload[row] for row in queue] for project, queue in line.queues.items() if queue}

    def name(kind: int) -> tuple[object, ...]:
        columns = kinds.project, kinds.priority, kinds.replicas, kinds.each, kinds.seconds, kinds.short, kinds.may_idle
        return (
            *(column[kind] for column in columns),
            kinds.gpus[kind],
            kinds.charge[kind],
            kinds.shapes[kinds.shape[kind]],
        )

    standing = {project: sorted(map(name, found)) for project, found in kinds.of_project.items() if found}
    return queues, standing, sorted(map(name, kinds.quick)), sorted(map(name, kinds.idle))


@examples(60)
@given(st.integers(0, 10_000), st.integers(1, ROWS), st.lists(st.booleans(), min_size=2 * ROWS, max_size=2 * ROWS))
def test_rows_that_come_and_go_leave_the_line_of_those_that_wait(seed: int, first: int, leaves: list[bool]) -> None:
    pending, policy = make_pending(seed), Policy()
    over, gone = np.array(leaves[:ROWS]), np.array(leaves[ROWS:])
    over[:first] = False
    line = Line(policy)
    line.extend(pending, first, over)  # the rows behind are spare ones, for now
    for row in np.flatnonzero(gone[:first]).tolist():
        line.leave(row)
    line.extend(pending, ROWS, over)
    for row in np.flatnonzero(gone & ~over).tolist()[int(gone[:first].sum()) :]:
        line.leave(row)
    assert tell(line) == tell(Line.of(take_rows(pending, ~(over | gone)), policy))
    assert line.items.gpus == (pending.replicas * pending.gpus_per_replica).tolist()
    assert [line.kinds.seconds[kind] for kind in line.kind.tolist()] == pending.min_runtime_seconds.tolist()
