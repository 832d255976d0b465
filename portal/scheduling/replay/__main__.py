"""The replay's own process: `python -m portal.scheduling.replay TRACE --hours=24 --hosts=352 --seed=1 [--json]`."""

import argparse
import json
import os
import sys
from pathlib import Path
from time import perf_counter

from portal.scheduling.replay.contracts import contracts_draw
from portal.scheduling.replay.trace import TraceError, trace_read

HOUR_SECONDS = 3600
BAD_TRACE = 2


def main() -> int:
    """0: sound; 1: the ledger or an invariant is wrong; 2: the trace can't be read."""
    options = _options()
    end = options.hours * HOUR_SECONDS
    try:
        jobs = trace_read(Path(options.trace), until_seconds=end)
    except TraceError as error:
        print(f"replay: {error}", file=sys.stderr)
        return BAD_TRACE
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()
    from django.core.management import call_command

    from portal.scheduling.replay.report import report_make
    from portal.scheduling.replay.run import Replay
    from portal.scheduling.replay.world import GPUS_PER_HOST, world_make

    call_command("migrate", verbosity=0)
    started = perf_counter()
    contracts = contracts_draw(jobs, gpus_per_host=GPUS_PER_HOST, seed=options.seed)
    world = world_make(jobs, hosts=options.hosts)
    replay = Replay(world, list(zip(jobs, contracts, strict=True)), end, _progress)
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
