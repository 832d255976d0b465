"""run(setup) -> Report: the door of the simulator.

Pure: no clock, no files, no randomness but the seed's. What it models and what it doesn't is
said in docs/scenarios/README.md.
"""

from __future__ import annotations

import gc

from scheduler.simulation.budgets import Budgets
from scheduler.simulation.figures import build_report
from scheduler.simulation.hosts import HostTable
from scheduler.simulation.loop import Cancelled as Cancelled
from scheduler.simulation.loop import Loop, Progress
from scheduler.simulation.old_world import OldWorld
from scheduler.simulation.parts import Source
from scheduler.simulation.queues import Queue
from scheduler.simulation.report import Report
from scheduler.simulation.research_lab import ResearchLabSource
from scheduler.simulation.setup import Scheduler, Setup, SetupRefused, check_setup
from scheduler.simulation.trace import Trace


def run(setup: Setup, *, progress: Progress | None = None) -> Report:
    """Simulate one cluster. Deterministic: the same setup gives the same report.

    `progress` is told the part of the run that is done, 0 to 1; if it answers False the run
    ends with Cancelled. SetupRefused names what can't be simulated.
    """
    loop = start_run(setup)
    # Nothing here is left in cycles but attempts and those that they wait for, which the report needs anyhow.
    was = gc.isenabled()
    gc.disable()
    try:
        loop.run(progress)
    finally:
        if was:
            gc.enable()
    return build_report(loop)


def start_run(setup: Setup) -> Loop:
    """The run, before its first event."""
    problems = check_setup(setup)
    if problems:
        raise SetupRefused(problems)
    source = _open_source(setup)
    loop = Loop(setup, source, HostTable(setup.hosts))
    if setup.scheduler in (Scheduler.FIFO, Scheduler.SJF):
        loop.decider = Queue(loop)
    elif setup.scheduler == Scheduler.PRIORITY:
        loop.decider = OldWorld(loop)
    else:
        loop.decider = Budgets(loop, steady=setup.generator is not None)
    return loop


def _open_source(setup: Setup) -> Source:
    if setup.generator is not None:
        return ResearchLabSource(setup, setup.generator)
    if setup.jobs is None:
        raise SetupRefused(["There must be a trace or a generator."])
    return Trace(setup.jobs, setup.hosts, setup.end_at)
