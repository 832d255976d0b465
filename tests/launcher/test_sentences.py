"""What goes wrong at a start is told in one sentence that says what to do."""

import errno
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from portal.launcher.errors import LaunchError
from portal.launcher.folder import Folder
from portal.launcher.identity import folder_owner_become, own_identity
from portal.launcher.launch import disk_error
from portal.launcher.options import options_read
from portal.launcher.port import listener_open
from portal.launcher.postgres import Postgres

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path / "data")
    made.make()
    return made


def launch(**variables: str) -> subprocess.CompletedProcess[str]:
    """Start the launcher where it can't come up."""
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "BROKER_URL"}}
    command = [sys.executable, "-m", "portal.launcher"]
    return subprocess.run(command, cwd=ROOT, env={**kept, **variables}, capture_output=True, text=True, timeout=60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def database(folder: Folder) -> Postgres:
    program = shutil.which("true")
    version = folder.root / "postgres-program"
    version.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 18.6'\n")
    version.chmod(0o755)
    log = folder.logs / "postgres.log"
    return Postgres(version, Path(program), folder.postgres, folder.run, log, own_identity())


def test_a_port_in_use_is_named_with_who_holds_it(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        ended = launch(PORT=str(port), DATA_DIR=str(tmp_path / "data"))
    assert ended.returncode == 1
    assert re.fullmatch(
        rf"make run: Port {port} is in use by \S+ \(process {os.getpid()}\); stop that, or choose another: "
        rf"make run PORT={port + 1}\n",
        ended.stderr,
    )


def test_a_data_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "data").write_text("")
    ended = launch(PORT=str(free_port()), DATA_DIR=str(tmp_path / "data"))
    assert ended.returncode == 1
    assert "is a file; name a folder: make run DATA_DIR=" in ended.stderr
    assert "Traceback" not in ended.stderr


def state_of(folder: Path) -> list[tuple[str, int]]:
    """All that a start could have changed: names and modes."""
    return sorted((str(path), path.stat().st_mode) for path in [folder, *folder.rglob("*")])


def test_a_folder_of_something_else_is_refused_and_stays_as_it_is(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    tmp_path.chmod(0o700)
    before = state_of(tmp_path)
    ended = launch(PORT=str(free_port()), DATA_DIR=str(tmp_path))
    assert ended.returncode == 1
    assert "holds files that are not of GPU Commons and stays as it is; name a new folder" in ended.stderr
    assert state_of(tmp_path) == before


def test_a_port_in_use_leaves_no_folder_behind(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        ended = launch(PORT=str(holder.getsockname()[1]), DATA_DIR=str(tmp_path / "data"))
    assert "is in use" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_taken_and_keeps_its_mode(tmp_path):
    given = tmp_path / "given"
    given.mkdir(mode=0o750)
    Folder(given).make()
    assert given.stat().st_mode & 0o777 == 0o750
    assert Folder(given).is_ours()


def test_a_folder_that_an_older_start_made_is_ours(folder):
    (folder.run / "lock").touch()
    (folder.root / ".gpu-commons").unlink()
    folder.check()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_root_is_told_about_an_owner_who_cant_run_the_project(tmp_path, monkeypatch):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    owner = pwd.getpwnam("nobody")
    os.chown(theirs, owner.pw_uid, owner.pw_gid)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copy2(shutil.which("true"), closed / "python")
    monkeypatch.setattr(sys, "executable", str(closed / "python"))
    with pytest.raises(LaunchError, match=r"belongs to nobody, who can't run .*; put the project where nobody can"):
        folder_owner_become(theirs)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_root_is_told_about_an_owner_without_a_name(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 1234, 1234)
    ended = launch(PORT=str(free_port()), DATA_DIR=str(theirs))
    assert ended.returncode == 1
    assert "belongs to user 1234, who has no name on this machine" in ended.stderr
    assert f"to run as root, chown -R root {theirs}, or name another folder" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(theirs.iterdir()) == []


def test_a_file_of_ours_that_cant_be_used_is_a_sentence(folder):
    told = disk_error(folder, PermissionError(errno.EACCES, "Permission denied", str(folder.logs / "web.log")))
    assert isinstance(told, LaunchError)
    assert "web.log can't be used (Permission denied)" in str(told)


def test_manage_says_that_nothing_runs_there(tmp_path):
    command = [sys.executable, "-m", "portal.launcher", "manage", "check"]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "DATA_DIR": str(tmp_path / "none")}, capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert "GPU Commons doesn't run on" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_database_folder_stops_the_start_and_leaves_nothing_running(tmp_path):
    Folder(tmp_path / "data").make()
    (tmp_path / "data" / "postgres").mkdir()
    ended = launch(PORT=str(free_port()), DATA_DIR=str(tmp_path / "data"))
    assert ended.returncode == 1
    assert "PG_VERSION is missing); restore it from a backup, or move it away" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_database_of_another_version_is_refused(folder):
    folder.postgres.mkdir()
    (folder.postgres / "PG_VERSION").write_text("13\n")
    with pytest.raises(LaunchError, match="made by PostgreSQL 13 and this is PostgreSQL 18; dump it with version 13"):
        database(folder).prepare()


def test_a_half_made_database_folder_is_made_anew(folder):
    partial = folder.root / "postgres.new"
    partial.mkdir()
    (partial / "PG_VERSION").write_text("18\n")
    database(folder).prepare()
    assert folder.postgres.is_dir()
    assert list(folder.postgres.iterdir()) == []


def test_stale_lock_files_of_a_killed_database_are_removed(folder):
    folder.postgres.mkdir()
    (folder.postgres / "PG_VERSION").write_text("18\n")
    # Number 1 is alive, and no database.
    (folder.postgres / "postmaster.pid").write_text("1\n")
    (folder.run / ".s.PGSQL.5432.lock").write_text("1\n")
    database(folder).prepare()
    assert not (folder.postgres / "postmaster.pid").exists()
    assert not (folder.run / ".s.PGSQL.5432.lock").exists()


def test_a_full_disk_is_told_before_anything_starts(folder, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5 * 1024 * 1024))
    with pytest.raises(LaunchError, match="has 5 MB free and 300 MB are needed; free some space"):
        folder.make()


def test_a_disk_that_fills_up_later_is_a_sentence_too(folder):
    told = disk_error(folder, OSError(errno.ENOSPC, "No space left on device"))
    assert isinstance(told, LaunchError)
    assert "is full; free some space and start again" in str(told)


def test_a_folder_of_somebody_else_is_refused(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(LaunchError, match=r"belongs to \S+ and you are 4242; start as \S+, or name a folder"):
        folder.make()


def test_a_folder_that_cant_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match="can't be made .*; name a folder that you may write to"):
        Folder(tmp_path / "file" / "data").make()


def test_a_second_launcher_on_the_same_folder_is_refused(folder):
    held = folder.lock("http://127.0.0.1:8000/")
    with pytest.raises(LaunchError, match=rf"already runs on .* \(process {os.getpid()}, http://127.0.0.1:8000/\)"):
        folder.lock("http://127.0.0.1:8001/")
    os.close(held)


def test_the_lock_is_free_again_once_its_holder_is_gone(folder):
    os.close(folder.lock("http://127.0.0.1:8000/"))
    os.close(folder.lock("http://127.0.0.1:8000/"))


def test_a_port_below_1024_without_the_right_to_it_is_told(monkeypatch):
    def refuse(self, address):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("portal.launcher.port.socket.socket.bind", refuse, raising=True)
    with pytest.raises(LaunchError, match="Port 80 can't be used .* choose one above 1023"):
        listener_open(80)


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"PORT": "eighty"}, "PORT must be a number from 1 to 65535, not 'eighty'"),
        ({"PORT": "70000"}, "PORT must be a number"),
        ({"DEMO": "yes"}, "DEMO must be 1 .* or 0"),
    ],
)
def test_a_wrong_option_is_refused_by_name(variables, told):
    with pytest.raises(LaunchError, match=told):
        options_read(variables)


def test_options_have_defaults():
    options = options_read({})
    assert (options.port, options.data_folder, options.demo) == (8000, Path("data").absolute(), True)


def test_sockets_of_a_folder_with_a_long_path_lie_elsewhere(tmp_path):
    deep = Folder(tmp_path / ("d" * 60) / ("e" * 60))
    deep.make()
    sockets = deep.socket_folder(own_identity())
    try:
        assert len(str(sockets / ".s.PGSQL.5432.lock")) < 107
        assert sockets.stat().st_mode & 0o777 == 0o700
        assert deep.socket_folder(own_identity()) == sockets
    finally:
        sockets.rmdir()


def test_a_secret_is_made_once_and_for_its_owner_alone(folder):
    first = folder.secret("signing-key")
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert folder.secret("signing-key") == first
    assert (folder.secrets / "signing-key").stat().st_mode & 0o777 == 0o600
