"""One launch from start to end: the steps of `make run`."""

import contextlib
import errno
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

from portal.launcher import table
from portal.launcher.errors import LaunchError
from portal.launcher.folder import Folder
from portal.launcher.host import agent_environment, host_init, host_init_wait
from portal.launcher.host_users import host_users
from portal.launcher.identity import Identity, folder_owner_become, own_identity, service_identity
from portal.launcher.logs import last_line, log_bound, log_open
from portal.launcher.migrations import migrations_note, migrations_pending
from portal.launcher.options import Options
from portal.launcher.port import listener_open
from portal.launcher.postgres import Postgres
from portal.launcher.records import MARKER
from portal.launcher.services import Services, service_variables, services_environment, services_start
from portal.launcher.shutdown import BROKER, DATABASE, children_collect, everything_stop
from portal.launcher.supervisor import Popen, Supervisor, say
from portal.launcher.valkey import Valkey
from portal.launcher.waiting import until
from portal.launcher.watcher import Guard

READY_SECONDS = 120.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopAsked(BaseException):
    """Ctrl-C or a signal: not an error, so nothing on the way may catch it as one."""


def launch(options: Options) -> None:
    """Hold the data folder and the port, then run; the watcher ends everything, whatever happens to us."""
    began_at = time.monotonic()
    folder_owner_become(options.data_folder)
    folder = Folder(options.data_folder)
    try:
        with contextlib.ExitStack() as held:
            folder.check()
            listener = held.enter_context(listener_open(options.port))
            folder.make()
            lock = folder.lock(options.address)
            held.callback(os.close, lock)
            everything_stop(folder.run, folder.agent)
            wake = held.enter_context(stop_signals())
            held_run(options, folder, lock, listener.fileno(), wake, began_at)
    except OSError as error:
        raise disk_error(folder, error) from error
    say("Stopped.")


def held_run(options: Options, folder: Folder, lock: int, listener: int, wake: int, began_at: float) -> None:
    """Run until told to stop or until it can't go on; then nothing of it is left."""
    services = Services(folder, launch_id=uuid.uuid4().hex)
    guard = Guard(folder.run, services.launch_id, folder.agent, lock)
    services.tell = guard.records_tell

    def look() -> None:
        guard.check()
        if not folder.still_there(lock):
            raise vanished(folder)

    try:
        supervisor = bring_up(options, services, listener, began_at)
        supervisor.run(wake, look)
    except StopAsked:
        say("\nStopping: workloads, portal, broker and database end.")
    except (OSError, LaunchError):
        if not folder.still_there(lock):
            raise vanished(folder) from None
        raise
    finally:
        take_down(guard, services)


def bring_up(options: Options, services: Services, listener: int, began_at: float) -> Supervisor:
    """1. services 2. web 3. tables 4. this host, first accounts 5. first page 6. workers, beat and agent."""
    folder = services.folder
    for log in folder.logs.glob("*.log"):
        log_bound(log)
    services_start(services, hosts=host_users(folder))
    supervisor = Supervisor(services, folder.logs)
    services_keep(supervisor, services)
    identity = portal_identity(folder)
    environment = portal_environment(services, identity)
    folder.starting.touch()
    web = supervisor.process_start(table.web(environment, identity, listener=listener))
    described = host_init(services)
    migrate(services, environment)
    bootstrap(options, folder, environment, host_init_wait(described, folder))
    folder.starting.unlink(missing_ok=True)
    first_page_wait(options, web, folder)
    # After the first page, which would else share the processors with them.
    supervisor.process_start(table.worker(environment, identity))
    supervisor.process_start(table.receiver(environment, identity))
    supervisor.process_start(table.simulator(environment, identity))
    supervisor.process_start(table.agent(agent_environment(services), own_identity(), folder=folder.agent))
    supervisor.process_start(table.beat(environment, identity, schedule=beat_schedule(folder, identity)))
    say(f"\nGPU Commons is at {options.address} (up in {time.monotonic() - began_at:.1f} s; Ctrl-C stops it).")
    return supervisor


def services_keep(supervisor: Supervisor, services: Services) -> None:
    """Our own database and broker are kept up like the rest."""
    environment = services_environment(services.launch_id)
    if services.postgres is not None:
        supervisor.keep("postgres", DATABASE, again(services.postgres, environment), services.children["postgres"])
    if services.valkey is not None:
        supervisor.keep("valkey", BROKER, again(services.valkey, environment), services.children["valkey"])


def again(service: Postgres | Valkey, environment: dict[str, str]) -> Callable[[], Popen]:
    """A start that first clears what the last run left."""

    def start() -> Popen:
        service.leftovers_remove()
        return service.start(environment)

    return start


def portal_identity(folder: Folder) -> Identity:
    """An ordinary user for web, workers and beat if it can reach Python, source and keys, else the launcher's own."""
    ordinary = service_identity()
    if not ordinary.changes:
        return ordinary
    code = f"import os, importlib.util, portal; os.stat({str(folder.run)!r}); assert importlib.util.find_spec('django')"
    if ordinary.can_run([table.PYTHON, "-c", code], cwd=table.SOURCE):
        return ordinary
    say("Web and workers run as root: an ordinary user can't reach this folder or its Python.")
    return own_identity()


def portal_environment(services: Services, identity: Identity) -> dict[str, str]:
    """What web, workers, beat and agent are told; the keys are readable to them alone."""
    told = service_variables(services, identity)
    environment = {**os.environ, **told, MARKER: services.launch_id, "PYTHONUNBUFFERED": "1"}
    return {name: value for name, value in environment.items() if name not in table.BOOTSTRAP_VARIABLES}


def migrate(services: Services, environment: Mapping[str, str]) -> None:
    """Bring the database's tables up to date; skipped when they were left so by the same source."""
    folder = services.folder
    if not migrations_pending(folder.run, services.database_url):
        return
    say("Preparing the database.")
    log_path = folder.logs / "migrate.log"
    with log_open(log_path) as log:
        finished = subprocess.run(
            table.manage("migrate", "--no-input"),
            cwd=table.SOURCE,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    if finished.returncode != 0:
        raise LaunchError(f"The database could not be brought up to date: {last_line(log_path)}. Read {log_path}.")
    migrations_note(folder.run, services.database_url)


def beat_schedule(folder: Folder, identity: Identity) -> Path:
    """Where beat keeps its clock; a broken one is made anew."""
    beats = folder.run / "beat"
    beats.mkdir(mode=0o700, exist_ok=True)
    os.chown(beats, identity.uid, identity.gid)
    for old in beats.iterdir():
        old.unlink()
    return beats / "schedule"


def bootstrap(options: Options, folder: Folder, environment: Mapping[str, str], host: Path) -> None:
    """First administrator, this host and, unless told otherwise, the demonstration; it speaks to the terminal."""
    arguments = ["--data-dir", str(folder.root), "--url", options.address, "--demo", "1" if options.demo else "0"]
    arguments += ["--host-file", str(host)]
    asked = {name: os.environ[name] for name in table.BOOTSTRAP_VARIABLES if name in os.environ}
    command = table.manage("bootstrap", *arguments)
    finished = subprocess.run(command, cwd=table.SOURCE, env={**environment, **asked}, check=False)
    if finished.returncode != 0:
        raise LaunchError("The first accounts could not be made; see the message above, then start again.")


def first_page_wait(options: Options, web: Popen, folder: Folder) -> None:
    """Until web, database and broker answer together."""
    health = f"{options.address}healthz"
    if not until(lambda: web.poll() is not None or answers(health), timeout_seconds=READY_SECONDS) or web.poll():
        log = folder.logs / "web.log"
        raise LaunchError(f"The web process did not come up: {last_line(log)}. Read {log}.")


def answers(address: str) -> bool:
    """Whether it says 200."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def take_down(guard: Guard, services: Services) -> None:
    """Closing the pipe is what makes the watcher end everything; we collect our children meanwhile."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    guard.end()
    children_collect(services.children.values(), guard.watcher)


def vanished(folder: Folder) -> LaunchError:
    """Somebody removed or replaced the folder under a running portal."""
    return LaunchError(
        f"DATA_DIR {folder.root} was removed or replaced while GPU Commons ran, so all of it was stopped; put the "
        "folder back from a backup, or start again with an empty one."
    )


def disk_error(folder: Folder, error: OSError) -> Exception:
    """A full disk, or a file of ours that can't be used, as a sentence; anything else as it is."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LaunchError(f"The disk of {folder.root} is full; free some space and start again.")
    if error.filename is not None and folder.root in Path(os.fsdecode(error.filename)).parents:
        return LaunchError(
            f"{os.fsdecode(error.filename)} can't be used ({error.strerror}); set that right and start again."
        )
    return error


@contextlib.contextmanager
def stop_signals() -> Iterator[int]:
    """Raise StopAsked in the main thread; the file that is handed out wakes a `select` when a child ends."""

    def asked(number: int, frame: FrameType | None) -> None:
        raise StopAsked

    read, write = os.pipe()
    os.set_blocking(write, False)
    for number in STOP_SIGNALS:
        signal.signal(number, asked)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield read
    finally:
        signal.set_wakeup_fd(-1)
        os.close(read)
        os.close(write)
