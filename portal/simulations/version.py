"""Which code a run was made with: the version of the project and a digest of what decides and simulates."""

import hashlib
import tomllib
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
DIGESTED = ("scheduler", "portal/simulations")


@cache
def code_version() -> str:
    """`0.1.0+4f2a…`: the same source gives the same text on every machine."""
    digest = hashlib.sha256()
    for folder in DIGESTED:
        for path in sorted(path for path in (SOURCE / folder).rglob("*.py") if path.is_file()):
            digest.update(str(path.relative_to(SOURCE)).encode() + b"\0" + path.read_bytes() + b"\0")
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    return f"{project['version']}+{digest.hexdigest()[:12]}"
