"""docker-compose.yml and Dockerfile name only what exists."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands

from portal.simulations.compiled import build_folder

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "gpu-commons"}


def test_every_part_of_the_portal_is_a_service():
    assert {"migrate", "web", "worker", "receiver", "simulator", "beat"} == set(OURS)


@pytest.mark.parametrize("name", sorted(COMPOSE["services"]))
def test_a_service_that_stays_has_its_health_or_its_restarts_watched(name):
    service = COMPOSE["services"][name]
    assert name == "migrate" or service["restart"] == "unless-stopped"
    if name in {"database", "broker", "web"}:
        assert service["healthcheck"]["test"]


def test_migrations_run_once_before_everything_else():
    for name, service in OURS.items():
        if name != "migrate":
            assert service["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_no_secret_stands_in_the_file():
    for service in COMPOSE["services"].values():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|KEY|_URL", variable):
                assert value.startswith("/run/secrets/"), variable
                assert value.removeprefix("/run/secrets/") in COMPOSE["secrets"]
                assert value.removeprefix("/run/secrets/") in service["secrets"]


@pytest.mark.parametrize("name", sorted(OURS))
def test_the_environment_of_a_service_is_one_that_the_portal_reads(name):
    from portal.env import VARIABLES

    known = {variable.name for variable in VARIABLES}
    assert set(OURS[name]["environment"]) <= known


@pytest.mark.parametrize("name", ["worker", "receiver", "simulator", "beat"])
def test_a_celery_service_names_an_app_and_a_queue_that_exist(name):
    command = OURS[name]["command"]
    module = importlib.import_module(command[command.index("-A") + 1])
    assert module.app.tasks
    if "-Q" in command:
        from portal.common import messages

        assert command[command.index("-Q") + 1] in {
            messages.PORTAL_QUEUE,
            messages.REPORTS_QUEUE,
            messages.SIMULATIONS_QUEUE,
        }


def test_the_web_service_starts_as_written():
    command = OURS["web"]["command"]
    check = [sys.executable, "-m", *command, "--check-config"]
    assert subprocess.run(check, cwd=ROOT, capture_output=True).returncode == 0


def test_the_migrate_service_runs_a_command_of_manage_py():
    program, script, name, *_ = OURS["migrate"]["command"]
    assert program == "python"
    assert (ROOT / script).is_file()
    assert name in get_commands()


def test_the_image_copies_only_what_exists():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []


def test_the_image_compiles_from_the_files_that_compiling_reads(tmp_path):
    """Its stage has neither the rest of the portal nor its settings."""
    stage = (ROOT / "Dockerfile").read_text().split("AS compiled")[1].split("\nFROM ")[0]
    for line in stage.splitlines():
        if line.startswith("COPY "):
            *sources, target = line.split()[1:]
            for source in sources:
                there = tmp_path / target.lstrip("/")
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, there)
                else:
                    there.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / source, there)
    code = "from portal.simulations.compiling import find_missing, build_folder; print(build_folder().name)"
    told = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "app", capture_output=True, text=True)
    assert told.stdout.strip() == build_folder().name, told.stderr
