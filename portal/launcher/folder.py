"""The data folder: making it, holding it for one launcher, and its parts."""

import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from portal.launcher.errors import LaunchError
from portal.launcher.identity import Identity, user_name
from portal.launcher.records import same_process
from portal.launcher.waiting import until

FREE_BYTES_NEEDED = 300 * 1024 * 1024
SOCKET_PATH_CHARACTERS = 100
SOCKETS_NAME = "sockets"
# Says that a folder is ours. Folders made before there was such a file are known by their lock.
MARK_NAME = ".gpu-commons"
STRANGERS_ALLOWED = {"lost+found"}
LONGEST_SOCKET_NAME = ".s.PGSQL.5432.lock"
PREVIOUS_END_SECONDS = 45.0


@dataclass(frozen=True)
class Folder:
    """The parts of a data folder."""

    root: Path

    @property
    def postgres(self) -> Path:
        """PostgreSQL's files."""
        return self.root / "postgres"

    @property
    def broker(self) -> Path:
        """Valkey's files."""
        return self.root / "broker"

    @property
    def secrets(self) -> Path:
        """Keys and passwords, made once."""
        return self.root / "secrets"

    @property
    def logs(self) -> Path:
        """One log a process."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """What only matters while it runs."""
        return self.root / "run"

    @property
    def agent(self) -> Path:
        """What the host agent keeps: attempts, their outputs."""
        return self.root / "agent"

    @property
    def starting(self) -> Path:
        """Is there until tables and first accounts are made; the web process looks for it."""
        return self.run / "starting"

    def check(self) -> None:
        """Refuse a folder that can't be used, by looking alone: a start that is refused changes nothing."""
        if not self.root.exists():
            self.space_check()
            return
        if not self.root.is_dir():
            raise LaunchError(f"DATA_DIR {self.root} is a file; name a folder: make run DATA_DIR=/path/to/folder")
        self.owner_check()
        if not self.is_ours() and {path.name for path in self.root.iterdir()} - STRANGERS_ALLOWED:
            raise LaunchError(
                f"DATA_DIR {self.root} holds files that are not of GPU Commons and stays as it is; name a new folder "
                f"or an empty one: make run DATA_DIR={self.root / 'gpu-commons'}"
            )
        self.space_check()
        self.running_check()

    def is_ours(self) -> bool:
        """Whether an earlier start made its parts."""
        return (self.root / MARK_NAME).exists() or (self.run / "lock").exists()

    def make(self) -> None:
        """Make the folder and its parts, or say in a sentence why that can't be."""
        self.check()
        try:
            if not self.root.exists():
                self.root.mkdir(mode=0o711, parents=True)
                # Workloads may have users of their own, who pass through here to their folders and see nothing else.
                self.root.chmod(0o711)
            (self.root / MARK_NAME).touch(mode=0o644)
        except OSError as error:
            raise LaunchError(
                f"DATA_DIR {self.root} can't be made ({error.strerror}); name a folder that you may write to: "
                "make run DATA_DIR=/path/to/folder"
            ) from None
        for part, mode in ((self.secrets, 0o711), (self.logs, 0o700), (self.run, 0o711), (self.agent, 0o711)):
            part.mkdir(mode=mode, exist_ok=True)
            part.chmod(mode)

    def owner_check(self) -> None:
        """The folder must be ours: others' files in it would be out of reach later."""
        owner = self.root.stat().st_uid
        if owner != os.geteuid():
            raise LaunchError(
                f"DATA_DIR {self.root} belongs to {user_name(owner)} and you are {user_name(os.geteuid())}; start as "
                f"{user_name(owner)}, or name a folder of your own: make run DATA_DIR=/path/to/folder"
            )
        if not os.access(self.root, os.R_OK | os.W_OK | os.X_OK):
            raise LaunchError(f"DATA_DIR {self.root} can't be written to; run chmod u+rwx {self.root}")
        for part in (self.secrets, self.logs, self.run, self.agent):
            if part.exists() and part.stat().st_uid != os.geteuid():
                raise LaunchError(
                    f"{part} belongs to {user_name(part.stat().st_uid)} and you are {user_name(os.geteuid())}; run, as "
                    f"root, chown -R {user_name(os.geteuid())} {part}, or name another folder with DATA_DIR."
                )

    def space_check(self) -> None:
        """A database on a full disk fails in the middle of things; say so before."""
        standing = next(path for path in (self.root, *self.root.parents) if path.exists())
        free = shutil.disk_usage(standing).free
        if free < FREE_BYTES_NEEDED:
            raise LaunchError(
                f"The disk of DATA_DIR {self.root} has {free // 1024**2} MB free and {FREE_BYTES_NEEDED // 1024**2} MB "
                "are needed; free some space or name a folder on another disk: make run DATA_DIR=/path/to/folder"
            )

    def running(self) -> tuple[int, str] | None:
        """Process and address of the launcher that works here; None when none does."""
        try:
            handle = os.open(self.run / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            pid, started_at, address = holder_read(self.run / "holder")
            return None if lock_try(handle) or not same_process(pid, started_at) else (pid, address)
        finally:
            os.close(handle)

    def running_check(self) -> None:
        """Told before the port, which the other launcher has too."""
        if found := self.running():
            raise self.already_runs(*found)

    def already_runs(self, pid: int, address: str) -> LaunchError:
        """What to do about another launcher on this folder."""
        return LaunchError(
            f"GPU Commons already runs on {self.root} (process {pid}, {address}); stop it with `kill {pid}`, "
            "or name another folder: make run DATA_DIR=/path/to/folder PORT=8001"
        )

    def still_there(self, lock: int) -> bool:
        """Whether this is the folder whose lock is held: somebody may have removed or replaced it."""
        try:
            return os.path.samestat(os.fstat(lock), (self.run / "lock").stat())
        except (FileNotFoundError, NotADirectoryError):
            return False

    def lock(self, label: str) -> int:
        """Hold the folder for this launcher; waits while the previous one's watcher clears up."""
        handle = os.open(self.run / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not lock_try(handle):
            pid, started_at, address = holder_read(self.run / "holder")
            if same_process(pid, started_at):
                os.close(handle)
                raise self.already_runs(pid, address)
            if not until(lambda: lock_try(handle), timeout_seconds=PREVIOUS_END_SECONDS):
                os.close(handle)
                raise LaunchError(
                    f"The previous run on {self.root} is still ending; wait a minute and start again, "
                    f"or see what holds it with: fuser {self.run / 'lock'}"
                )
        (self.run / "holder").write_text(f"{os.getpid()} {psutil.Process().create_time()} {label}\n")
        return handle

    @property
    def sockets(self) -> Path:
        """Where the sockets of the running services are."""
        return (self.run / SOCKETS_NAME).resolve()

    def socket_folder(self, identity: Identity) -> Path:
        """Where sockets are made: in the data folder if its path is short and open to the services' user."""
        inside = self.run / SOCKETS_NAME
        fits = len(str(inside / LONGEST_SOCKET_NAME)) <= SOCKET_PATH_CHARACTERS
        if fits and identity.can_run(["/bin/sh", "-c", f'cd "{self.run}"'] if identity.changes else ["/bin/true"]):
            if inside.is_symlink():
                inside.unlink()
            inside.mkdir(mode=0o700, exist_ok=True)
            identity.own(inside)
            return inside
        elsewhere = private_folder(self.root, identity)
        # Whoever ends the launch finds it by this link and removes it.
        if not inside.is_symlink() and inside.is_dir():
            shutil.rmtree(inside)
        inside.unlink(missing_ok=True)
        inside.symlink_to(elsewhere)
        return elsewhere

    def secret(self, name: str, *, size_bytes: int = 32) -> str:
        """A secret as hexadecimal text, made at its first use."""
        path = self.secrets / name
        if not path.exists():
            partial = path.with_name(f"{path.name}.new")
            partial.unlink(missing_ok=True)
            partial.touch(mode=0o600)
            partial.write_text(secrets.token_hex(size_bytes))
            partial.rename(path)
        return path.read_text().strip()


def lock_try(handle: int) -> bool:
    """Take the lock if nobody has it. The watcher shares it, so it lasts until the last process is gone."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder_read(path: Path) -> tuple[int, float, str]:
    """Who holds the folder: process number, its start, the address it serves."""
    try:
        pid, started_at, address = path.read_text().split()
        return int(pid), float(started_at), address
    except (FileNotFoundError, ValueError):
        return 0, 0.0, ""


def private_folder(root: Path, identity: Identity) -> Path:
    """A folder with a short path for a data folder with a long or closed one; the same one at each start."""
    label = hashlib.sha256(str(root).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"gpu-commons-{os.geteuid()}-{label}"
    try:
        folder.mkdir(mode=0o700)
        identity.own(folder)
    except FileExistsError:
        found = folder.lstat()
        if folder.is_symlink() or found.st_uid != identity.uid or found.st_mode & 0o077:
            raise LaunchError(
                f"{folder}, where the sockets of {root} belong, is somebody else's; remove it, or name a folder with "
                "a shorter path: make run DATA_DIR=/path/to/folder"
            ) from None
    return folder
