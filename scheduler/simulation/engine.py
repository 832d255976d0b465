"""run(setup) -> Report: the door of the simulator."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.simulation.report import Report
from scheduler.simulation.setup import Setup

Progress = Callable[[float], bool]
"""Told the part of the run that is done, 0 to 1; False cancels."""


class Cancelled(Exception):
    """The run was cancelled on the way: there is no report."""


def run(setup: Setup, *, progress: Progress | None = None) -> Report:
    """Simulate one cluster. Deterministic: the same setup gives the same report."""
    raise NotImplementedError
