"""What `make run` may be told, from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from portal.launcher.errors import LaunchError


@dataclass(frozen=True)
class Options:
    """PORT, DATA_DIR and DEMO; who the first administrator is, `manage.py bootstrap` reads itself."""

    port: int
    data_folder: Path
    demo: bool

    @property
    def address(self) -> str:
        """Where the first page is."""
        return f"http://127.0.0.1:{self.port}/"


def options_read(environment: Mapping[str, str] = os.environ) -> Options:
    """Read and check them; a wrong one is a sentence."""
    port = environment.get("PORT") or "8000"
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise LaunchError(f"PORT must be a number from 1 to 65535, not {port!r}: make run PORT=8000")
    demo = environment.get("DEMO") or "1"
    if demo not in {"0", "1"}:
        raise LaunchError(f"DEMO must be 1 (with the demonstration) or 0 (without), not {demo!r}.")
    folder = Path(environment.get("DATA_DIR") or "data").expanduser().absolute()
    return Options(int(port), folder, demo == "1")
