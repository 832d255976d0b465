"""`commons simulate` against the real portal over HTTP: sent, waited for, printed, refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone
from typer.testing import CliRunner, Result

from portal.cli import simulate
from portal.cli.client import Client
from portal.cli.main import app
from portal.simulations.life import run_fail, run_finish, run_start
from portal.simulations.models import Run, Source, UploadedTrace
from tests.api.support import Lab, lab_make, token_of
from tests.simulations.portal_runs import GENERATED, TINY, TINY_TRACE, report_make

Commons = Callable[..., Result]


@pytest.fixture
def lab(transactional_db: None) -> Lab:
    return lab_make()


@pytest.fixture
def commons(lab: Lab, live_server: Any) -> Commons:
    """Runs `commons` as the lead of the root."""
    variables = {"COMMONS_URL": live_server.url, "COMMONS_TOKEN": token_of(lab.lead)}

    def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(app, arguments, env={**variables, **(env or {})})

    return run


def written(folder: Path, scenario: Any) -> str:
    path = folder / "what-if.json"
    path.write_text(scenario if isinstance(scenario, str) else json.dumps(scenario))
    return str(path)


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Ends what is queued at the second look, well or not: the process itself is tested where it lives."""

    def takes(well: bool) -> None:
        looks: list[int] = []
        get = Client.get

        def looked(self: Client, path: str, **parameters: Any) -> Any:
            looks.append(1)
            if len(looks) == 2:
                end(well)
            return get(self, path, **parameters)

        monkeypatch.setattr(Client, "get", looked)
        monkeypatch.setattr(simulate, "POLL_SECONDS", 0.01)

    return takes


def end(well: bool) -> None:
    claim = uuid4()
    run = run_start(claim=claim, now=timezone.now())
    assert run is not None
    ended: dict[str, Any] = {"run_id": run.pk, "claim": claim, "code_version": "1+x", "now": timezone.now()}
    if well:
        run_finish(report=report_make(), notes=["A note."], wall_seconds=1.0, **ended)
    else:
        run_fail(error="tiny.csv, line 2: 'x' is not a number.", **ended)


def test_a_scenario_is_queued_under_the_name_of_its_file(commons: Commons, tmp_path: Path) -> None:
    result = commons("simulate", written(tmp_path, GENERATED), "--seed", "7")
    assert result.exit_code == 0, result.output
    run = Run.objects.get()
    assert result.stdout == f"Simulation {run.pk} is queued.\n"
    assert (run.title, run.seed, run.source) == ("what-if", 7, Source.GENERATOR)


def test_a_trace_goes_along(commons: Commons, tmp_path: Path) -> None:
    (tmp_path / "tiny.csv").write_bytes(TINY_TRACE)
    result = commons("simulate", written(tmp_path, TINY), "--trace", str(tmp_path / "tiny.csv"))
    assert result.exit_code == 0, result.output
    assert (Run.objects.get().trace, UploadedTrace.objects.get().name) == (UploadedTrace.objects.get(), "tiny.csv")


def test_it_waits_for_the_report_and_prints_it(commons: Commons, tmp_path: Path, simulator: Any) -> None:
    simulator(True)
    result = commons("simulate", written(tmp_path, GENERATED), "--wait", "--title", "Next week")
    assert result.exit_code == 0, result.output
    assert "Next week: done." in result.stdout
    assert "Note: A note." in result.stdout
    assert "lab/vision" in result.stdout
    assert "waits." in result.stderr


def test_json_is_the_answer_of_the_portal_and_nothing_else(commons: Commons, tmp_path: Path, simulator: Any) -> None:
    simulator(True)
    result = commons("simulate", written(tmp_path, GENERATED), "--wait", "-o", "json")
    answer = json.loads(result.stdout)
    assert answer["report"]["jobs"] == 4
    assert result.stderr == ""


def test_one_that_fails_leaves_with_1_and_says_why(commons: Commons, tmp_path: Path, simulator: Any) -> None:
    simulator(False)
    result = commons("simulate", written(tmp_path, GENERATED), "--wait")
    assert result.exit_code == 1
    assert "tiny.csv, line 2: 'x' is not a number." in result.stdout


@pytest.mark.parametrize(
    ("scenario", "arguments", "words"),
    [
        (TINY, [], "There is no work"),
        ("{", [], "is not JSON"),
        (GENERATED, ["--trace", "nothing.csv"], "can't be read"),
        (GENERATED, ["--trace", "nothing.csv", "--from", "2026-11-02T00:00:00Z"], "not both"),
    ],
)
def test_wrong_use_leaves_with_2(
    commons: Commons, tmp_path: Path, scenario: Any, arguments: list[str], words: str
) -> None:
    result = commons("simulate", written(tmp_path, scenario), *arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert not Run.objects.exists()


def test_a_refusal_leaves_with_1_and_names_the_place(commons: Commons, tmp_path: Path) -> None:
    result = commons("simulate", written(tmp_path, {**GENERATED, "dais": 2}))
    assert result.exit_code == 1
    assert "scenario: dais: is not a key that is known" in result.stderr


def test_who_leads_nothing_is_refused(commons: Commons, lab: Lab, tmp_path: Path) -> None:
    result = commons("simulate", written(tmp_path, GENERATED), env={"COMMONS_TOKEN": token_of(lab.member)})
    assert result.exit_code == 1
    assert "Leads of a project and operators run simulations" in result.stderr
