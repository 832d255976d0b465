"""The portal's processes as data: name, command, environment, user."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from portal.launcher.identity import Identity

SOURCE = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
CELERY_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO")
# What only `manage.py bootstrap` may know.
BOOTSTRAP_VARIABLES = ("ADMIN_USER", "ADMIN_PASSWORD")


@dataclass(frozen=True)
class Process:
    """One process of the portal; `handed` are open files that it inherits."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    identity: Identity
    handed: tuple[int, ...] = ()


def web(environment: Mapping[str, str], identity: Identity, *, listener: int) -> Process:
    """Pages and REST. The launcher holds the listening socket, so a restart refuses nobody."""
    argv = [PYTHON, "-m", "gunicorn", "portal.wsgi", "--bind", f"fd://{listener}", "--worker-class", "gthread"]
    argv += ["--workers", "1", "--threads", "8", "--graceful-timeout", "3", "--no-control-socket"]
    return Process("web", tuple(argv), environment, identity, (listener,))


def worker(environment: Mapping[str, str], identity: Identity) -> Process:
    """Passes and whatever else the portal asks itself for."""
    argv = (PYTHON, "-m", "celery", "-A", "portal.celery", "worker", "-n", "portal@%h", "-Q", "portal", "-P", "solo")
    return Process("worker", (*argv, *CELERY_QUIET), environment, identity)


def receiver(environment: Mapping[str, str], identity: Identity) -> Process:
    """What hosts send comes in here: this worker registers that one task, so a host can't ask for another."""
    argv = (PYTHON, "-m", "celery", "-A", "portal.scheduling.receiver", "worker", "-n", "receiver@%h")
    return Process("receiver", (*argv, "-Q", "reports", "-P", "solo", *CELERY_QUIET), environment, identity)


def simulator(environment: Mapping[str, str], identity: Identity) -> Process:
    """Simulations, one at a time, each in a process that yields to all others: passes don't wait for them."""
    argv = (PYTHON, "-m", "celery", "-A", "portal.celery", "worker", "-n", "simulator@%h", "-Q", "simulations")
    return Process("simulator", (*argv, "-P", "solo", *CELERY_QUIET), environment, identity)


def beat(environment: Mapping[str, str], identity: Identity, *, schedule: Path) -> Process:
    """Asks for a pass every few seconds."""
    argv = (PYTHON, "-m", "celery", "-A", "portal.celery", "beat", "--loglevel", "INFO", "-s", str(schedule))
    return Process("beat", argv, environment, identity)


def agent(environment: Mapping[str, str], identity: Identity, *, folder: Path) -> Process:
    """This machine's host agent; as root when root launches, so that workloads get users of their own."""
    return Process("agent", (PYTHON, "-m", "portal.agent", "run", "--dir", str(folder)), environment, identity)


def manage(*arguments: str) -> list[str]:
    """A command of manage.py."""
    return [PYTHON, str(SOURCE / "manage.py"), *arguments]
