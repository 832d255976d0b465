"""`make bench`: what reaches standard output is figures, and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHES, chosen, figure_of, grown

ROOT = Path(__file__).resolve().parents[2]


def bench(only: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks", "--only", only]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_standard_output_is_the_figures_asked_for_as_json_lines() -> None:
    done = bench("decide_10k,decide_idle")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["name"] for line in lines] == ["decide_10k", "decide_idle"]
    assert all(line["value"] > 0 and line["unit"] == "s" for line in lines)


def test_an_unknown_figure_is_refused_with_the_known_ones() -> None:
    done = bench("decide_10k,quick")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no quick; there are decide_10k, " in done.stderr


def test_without_a_choice_every_figure_is_measured() -> None:
    assert chosen("") == {bench: set(bench.figures) for bench in BENCHES}


def test_every_benchmark_is_a_file_beside_the_runner() -> None:
    assert {bench.module for bench in BENCHES} == {
        path.stem for path in (ROOT / "benchmarks").glob("*.py") if not path.stem.startswith("_")
    }


@pytest.mark.parametrize("line", ["", "warming up", "3", "[1]", '{"name": "pass_10k"}'])
def test_a_line_that_is_no_figure_is_not_taken_for_one(line: str) -> None:
    assert figure_of(line) is None


def test_a_figure_ten_times_larger_says_how_it_grew() -> None:
    figure = {"name": "decide_100k", "value": 3.0, "unit": "s"}
    assert grown(figure, {"decide_10k": 0.5})["growth"] == 6.0
    assert "growth" not in grown(figure, {})
