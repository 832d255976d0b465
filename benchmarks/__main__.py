"""`make bench`: run the benchmarks beside this file; their JSON lines, and nothing else, go to standard output."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal import env
from portal.launcher.services import service_variables, services_throwaway
from portal.simulations.compiled import build_folder, is_whole
from portal.simulations.compiling import CantCompile, compiled_build, find_missing

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Bench:
    """A module beside this one, its arguments, the figures that it prints, and what it needs."""

    module: str
    figures: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    services: bool = True  # a database and a broker
    compiled: bool = False  # the scheduler as simulations run it
    picks: bool = False  # it measures only what it is told to


BENCHES = (
    Bench("decide", ("decide_10k", "decide_idle", "decide_100k"), ("--large",), services=False),
    Bench("pass_10k", ("pass_10k", "pass_10k_second")),
    Bench("submit_per_s", ("submit_per_s",)),
    Bench("page_p95", ("page_p95",)),
    Bench(
        "simulate_philly",
        ("simulate_philly", "simulate_philly_640_fifo", "simulate_philly_320"),
        services=False,
        compiled=True,
        picks=True,
    ),
    Bench("simulate_reference", ("simulate_reference",), services=False, compiled=True),
)
SMALLER = {"decide_100k": "decide_10k"}
"""Figures whose growth over a factor of ten is told by another figure."""


def chosen(only: str) -> dict[Bench, set[str]]:
    """What to run, with the figures asked for; an unknown name is refused with the known ones."""
    known = {name: bench for bench in BENCHES for name in bench.figures}
    wanted = [name.strip() for name in only.split(",") if name.strip()] or list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"make bench: there is no {', '.join(unknown)}; there are {', '.join(known)}.")
    return {
        bench: {name for name in wanted if known[name] is bench} for bench in BENCHES if {*bench.figures} & {*wanted}
    }


def bench_run(bench: Bench, wanted: set[str], environment: dict[str, str]) -> bool:
    """Run one and pass on the figures asked for; what is no figure goes to standard error."""
    print(f"== {bench.module}", file=sys.stderr, flush=True)
    arguments = bench.arguments if "decide_100k" in wanted or bench.module != "decide" else ()
    if bench.picks:
        arguments += ("--only", *(name for name in bench.figures if name in wanted))
    command = [sys.executable, "-m", f"benchmarks.{bench.module}", *arguments]
    values: dict[str, float] = {}
    with subprocess.Popen(command, cwd=HERE.parent, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            figure = figure_of(line)
            if figure is None or figure["name"] not in wanted:
                print(line, end="", flush=True, file=sys.stderr)
            if figure is not None:
                values[figure["name"]] = figure["value"]
                if figure["name"] in wanted:
                    print(json.dumps(grown(figure, values)), flush=True)
    return process.returncode == 0 and wanted <= values.keys()


def grown(figure: dict[str, Any], values: dict[str, float]) -> dict[str, Any]:
    """The figure, with its growth where a smaller one was measured just before."""
    smaller = values.get(SMALLER.get(figure["name"], ""))
    return {**figure, "growth": round(figure["value"] / smaller, 2)} if smaller else figure


def figure_of(line: str) -> dict[str, Any] | None:
    """One of our figures: an object with name, value and unit; None for any other line."""
    try:
        content = json.loads(line)
    except ValueError:
        return None
    return content if isinstance(content, dict) and {"name", "value", "unit"} <= content.keys() else None


@contextlib.contextmanager
def environment_for(bench: Bench) -> Iterator[dict[str, str]]:
    """An empty database and a broker of its own, where it needs them."""
    if not bench.services:
        yield dict(os.environ)
        return
    with services_throwaway() as services:
        yield {**os.environ, **service_variables(services)}


def scheduler_compile() -> None:
    """What simulations run; without a compiler they are measured on the text."""
    if not is_whole(build_folder()) and not find_missing():
        print("== compiling the scheduler: about two minutes", file=sys.stderr, flush=True)
    try:
        compiled_build()
    except CantCompile as refusal:
        print(f"make bench: simulations are measured on the text: {refusal}", file=sys.stderr, flush=True)


def main() -> int:
    """Run the chosen ones one after another; each that fails is named on standard error, and the rest still run."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", default="", help="figures by comma")
    benches = chosen(parser.parse_args().only)
    if any(bench.compiled for bench in benches) and env.flag("SIMULATION_COMPILED"):
        scheduler_compile()
    failed = []
    for bench, wanted in benches.items():
        with environment_for(bench) as environment:
            if not bench_run(bench, wanted, environment):
                failed.append(bench.module)
    if failed:
        print(f"make bench: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
