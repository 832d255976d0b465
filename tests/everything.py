"""`make test`: every check in order, the seconds of each, and one closing line that counts."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from portal.launcher.services import service_variables, services_throwaway

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
MANAGE = [sys.executable, "-W", "error", str(ROOT / "manage.py")]
# What production sets; the checks of a deployment are made for it.
DEPLOYED = {"HTTPS": "1", "DEBUG": "0", "ALLOWED_HOSTS": "commons.example", "MANIFEST_STATIC": "0"}
COUNT = re.compile(r"(\d+) (passed|failed|skipped|error)")


def steps() -> list[tuple[str, list[str], dict[str, str]]]:
    """Name, command and extra environment of each check before the tests."""
    return [
        ("lint", [str(BIN / "ruff"), "check", "--quiet", "."], {}),
        ("format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."], {}),
        ("types", [str(BIN / "mypy"), "scheduler", "portal"], {}),
        ("migrations", [*MANAGE, "makemigrations", "--check", "--dry-run"], {}),
        ("deploy check", [*MANAGE, "check", "--deploy", "--fail-level", "WARNING"], DEPLOYED),
    ]


def run_all(arguments: list[str]) -> int:
    """Run every step, also after one that failed; the exit code says whether all were well."""
    seconds, failed = checks_run()
    began = time.monotonic()
    print("== tests", flush=True)
    code, counts = tests_run(arguments)
    seconds["tests"] = time.monotonic() - began
    print("Seconds: " + ", ".join(f"{name} {spent:.0f}" for name, spent in seconds.items()))
    print(f"Failed checks before the tests: {', '.join(failed) or 'none'}.")
    bad = counts["failed"] + counts["error"] + len(failed)
    print(f"{counts['passed']} passed, {bad} failed, {counts['skipped']} skipped", flush=True)
    return 1 if failed else code


def checks_run() -> tuple[dict[str, float], list[str]]:
    """The checks before the tests, beside a database and a broker; the tests start their own."""
    seconds: dict[str, float] = {}
    failed = []
    with services_throwaway() as services:
        environment = {**os.environ, **service_variables(services)}
        for name, command, extra in steps():
            began = time.monotonic()
            print(f"== {name}", flush=True)
            finished = subprocess.run(command, cwd=ROOT, env={**environment, **extra}, stdin=subprocess.DEVNULL)
            seconds[name] = time.monotonic() - began
            if finished.returncode != 0:
                failed.append(name)
    return seconds, failed


def tests_run(arguments: list[str]) -> tuple[int, dict[str, int]]:
    """Run pytest, show what it prints, and read the counts from its closing line."""
    counts = {"passed": 0, "failed": 0, "skipped": 0, "error": 0}
    command = [sys.executable, "-m", "pytest", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        closing = ""
        for line in process.stdout or ():
            print(line, end="", flush=True)
            closing = line if COUNT.search(line) and " in " in line else closing
    for number, name in COUNT.findall(closing):
        counts[name] = int(number)
    return process.returncode, counts


if __name__ == "__main__":
    sys.exit(run_all(sys.argv[1:]))
