"""Database and broker: the environment's, or our own on unix sockets in a data folder.

`services_throwaway` gives tests and tools services of their own that leave nothing behind.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from portal.launcher.binaries import Binaries, binaries_find
from portal.launcher.folder import Folder
from portal.launcher.identity import Identity, service_identity
from portal.launcher.postgres import Postgres
from portal.launcher.records import MARKER, Record, record_of, records_write
from portal.launcher.shutdown import BROKER, DATABASE, children_collect
from portal.launcher.valkey import BrokerUser, Valkey
from portal.launcher.watcher import records_tell, watcher_start

DATABASE_NAME = "DATABASE_URL"
BROKER_NAME = "BROKER_URL"
MEMORY_DISK = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it by mkdtemp
MEMORY_BYTES_NEEDED = 1024**3
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


@dataclass
class Services:
    """What was started, by whom, and how to reach it."""

    folder: Folder
    launch_id: str
    database_url: str = ""
    broker_url: str = ""
    valkey: Valkey | None = None
    postgres: Postgres | None = None
    records: list[Record] = field(default_factory=list)
    children: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    # Whoever else must know what runs: the watcher.
    tell: Callable[[list[Record]], None] = lambda records: None

    def add(self, name: str, kind: str, process: "subprocess.Popen[bytes]") -> None:
        """Note a process that was started, on disk before anything else happens."""
        self.records = [record for record in self.records if record.name != name]
        self.records.append(record_of(name, process.pid, kind))
        self.children[name] = process
        self.tell(self.records)
        records_write(self.folder.run, self.launch_id, self.records)


def services_start(services: Services, *, hosts: Iterable[BrokerUser] = (), fast: bool = False) -> None:
    """Start what the environment doesn't name. The caller has made the folder and holds its lock."""
    folder = services.folder
    services.database_url = os.environ.get(DATABASE_NAME, "")
    services.broker_url = os.environ.get(BROKER_NAME, "")
    records_write(folder.run, services.launch_id, [])
    if services.database_url and services.broker_url:
        return
    identity = service_identity()
    binaries = binaries_find(identity)
    sockets = folder.socket_folder(identity)
    environment = services_environment(services.launch_id)
    if not services.broker_url:
        services.valkey = broker_of(folder, binaries, sockets, identity, fast=fast)
        services.valkey.prepare(hosts)
        services.add("valkey", BROKER, services.valkey.start(environment))
        services.broker_url = services.valkey.url
    if not services.database_url:
        services.postgres = database_of(folder, binaries, sockets, identity, fast=fast)
        services.postgres.prepare()
        services.add("postgres", DATABASE, services.postgres.start(environment))
        services.database_url = services.postgres.url
    services_wait(services)


def services_environment(launch_id: str) -> dict[str, str]:
    """The little that database and broker need to know, and the launch's mark."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | {MARKER: launch_id}


def services_wait(services: Services) -> None:
    """Wait until those that we started answer."""
    if services.postgres is not None:
        services.postgres.ready_wait(services.children["postgres"])
    if services.valkey is not None:
        services.valkey.ready_wait(services.children["valkey"])


def broker_of(folder: Folder, binaries: Binaries, sockets: Path, identity: Identity, *, fast: bool) -> Valkey:
    """The broker of a data folder."""
    return Valkey(
        program=binaries.broker,
        folder=folder.broker,
        socket_folder=sockets,
        log=folder.logs / "valkey.log",
        identity=identity,
        portal_password=folder.secret("broker-portal"),
        launcher_password=folder.secret("broker-launcher"),
        fast=fast,
    )


def database_of(folder: Folder, binaries: Binaries, sockets: Path, identity: Identity, *, fast: bool) -> Postgres:
    """The database of a data folder."""
    return Postgres(
        postgres=binaries.postgres,
        initdb=binaries.initdb,
        folder=folder.postgres,
        socket_folder=sockets,
        log=folder.logs / "postgres.log",
        identity=identity,
        fast=fast,
    )


def throwaway_parent() -> str | None:
    """In memory where there is room for a database, else where temporary files go."""
    with contextlib.suppress(OSError):
        if os.access(MEMORY_DISK, os.W_OK) and shutil.disk_usage(MEMORY_DISK).free >= MEMORY_BYTES_NEEDED:
            return str(MEMORY_DISK)
    return None


@contextlib.contextmanager
def services_throwaway() -> Iterator[Services]:
    """Services that last as long as the block, also when this process is killed inside it."""
    root = Path(tempfile.mkdtemp(prefix="gpu-commons-", dir=throwaway_parent()))
    root.chmod(0o711)
    folder = Folder(root)
    folder.make()
    watcher = watcher_start(folder.run, root.name, remove=root)
    services = Services(folder, launch_id=root.name, tell=lambda records: records_tell(watcher, records))
    try:
        services_start(services, fast=True)
        yield services
    finally:
        # The watcher ends them; waiting for our children lets them be gone rather than zombies.
        if watcher.stdin is not None:
            watcher.stdin.close()
        children_collect(services.children.values(), watcher)


def service_variables(services: Services, identity: Identity | None = None) -> dict[str, str]:
    """The environment in which Django and Celery find these services, with keys that `identity` alone can read."""
    folder = services.folder
    folder.secret("secret-key", size_bytes=48)
    folder.secret("signing-key")
    if identity is not None:
        for name in ("secret-key", "signing-key"):
            os.chown(folder.secrets / name, identity.uid, identity.gid)
    return {DATABASE_NAME: services.database_url, BROKER_NAME: services.broker_url, **key_variables(folder)}


def key_variables(folder: Folder) -> dict[str, str]:
    """Where the portal's keys are, and its folder."""
    return {
        "SECRET_KEY_FILE": str(folder.secrets / "secret-key"),
        "PORTAL_SIGNING_KEY_FILE": str(folder.secrets / "signing-key"),
        "DATA_DIR": str(folder.root),
    }


def main() -> int:
    """Run a command beside throw-away services: `python -m portal.launcher.services COMMAND...`."""
    with services_throwaway() as services:
        return subprocess.run(sys.argv[1:], env={**os.environ, **service_variables(services)}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
