"""The scheduler compiled by mypyc, for simulations: the same text without the interpreter, in 0.6 of the time.

Where it was built (`make compiled`), simulations run it. Live passes and tests run the text itself, which is also what
the build is tested against. A build is filed under a digest of the text, the interpreter, the compiler and its
settings: an old one never answers for a text that has changed.
"""

import hashlib
import importlib
import os
import sys
import sysconfig
from pathlib import Path

from portal import env

SOURCE = Path(__file__).resolve().parents[2]
MYPY = "2.3.1"
"""As pinned in requirements/: another version may compile the same text into other code."""
SETTINGS = "[mypy]\nstrict = true\n"
LISTED = "libraries.txt"
"""In a build: its libraries and their sizes."""
LEVEL = "1"
"""Of the C compiler: beyond it the build takes longer, and simulations are no faster."""


def compiled_use(source: Path = SOURCE) -> bool:
    """Import `scheduler` from its build from now on; False: there is none, or SIMULATION_COMPILED=0 forbids it.

    Comes before `scheduler` is imported: else it would be half text, half compiled.
    """
    if not env.flag("SIMULATION_COMPILED"):
        return False
    build = build_folder(source)
    if not is_whole(build):
        if os.path.isdir(build):
            print(f"{build} is damaged or can't be read: the text runs; make compiled renews it", file=sys.stderr)
        return False
    if "scheduler" in sys.modules:
        raise RuntimeError("scheduler is imported already: it would be half text, half compiled")
    sys.path.insert(0, str(build))
    importlib.import_module("scheduler")  # its parts come from where it is; Celery puts other folders first
    return True


def is_whole(build: Path) -> bool:
    """Whether every library of a build lies there as it was written, which a crash of the machine may have undone."""
    try:
        return (build / LISTED).read_text() == libraries_list(build)
    except OSError:
        return False


def libraries_list(build: Path) -> str:
    """The libraries of a build and their sizes, a line each. OSError: one can't be read."""
    libraries = sorted(build.rglob("*.so"))
    for path in libraries:
        path.open("rb").close()
    return "".join(f"{path.relative_to(build)} {path.stat().st_size}\n" for path in libraries)


def is_stale(source: Path = SOURCE) -> bool:
    """Whether there are builds, and all of them are of another text, so that the text runs unless it is built again."""
    try:
        others = [path for path in builds_folder(source).iterdir() if not path.name.startswith(".")]
    except OSError:
        return False
    return bool(others) and build_folder(source) not in others


def builds_folder(source: Path) -> Path:
    """Where builds of a source are kept."""
    return source / ".compiled"


def build_folder(source: Path = SOURCE) -> Path:
    """Where the build of the text as it is, for this interpreter, is or would be."""
    return builds_folder(source) / text_digest(source)


def text_digest(source: Path) -> str:
    """Of all that the build depends on."""
    made_by = f"{sysconfig.get_config_var('EXT_SUFFIX')} {MYPY} {LEVEL} {SETTINGS} {LISTED}"
    digest = hashlib.sha256(made_by.encode())
    for path in sorted(path for path in (source / "scheduler").rglob("*.py") if path.is_file()):
        digest.update(b"\0" + str(path.relative_to(source)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
