"""The process that simulates one run: `python -m portal.simulations.child RUN`. It computes, and writes no row.

It yields the processor to everything else, takes no more memory than it may, and ends when its worker does.
"""

import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any

NICENESS = 10
SAY_SECONDS = 0.25
TOO_MUCH_MEMORY = "It needs more than {} MB of memory, the most that one may take."


def main() -> None:
    """Say lines on what was the standard output; whatever else prints goes to the log."""
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.nice(NICENESS)
    threading.Thread(target=_end_with_worker, daemon=True).start()
    import django

    from portal.simulations.compiled import compiled_use

    compiled_use()  # before anything imports the scheduler
    django.setup()
    from django.conf import settings

    resource.setrlimit(resource.RLIMIT_DATA, (settings.SIMULATION_MEMORY_BYTES, resource.RLIM_INFINITY))
    _simulate(int(sys.argv[1]), said)


def _end_with_worker() -> None:
    """The other end of the standard input is the worker's: it closes when the worker ends, however that comes."""
    os.read(0, 1)
    os._exit(1)


def _simulate(run_id: int, said: IO[str]) -> None:
    from django.conf import settings
    from django.db import DatabaseError

    from portal.common.errors import CommonsError
    from portal.simulations.lines import line_write
    from portal.simulations.scenario import ScenarioRefused
    from portal.simulations.simulating import run_simulate
    from portal.simulations.traces.rows import TraceRefused
    from scheduler.simulation.setup import SetupRefused

    try:
        result = run_simulate(run_id=run_id, progress=_progress(said), clock=time.monotonic)
    except CommonsError as refusal:
        line_write(said, {"refused": refusal.detail})
    except (TraceRefused, ScenarioRefused, SetupRefused) as refusal:
        line_write(said, {"refused": str(refusal)})
    except MemoryError:
        line_write(said, {"refused": TOO_MUCH_MEMORY.format(settings.SIMULATION_MEMORY_BYTES // 1024**2)})
    except DatabaseError as error:
        if "out of memory" not in str(error):
            raise
        line_write(said, {"refused": TOO_MUCH_MEMORY.format(settings.SIMULATION_MEMORY_BYTES // 1024**2)})
    else:
        line_write(said, {"result": result})


def _progress(said: IO[str]) -> Callable[[float], bool]:
    """Say how far it is, a few times a second."""
    from portal.simulations.lines import line_write

    last: dict[str, Any] = {"at": 0.0}

    def tell(done: float) -> bool:
        now = time.monotonic()
        if now - last["at"] >= SAY_SECONDS:
            last["at"] = now
            line_write(said, {"progress": done})
        return True

    return tell


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    main()
