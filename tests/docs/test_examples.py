"""What the documentation tells people to type is understood; adding a host is done as written, against the services."""

import base64
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import typer
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandError

from portal.cli.main import app
from portal.clusters.models import Host
from portal.common.messages import key_make
from portal.launcher.services import Services
from portal.launcher.waiting import until
from portal.scheduling.receiver import report_take

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^ *```\w*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
MANAGE = re.compile(r"(?:^|[\s/])(?:python manage\.py|make manage .*?ARGS='(?P<quoted>[^']*)')(?P<plain>.*)")
HOST_PAGE = ROOT / "docs" / "how-to" / "add-a-host.md"
DEADLINE_SECONDS = 30


def typed(page: Path) -> list[str]:
    """The lines of a page's fenced blocks, those that end with a backslash joined with the next."""
    blocks = "\n".join(FENCED.findall(page.read_text())).replace("\\\n", " ")
    return [line.strip() for line in blocks.splitlines()]


def manage_words(line: str) -> list[str] | None:
    """The words after manage.py, redirections and pipes cut off."""
    found = MANAGE.search(line)
    if found is None:
        return None
    words = shlex.split(found["quoted"] or found["plain"])
    ends = [index for index, word in enumerate(words) if word in {">", "<", "|"}]
    return words[: min(ends, default=len(words))]


def commons_words(line: str) -> list[str] | None:
    """The words after `commons` or `./commons`."""
    words = shlex.split(line, comments=True) if re.match(r"(\./)?commons ", line) else []
    return words[1:] or None


MANAGED = [(page, words) for page in PAGES for line in typed(page) if (words := manage_words(line))]
COMMONS = [(page, words) for page in PAGES for line in typed(page) if (words := commons_words(line))]


def shown(value: Any) -> str:
    """A case's name."""
    return " ".join(value) if isinstance(value, list) else value.stem


def test_the_pages_have_examples() -> None:
    assert {words[0] for _, words in MANAGED} >= {
        "cluster_create",
        "project_create",
        "host_register",
        "replay",
        "simulate",
    }
    assert {words[0] for _, words in COMMONS} >= {"submit", "why", "logs", "queue"}


@pytest.mark.parametrize(
    ("page", "words"), MANAGED, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_managing_command_is_understood(page: Path, words: list[str]) -> None:
    command = load_command_class(get_commands()[words[0]], words[0])
    command.create_parser("manage.py", words[0]).parse_args(words[1:])


@pytest.mark.parametrize(
    ("page", "words"), COMMONS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_command_of_a_researcher_is_understood(page: Path, words: list[str]) -> None:
    if words[0].startswith("-"):
        pytest.skip("an option of the whole command")
    group: Any = typer.main.get_command(app)
    command = group.commands[words[0]]
    command.make_context(words[0], [word if word.isdigit() or word != "ID" else "1" for word in words[1:]])


@contextmanager
def agent_runs(environment: dict[str, str], folder: Path) -> Iterator[None]:
    """The agent as a process of its own, ended at the end of the block."""
    argv = [sys.executable, "-m", "portal.agent", "run", "--dir", str(folder)]
    with subprocess.Popen(argv, cwd=ROOT, env={**os.environ, **environment}) as process:
        try:
            yield
        finally:
            process.terminate()


def steps_run(folder: Path, settings: Any) -> None:
    """Every line of the page that can be run here: of the host and of the portal; in `folder`."""
    settings.PORTAL_SIGNING_KEY_FILE = str(folder / "signing-key")
    (folder / "signing-key").write_text(key_make())
    for line in typed(HOST_PAGE):
        line = line.replace("/var/lib/gpu-commons", str(folder / "agent"))
        if line.startswith("python manage.py"):
            run_managing(line, folder)
        elif line.startswith(("python -m portal.agent init", "python -c")):
            argv = shlex.split(line.replace("python", sys.executable, 1))
            source, target = argv[:-2], folder / argv[-1]
            output = subprocess.run(source, cwd=ROOT, check=True, capture_output=True).stdout
            target.write_bytes(output)


def run_managing(line: str, folder: Path) -> None:
    """A command of the portal, in this process; what it prints goes where the line says."""
    words = [str(folder / word) if (folder / word).exists() else word for word in manage_words(line) or []]
    command = load_command_class(get_commands()[words[0]], words[0])
    options = vars(command.create_parser("manage.py", words[0]).parse_args(words[1:]))
    target = folder / line.rpartition("> ")[2] if "> " in line else folder / "printed"
    with target.open("w") as output:
        command.execute(*options.pop("args", ()), **{**options, "stdout": output})


def report_next(portal: redis.Redis) -> Any:
    """The envelope of the next report in the broker."""
    _, raw = portal.brpop(["reports"], timeout=DEADLINE_SECONDS)  # type: ignore[misc]
    return json.loads(base64.b64decode(json.loads(raw)["body"]))[0][0]


def test_a_host_is_added_as_the_page_says(services: Services, db: None, settings: Any, tmp_path: Path) -> None:
    if services.valkey is None:
        pytest.skip("BROKER_URL names a broker that this test may not make a user in")
    steps_run(tmp_path, settings)
    _, user, *rules = (tmp_path / "gpu-017.acl").read_text().split()
    password = (tmp_path / "gpu-017.password").read_text().strip()
    with services.valkey.client() as launcher:
        launcher.execute_command("ACL", "SETUSER", user, *rules)
    assert f"redis://{user}:PASSWORD@" in HOST_PAGE.read_text()
    environment = {
        "BROKER_URL": f"redis+socket://{user}:{password}@{services.valkey.socket}?virtual_host=0",
        "PORTAL_PUBLIC_KEY_FILE": str(tmp_path / "portal.pub"),
    }
    host = Host.objects.get(name="gpu-017")
    assert (host.cluster.name, host.state) == ("h100", "unreachable")
    with agent_runs(environment, tmp_path / "agent"), redis.Redis.from_url(services_url(services)) as portal:
        until(lambda: bool(portal.exists("reports")), timeout_seconds=DEADLINE_SECONDS)
        report_take(report_next(portal))
    host.refresh_from_db()
    assert (host.state, host.last_heard_at is not None) == ("schedulable", True)


def services_url(services: Services) -> str:
    """The broker's address in the words of the client."""
    return services.broker_url.replace("redis+socket://", "unix://").replace("?virtual_host=", "?db=")


def test_a_command_says_what_is_wrong_in_words(db: None) -> None:
    command = load_command_class(get_commands()["membership_set"], "membership_set")
    with pytest.raises(CommandError, match="There is nobody called 'mia'"):
        command.execute(username="mia", project="lab", role="lead", force_color=False, no_color=True, skip_checks=True)
