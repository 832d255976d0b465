"""`manage.py replay TRACE.csv`: a real trace through the real services, in virtual time, beside throw-away services."""

import subprocess
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from portal.simulations.replay.__main__ import BAD_TRACE
from portal.simulations.replay.services import replay_environment
from portal.simulations.traces.reading import read_trace
from portal.simulations.traces.rows import TraceRefused

HOURS_MAX = 24 * 366
HOSTS_MAX = 10_000


def between(least: int, most: int) -> Any:
    """An argument that is a whole number within bounds."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return read


class Command(BaseCommand):
    """The database is made for the run and gone after it, so the replay itself runs as a process of its own."""

    help = "Push a trace through the real services, database and passes in virtual time, and report."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("trace", help="CSV, SWF or the output of sacct --parsable2")
        parser.add_argument("--hours", type=between(1, HOURS_MAX), default=24, help="of the trace (24)")
        parser.add_argument("--hosts", type=between(1, HOSTS_MAX), default=352, help="of 8 GPUs (352)")
        parser.add_argument("--seed", type=between(0, 2**31), default=1, help="for the contracts drawn (1)")
        parser.add_argument("--json", action="store_true", help="the report as one line, last on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            read_trace(Path(options["trace"]))
        except TraceRefused as error:
            self.stderr.write(f"replay: {error}")
            sys.exit(BAD_TRACE)
        command = [sys.executable, "-m", "portal.simulations.replay", str(Path(options["trace"]).absolute())]
        command += [f"--{name}={options[name]}" for name in ("hours", "hosts", "seed")]
        command += ["--json"] if options["json"] else []
        with replay_environment() as environment:
            code = subprocess.run(command, env=environment, cwd=settings.BASE_DIR, check=False).returncode
        if code:
            sys.exit(code)
