"""Where a replay runs: on throw-away services, or in a database of its own on the server that the environment names."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from portal.launcher.services import service_variables, services_throwaway

DATABASE, BROKER = "DATABASE_URL", "BROKER_URL"
IN_MEMORY = "memory://localhost/"


@contextlib.contextmanager
def replay_environment() -> Iterator[dict[str, str]]:
    """Variables for the replay's process. Nothing of an existing database is touched, and no worker hears of it."""
    quiet = {BROKER: IN_MEMORY, "SECRET_KEY": secrets.token_hex(32)}
    if url := os.environ.get(DATABASE):
        with database_of_its_own(url) as own:
            yield {**os.environ, DATABASE: own, **quiet}
    else:
        with services_throwaway() as services:
            yield {**os.environ, **service_variables(services), **quiet}


@contextlib.contextmanager
def database_of_its_own(url: str) -> Iterator[str]:
    """A new database on the same server, dropped at the end."""
    name = f"gpu_commons_replay_{secrets.token_hex(4)}"
    parts = urlsplit(url)
    quoted = sql.Identifier(name)
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(quoted))
    except psycopg.Error as error:
        raise SystemExit(f"replay: no database of its own on the server of {DATABASE}: {str(error).strip()}") from None
    try:
        yield urlunsplit(parts._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(quoted))
