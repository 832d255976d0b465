"""#SBATCH lines: what is understood, and what is passed over by name."""

import pytest

from portal.cli.batch import Batch, batch_read
from portal.cli.errors import UsageError


def read(*lines: str) -> Batch:
    return batch_read("\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "python train.py"]))


def test_name_account_time_and_requeue_are_understood() -> None:
    batch = read("--job-name=train", "-A lab/nlp", "--time=1-12:00:00", "--no-requeue")
    assert (batch.name, batch.project, batch.timeout_seconds, batch.resumable) == ("train", "lab/nlp", 129_600, False)
    assert batch.ignored == []


@pytest.mark.parametrize(
    ("lines", "replicas", "gpus"),
    [
        (["--gres=gpu:8"], None, 8),
        (["--gres=gpu:h100:4", "--nodes=2"], 2, 4),
        (["--gres=gpu"], None, 1),
        (["-N 2", "--gpus-per-node=8"], 2, 8),
        (["--nodes=4", "--gpus=16"], 4, 4),
        (["-G 8"], None, 8),
        (["--ntasks=3", "--gpus-per-task=2"], 3, 2),
        (["--nodes=2", "--ntasks=8", "--gpus-per-task=1"], 2, 4),
        (["-N2 -G16"], 2, 8),
    ],
)
def test_the_ways_to_say_a_size(lines: list[str], replicas: int | None, gpus: int) -> None:
    batch = read(*lines)
    assert (batch.replicas, batch.gpus_per_replica) == (replicas, gpus)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 5400), ("30:00", 1800), ("1:00:00", 3600), ("2-0", 172_800), ("UNLIMITED", None)]
)
def test_a_bare_time_counts_minutes_as_slurm_has_it(text: str, seconds: int | None) -> None:
    assert read(f"--time {text}").timeout_seconds == seconds


def test_what_means_nothing_here_is_passed_over_by_name() -> None:
    batch = read("--partition=gpu", "--mem 64G", "--exclusive", "-o out.txt", "--gres=gpu:1,nvme:2")
    assert batch.ignored == ["--partition=gpu", "--mem=64G", "--exclusive", "--output=out.txt", "--gres=nvme:2"]
    assert batch.gpus_per_replica == 1


def test_tasks_without_gpus_of_their_own_are_passed_over_with_the_reason() -> None:
    [line] = read("--ntasks=4", "--gres=gpu:4").ignored
    assert line.startswith("--ntasks=4 (")


def test_lines_after_the_first_command_are_no_longer_read() -> None:
    assert batch_read("#!/bin/sh\n\n# hello\n#SBATCH -J a\necho\n#SBATCH -J b\n").name == "a"


def test_lines_that_are_commented_out_are_not_read() -> None:
    assert batch_read("#!/bin/sh\n##SBATCH -J a\n# SBATCH -J b\n") == Batch()


@pytest.mark.parametrize(
    "line", ["--nodes=2-4", "--gpus=5 --nodes=2", "--gres=gpu:0", "--time=soon", "--nodes=0", "--job-name='x"]
)
def test_what_can_not_be_meant_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match="#SBATCH"):
        read(line)
