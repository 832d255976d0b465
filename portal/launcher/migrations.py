"""Whether the database still has the tables that this source left it with: a start then skips `migrate`."""

import hashlib
from pathlib import Path

import psycopg

from portal.launcher.table import SOURCE

STAMP_NAME = "migrated"
APPLIED = "SELECT string_agg(app || '.' || name, ',' ORDER BY app, name) FROM django_migrations"


def migrations_pending(run_folder: Path, database_url: str) -> bool:
    """Whether `migrate` could have anything to do."""
    try:
        kept = (run_folder / STAMP_NAME).read_text()
    except FileNotFoundError:
        return True
    return kept != state(database_url)


def migrations_note(run_folder: Path, database_url: str) -> None:
    """Note that `migrate` has just run through."""
    (run_folder / STAMP_NAME).write_text(state(database_url))


def state(database_url: str) -> str:
    """Changes when a migration of ours, a pinned package or what the database has applied does."""
    digest = hashlib.sha256()
    for path in sorted([*SOURCE.glob("portal/*/migrations/*.py"), SOURCE / "requirements" / "runtime.txt"]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(applied(database_url).encode())
    return digest.hexdigest()


def applied(database_url: str) -> str:
    """What the database says was applied; nothing when it is empty."""
    with psycopg.connect(database_url) as connection:
        try:
            row = connection.execute(APPLIED).fetchone()
        except psycopg.errors.UndefinedTable:
            return ""
    return str(row[0]) if row else ""
