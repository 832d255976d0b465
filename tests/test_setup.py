"""Set-up on machines that lack something: a sentence, or the thing itself."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def setup():
    spec = importlib.util.spec_from_file_location("install", ROOT / "requirements" / "install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_that_is_too_old_is_not_taken(setup, tmp_path):
    old = program(tmp_path / "python3.9", "exit 1")
    assert not setup.is_supported(old)


def test_no_python_in_reach_is_told_with_what_to_install(setup, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHON", str(tmp_path / "nowhere"))
    with pytest.raises(setup.SetupError, match="Python 3.11, 3.12 or 3.13 is needed .* apt-get install python3"):
        setup.python_find()


def test_a_python_without_venv_is_told_with_what_to_install(setup, tmp_path, monkeypatch):
    bare = program(tmp_path / "python3.11", "echo 'ensurepip is not available' >&2; exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(setup.SetupError, match="ensurepip is not available.*apt-get install python3-venv"):
        setup.make_venv(bare)


def test_uv_looks_where_pip_is_told_to_look(setup, monkeypatch):
    listed = "global.index-url='file:///mirror/simple'\n:env:.find-links='/nowhere'\nglobal.constraint='/etc/c.txt'\n"
    answer = subprocess.CompletedProcess([], 0, stdout=listed, stderr="")
    monkeypatch.setattr(setup.subprocess, "run", lambda *arguments, **options: answer)
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.delenv("UV_INDEX_URL", raising=False)
    environment = setup.uv_environment(sys.executable)
    assert environment["UV_DEFAULT_INDEX"] == "file:///mirror/simple"
    assert environment["UV_FIND_LINKS"] == ""


def test_what_the_environment_says_to_uv_wins(setup, monkeypatch):
    answer = subprocess.CompletedProcess([], 0, stdout="global.index-url='file:///mirror/simple'\n", stderr="")
    monkeypatch.setattr(setup.subprocess, "run", lambda *arguments, **options: answer)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "file:///mine")
    assert setup.uv_environment(sys.executable)["UV_DEFAULT_INDEX"] == "file:///mine"


def test_setting_up_again_installs_nothing(setup, tmp_path, monkeypatch):
    monkeypatch.setattr(setup, "STAMP", tmp_path / "stamp")
    setup.STAMP.write_text(setup.fingerprint())
    monkeypatch.setattr(setup, "install", lambda: pytest.fail("it installs again"))
    assert setup.main() == 0


def test_a_changed_requirement_is_installed(setup, tmp_path, monkeypatch):
    installed = []
    monkeypatch.setattr(setup, "STAMP", tmp_path / "stamp")
    setup.STAMP.write_text("of other requirements")
    monkeypatch.setattr(setup, "install", lambda: installed.append(True))
    assert setup.main() == 0
    assert installed
    assert setup.STAMP.read_text() == setup.fingerprint()


def test_every_requirement_is_pinned_with_a_hash():
    for name in ("runtime.txt", "embedded.txt", "compiler.txt", "dev.txt", "uv.txt"):
        text = (ROOT / "requirements" / name).read_text().replace("\\\n", "")
        pinned = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
        assert pinned
        for line in pinned:
            assert "==" in line and "--hash=sha256:" in line, f"{name}: {line[:60]}"


def test_the_sets_agree_on_every_version():
    def versions(name):
        lines = (ROOT / "requirements" / name).read_text().splitlines()
        return {line.split("==")[0]: line.split()[0] for line in lines if "==" in line and not line.startswith("#")}

    dev = versions("dev.txt")
    for name in ("runtime.txt", "embedded.txt", "compiler.txt"):
        assert versions(name).items() <= dev.items()
