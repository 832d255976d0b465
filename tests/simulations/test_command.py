"""`manage.py simulate` as people type it: no database, no environment, whole answers or none."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from portal.simulations.answering import answer
from portal.simulations.scenario import load_scenario
from portal.simulations.traces.reading import read_trace

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS, TRACES = ROOT / "docs" / "scenarios", ROOT / "examples" / "traces"
PHILLY = TRACES / "philly_2017_oct_2w.csv"
DEADLINE_SECONDS = 120


def scenario_file(folder: Path, name: str = "base", hosts: int = 1, **more: Any) -> Path:
    path = folder / f"{name}.json"
    clusters = [{"name": "h100", "hosts": hosts, "policy": {"scheduler": "fifo"}}]
    path.write_text(json.dumps({"clusters": clusters, "projects": [], **more}))
    return path


def trace_file(folder: Path, rows: str = "a,,p,0,600,8\nb,,p,0,600,8\n") -> Path:
    path = folder / "trace.csv"
    path.write_text(f"job_id,user,project,submit_time_s,duration_s,gpus\n{rows}")
    return path


def simulate(*words: str | Path) -> tuple[int, str, str]:
    """Exit code, what it printed and what it complained about, in this process."""
    out, err = StringIO(), StringIO()
    try:
        call_command("simulate", *map(str, words), stdout=out, stderr=err, no_color=True)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def process(*words: str | Path) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), "simulate", *map(str, words)]


@pytest.mark.parametrize(
    ("scheduler", "mean", "p90", "p99"), [("fifo", 1297.69, 3948, 21791), ("sjf", 780.04, None, None)]
)
def test_the_yardsticks_agree_with_other_simulators(
    scheduler: str, mean: float, p90: int | None, p99: int | None
) -> None:
    """AccaSim and Alea agree on these values of the Philly weeks on one flat pool of 640 GPUs."""
    report = answer(load_scenario(SCENARIOS / f"philly_640_{scheduler}.json"), read_trace(PHILLY), None)
    waits = report["waits"]["all"]
    assert round(waits["mean_s"], 2) == mean
    assert (waits["started"], waits["n"]) == (26_936, 26_936)
    assert (p90 or waits["p90_s"], p99 or waits["p99_s"]) == (waits["p90_s"], waits["p99_s"])


def test_it_needs_no_environment_and_its_last_line_is_the_report(tmp_path: Path) -> None:
    words = process(scenario_file(tmp_path), "--trace", trace_file(tmp_path), "--json")
    done = subprocess.run(
        words, env={"PATH": os.environ["PATH"]}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["waits"]["all"]["mean_s"], report["jobs"], done.stderr) == (300, 2, "")


def test_without_json_it_is_a_table(tmp_path: Path) -> None:
    code, out, _ = simulate(scenario_file(tmp_path), "--trace", trace_file(tmp_path))
    assert code == 0
    assert out.startswith("Cluster h100\n")
    assert "queue wait" in out


def test_two_scenarios_are_shown_side_by_side_on_the_same_work(tmp_path: Path) -> None:
    base, other = scenario_file(tmp_path), scenario_file(tmp_path, "other", hosts=2)
    code, out, _ = simulate(base, "--trace", trace_file(tmp_path), "--compare", other)
    assert (code, out.splitlines()[1].split()) == (0, ["base", "other"])
    _, line, _ = simulate(base, "--trace", trace_file(tmp_path), "--compare", other, "--json")
    both = json.loads(line)["scenarios"]
    assert [(one["scenario"], one["waits"]["all"]["mean_s"]) for one in both] == [("base", 300), ("other", 0)]


def test_two_scenarios_of_one_name_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = scenario_file(tmp_path / "b", hosts=2)
    _, out, _ = simulate(scenario_file(tmp_path), "--trace", trace_file(tmp_path), "--compare", other, "--json")
    assert [one["scenario"] for one in json.loads(out)["scenarios"]] == ["base", "base (b)"]


def test_the_seed_can_be_given(tmp_path: Path) -> None:
    base = scenario_file(tmp_path, workload={"seed": 3})
    seeds = [json.loads(simulate(base, "--trace", trace_file(tmp_path), "--json", *more)[1])["seed"]
             for more in ((), ("--seed", "9"))]  # fmt: skip
    assert seeds == [3, 9]


def test_a_file_of_hosts_replaces_the_hosts(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("sn,gpu,model\na,8,T4\nb,8,T4\n")
    words = (scenario_file(tmp_path), "--trace", trace_file(tmp_path), "--json", "--nodes", nodes)
    assert json.loads(simulate(*words)[1])["waits"]["all"]["mean_s"] == 0


def test_days_and_projects_go_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "days.csv"
    code, _, _ = simulate(scenario_file(tmp_path), "--trace", trace_file(tmp_path), "--csv", target)
    rows = list(csv.DictReader(StringIO(target.read_text())))
    assert code == 0
    assert {(row["scenario"], row["cluster"], row["day"]) for row in rows} == {("base", "h100", "0")}
    assert {path.name for path in tmp_path.iterdir()} == {"base.json", "trace.csv", "days.csv"}


@pytest.mark.parametrize("name", ["none/days.csv", "."])
def test_a_file_that_cant_be_written_is_said_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    ran: list[object] = []
    monkeypatch.setattr("portal.simulations.management.commands.simulate.answer", lambda *_, **__: ran.append(1))
    code, out, err = simulate(scenario_file(tmp_path), "--trace", trace_file(tmp_path), "--csv", tmp_path / name)
    assert (code, out, ran) == (2, "", [])
    assert "can't be written" in err


def test_a_run_that_ends_before_its_warm_up_is_over_says_that_nothing_was_measured(tmp_path: Path) -> None:
    short = scenario_file(tmp_path, warmup_days=3)
    notes = json.loads(simulate(short, "--trace", trace_file(tmp_path), "--json")[1])["notes"]
    assert any("nothing was measured" in note for note in notes)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("a,,p,-1,600,8\n", "trace.csv, line 2, column submit_time_s: '-1' is not between"),
        ("a,,p/q/p,1,600,8\n", "trace.csv, line 2, column project: 'p/q/p' comes back"),
        ("", "trace.csv: has no jobs after the header."),
    ],
)
def test_a_trace_that_cant_be_read_ends_with_2_and_no_figures(tmp_path: Path, rows: str, words: str) -> None:
    code, out, err = simulate(scenario_file(tmp_path), "--trace", trace_file(tmp_path, rows), "--json")
    assert (code, out) == (2, "")
    assert err.startswith(f"simulate: {words}")


def test_a_scenario_that_cant_be_run_ends_with_2_and_names_each_place(tmp_path: Path) -> None:
    listed = [{"path": "a", "share_percent": 70}, {"path": "b", "share_percent": 70}]
    base = scenario_file(tmp_path, projects=listed, dayz=3)
    code, out, err = simulate(base, "--trace", trace_file(tmp_path))
    assert (code, out) == (2, "")
    assert "base.json: dayz: is not a key that is known" in err
    code, out, err = simulate(scenario_file(tmp_path, projects=listed), "--trace", trace_file(tmp_path))
    assert "base.json: projects[1].share_percent: on h100 the children of all add up to 140 %" in err


def test_work_must_come_from_somewhere(tmp_path: Path) -> None:
    code, out, err = simulate(scenario_file(tmp_path))
    assert (code, out) == (2, "")
    assert "there is no work" in err


def test_what_is_larger_than_the_cluster_is_counted_and_stops_nobody(tmp_path: Path) -> None:
    trace = trace_file(tmp_path, "big,,p,0,600,64\na,,p,1,600,8\n")
    _, out, _ = simulate(scenario_file(tmp_path), "--trace", trace, "--json")
    report = json.loads(out)
    assert (report["too_large_jobs"], report["waits"]["all"]["started"]) == (1, 1)


def test_an_interrupt_ends_it_cleanly_without_figures(tmp_path: Path) -> None:
    """The trace is a pipe, so that Ctrl-C comes when the command is at work."""
    pipe = tmp_path / "trace.csv"
    os.mkfifo(pipe)
    words = process(scenario_file(tmp_path), "--trace", pipe, "--json")
    with (
        subprocess.Popen(
            [
                "env",
                "--default-signal=INT",
                *words,
            ],  # ignored in the background, and then by children
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running,
        pipe.open("w"),  # opens when the command reads, and never sends the end
    ):
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=DEADLINE_SECONDS)
    assert (running.returncode, out) == (130, "")
    assert err == "simulate: interrupted; there are no figures of a part\n"


@pytest.mark.parametrize("seed", ["-1", "1.5", "x", "9" * 30])
def test_a_seed_is_a_whole_number(tmp_path: Path, seed: str) -> None:
    with pytest.raises(CommandError, match="is not a whole number"):
        simulate(scenario_file(tmp_path), f"--seed={seed}")


MODULES = ("portal.simulations.scenario", "portal.simulations.reporting", "portal.simulations.answering")


@pytest.mark.parametrize("module", MODULES)
def test_the_formats_leave_django_out(module: str) -> None:
    code = f"import sys, {module}; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("option", ["--trace", "--nodes", "--compare"])
def test_an_empty_name_is_a_file_that_cant_be_read_and_not_one_that_is_left_out(tmp_path: Path, option: str) -> None:
    code, out, err = simulate(scenario_file(tmp_path), "--trace", trace_file(tmp_path), option, "")
    assert (code, out) == (2, "")
    assert "can't be read" in err


def test_what_a_run_reads_is_not_written_over(tmp_path: Path) -> None:
    base, trace = scenario_file(tmp_path), trace_file(tmp_path)
    for target in (base, trace):
        before = target.read_bytes()
        code, out, err = simulate(base, "--trace", trace, "--csv", target)
        assert (code, out, target.read_bytes() == before) == (2, "", True)
        assert "is read by this run" in err


@pytest.mark.parametrize("name", ["", "folder", "no/days.csv", "gone", "loop", "d" * 300])
def test_a_place_that_cant_be_written_is_said_before_anything_runs(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "gone").symlink_to("nowhere/days.csv")
    (tmp_path / "loop").symlink_to("loop")
    before = set(tmp_path.rglob("*"))
    target = str(tmp_path / name) if name else ""
    code, out, err = simulate(tmp_path / "no scenario", "--csv", target)
    assert (code, out, set(tmp_path.rglob("*"))) == (2, "", before)
    assert "can't be written" in err


def test_a_table_goes_through_a_link_and_into_a_pipe(tmp_path: Path) -> None:
    base, trace, link, pipe = scenario_file(tmp_path), trace_file(tmp_path), tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("days.csv")
    simulate(base, "--trace", trace, "--csv", link)
    assert (link.is_symlink(), (tmp_path / "days.csv").read_text().count("\n")) == (True, 3)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    simulate(base, "--trace", trace, "--csv", pipe)
    assert (pipe.is_fifo(), os.read(reader, 1 << 16).count(b"\n")) == (True, 3)
    os.close(reader)


def test_nothing_is_left_of_a_table_that_fails_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    code, out, err = simulate(scenario_file(tmp_path), "--trace", trace_file(tmp_path), "--csv", tmp_path / "days.csv")
    assert (code, out, "No space left" in err) == (2, "", True)
    assert {path.name for path in tmp_path.iterdir()} == {"base.json", "trace.csv"}


@pytest.mark.parametrize(("shell", "code", "words"), [
    ("exec {} > /dev/full", 2, "simulate: standard output: can't be written (No space left on device)\n"),
    ("exec {} >&-", 2, "simulate: standard output: can't be written (it is closed)\n"),
    ("set -o pipefail; {} | exit", 141, ""),
])  # fmt: skip
def test_a_report_that_nobody_can_read_is_no_success(tmp_path: Path, shell: str, code: int, words: str) -> None:
    command = shlex.join(process(scenario_file(tmp_path), "--trace", trace_file(tmp_path)))
    done = subprocess.run(["bash", "-c", shell.format(command)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", words)
