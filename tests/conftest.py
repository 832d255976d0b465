"""Services for the whole test run: a database and a broker of its own, unless the environment names some."""

import contextlib
import os

import django
import pytest
from hypothesis import settings

from portal.launcher.services import Services, service_variables, services_throwaway

# Settings are read when the first test module is imported, so the services come before all else.
# The watcher ends them however this process ends.
_stack = contextlib.ExitStack()
_services = _stack.enter_context(services_throwaway())
os.environ.update(service_variables(_services))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
os.environ["SIMULATION_COMPILED"] = "0"  # what is tested is the text, and that its build answers alike
django.setup()

# The same examples each time, so that the answer is about the change. EXAMPLES_TIMES=20 searches for new ones.
settings.register_profile("same", derandomize=True, deadline=None)
if "EXAMPLES_TIMES" not in os.environ:
    settings.load_profile("same")


@pytest.fixture(autouse=True)
def brought_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see a portal that has started: its first request would else ask the database once more than the next."""
    from portal.common.starting import Known

    monkeypatch.setattr(Known, "brought_up", True)


@pytest.fixture(autouse=True)
def database_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages look at the database on a connection of their own, which tests without a database have not."""
    from portal.common import health

    monkeypatch.setattr(health, "DATABASE_THERE_SECONDS", float("inf"))


def pytest_unconfigure() -> None:
    """Stop the services at the end of the run."""
    _stack.close()


@pytest.fixture(scope="session")
def services() -> Services:
    """Database and broker of this run, with their addresses."""
    return _services
