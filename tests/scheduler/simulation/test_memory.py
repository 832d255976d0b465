"""What a decision leaves behind: nothing that only a search for cycles would free."""

from __future__ import annotations

import gc

from scheduler.decide import decide
from scheduler.simulation.engine import start_run
from tests.scheduler.simulation.small import lab_make


def test_a_decision_makes_no_cycles():
    """Memory is not searched for them after a decision: a month of decisions would keep gigabytes."""
    loop, left = start_run(lab_make(hosts=8, days=1)), set()

    def decide_and_look(state, policy, waits):
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            decision = decide(state, policy, waits)
            gc.collect()
        finally:
            gc.set_debug(0)
        left.update(type(one).__qualname__ for one in gc.garbage if type(one).__module__.startswith("scheduler"))
        gc.garbage.clear()
        return decision

    loop.decider.take_decision = decide_and_look
    gc.freeze()  # what was there before is not gone through again and again
    try:
        while loop.decisions < 40:
            loop.now = loop.next_at()
            loop._step(loop.now)
    finally:
        gc.unfreeze()
    assert left == set()
