"""simulate_reference: CPU seconds of the reference scenario, 37 days on 2,048 GPUs, one seed.

The figures that the run reports are printed beside, so that speed isn't bought with another answer.

JSON lines. One core.

    python -m benchmarks.simulate_reference [--seed 1] [--small] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import resource
import time
from pathlib import Path

from portal.simulations.compiled import compiled_use

COMPILED = compiled_use()  # else the text itself: chosen before anything imports it

from portal.simulations.scenario import build_setups, load_scenario  # noqa: E402 - after that choice
from scheduler.simulation.engine import run  # noqa: E402 - after that choice
from scheduler.simulation.report import Report  # noqa: E402 - after that choice

SCENARIOS = Path(__file__).resolve().parent.parent / "docs" / "scenarios"


def simulate(scenario: Path, seed: int) -> Report:
    """Read the scenario, simulate, report."""
    return run(build_setups(load_scenario(scenario), None, seed)[0])


def main() -> None:
    """Print the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="the small scenario, for a quick look")
    parser.add_argument("--profile", action="store_true", help="where the time goes; best with SIMULATION_COMPILED=0")
    options = parser.parse_args()
    scenario = SCENARIOS / ("reference_small.json" if options.small else "reference.json")
    began = time.process_time()
    if options.profile:
        profile = cProfile.Profile(time.process_time)
        told = profile.runcall(simulate, scenario, options.seed)
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    else:
        told = simulate(scenario, options.seed)
    seconds = time.process_time() - began
    name = "simulate_reference_small" if options.small else "simulate_reference"
    line = {"name": name, "value": round(seconds, 2), "unit": "s", "jobs": told.jobs, "decisions": told.decisions}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    figures = {
        "delivery_mean": told.delivery_mean,
        "occupancy": round(told.occupancy, 4),
        "unallocated_fraction": round(told.unallocated_fraction, 4),
        "debug_p90_s": told.waits["debug"].p90_s,
        "median_s": told.waits["all"].p50_s,
        "lost_fraction": round(told.lost_fraction, 4),
    }
    print(json.dumps({**line, "compiled": COMPILED, "peak_mib": peak, **figures}), flush=True)


if __name__ == "__main__":
    main()
