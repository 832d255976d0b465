"""`make bench`: run each file beside this one and print its JSON lines, and nothing else, on standard output."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from portal.launcher.services import service_variables, services_throwaway

HERE = Path(__file__).resolve().parent


def benchmark_names() -> list[str]:
    """Every benchmark, by the name of its file."""
    return sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))


def chosen(only: str) -> list[str]:
    """Those asked for; an unknown name is refused with the known ones."""
    known = benchmark_names()
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"make bench: there is no {', '.join(unknown)}; there are {', '.join(known) or 'none yet'}.")
    return wanted or known


def benchmark_run(name: str, environment: dict[str, str]) -> bool:
    """Run one; what is no JSON line goes to standard error."""
    print(f"== {name}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    with subprocess.Popen(command, cwd=HERE.parent, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True, file=sys.stdout if is_figure(line) else sys.stderr)
    return process.returncode == 0


def is_figure(line: str) -> bool:
    """Whether a line is one of our figures: an object with name, value and unit."""
    try:
        content = json.loads(line)
    except ValueError:
        return False
    return isinstance(content, dict) and {"name", "value", "unit"} <= content.keys()


def main() -> int:
    """Run the chosen ones one after another, with a database and a broker of their own."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", default="", help="names by comma")
    names = chosen(parser.parse_args().only)
    with services_throwaway() as services:
        environment = {**os.environ, **service_variables(services)}
        failed = [name for name in names if not benchmark_run(name, environment)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
