"""What was submitted, by class: so that nobody has to take a generator on trust."""

from __future__ import annotations

import numpy as np

from scheduler.simulation.report import WAIT_CLASSES, ClassMix, find_rank
from scheduler.types import BoolArray, IntArray

TRAINING_ABOVE, LARGE_FROM = 8, 64


def describe_mix(submitted: dict[str, IntArray]) -> dict[str, ClassMix]:
    """debug, then the others by size, then those with minimum runtime 0 (which stand in a size, too)."""
    gpus, debug = submitted["gpus"], submitted["kind"] == WAIT_CLASSES.index("debug")
    classes = {
        "debug": debug,
        "experiment": ~debug & (gpus <= TRAINING_ABOVE),
        "training": ~debug & (gpus > TRAINING_ABOVE) & (gpus < LARGE_FROM),
        "large": ~debug & (gpus >= LARGE_FROM),
        "min_runtime_0": submitted["min_runtime"] == 0,
    }
    return {name: _describe(submitted, rows) for name, rows in classes.items() if rows.any()}


def _describe(submitted: dict[str, IntArray], rows: BoolArray) -> ClassMix:
    gpus, duration = submitted["gpus"][rows], submitted["duration"][rows]
    return ClassMix(
        jobs=int(rows.sum()),
        gpu_hours=round(int((gpus * duration).sum()) / 3600, 2),
        gpus_mean=round(float(np.mean(gpus)), 2),
        duration_p50_s=find_rank(duration, 50) or 0,
        min_runtime_p50_s=find_rank(submitted["min_runtime"][rows], 50) or 0,
    )
