"""simulate_philly: jobs per second of CPU time, the two Philly weeks under budgets on 2,816 GPUs, reading included.

Also, for the eye: the same on 320 GPUs, where the queue is long, and the yardstick `fifo` on one pool of 640.

JSON lines, one figure each. One core.

    python -m benchmarks.simulate_philly [--only simulate_philly ...] [--profile]
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
from portal.simulations.traces.reading import read_trace  # noqa: E402 - after that choice
from scheduler.simulation.engine import run  # noqa: E402 - after that choice
from scheduler.simulation.report import Report  # noqa: E402 - after that choice

ROOT = Path(__file__).resolve().parent.parent
TRACE = ROOT / "examples" / "traces" / "philly_2017_oct_2w.csv"
SCENARIOS = {
    "simulate_philly": "philly.json",
    "simulate_philly_640_fifo": "philly_640_fifo.json",
    "simulate_philly_320": "philly_320.json",
}


def simulate(scenario: Path) -> Report:
    """Read both files, simulate, report."""
    setups = build_setups(load_scenario(scenario), read_trace(TRACE))
    return run(setups[0])


def report(name: str, profiled: bool) -> None:
    """Run one and print its line."""
    began = time.process_time()
    if profiled:
        profile = cProfile.Profile(time.process_time)
        told = profile.runcall(simulate, ROOT / "docs" / "scenarios" / SCENARIOS[name])
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    else:
        told = simulate(ROOT / "docs" / "scenarios" / SCENARIOS[name])
    seconds = time.process_time() - began
    line = {"name": name, "value": round(told.jobs / seconds, 1), "unit": "jobs/s", "cpu_s": round(seconds, 2)}
    more = {"decisions": told.decisions, "passes_skipped": told.passes_skipped, "mean_wait_s": told.waits["all"].mean_s}
    more["compiled"] = COMPILED
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({**line, **more, "jobs": told.jobs, "peak_mib": peak}), flush=True)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(SCENARIOS), nargs="+", default=list(SCENARIOS), help="some of them")
    parser.add_argument("--profile", action="store_true", help="where the time goes; best with SIMULATION_COMPILED=0")
    options = parser.parse_args()
    for name in options.only:
        report(name, options.profile)


if __name__ == "__main__":
    main()
