"""`manage.py simulate SCENARIO.json`: what would have happened. Needs no database and no environment."""

import errno
import json
import os
import sys
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from portal import env
from portal.simulations.answering import Progress, answer
from portal.simulations.compiled import is_stale
from portal.simulations.reporting import csv_lines, write_comparison, write_report
from portal.simulations.scenario import SEED_MAX, ScenarioRefused, parse_json, read_scenario
from portal.simulations.traces.nodes import read_hosts
from portal.simulations.traces.reading import read_trace
from portal.simulations.traces.rows import TraceRefused
from scheduler.simulation.setup import SetupRefused
from scheduler.types import InvariantBroken

BROKEN, REFUSED, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141  # the last two as shells have them
PROGRESS_SECONDS = 0.5
INPUTS = ("scenario", "trace", "nodes", "compare")


class CantWrite(Exception):
    """There is nowhere to write to."""


def seed(text: str) -> int:
    """A whole number from 0 on."""
    if not text.isascii() or not text.isdecimal() or int(text[:20]) > SEED_MAX:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 0 to {SEED_MAX}")
    return int(text)


class Command(BaseCommand):
    """Answers are whole or there is none: what is interrupted or refused prints no figures."""

    help = "Replay a trace, or generated work, through the scheduler under a scenario; report waits and delivery."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("scenario", help="a file of JSON (docs/reference/simulator.md)")
        parser.add_argument("--trace", help="CSV, SWF or the output of sacct --parsable2; replaces the workload")
        parser.add_argument("--nodes", help="CSV of hosts (gpu, model): replaces those of the scenario's one cluster")
        parser.add_argument("--seed", type=seed, help="a whole number, replaces the workload's seed")
        parser.add_argument("--compare", metavar="OTHER", help="a second scenario, shown beside the first")
        parser.add_argument("--csv", metavar="FILE", help="write a line per scenario, cluster, project and day there")
        parser.add_argument("--json", action="store_true", help="the report as one line, last on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        target = None if options["csv"] is None else Path(options["csv"])
        if sys.stderr is not None and env.flag("SIMULATION_COMPILED") and is_stale():
            self.stderr.write("simulate: make compiled made another version of the scheduler; this runs the text")
        try:
            if target is not None:
                _check_target(target, [options[name] for name in INPUTS if options[name] is not None])
            reports = self._answers(options)
        except (CantWrite, ScenarioRefused, TraceRefused, SetupRefused) as refusal:
            self._end(REFUSED, str(refusal))
        except InvariantBroken as broken:
            self._end(BROKEN, f"the scheduler decided what must never be: {broken}")
        except KeyboardInterrupt:
            self._end(INTERRUPTED, "interrupted; there are no figures of a part")
        if target is not None:
            self._write_csv(target, reports)
        self._print(_shown(reports, as_json=options["json"]))

    def _answers(self, options: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Everything is read and checked before the first second is simulated."""
        started = perf_counter()
        paths = [Path(name) for name in (options["scenario"], options["compare"]) if name is not None]
        scenarios = [_scenario(path, options["nodes"]) for path in paths]
        trace = None if options["trace"] is None else read_trace(options["trace"])
        read_seconds = perf_counter() - started
        reports = {}
        for number, (path, scenario) in enumerate(zip(paths, scenarios, strict=True)):
            name = path.stem if path.stem not in reports else f"{path.stem} ({path.parent.name or number + 1})"
            tell = self._progress(number, len(paths))
            reports[name] = answer(
                scenario, trace, options["seed"], progress=tell, started=perf_counter() - read_seconds
            )
        return reports

    def _progress(self, number: int, runs: int) -> Progress | None:
        """A line that rewrites itself, on a terminal only."""
        if not sys.stderr.isatty():
            return None
        last = perf_counter()

        def tell(done: float) -> bool:
            nonlocal last
            if perf_counter() - last >= PROGRESS_SECONDS:
                last = perf_counter()
                sys.stderr.write(f"\r{(number + done) / runs * 100:5.1f} %\r")
                sys.stderr.flush()
            return True

        return tell

    def _write_csv(self, path: Path, reports: dict[str, dict[str, Any]]) -> None:
        lines = csv_lines(list(reports), list(reports.values()))
        try:
            if _is_stream(path):
                with path.open("w", encoding="utf-8", newline="") as stream:
                    stream.writelines(lines)
            else:
                _replace(path.resolve(), lines)
        except OSError as error:
            self._end(REFUSED, f"{path}: can't be written ({error.strerror})")

    def _print(self, text: str) -> None:
        """The report, at once, so that one that nobody could read is no success."""
        try:
            if sys.stdout is None:
                raise OSError(errno.EBADF, "it is closed")
            self.stdout.write(text)
            self.stdout.flush()
        except OSError as error:
            if sys.stdout is not None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tries again at its exit
            if isinstance(error, BrokenPipeError):
                sys.exit(BROKEN_PIPE)
            self._end(REFUSED, f"standard output: can't be written ({error.strerror})")

    def _end(self, code: int, words: str) -> None:
        for line in words.splitlines() if sys.stderr is not None else ():
            self.stderr.write(f"simulate: {line}")
        sys.exit(code)


def _check_target(path: Path, inputs: list[str]) -> None:
    """What can be known before the first second is simulated, so that no hours of it are lost."""
    try:
        stream = _is_stream(path)
        real = path if stream else path.resolve()
        if real.is_dir():
            raise CantWrite(f"{path}: can't be written (it is a directory)")
        if not stream and not real.parent.is_dir():
            raise CantWrite(f"{path}: can't be written (there is no directory {real.parent})")
        if not os.access(real if stream else real.parent, os.W_OK):
            raise CantWrite(f"{path}: can't be written (no permission)")
        if any(real.is_file() and Path(name).exists() and real.samefile(name) for name in inputs):
            raise CantWrite(f"{path}: is read by this run and would be lost; give --csv another name")
    except (OSError, RuntimeError) as error:  # a link to itself is a RuntimeError
        raise CantWrite(f"{path}: can't be written ({getattr(error, 'strerror', error)})") from None


def _is_stream(path: Path) -> bool:
    """A pipe, or /dev/null: written into, never replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _replace(path: Path, lines: Iterable[str]) -> None:
    """The whole file or none."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".simulate.") as folder:
        part = Path(folder) / path.name
        with part.open("w", encoding="utf-8", newline="") as file:
            file.writelines(lines)
        os.replace(part, path)


def _scenario(path: Path, nodes: str | None) -> Any:
    """A scenario; with a file of hosts, its only cluster has those."""
    given = parse_json(path)
    try:
        scenario = read_scenario(given if nodes is None else _with_nodes(given, nodes))
    except ScenarioRefused as refusal:
        raise ScenarioRefused([(f"{path.name}: {place}", words) for place, words in refusal.problems]) from None
    return scenario


def _with_nodes(given: Any, nodes: str) -> Any:
    groups = [{"count": one.count, "gpus": one.gpus, "model": one.model or None} for one in read_hosts(nodes)]
    clusters = given.get("clusters") if isinstance(given, dict) else None
    if not isinstance(clusters, list) or len(clusters) != 1 or not isinstance(clusters[0], dict):
        raise ScenarioRefused([("clusters", "must be one cluster, for --nodes gives the hosts of one.")])
    cluster = {key: value for key, value in clusters[0].items() if key != "gpus_per_host"}
    return {**given, "clusters": [{**cluster, "hosts": groups}]}


def _shown(reports: dict[str, dict[str, Any]], *, as_json: bool) -> str:
    names, found = list(reports), list(reports.values())
    if as_json:
        answer = found[0] if len(found) == 1 else {"scenarios": [{"scenario": n, **r} for n, r in reports.items()]}
        return json.dumps(answer, allow_nan=False)
    return write_report(found[0]) if len(found) == 1 else write_comparison(names, found)
