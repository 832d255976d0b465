"""What happened in a run, as columns that grow: the report is reckoned from them afterwards.

Nothing is rounded or sampled. Spans are half-open, in whole seconds.
"""

from __future__ import annotations

from array import array

import numpy as np

from scheduler.types import IntArray, Standing

REFUNDED = 5
"""After the four standings of `scheduler.standing`: charged, and given back after a fault (R15)."""

STANDINGS = {int(standing): standing.name.lower() for standing in Standing} | {REFUNDED: "refunded"}


class Columns:
    """Rows of whole numbers, all of one width."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.rows = array("q")
        self.add = self.rows.extend

    def __len__(self) -> int:
        return len(self.rows) // len(self.names)

    def read(self) -> dict[str, IntArray]:
        """By name."""
        table = np.array(self.rows, dtype=np.int64).reshape(-1, len(self.names))
        return {name: table[:, number].copy() for number, name in enumerate(self.names)}


class Ledger:
    """Segments, waits and the state of the cluster over time."""

    def __init__(self) -> None:
        self.segments = Columns("start", "end", "gpus", "project", "standing", "asked")
        self.waits = Columns("start", "end", "gpus", "project", "asked", "kind", "restart", "started", "submit")
        self.levels = Columns("at", "free", "unusable", "held", "waiting", "unfinished", "interrupted")
        self.capacity = Columns("at", "gpus")
        self.preemptions = Columns("at", "project", "gpus")
        self.lost = Columns("at", "project", "gpu_seconds", "fault")
        self.squatted = Columns("at", "project", "gpu_seconds")
        self.submitted = Columns("at", "project", "gpus", "duration", "min_runtime", "kind")
