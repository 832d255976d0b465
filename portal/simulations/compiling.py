"""`make compiled`: build the compiled scheduler that simulations use. Two minutes, once for each text.

Needs a C compiler and Python's headers. mypyc comes with mypy.
"""

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from portal.simulations.compiled import (
    LEVEL,
    LISTED,
    MYPY,
    SETTINGS,
    SOURCE,
    build_folder,
    builds_folder,
    is_whole,
    libraries_list,
    text_digest,
)

RUN = ("budgets", "gate", "hosts", "ledger", "life", "loop", "queues", "research_lab", "work")
"""Of the simulation what runs all the time; what is drawn beforehand and what reports stays text."""
KEPT_SECONDS = 86_400
"""How long builds of other texts are kept: something may still run them, and who goes back to one has it."""
CANT_COMPILE, INTERRUPTED = 3, 130


class CantCompile(Exception):
    """Something that compiling needs is missing, or the compiler refused."""


def main() -> int:
    """Build, and say where; a refusal says what is missing."""
    try:
        if not is_whole(build_folder()) and not find_missing():
            print("make compiled: compiling the scheduler; this takes about two minutes", file=sys.stderr, flush=True)
        print(compiled_build())
    except CantCompile as refusal:
        print(f"make compiled: {refusal}", file=sys.stderr)
        return CANT_COMPILE
    except OSError as error:
        print(f"make compiled: {error.filename or builds_folder(SOURCE)}: {error.strerror}", file=sys.stderr)
        return CANT_COMPILE
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def find_missing() -> str | None:
    """What compiling needs and this machine lacks, with how to get it; None: nothing."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"the C compiler {compiler} was not found; on Debian, as root: apt-get install gcc libc6-dev"
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        return "Python's headers (Python.h) were not found; on Debian, as root: apt-get install python3-dev"
    if find_version("mypy") != MYPY or find_version("setuptools") is None:
        return f"mypy {MYPY} and setuptools are not installed for this Python; make setup installs them"
    return None


def find_version(package: str) -> str | None:
    """Of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def compiled_build(source: Path = SOURCE) -> Path:
    """The folder of the build of the text as it is, made now unless it is there; whole or not there."""
    build = build_folder(source)
    if is_whole(build):
        return build
    if missing := find_missing():
        raise CantCompile(missing)
    builds = builds_folder(source)
    builds.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=builds, prefix=".making-", ignore_cleanup_errors=True) as folder:
        made = Path(folder) / "made"
        shutil.copytree(source / "scheduler", made / "scheduler", ignore=shutil.ignore_patterns("__pycache__", ".*"))
        build = builds / text_digest(made)  # of what is compiled, should the text change meanwhile
        _compile(made)
        _file(made, build)
    _clear(builds, build)
    return build


def _compile(made: Path) -> None:
    """A package beside its text, in the same folder."""
    (made / "mypy.ini").write_text(SETTINGS)
    core = sorted(path.name for path in (made / "scheduler").glob("*.py") if path.name != "__init__.py")
    files = [f"scheduler/{name}" for name in core] + [f"scheduler/simulation/{name}.py" for name in RUN]
    environment = {**os.environ, "MYPYC_OPT_LEVEL": LEVEL}
    done = subprocess.run(
        [sys.executable, "-m", "mypyc", *files],
        cwd=made,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CantCompile("mypyc could not compile it:\n" + "\n".join(done.stdout.splitlines()[-20:]))
    (made / "mypy.ini").unlink()
    for left in ("build", ".mypy_cache"):
        shutil.rmtree(made / left, ignore_errors=True)
    (made / LISTED).write_text(libraries_list(made))
    os.sync()  # a rename may outlive a crash that what is in the folder does not


def _file(made: Path, build: Path) -> None:
    """At once, in place of one that is damaged; somebody else may have been faster."""
    try:
        if os.path.lexists(build) and not is_whole(build):
            build.rename(made.parent / "damaged")  # goes with the folder
        made.rename(build)
    except OSError:
        if not is_whole(build):
            raise


def _clear(builds: Path, build: Path) -> None:
    """Away with builds of other texts, and with what was left half-way, that are older by a day."""
    oldest = build.stat().st_mtime - KEPT_SECONDS
    for other in builds.iterdir():
        with contextlib.suppress(OSError):  # somebody else was faster, or may and we may not
            if other.stat().st_mtime < oldest:
                shutil.rmtree(other, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
