"""The build of the scheduler for the tests that compare it with its text: made beside others, for it takes minutes."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from portal.simulations.compiled import build_folder, is_whole
from portal.simulations.compiling import compiled_build, find_missing

ROOT = Path(__file__).resolve().parents[2]
_making: "list[Future[None]]" = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin at once with what the chosen tests need; it is there when their turn comes."""
    needed = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if "compiler" in needed:
        one = ThreadPoolExecutor(max_workers=1)
        _making.append(one.submit(_make, "compiled_scheduler" in needed))
        one.shutdown(wait=False)


def _make(build: bool) -> None:
    """What is missing, where we may install it; then the build, in a process of its own."""
    if find_missing() and os.geteuid() == 0 and shutil.which("apt-get"):
        compiler_install()
    if build and not is_whole(build_folder()) and not find_missing():
        command = ["nice", sys.executable, "-m", "portal.simulations.compiling"]
        subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def compiler_install() -> None:
    """Debian's packages, where we may install them."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = {"env": environment, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    packages = ["gcc", "libc6-dev"]
    if Path(sys.base_prefix) == Path("/usr"):  # Debian's own Python
        packages.append("python3-dev")
    subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], check=False, **quiet)


@pytest.fixture(scope="session")
def compiler() -> None:
    """What compiling needs; without it the test is skipped, and fails where everything has to be tested."""
    for making in _making:
        making.result()
    missing = find_missing()
    if missing is not None and os.environ.get("CI") == "true":
        pytest.fail(missing)
    if missing is not None:
        pytest.skip(missing)


@pytest.fixture(scope="session")
def compiled_scheduler(compiler: None) -> Path:
    """Where the build of the present text is."""
    return compiled_build()
