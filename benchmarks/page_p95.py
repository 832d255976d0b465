"""page_p95: seconds in which 19 of 20 pages are answered, over every page that people open, on a year of history.

One JSON line. The laboratory of benchmarks/history.py: 1,000,000 workloads, 30,000 pending, 300 projects. Two web
workers as docker-compose.yml runs them; each page is asked for six times, three ranges among them, after a first time
that packs the ledger's days. `slowest` names the page with the highest median and that median, `first_s` is how long
the very first reading of the whole range took, `growth` how many times a tenth of the history costs.
`python -m benchmarks --only page_p95` brings the database; it takes some five minutes to fill it.
"""

import http.client
import json
import os
import statistics
import time
from datetime import UTC, datetime

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
os.environ.setdefault("ALLOWED_HOSTS", "127.0.0.1,testserver")
django.setup()

from django.conf import settings  # noqa: E402 - Django is set up first
from django.core.management import call_command  # noqa: E402 - as above
from django.db import connection  # noqa: E402 - as above
from django.test import Client  # noqa: E402 - as above

from benchmarks._history import Laboratory, laboratory_make  # noqa: E402 - as above
from benchmarks.submit_per_s import web_serve  # noqa: E402 - as above
from portal.projects.models import User  # noqa: E402 - as above

WORKLOADS, WAITING, REPEATS = 1_000_000, 30_000, 6
LONG = "?range=30d"


def addresses_of(made: Laboratory) -> list[str]:
    """Every page that people open."""
    project = f"/projects/{made.team.path}/"
    return [
        *("/", f"/{LONG}", "/queue/", "/workloads/", "/submit/", "/hosts/", "/hosts/host-0001/"),
        *("/projects/", project, f"{project}{LONG}", f"/projects/{made.root.path}/{LONG}"),
        *("/budgets/", f"/budgets/{made.root.path}/", "/pyramid/", f"/pyramid/{LONG}"),
        *("/queue-wait/", f"/queue-wait/{LONG}", "/audit/", "/account/", "/search/?q=train"),
        *("/proposals/", "/simulations/", f"/people/{made.team.path}/"),
    ]


def sign_in() -> str:
    """The session of an administrator, as a cookie."""
    person = User.objects.create(username="measures", is_superuser=True, is_staff=True)
    browser = Client()
    browser.force_login(person, backend="allauth.account.auth_backends.AuthenticationBackend")
    return f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"


def page_get(link: http.client.HTTPConnection, address: str, cookie: str) -> float:
    """Seconds until the last byte; anything but 200 ends the benchmark."""
    began = time.perf_counter()
    link.request("GET", address, headers={"Cookie": cookie})
    answer = link.getresponse()
    answer.read()
    if answer.status != 200:
        raise SystemExit(f"page_p95: {answer.status} at {address}")
    return time.perf_counter() - began


def measure(workloads: int, waiting: int) -> dict[str, object]:
    """Fill an empty database and open every page."""
    call_command("flush", interactive=False, verbosity=0)
    made = laboratory_make(now=datetime.now(UTC).replace(microsecond=0), workloads=workloads, waiting=waiting)
    cookie, addresses = sign_in(), addresses_of(made)
    connection.close()
    with web_serve() as (port, _):
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        first = page_get(link, addresses[1], cookie)
        for address in addresses:
            page_get(link, address, cookie)
        times = {address: [page_get(link, address, cookie) for _ in range(REPEATS)] for address in addresses}
        link.close()
    every = sorted(seconds for each in times.values() for seconds in each)
    medians = {address: statistics.median(each) for address, each in times.items()}
    slowest = max(medians, key=lambda address: medians[address])
    return {
        "value": round(every[-(-95 * len(every) // 100) - 1], 3),
        "slowest": f"{slowest} {medians[slowest]:.3f} s",
        "first_s": round(first, 2),
        "pages": {address: round(seconds, 3) for address, seconds in medians.items()},
    }


def main() -> None:
    """A tenth first, then the whole."""
    call_command("migrate", verbosity=0)
    tenth = measure(WORKLOADS // 10, WAITING // 10)
    found = measure(WORKLOADS, WAITING)
    growth = round(float(str(found["value"])) / max(float(str(tenth["value"])), 0.001), 2)
    print(json.dumps({"name": "page_p95", "unit": "s", **found, "growth": growth}), flush=True)


if __name__ == "__main__":
    main()
