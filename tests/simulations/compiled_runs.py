"""What `test_compiled` runs twice, in processes of their own: `python -m tests.simulations.compiled_runs`.

Prints the file that decides, and the answer to each scenario: a report, or what was refused. SIMULATION_COMPILED says
whether it runs the build or the text.
"""

from portal.simulations.compiled import compiled_use

compiled_use()

import json  # noqa: E402 - the scheduler's text or its build is chosen first
import sys  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from dataclasses import replace  # noqa: E402
from typing import Any  # noqa: E402

import scheduler.decide  # noqa: E402
from portal.simulations.answering import answer  # noqa: E402
from portal.simulations.compiled import SOURCE  # noqa: E402
from portal.simulations.scenario import parse_json, read_scenario  # noqa: E402
from portal.simulations.traces.reading import read_trace  # noqa: E402
from scheduler.policy import Policy  # noqa: E402
from scheduler.simulation.budgets import Budgets  # noqa: E402
from scheduler.simulation.engine import run, start_run  # noqa: E402
from scheduler.simulation.loop import Cancelled  # noqa: E402
from scheduler.simulation.setup import Scheduler, Setup, SetupRefused  # noqa: E402
from scheduler.types import Decision, InvariantBroken  # noqa: E402
from tests.scheduler.simulation.small import jobs_make, lab_make, setup_make  # noqa: E402
from tests.scheduler.simulation.test_left_out_passes import draw_setup  # noqa: E402

DRAWN = 40
TIMES = ("wall_s", "jobs_per_s")
POLICIES: dict[str, dict[str, Any]] = {
    "half-life": {"policy": Policy(half_life_seconds=1800)},
    "all settings off": {"policy": Policy(express_gpus=0, reservations_most=0, first_budget_seconds=0, leaf_order=())},
    "limit of begun work": {"project_limit_workloads": 1},
    "fifo": {"scheduler": Scheduler.FIFO},
    "sjf": {"scheduler": Scheduler.SJF},
    "priority": {"scheduler": Scheduler.PRIORITY, "max_gpus_per_user": 4},
}


def main() -> None:
    """One object of JSON."""
    answers = dict(list_answers())
    json.dump({"decides": scheduler.decide.__file__, "answers": answers}, sys.stdout)


def list_answers() -> Iterator[tuple[str, Any]]:
    """By name."""
    yield "reference", of_file("reference.json", days=1, warmup_days=0)
    trace = "examples/traces/philly_2017_oct_2w.csv"
    yield "philly on 320 GPUs", of_file("philly_320.json", trace, days=1)
    yield "lab that fails", of_setup(lab_make(hosts=2, check_every=3))
    for seed in range(DRAWN):
        setup = replace(draw_setup(seed)[0], check_every=1)
        yield f"drawn {seed}", of_setup(setup)
        if seed % 8 == 0:
            for name, more in POLICIES.items():
                yield f"drawn {seed} with {name}", of_setup(replace(setup, **more))
    yield "refused", of_setup(setup_make(jobs_make({"project": 7})))
    yield "broken", said(lambda: run_broken(setup_make(jobs_make({}), check_every=1)))
    yield "more than there is", said(lambda: run_shrunk(setup_make(jobs_make({}))))
    yield "cancelled", said(lambda: run(setup_make(jobs_make({})), progress=lambda done: False).to_dict())


def of_file(name: str, trace: str | None = None, **changed: int) -> Any:
    """A scenario of the documentation, cut short."""
    given = {**parse_json(SOURCE / "docs" / "scenarios" / name), **changed}
    report = answer(read_scenario(given), None if trace is None else read_trace(SOURCE / trace), None)
    return {name: value for name, value in report.items() if name not in TIMES}


def of_setup(setup: Setup) -> Any:
    """Its report, or why it is refused."""
    return said(lambda: run(setup).to_dict())


def said(simulate: Callable[[], Any]) -> Any:
    """What it answers, or raises."""
    try:
        return simulate()
    except (SetupRefused, InvariantBroken, Cancelled) as error:
        return [type(error).__module__, type(error).__name__, str(error)]


def run_broken(setup: Setup) -> None:
    """Each decision says everything twice."""

    def twice(*given: Any) -> Decision:
        decision = scheduler.decide.decide(*given)
        return replace(decision, actions=decision.actions * 2)

    loop = start_run(setup)
    loop.decider = Budgets(loop, steady=False, take_decision=twice)
    loop.run(None)


def run_shrunk(setup: Setup) -> None:
    """The hosts have fewer GPUs than the scheduler was told."""
    loop = start_run(setup)
    loop.hosts.gpus = [0]
    loop.run(None)


if __name__ == "__main__":
    main()
