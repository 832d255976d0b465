"""The environment, read once and typed. Every variable of the portal stands here, with its default.

docs/reference/environment.md lists the same, and a test compares the two; a variable that is not listed is not read.
"""

from dataclasses import dataclass
from pathlib import Path

import environ

_environ = environ.Env()


@dataclass(frozen=True)
class Variable:
    """One environment variable: its default as text and what it is for."""

    name: str
    default: str
    meaning: str


VARIABLES = (
    Variable(
        "DATABASE_URL", "postgres:///commons", "PostgreSQL, as postgres://user:password@host:port/name?host=/socket"
    ),
    Variable(
        "BROKER_URL", "redis://127.0.0.1:6379/0", "Redis or Valkey, Celery's broker; redis+socket:///path for a socket"
    ),
    Variable("DATABASE_URL_FILE", "", "a file with the database's address, used before DATABASE_URL"),
    Variable("BROKER_URL_FILE", "", "a file with the broker's address, used before BROKER_URL"),
    Variable("SECRET_KEY", "", "Django's secret key; SECRET_KEY_FILE names a file that holds it instead"),
    Variable("SECRET_KEY_FILE", "", "a file with the secret key"),
    Variable(
        "PORTAL_SIGNING_KEY_FILE",
        "",
        "a file with the portal's Ed25519 private key (32 bytes, hex): signs what hosts are told",
    ),
    Variable("DEBUG", "0", "1 shows tracebacks in the browser; never in production"),
    Variable("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]", "host names under which the portal is reached, by comma"),
    Variable("CSRF_TRUSTED_ORIGINS", "", "origins (https://commons.example) that forms may come from, by comma"),
    Variable("HTTPS", "0", "1 behind TLS: secure cookies, redirect from http, HSTS"),
    Variable("SITE_NAME", "GPU Commons", "the name at the top of every page"),
    Variable("SITE_ZONE", "UTC", "the time zone of pages, an IANA name; storage and API are UTC"),
    Variable("DATA_DIR", "data", "where the embedded default keeps everything"),
    Variable("STATIC_ROOT", "staticfiles", "where collectstatic puts files in production"),
    Variable("MANIFEST_STATIC", "0", "1 serves hashed, immutable static files (after collectstatic)"),
    Variable("EMAIL_URL", "consolemail://", "where digests and invitations are sent"),
    Variable("EMAIL_URL_FILE", "", "a file with the address that mail is sent through, used before EMAIL_URL"),
    Variable("EMAIL_FROM", "gpu-commons@localhost", "the sender of digests and invitations"),
    Variable("SITE_URL", "", "the portal's address for links in mails, as https://commons.example; empty: no links"),
    Variable("DIGEST_HOUR", "8", "from which hour of the day on digests are sent, in the site's zone; -1: none are"),
    Variable(
        "OWN_PROPOSALS",
        "alone",
        "may people approve proposals of their own: never, always, or alone (only where nobody else could)",
    ),
    Variable("PASS_INTERVAL_SECONDS", "10", "how often the beat asks for a pass"),
    Variable("SIMULATION_QUEUED_MOST", "10", "how many simulations of one person may wait or run at once"),
    Variable("SIMULATION_HOST_DAYS", "500000", "the largest simulation, in hosts times simulated days"),
    Variable("SIMULATION_TRACE_MB", "64", "the largest trace that may be uploaded"),
    Variable("SIMULATION_TRACE_ROWS", "1000000", "how many rows a trace or a history may have in a simulation"),
    Variable("SIMULATION_STORED_MB", "512", "how much of uploaded traces is kept for one person"),
    Variable("SIMULATION_MINUTES", "60", "how long one simulation may take before it is ended"),
    Variable("SIMULATION_MEMORY_MB", "4096", "how much memory one simulation may take before it is ended"),
    Variable("SIMULATION_COMPILED", "1", "0: simulations don't use what make compiled made, but the scheduler's text"),
)
_DEFAULTS = {variable.name: variable.default for variable in VARIABLES}


def text(name: str) -> str:
    """The variable's text, or its listed default."""
    return str(_environ.str(name, default=_DEFAULTS[name]))


def flag(name: str) -> bool:
    """Whether the variable says yes (1, true, yes, on)."""
    return text(name).strip().lower() in {"1", "true", "yes", "on"}


def number(name: str) -> int:
    """The variable as a whole number; anything else is refused by name."""
    try:
        return int(text(name))
    except ValueError:
        raise SystemExit(f"{name} must be a whole number, not {text(name)!r}.") from None


def words(name: str) -> list[str]:
    """The variable's parts between commas, blanks dropped."""
    return [part.strip() for part in text(name).split(",") if part.strip()]


def secret(name: str) -> str:
    """The content of the file that `<name>_FILE` names, else the variable itself."""
    path = text(f"{name}_FILE")
    return Path(path).read_text().strip() if path else text(name)


def choice(name: str, allowed: tuple[str, ...]) -> str:
    """The variable as one of a few words; anything else is refused by name."""
    value = text(name).strip().lower()
    if value not in allowed:
        raise SystemExit(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
    return value


def email() -> dict[str, object]:
    """Django's settings of EMAIL_URL: smtp+tls://user:password@host:587, consolemail://, dummymail:// (nowhere), …"""
    try:
        return dict(_environ.email_url_config(secret("EMAIL_URL")))
    except (KeyError, ValueError, environ.ImproperlyConfigured):
        raise SystemExit("EMAIL_URL must be an address such as smtp+tls://user:password@host:587.") from None


def database() -> dict[str, object]:
    """Django's database settings of DATABASE_URL; PostgreSQL only."""
    url = secret("DATABASE_URL")
    if not url.startswith(("postgres://", "postgresql://")):
        raise SystemExit("DATABASE_URL must name a PostgreSQL database (postgres://…); nothing else is supported.")
    settings = dict(_environ.db_url_config(url, engine="django.db.backends.postgresql"))
    # Compiling a page's query takes PostgreSQL a second and saves it none.
    settings["OPTIONS"] = {"options": "-c jit=off", **settings.get("OPTIONS", {})}
    return settings
