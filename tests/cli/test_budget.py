"""`commons budget`: as granted, its history, and changing it, against the real portal over HTTP."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from typer.testing import CliRunner

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import budgets_at
from portal.cli.main import app
from tests.api.support import Lab, lab_make, token_of
from tests.factories import after, budget_make, project_make


@pytest.fixture
def lab(transactional_db: None) -> Lab:
    """nlp has 50 % with a cap of 6 GPUs, vision 33.3333 %."""
    lab = lab_make()
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50, "vision": 33.3333}, burst_gpus={"nlp": 6})
    return lab


@pytest.fixture
def commons(lab: Lab, live_server: Any) -> Any:
    """Runs `commons budget` as a lead of the root."""
    variables = {"COMMONS_URL": live_server.url, "COMMONS_TOKEN": token_of(lab.lead)}
    return lambda *arguments: CliRunner().invoke(app, ["budget", *arguments], env=variables)


def granted(lab: Lab) -> dict[str, tuple[int, int | None]]:
    lines = budgets_at(cluster=lab.cluster, at=timezone.now())
    return {project.slug: tuple(lines[project.pk]) for project in (lab.nlp, lab.vision)}


def set_nlp(commons: Any, share: str, *more: str) -> Any:
    return commons("set", "lab", share, "--cluster", "local", "--reason", "nlp ships", *more)


def test_setting_one_child_keeps_the_others_to_the_last_digit(commons: Any, lab: Lab) -> None:
    result = set_nlp(commons, "nlp=60")
    assert result.exit_code == 0, result.output
    assert "version 2 of lab on local" in result.stdout
    assert "lab/nlp 50 % (at most 6 GPUs) -> 60 % (at most 6 GPUs)" in result.stdout
    assert granted(lab) == {"nlp": (600_000, 6), "vision": (333_333, None)}


def test_setting_what_stands_already_makes_no_version(commons: Any, lab: Lab) -> None:
    result = set_nlp(commons, "nlp=50")
    assert result.exit_code == 0, result.output
    assert "Nothing changes: the budgets stand so already, in version 1." in result.stdout


def test_a_planned_change_that_sets_it_back_is_named(commons: Any, lab: Lab) -> None:
    later = (timezone.now() + timedelta(days=5)).isoformat()
    planned = commons("set", "lab", "vision=20", "--cluster", "local", "--reason", "then", "--effective-at", later)
    assert planned.exit_code == 0, planned.output
    assert "then sets: lab/nlp 60 % (at most 6 GPUs) -> 50 % (at most 6 GPUs)." in set_nlp(commons, "nlp=60").stdout


def test_a_burst_cap_is_set_and_lifted(commons: Any, lab: Lab) -> None:
    set_nlp(commons, "lab/vision=10:8")
    set_nlp(commons, "nlp=50:none")
    assert granted(lab) == {"nlp": (500_000, None), "vision": (100_000, 8)}


def test_a_level_that_was_never_budgeted_is_set_whole(commons: Any, lab: Lab) -> None:
    project_make("lab/nlp/chat"), project_make("lab/nlp/code")
    result = commons("set", "lab/nlp", "chat=70", "--cluster", "local", "--reason", "first")
    assert result.exit_code == 0, result.output
    lines = budgets_at(cluster=lab.cluster, at=timezone.now())
    assert lines[project_make("lab/nlp/chat").pk].share_ppm == 700_000


@pytest.mark.parametrize(
    ("share", "words", "status"),
    [
        ("nlp=90", "123.3333 %", 1),
        ("nlp=NaN", "no percent", 1),
        ("nlp=33.33333", "at most 4 decimals", 1),
        ("none=5", "lab/none", 1),
        ("nlp", "CHILD=PERCENT", 2),
        ("nlp=5:x", "CHILD=PERCENT", 2),
    ],
)
def test_what_can_not_be_is_refused_in_words(commons: Any, lab: Lab, share: str, words: str, status: int) -> None:
    result = set_nlp(commons, share)
    assert (result.exit_code, words in result.output.replace("\n", " ")) == (status, True), result.output
    assert BudgetChange.objects.count() == 1


def test_a_base_version_that_is_no_longer_the_newest_is_refused(commons: Any, lab: Lab) -> None:
    set_nlp(commons, "nlp=40")
    result = set_nlp(commons, "nlp=45", "--base-version", "1")
    assert result.exit_code == 1
    assert "at version 2 by now" in result.stderr


def test_a_change_is_undone_and_one_ahead_is_withdrawn(commons: Any, lab: Lab) -> None:
    set_nlp(commons, "nlp=60")
    newest = BudgetChange.objects.latest("pk").pk
    assert commons("undo", str(newest), "--reason", "too much").exit_code == 0
    assert granted(lab)["nlp"] == (500_000, 6)
    set_nlp(commons, "nlp=20", "--effective-at", "2030-01-01T00:00:00Z")
    assert commons("undo", str(BudgetChange.objects.latest("pk").pk), "--reason", "no").exit_code == 0
    assert BudgetChange.objects.latest("pk").withdraws_id is not None


def test_the_history_of_a_project_has_what_moved_it(commons: Any, lab: Lab) -> None:
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50}, burst_gpus={"nlp": 6}, at=after(60))
    rows = json.loads(commons("history", "--project", "lab/nlp", "-o", "json").stdout)
    assert [row["version"] for row in rows] == [1]
    assert "lab/vision 33.3333 % -> 0 %" in commons("history").stdout


def test_budgets_as_of_a_moment(commons: Any, lab: Lab) -> None:
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 10}, at=after(60))
    rows = json.loads(commons("--project", "lab/nlp", "--at", after(59).isoformat(), "-o", "json").stdout)
    assert [row["percent_of_parent"] for row in rows] == [50]


def test_a_file_goes_out_is_checked_and_comes_in(commons: Any, lab: Lab, tmp_path: Path) -> None:
    text = commons("export").stdout
    assert text.startswith("\ufeffcluster,project,")
    file = tmp_path / "budgets.csv"
    file.write_text(text.replace(",50,6,", ",55,,"))
    dry = commons("import", str(file), "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "lab/nlp 50 % (at most 6 GPUs) -> 55 %" in dry.stdout and "nothing was changed yet" in dry.stdout
    assert granted(lab)["nlp"] == (500_000, 6)
    assert commons("import", str(file), "--reason", "from the sheet").exit_code == 0
    assert granted(lab)["nlp"] == (550_000, None)
    file.write_text(text.replace(",50,6,", ",NaN,,"))
    wrong = commons("import", str(file), "--dry-run")
    assert wrong.exit_code == 1
    assert "Line 3, percent: 'NaN' is no percent" in wrong.stdout
    stale = commons("import", str(file), "--reason", "x")
    assert stale.exit_code == 1 and "Line 3: 'NaN' is no percent" in stale.stderr
