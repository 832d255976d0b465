"""The pages about the simulator: what they tell people to type does what they say, and they name every key."""

import json
import os
import re
import shlex
from dataclasses import fields
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from portal.simulations.reporting import CSV_COLUMNS
from portal.simulations.scenario import KEYS
from portal.simulations.scenarios.policies import DOCUMENTED
from portal.simulations.traces.csv_format import NEEDED, OPTIONAL
from scheduler.policy import POLICY_BOUNDS, Policy
from scheduler.simulation.report import Report
from scheduler.simulation.setup import ResearchLab

ROOT = Path(__file__).parents[2]
HOW_TO = (ROOT / "docs" / "how-to" / "simulate.md").read_text()
REFERENCE = (ROOT / "docs" / "reference" / "simulator.md").read_text()
COMMANDS = re.findall(r"^python manage\.py simulate (.*)$", HOW_TO, re.MULTILINE)
QUICK = [line for line in COMMANDS if "small_lab" in line or "fifo" in line or "sjf" in line]


def test_the_page_has_commands() -> None:
    assert len(QUICK) == 6
    assert len(COMMANDS) == 10


@pytest.mark.parametrize("line", QUICK)
def test_what_the_page_says_is_done(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [str(ROOT / word) if (ROOT / word).is_file() else word for word in shlex.split(line)]
    monkeypatch.chdir(tmp_path)
    out = StringIO()
    call_command("simulate", *words, stdout=out)
    if "--json" in words:
        report = json.loads(out.getvalue().splitlines()[-1])
        assert report["waits"]["all"]["started"] == report["jobs"]
        mean = {"fifo": "1,297.69 s", "sjf": "780.04 s"}.get(report["scheduler"])
        assert mean is None or f"{report['waits']['all']['mean_s']:,.2f} s" == mean
        assert mean is None or mean in HOW_TO
    else:
        assert out.getvalue().startswith("Cluster h100\n")
    assert os.listdir() == (["days.csv"] if "--csv" in words else [])


@pytest.mark.parametrize("line", COMMANDS)
def test_every_file_that_the_page_names_is_there(line: str) -> None:
    named = [word for word in shlex.split(line) if "/" in word]
    assert named
    assert all((ROOT / word).is_file() for word in named)


def test_the_reference_names_every_key_of_a_scenario() -> None:
    for key in (*KEYS, *DOCUMENTED, *(field.name for field in fields(ResearchLab))):
        assert re.search(rf"`(\w+\[?\]?\.)*{key}(\[\]\.\w+)?(\.\w+)?`", REFERENCE), key


def test_the_reference_gives_default_and_bounds_of_every_setting() -> None:
    for name, bound in POLICY_BOUNDS.items():
        default = getattr(Policy(), name)
        shown = "off" if default is None else default
        optional = ", or null" if bound.optional else ""
        assert f"| `{name}` | {shown} | {bound.least} to {bound.most} {bound.unit}{optional} |" in REFERENCE


def test_the_reference_names_every_figure_of_a_report() -> None:
    for figure in (*(field.name for field in fields(Report)), "cluster", "wall_s", "jobs_per_s"):
        assert f"`{figure}`" in REFERENCE, figure


def test_the_reference_names_every_column_of_traces_and_of_the_csv() -> None:
    assert ",".join(CSV_COLUMNS) in REFERENCE
    for column in (*NEEDED, *OPTIONAL):
        assert re.search(rf"[`,]{column}[`,]", REFERENCE), column
