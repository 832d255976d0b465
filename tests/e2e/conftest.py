"""A real browser against a real server: Chromium from PATH, or Debian's where root may install it."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

# Playwright's loop runs in the tests' thread, where Django would else refuse every query.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "Chromium was not found on PATH; on Debian, as root: apt-get install chromium"
# The browser talks to our server and to nobody else.
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
ROOT_NEEDS = ("--no-sandbox", "--disable-dev-shm-usage")


def chromium_find() -> str | None:
    """The browser's path."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def chromium_install() -> None:
    """Debian's package, where we may install it."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = {"env": environment, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"], check=False, **quiet)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where the browser is; without one the test is skipped, and fails where everything has to be tested."""
    if chromium_find() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        chromium_install()
    path = chromium_find()
    if path is None and os.environ.get("CI") == "true":
        pytest.fail(HOW)
    if path is None:
        pytest.skip(HOW)
    return path


@pytest.fixture(scope="session")
def chromium(chromium_path: str) -> Iterator[Browser]:
    """One browser for all tests; each test gets a context of its own."""
    arguments = [*QUIET, *(ROOT_NEEDS if os.geteuid() == 0 else ())]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser, live_server) -> Iterator[BrowserContext]:
    """A fresh browser profile whose addresses start at the live server."""
    opened = chromium.new_context(base_url=live_server.url, viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(10_000)
    yield opened
    opened.close()


@pytest.fixture
def console_errors() -> list[str]:
    """What the browser complained about on `page`: script errors and refusals of the content policy."""
    return []


@pytest.fixture
def page(context: BrowserContext, console_errors: list[str]) -> Page:
    """An empty page; `console_errors` fills while it is used."""
    opened = context.new_page()

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            console_errors.append(f"{message.text} ({message.location.get('url', '')})")

    opened.on("console", note)
    opened.on("pageerror", lambda error: console_errors.append(str(error)))
    return opened


@pytest.fixture
def sign_in(context: BrowserContext, live_server) -> Callable[[object], None]:
    """Sign a user in without the form: `sign_in(user)`."""

    def as_user(user: object) -> None:
        client = Client()
        client.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")
        cookie = client.cookies["sessionid"]
        context.add_cookies([{"name": "sessionid", "value": cookie.value, "url": live_server.url}])

    return as_user
