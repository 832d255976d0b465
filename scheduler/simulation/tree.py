"""The project tree of a setup: shares of the cluster, leaves."""

from __future__ import annotations

import numpy as np

from scheduler.simulation.setup import Setup
from scheduler.types import NEVER, PPM


def list_present_shares(setup: Setup, at: int) -> list[int]:
    """Parts per million of the cluster by project, rounded down, at that moment of the run."""
    own = [PPM if project.parent == NEVER else 0 for project in setup.projects]
    steps = setup.shares
    for row in np.argsort(steps.at, kind="stable").tolist():
        if steps.at[row] <= at:
            own[int(steps.project[row])] = int(steps.share_ppm[row])
    for number, project in enumerate(setup.projects):
        if project.parent != NEVER:
            own[number] = own[number] * own[project.parent] // PPM
    return own


def list_leaves(setup: Setup) -> list[int]:
    """Projects without children."""
    parents = {project.parent for project in setup.projects}
    return [number for number in range(len(setup.projects)) if number not in parents]
