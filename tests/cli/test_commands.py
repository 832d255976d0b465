"""The command `commons` against the real portal over HTTP."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from typer.testing import CliRunner, Result

from portal.cli.client import Client
from portal.cli.main import app
from portal.workloads.models import Attempt, LogChunk, Workload
from tests.api.support import Lab, lab_make, token_of
from tests.factories import START, after, attempt_make, budget_make, segment_make, workload_make

Commons = Callable[..., Result]


@pytest.fixture
def lab(transactional_db: None) -> Lab:
    return lab_make()


@pytest.fixture
def commons(lab: Lab, live_server: Any) -> Commons:
    """Runs `commons` as the member of lab/nlp."""
    variables = {"COMMONS_URL": live_server.url, "COMMONS_TOKEN": token_of(lab.member)}

    def run(*arguments: str, env: dict[str, str] | None = None, stdin: str = "") -> Result:
        return CliRunner().invoke(app, arguments, env={**variables, **(env or {})}, input=stdin)

    return run


def answer_of(result: Result) -> Any:
    """The JSON that a command printed."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_submit_sends_the_words_after_the_dashes_untouched(commons: Commons) -> None:
    result = commons(
        "submit", "--gpus", "2", "--replicas", "2", "--min-runtime", "1h", "--timeout", "1-12:00:00",
        "--no-resume", "--project", "lab/nlp", "--cluster", "local", "--name", "train", "--priority", "3",
        "--env", "A=b=c", "--", "python", "train.py", "--gpus", "9", "--", "x y",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    workload = Workload.objects.get()
    assert workload.command == ["python", "train.py", "--gpus", "9", "--", "x y"]
    assert (workload.replicas, workload.gpus_per_replica, workload.priority) == (2, 2, 3)
    assert (workload.min_runtime_seconds, workload.timeout_seconds) == (3600, 129_600)
    assert workload.environment == {"A": "b=c"}
    assert not workload.resumable


def test_submit_echoes_durations_normalised(commons: Commons) -> None:
    result = commons("submit", "--min-runtime", "90m", "--timeout", "1-12", "--", "true")
    assert f"Submitted workload {Workload.objects.get().pk} to lab/nlp on local" in result.stdout
    assert "minimum runtime 1 h 30 min (01:30:00)" in result.stdout
    assert "timeout 1 d 12 h (1-12:00:00)" in result.stdout


def test_submit_reads_a_script_and_says_which_lines_it_ignored(commons: Commons, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --job-name=train --time=30\n#SBATCH --mem=1G\n#SBATCH --gres=gpu:4\necho hi\n"
    )
    result = commons("submit", str(script), "--gpus", "2")
    assert result.exit_code == 0, result.output
    assert "Ignored: #SBATCH --mem=1G" in result.stderr
    workload = Workload.objects.get()
    assert (workload.name, workload.timeout_seconds, workload.gpus_per_replica) == ("train", 1800, 2)
    assert workload.script == script.read_text()


def test_submit_reads_a_script_from_its_input(commons: Commons) -> None:
    assert commons("submit", "-", stdin="#!/bin/sh\necho hi\n").exit_code == 0
    assert Workload.objects.get().script == "#!/bin/sh\necho hi\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["submit"], "Give a command after --"),
        (["submit", "nothing.sh"], "can't be read"),
        (["submit", "nothing.sh", "--", "true"], "not both"),
        (["submit", "--gpus", "0", "--", "true"], "--gpus"),
        (["submit", "--gpus", "many", "--", "true"], "--gpus"),
        (["submit", "--min-runtime", "soon", "--", "true"], "'soon' is not a duration"),
        (["submit", "--colour", "red", "--", "true"], "--colour"),
        (["submit", "--env", "NO_SUCH_NAME", "--", "true"], "NO_SUCH_NAME"),
        (["status", "abc"], "WORKLOAD"),
        (["queue", "-o", "xml"], "xml"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_use_leaves_with_2(commons: Commons, arguments: list[str], words: str) -> None:
    result = commons(*arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert not Workload.objects.exists()


def test_a_refusal_leaves_with_1_and_names_every_field(commons: Commons) -> None:
    result = commons("submit", "--gpus", "9", "--timeout", "5m", "--min-runtime", "10m", "--", "true")
    assert result.exit_code == 1
    assert "gpus_per_replica: No host of cluster local has 9 GPUs" in result.stderr
    assert "timeout_seconds: " in result.stderr


def test_a_refusal_as_json_is_the_problem_itself(commons: Commons) -> None:
    result = commons("status", "999999", "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["status"] == 404


def test_a_wrong_token_leaves_with_1(commons: Commons) -> None:
    result = commons("whoami", env={"COMMONS_TOKEN": "gc_wrong"})
    assert result.exit_code == 1
    assert "not known" in result.stderr


def test_a_missing_token_leaves_with_2(commons: Commons) -> None:
    assert commons("whoami", env={"COMMONS_TOKEN": ""}).exit_code == 2


def test_a_portal_that_is_away_leaves_with_3() -> None:
    variables = {"COMMONS_URL": "http://127.0.0.1:1", "COMMONS_TOKEN": "gc_x"}
    result = CliRunner().invoke(app, ["whoami"], env=variables)
    assert result.exit_code == 3
    assert "can't be reached" in result.stderr


def test_an_address_that_is_none_leaves_with_2() -> None:
    variables = {"COMMONS_URL": "commons.example", "COMMONS_TOKEN": "gc_x"}
    assert CliRunner().invoke(app, ["whoami"], env=variables).exit_code == 2


def test_queue_shows_the_head_first_with_position_gpus_ahead_and_reason(commons: Commons, lab: Lab) -> None:
    for position in (2, 1):
        reason = {"position": position, "gpus_ahead": 8 * position}
        text = f"Waiting: {8 * position} GPUs ahead."
        workload_make(
            project=lab.nlp, cluster=lab.cluster, name=f"job-{position}", reason_code="waiting_turn",
            reason_text=text, reason=reason,
        )  # fmt: skip
    result = commons("queue")
    assert result.exit_code == 0, result.output
    first, second = (line for line in result.stdout.splitlines() if "job-" in line)
    assert "job-1" in first and "Waiting: 8 GPUs ahead." in first
    assert "job-2" in second
    assert [row["queue"]["position"] for row in answer_of(commons("queue", "-o", "json"))] == [1, 2]


def test_queue_reads_what_runs_and_what_waits_at_once(commons: Commons, lab: Lab, monkeypatch: Any) -> None:
    running = workload_make(project=lab.nlp, cluster=lab.cluster, state="running")
    waiting = workload_make(project=lab.nlp, cluster=lab.cluster)
    asked: list[str] = []
    get = Client.get

    def counted(self: Client, path: str, **parameters: Any) -> Any:
        asked.append(path)
        return get(self, path, **parameters)

    monkeypatch.setattr(Client, "get", counted)
    result = commons("queue")
    assert asked == ["workloads/"]
    numbers = [line.split()[0] for line in result.stdout.splitlines() if "lab/nlp" in line]
    assert numbers == [str(running.pk), str(waiting.pk)]


def test_queue_names_the_queue_that_a_position_counts_in(commons: Commons, lab: Lab) -> None:
    for code in ("waiting_turn", "unallocated_queue"):
        reason = {"position": 1, "gpus_ahead": 0}
        workload_make(project=lab.nlp, cluster=lab.cluster, name=code, reason_code=code, reason=reason)
    lines = commons("queue").stdout.splitlines()
    assert "QUEUE" in lines[0]
    funded, unallocated = (line.split() for line in lines if "lab/nlp" in line)
    assert funded[6:8] == ["funded", "1"]
    assert unallocated[6:8] == ["unallocated", "1"]


def test_the_end_of_a_workload_is_said_in_words(commons: Commons, lab: Lab) -> None:
    workload = workload_make(
        project=lab.nlp, cluster=lab.cluster, state="timed_out", ended_at=after(60), reason_text="Timed out."
    )
    assert f"Workload {workload.pk} has timed out." in commons("why", str(workload.pk)).stdout
    assert "timed out" in commons("status", str(workload.pk)).stdout


def test_status_shows_how_an_ended_attempt_stood_before_it_was_stopped(commons: Commons, lab: Lab) -> None:
    workload = workload_make(project=lab.nlp, cluster=lab.cluster)
    attempt = attempt_make(workload=workload, hosts=[lab.host])
    for standing, start, end in (("protected", 0, 60), ("funded", 60, 90), ("stopping", 90, 99)):
        segment_make(attempt=attempt, host=lab.host, start_at=after(start), end_at=after(end), standing=standing)
    Attempt.objects.filter(pk=attempt.pk).update(
        state="ended", standing="stopping", outcome="timed_out", ended_at=after(99)
    )
    row = commons("status", str(workload.pk)).stdout.splitlines()[-1]
    assert "funded" in row and "timed out" in row and "stopping" not in row


def test_queue_of_mine_holds_only_mine(commons: Commons, lab: Lab) -> None:
    workload_make(project=lab.nlp, cluster=lab.cluster)
    mine = workload_make(project=lab.nlp, cluster=lab.cluster, author=lab.member)
    assert [row["id"] for row in answer_of(commons("queue", "--mine", "-o", "json"))] == [mine.pk]


def test_why_says_not_yet_considered_at_once(commons: Commons) -> None:
    number = answer_of(commons("submit", "-o", "json", "--", "true"))["id"]
    result = commons("why", str(number))
    assert f"Workload {number} is pending: Not yet considered." in result.stdout


def test_status_shows_attempts_and_charges(commons: Commons, lab: Lab) -> None:
    workload = workload_make(project=lab.nlp, cluster=lab.cluster, gpus_per_replica=2, name="\x1b[31mred")
    attempt = attempt_make(workload=workload, hosts=[lab.host])
    segment_make(attempt=attempt, host=lab.host, start_at=START, end_at=after(3600), gpus=2)
    result = commons("status", str(workload.pk))
    assert result.exit_code == 0, result.output
    assert "2.00 GPU-hours" in result.stdout
    assert "node-1:0,1" in result.stdout
    assert "\x1b" not in result.stdout


def test_cancel_is_harmless_twice(commons: Commons) -> None:
    number = str(answer_of(commons("submit", "-o", "json", "--", "true"))["id"])
    for _ in range(2):
        assert f"Workload {number} is cancelled." in commons("cancel", number).stdout


def test_logs_copies_the_output_byte_by_byte(commons: Commons, lab: Lab) -> None:
    workload = workload_make(project=lab.nlp, cluster=lab.cluster)
    attempt = attempt_make(workload=workload, hosts=[lab.host])
    LogChunk.objects.create(attempt=attempt, replica=0, offset=0, data=b"a\xff\n", received_at=timezone.now())
    assert commons("logs", str(workload.pk)).stdout_bytes == b"a\xff\n"


def test_logs_follows_until_the_workload_has_ended(commons: Commons, lab: Lab) -> None:
    workload = workload_make(project=lab.nlp, cluster=lab.cluster)
    attempt = attempt_make(workload=workload, hosts=[lab.host])
    LogChunk.objects.create(attempt=attempt, replica=0, offset=0, data=b"done\n", received_at=timezone.now())
    Attempt.objects.filter(pk=attempt.pk).update(state="ended", outcome="succeeded", ended_at=after(60))
    Workload.objects.filter(pk=workload.pk).update(state="succeeded", ended_at=after(60))
    assert commons("logs", "-f", str(workload.pk)).stdout == "done\n"


def test_share_and_budget_and_hosts_show_their_tables(commons: Commons, lab: Lab) -> None:
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50, "vision": 25})
    [row] = answer_of(commons("budget", "-o", "json"))
    assert (row["project"], row["gpus"]) == ("lab/nlp", 4.0)
    for command, words in (("budget", "lab/nlp"), ("share", "lab/nlp"), ("hosts", "node-1"), ("usage", "GPU-hours")):
        result = commons(command)
        assert result.exit_code == 0, result.output
        assert words in result.stdout


def test_whoami_names_person_and_role(commons: Commons) -> None:
    result = commons("whoami")
    assert "mia" in result.stdout
    assert "member of lab/nlp" in result.stdout


def test_completion_is_offered() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert "--install-completion" in result.stdout


def test_the_wrapper_in_a_checkout_runs_and_imports_no_django(commons: Commons, lab: Lab, live_server: Any) -> None:
    root = Path(__file__).parents[2]
    variables = {"PATH": os.environ["PATH"], "COMMONS_URL": live_server.url, "COMMONS_TOKEN": token_of(lab.member)}
    arguments = [sys.executable, "-X", "importtime", "-m", "portal.cli", "whoami", "-o", "json"]
    done = subprocess.run(arguments, cwd=root, env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["username"] == "mia"
    assert "django" not in done.stderr
