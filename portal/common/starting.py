"""Whether the portal has been brought up: tables made and, in the embedded default, first accounts."""

from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import Error, OperationalError, connection

OK = "ok"
AWAY = "away"
PENDING = "pending"
# The launcher keeps this file in the data folder until the first accounts are there; elsewhere there is none.
STARTING_FILE = Path("run") / "starting"
APPLIED = "SELECT app, name FROM django_migrations"


class Known:
    """What was once true of this process's database stays so: asked of it until then, and not again."""

    brought_up = False


def missing() -> dict[str, str]:
    """What is not there yet, each with a word for it; nothing when the portal can serve people."""
    if Known.brought_up:
        return {}
    answers = {"migrations": applied_answer()}
    if (settings.DATA_DIR / STARTING_FILE).exists():
        answers["bootstrap"] = PENDING
    lacking = {name: answer for name, answer in answers.items() if answer != OK}
    Known.brought_up = not lacking
    return lacking


def applied_answer() -> str:
    """`ok`, `away`, or how many migrations are pending: by their files' names, without importing them."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(APPLIED)
            applied = {(app, name) for app, name in cursor.fetchall()}
    except OperationalError:
        return AWAY
    except Error:
        # A database without that table.
        applied = set()
    pending = len(on_disk() - applied)
    return OK if not pending else f"{pending} migrations {PENDING}"


def on_disk() -> set[tuple[str, str]]:
    """Every migration of every app: app and name."""
    found = ((app.label, Path(app.path).glob("migrations/[0-9]*.py")) for app in apps.get_app_configs())
    return {(label, path.stem) for label, paths in found for path in paths}
