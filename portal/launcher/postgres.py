"""PostgreSQL on a unix socket: make the folder, start, create the database."""

import locale
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil

from portal.launcher.errors import LaunchError
from portal.launcher.identity import HERE, Identity, user_name
from portal.launcher.logs import last_line, log_open
from portal.launcher.waiting import until

ROLE = "commons"
DATABASE = "commons"
PORT = 5432
SOCKET_NAME = f".s.PGSQL.{PORT}"
START_SECONDS = 60.0
# Throw-away databases: nothing survives a crash of the machine, and nothing has to.
FAST_SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
SETTINGS = ("max_connections=100", "shared_buffers=64MB", "log_min_messages=warning", "log_checkpoints=off")


@dataclass(frozen=True)
class Postgres:
    """One database server: its programs, its data folder, its socket folder, its log."""

    postgres: Path
    initdb: Path
    folder: Path
    socket_folder: Path
    log: Path
    identity: Identity
    fast: bool = False

    @property
    def url(self) -> str:
        """How Django reaches it."""
        return database_url(self.socket_folder)

    def prepare(self) -> None:
        """Make the data folder if there is none, and refuse one that can't be right."""
        if self.folder.exists():
            self.version_check()
            self.leftovers_remove()
        else:
            self.create()

    def path_for(self, folder: Path) -> str:
        """How the server names its folder: by where it stands when root started it below folders closed to it."""
        return HERE if self.identity.changes else str(folder)

    def version_check(self) -> None:
        """The folder's PostgreSQL version must be the program's."""
        try:
            kept = (self.folder / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise LaunchError(
                f"{self.folder} is no PostgreSQL data folder (PG_VERSION is missing); restore it from a backup, "
                "or move it away to begin with an empty database."
            ) from None
        answer = subprocess.run([self.postgres, "--version"], capture_output=True, text=True, check=True).stdout
        current = answer.split()[2].partition(".")[0]
        if kept != current:
            raise LaunchError(
                f"{self.folder} was made by PostgreSQL {kept} and this is PostgreSQL {current}; dump it with version "
                f"{kept} and restore it, or move it away to begin with an empty database."
            )

    def create(self) -> None:
        """Run initdb beside the final place, so that a half-made folder is never taken for a database."""
        partial = self.folder.with_name(f"{self.folder.name}.new")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        self.identity.own(partial)
        command = [
            str(self.initdb),
            "-D",
            self.path_for(partial),
            "-U",
            ROLE,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-instructions",
        ]
        command += [f"--locale={database_locale()}", "--no-sync"]
        with log_open(self.log) as log:
            finished = subprocess.run(
                command,
                cwd=partial,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
                **self.identity.popen_arguments(),
            )
        if finished.returncode != 0:
            raise LaunchError(
                f"PostgreSQL could not make its folder {self.folder}: {last_line(self.log)}. "
                f"Free some disk space or choose another DATA_DIR; the whole message is in {self.log}."
            )
        partial.rename(self.folder)

    def leftovers_remove(self) -> None:
        """After a kill: drop lock files whose process is gone or has another's number by now."""
        lock = self.folder / "postmaster.pid"
        pid = lock_pid(lock)
        if pid is not None and self.is_ours(pid):
            raise LaunchError(
                f"PostgreSQL (process {pid}) still runs on {self.folder}; end it with `kill -INT {pid}`, "
                "then start again."
            )
        for path in (lock, self.socket_folder / SOCKET_NAME, self.socket_folder / f"{SOCKET_NAME}.lock"):
            path.unlink(missing_ok=True)

    def is_ours(self, pid: int) -> bool:
        """Whether that process is a PostgreSQL working in this folder."""
        try:
            return Path(psutil.Process(pid).cwd()).resolve() == self.folder.resolve()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def start(self, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start the server, standing in its folder."""
        settings = [*SETTINGS, "listen_addresses=", f"port={PORT}", "unix_socket_permissions=0700"]
        settings += [f"unix_socket_directories={self.socket_folder}", *(FAST_SETTINGS if self.fast else ())]
        command = [str(self.postgres), "-D", self.path_for(self.folder)]
        for setting in settings:
            command += ["-c", setting]
        with log_open(self.log) as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self.identity.popen_arguments(),
            )

    def ready_wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until it accepts connections, and make the portal's database."""
        until(
            lambda: process.poll() is not None or self.is_ready(),
            timeout_seconds=START_SECONDS,
        )
        if process.poll() is not None or not self.is_ready():
            raise LaunchError(
                f"PostgreSQL did not start on {self.folder} (owner {user_name(self.folder.stat().st_uid)}): "
                f"{last_line(self.log)}. Read {self.log}; if the folder is damaged, restore it from a backup or move "
                "it away to begin with an empty database."
            )
        self.database_create()

    def is_ready(self) -> bool:
        """Whether the server says so in its lock file, which it does once it takes connections."""
        try:
            lines = (self.folder / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready"

    def database_create(self) -> None:
        """Create the portal's database if it is not there."""
        import psycopg

        with psycopg.connect(
            host=str(self.socket_folder), port=PORT, user=ROLE, dbname="postgres", autocommit=True
        ) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if found is None:
                connection.execute(f"CREATE DATABASE {DATABASE}")


def database_url(socket_folder: Path) -> str:
    """The portal's database on a server with its socket there."""
    return f"postgres://{ROLE}@/{DATABASE}?host={socket_folder}"


def database_locale() -> str:
    """UTF-8 rules for letters where the machine has them."""
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "C"
    locale.setlocale(locale.LC_CTYPE, before)
    return "C.UTF-8"


def lock_pid(path: Path) -> int | None:
    """The process number in a lock file of PostgreSQL, if there is one."""
    try:
        return int(path.read_text().split()[0])
    except (FileNotFoundError, IndexError, ValueError):
        return None
