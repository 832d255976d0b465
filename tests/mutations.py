"""`make mutations`: break each of R1 to R16 on purpose and show that a test fails for it.

Each mutant of `tests.mutants` is one line changed in a copy of the tree; the working tree is
never touched. The tests that should see it must pass in the unchanged copy first, else their
failure would prove nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.mutants import MUTANTS
from tests.mutants.mutant import RULES, Mutant

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "data", "build", "dist", "staticfiles")
LIMIT_SECONDS = 300
FAILED = re.compile(r"^FAILED (\S+)", re.MULTILINE)
PYTEST = ("-q", "-x", "-rf", "--tb=no", "-p", "no:cacheprovider", "--durations=0", "--durations-min=1000")
# The tests of the pure core need no database: without the common conftest none is started.
PURE = ("--noconftest", "-p", "no:django")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every chosen mutant was caught by a test."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("only", nargs="*", help="rules (R9a) or numbers of --list; without any: all")
    parser.add_argument("--list", action="store_true", help="name the mutants and run nothing")
    chosen = parser.parse_args(arguments)
    try:
        numbers = _choose(chosen.only)
    except ValueError as error:
        parser.error(str(error))
    if chosen.list:
        for number in numbers:
            print(f"{number:3} {MUTANTS[number - 1].rule:4} {MUTANTS[number - 1].breaks}")
        return 0
    return _run(numbers)


def _choose(names: Iterable[str]) -> list[int]:
    """Numbers of mutants, from 1 on."""
    numbers: set[int] = set()
    for name in names:
        found = [number for number, one in enumerate(MUTANTS, 1) if name in (one.rule, str(number))]
        if not found:
            raise ValueError(f"there is no mutant {name}; the rules are {', '.join(RULES)}")
        numbers.update(found)
    return sorted(numbers) or list(range(1, len(MUTANTS) + 1))


def find_problem(root: Path, mutant: Mutant) -> str | None:
    """Why the mutant can't be made in that tree: its text must occur exactly once."""
    times = (root / mutant.path).read_text(encoding="utf-8").count(mutant.old)
    return None if times == 1 else f"its text occurs {times} times in {mutant.path}, not once"


def _run(numbers: Sequence[int]) -> int:
    mutants = [MUTANTS[number - 1] for number in numbers]
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
        for portal in (False, True):
            files = sorted({test for one in mutants if one.needs_portal == portal for test in one.tests})
            code, failed = _test(copy, files, portal) if files else (0, None)
            if code != 0:
                told = failed or " ".join(files)
                print(f"The unchanged tree does not pass (exit code {code}): {told}", file=sys.stderr)
                return 1
        bad = 0
        for number, mutant in zip(numbers, mutants, strict=True):
            caught, told = _try(copy, mutant)
            bad += not caught
            print(f"{number:3} {mutant.rule:4} {mutant.breaks}: {told}", flush=True)
    print(f"{len(mutants) - bad} of {len(mutants)} caught")
    return 1 if bad else 0


def _try(copy: Path, mutant: Mutant) -> tuple[bool, str]:
    """Whether a test failed for it, and the words for its line."""
    problem = find_problem(copy, mutant)
    if problem:
        return False, f"NOT MADE, {problem}"
    file = copy / mutant.path
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        code, failed = _test(copy, mutant.tests, mutant.needs_portal)
    except subprocess.TimeoutExpired:
        return False, f"NOT KNOWN, the tests did not end in {LIMIT_SECONDS} s"
    finally:
        file.write_text(text, encoding="utf-8")
    if code == 0:
        return False, f"SURVIVED {' '.join(mutant.tests)}"
    # A tree that can't even be imported, or a database that did not start, is no test that failed.
    return (True, f"caught by {failed}") if code == 1 and failed else (False, f"NOT KNOWN, pytest ended with {code}")


def _test(copy: Path, files: Iterable[str], portal: bool) -> tuple[int, str | None]:
    """Exit code and the first test that failed."""
    # Stale bytecode would hide a change made within the second in which the file was read.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *PYTEST, *(() if portal else PURE), *files]
    finished = subprocess.run(
        command,
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    failed = FAILED.search(finished.stdout)
    return finished.returncode, failed[1] if failed else None


if __name__ == "__main__":
    sys.exit(main())
