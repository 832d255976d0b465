"""Valkey on a unix socket, with a user for the portal and one for each host."""

import hashlib
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from portal.launcher.errors import LaunchError
from portal.launcher.identity import HERE, Identity
from portal.launcher.logs import last_line, log_open
from portal.launcher.waiting import until

SOCKET_NAME = "broker.sock"
USERS_NAME = "users.acl"
CONFIG_NAME = "broker.conf"
PORTAL_USER = "portal"
LAUNCHER_USER = "launcher"
START_SECONDS = 30.0


class BrokerUser(NamedTuple):
    """A user of the broker: the rules are Valkey's own words (`~pattern` for keys, `+command`)."""

    name: str
    password: str
    rules: str

    def words(self) -> list[str]:
        """What ACL SETUSER is told: the password as a hash, and the rules, those in brackets as one word each."""
        digest = hashlib.sha256(self.password.encode()).hexdigest()
        return ["reset", "on", f"#{digest}", *re.findall(r"\([^)]*\)|\S+", self.rules)]


@dataclass(frozen=True)
class Valkey:
    """One broker: its program, folder, socket folder, log and users."""

    program: Path
    folder: Path
    socket_folder: Path
    log: Path
    identity: Identity
    portal_password: str
    launcher_password: str
    fast: bool = False

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.socket_folder / SOCKET_NAME

    @property
    def place(self) -> str:
        """How the server names its folder: by where it stands when root started it below folders closed to it."""
        return HERE if self.identity.changes else str(self.folder)

    @property
    def url(self) -> str:
        """How Celery reaches it as the portal."""
        return broker_url(self.socket, PORTAL_USER, self.portal_password)

    def prepare(self, hosts: Iterable[BrokerUser] = ()) -> None:
        """Make its folder, configuration and users."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.identity.own(self.folder)
        lines = [
            "port 0",
            f"dir {self.place}",
            f"unixsocket {self.socket}",
            "unixsocketperm 700",
            "daemonize no",
            'save ""',
            "appendonly " + ("no" if self.fast else "yes"),
            # Told to the disk before the answer: a kill loses nothing that was accepted.
            "appendfsync always",
            "maxmemory-policy noeviction",
            f"aclfile {self.place}/{USERS_NAME}",
        ]
        self.write(CONFIG_NAME, "\n".join(lines) + "\n")
        self.users_write(hosts)
        self.leftovers_remove()

    def leftovers_remove(self) -> None:
        """After a kill: drop the socket that nobody listens on."""
        self.socket.unlink(missing_ok=True)

    def users_write(self, hosts: Iterable[BrokerUser]) -> None:
        """Write the list of users: nobody without a password, each host to its own keys."""
        users = [
            BrokerUser(LAUNCHER_USER, self.launcher_password, "+@all"),
            BrokerUser(PORTAL_USER, self.portal_password, "~* &* +@all -@admin"),
            *hosts,
        ]
        self.write(USERS_NAME, "user default off\n" + "".join(user_line(user) for user in users))

    def users_reload(self, hosts: Iterable[BrokerUser]) -> None:
        """Give a running broker a new list of users."""
        self.users_write(hosts)
        with self.client() as client:
            client.acl_load()

    def write(self, name: str, content: str) -> None:
        """Replace one of its files, readable to it alone."""
        partial = self.folder / f"{name}.new"
        partial.touch(mode=0o600)
        self.identity.own(partial)
        partial.write_text(content)
        partial.rename(self.folder / name)

    def start(self, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start the broker in its folder."""
        with log_open(self.log) as log:
            return subprocess.Popen(
                [str(self.program), f"{self.place}/{CONFIG_NAME}"],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self.identity.popen_arguments(),
            )

    def client(self) -> "redis.Redis":
        """A connection as the launcher's own user."""
        return client_of(self.socket, LAUNCHER_USER, self.launcher_password)

    def ready_wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until it answers, also through reading a long log of what it kept."""
        until(lambda: process.poll() is not None or self.is_ready(), timeout_seconds=START_SECONDS)
        if process.poll() is not None or not self.is_ready():
            raise LaunchError(
                f"Valkey did not start on {self.folder}: {last_line(self.log)}. Read {self.log}; if the folder is "
                "damaged, move it away: what hosts should run is kept in the database."
            )

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            with self.client() as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.exceptions.BusyLoadingError):
            return False


def user_line(user: BrokerUser) -> str:
    """One line of the list of users; the password is kept as a hash."""
    return f"user {user.name} {' '.join(user.words())}\n"


def client_of(socket: Path, user: str, password: str) -> "redis.Redis":
    """A connection that says at once when nobody answers, and is not tried again."""
    return redis.Redis(unix_socket_path=str(socket), username=user, password=password, retry=Retry(NoBackoff(), 0))


def broker_url(socket: Path, user: str, password: str) -> str:
    """Celery's address of a broker on a unix socket."""
    return f"redis+socket://{quote(user, safe='')}:{quote(password, safe='')}@{socket}?virtual_host=0"
