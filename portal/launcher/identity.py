"""As whom a process runs: the launcher's own user, or an ordinary one when root launches."""

import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.launcher.errors import LaunchError

NOBODY = "nobody"
# A process's own folder under a name that needs no right to the folders above it.
HERE = "/proc/self/cwd"


@dataclass(frozen=True)
class Identity:
    """A user and group, and whether the launcher must change to them."""

    uid: int
    gid: int
    changes: bool

    def popen_arguments(self) -> dict[str, Any]:
        """What `subprocess.Popen` needs to start a process as this user."""
        if not self.changes:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give the path itself to this user."""
        if self.changes:
            os.chown(path, self.uid, self.gid)

    def can_run(self, argv: list[str], *, cwd: Path | None = None) -> bool:
        """Whether a command works as this user: it may not reach what only root can."""
        try:
            finished = subprocess.run(
                argv,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                **self.popen_arguments(),
            )
        except PermissionError:
            return False
        return finished.returncode == 0


def own_identity() -> Identity:
    """The launcher's user, unchanged."""
    return Identity(os.geteuid(), os.getegid(), changes=False)


def service_identity() -> Identity:
    """Who runs database and broker: the launcher's user, or nobody when that is root."""
    if os.geteuid() != 0:
        name_check(os.geteuid())
        return own_identity()
    try:
        entry = pwd.getpwnam(NOBODY)
    except KeyError:
        raise LaunchError(
            f"Root can't run the database and there is no user '{NOBODY}'; start as an ordinary user instead."
        ) from None
    return Identity(entry.pw_uid, entry.pw_gid, changes=True)


def name_check(uid: int) -> None:
    """PostgreSQL refuses a user without a name."""
    if not has_name(uid):
        raise LaunchError(
            f"User {uid} has no name on this machine and PostgreSQL needs one; start as a user that `id -un` can name."
        )


def has_name(uid: int) -> bool:
    """Whether the machine knows a name for the user."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def user_name(uid: int) -> str:
    """The user's name, or the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def folder_owner_become(folder: Path) -> None:
    """When root starts on somebody's existing data folder, become that person, so that it stays theirs."""
    if os.geteuid() != 0 or not folder.exists():
        return
    found = folder.stat()
    if found.st_uid == 0:
        return
    owner_able_check(folder, Identity(found.st_uid, found.st_gid, changes=True))
    os.setgroups([])
    os.setgid(found.st_gid)
    os.setuid(found.st_uid)


def owner_able_check(folder: Path, owner: Identity) -> None:
    """The folder's owner must be able to run what root can: Python and source may lie in a folder closed to others."""
    way_out = f"to run as root, chown -R root {folder}, or name another folder: make run DATA_DIR=/path/to/folder"
    if not has_name(owner.uid):
        raise LaunchError(
            f"DATA_DIR {folder} belongs to user {owner.uid}, who has no name on this machine, and PostgreSQL needs "
            f"one; {way_out}"
        )
    source = Path(__file__).resolve().parents[2]
    code = "import importlib.util, portal.launcher; assert importlib.util.find_spec('django')"
    if not owner.can_run([sys.executable, "-c", code], cwd=source):
        name = user_name(owner.uid)
        raise LaunchError(
            f"DATA_DIR {folder} belongs to {name}, who can't run {sys.executable} in {source}; put the project where "
            f"{name} can read it, or, {way_out}"
        )
