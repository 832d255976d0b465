"""The replay's own process: `python -m portal.simulations.replay TRACE --hours=24 --hosts=352 --seed=1 [--json]`."""

import argparse
import json
import os
import sys
from pathlib import Path
from time import perf_counter

from portal.simulations.replay.jobs import jobs_of
from portal.simulations.traces.reading import read_trace
from portal.simulations.traces.rows import TraceRefused

HOUR_SECONDS = 3600
BAD_TRACE = 2


def main() -> int:
    """0: sound; 1: the ledger or an invariant is wrong; 2: the trace can't be read."""
    options = _options()
    end = options.hours * HOUR_SECONDS
    try:
        rows = read_trace(Path(options.trace))
    except TraceRefused as error:
        print(f"replay: {error}", file=sys.stderr)
        return BAD_TRACE
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()
    from django.core.management import call_command

    from portal.simulations.replay.report import report_make
    from portal.simulations.replay.run import Replay
    from portal.simulations.replay.world import GPUS_PER_HOST, world_make

    call_command("migrate", verbosity=0)
    started = perf_counter()
    jobs = jobs_of(rows, until_seconds=end, gpus_per_host=GPUS_PER_HOST, seed=options.seed)
    world = world_make(jobs, hosts=options.hosts)
    replay = Replay(world, jobs, end, _progress)
    replay.run()
    report = report_make(replay, wall_seconds=perf_counter() - started)
    if options.json:
        print(json.dumps(report.as_dict()))
    else:
        print("\n".join(f"{name:24} {value}" for name, value in report.as_dict().items()))
    return 0 if report.is_sound else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="replay")
    parser.add_argument("trace")
    for name in ("hours", "hosts", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
