"""Replicas as real processes, from the desired state that starts them to the report that frees their GPUs."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from portal.agent.logs import sent_note
from tests.agent.conftest import Bench, run, stop

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give workloads users of their own")
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


def alive(pid: int) -> bool:
    """Whether a process lives; one that only waits to be collected doesn't."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def go(bench: Bench, attempt: int) -> None:
    """Let a command go on that waits for this file."""
    Path(bench.folder_of(attempt).record["work_folder"], "go").touch()


def test_a_command_runs_and_its_output_and_exit_come_back(bench: Bench):
    bench.tell(run(1, "sh", "-c", "echo hello; echo oops >&2; exit 7"))
    ending = bench.wait_state(1, "exited")
    assert ending["exit_code"] == 7
    bench.wait_output(1, b"hello\noops\n")


def test_a_command_sees_its_gpus_and_its_place_in_the_gang(bench: Bench):
    script = "echo $CUDA_VISIBLE_DEVICES $COMMONS_WORKLOAD $COMMONS_ATTEMPT $COMMONS_REPLICA/$COMMONS_REPLICAS $MINE"
    both = [{"replica": 0, "gpus": [0, 3]}, {"replica": 1, "gpus": [5]}]
    bench.tell(run(2, "sh", "-c", script, replicas=both, gang_replicas=4, environment={"MINE": "yes"}))
    bench.wait_output(2, b"0,3 1002 2 0/4 yes\n")
    bench.wait_output(2, b"5 1002 2 1/4 yes\n", replica=1)


def test_the_author_cannot_choose_the_gpus(bench: Bench):
    bench.tell(run(3, "sh", "-c", "echo [$CUDA_VISIBLE_DEVICES]", environment={"CUDA_VISIBLE_DEVICES": "7"}))
    bench.wait_output(3, b"[0]\n")


def test_nothing_of_the_agents_environment_reaches_the_command(bench: Bench, monkeypatch):
    monkeypatch.setenv("BROKER_URL", "redis://secret")
    monkeypatch.setenv("SECRET_KEY_FILE", "/secret")
    bench.tell(run(4, "env"))
    bench.wait_state(4, "exited")
    bench.wait_output(4, b"COMMONS_ATTEMPT=4")
    names = {line.partition(b"=")[0].decode() for line in bench.output(4).splitlines()}
    ours = {name for name in names if name.startswith("COMMONS_")} | {"CUDA_VISIBLE_DEVICES"}
    assert names - ours <= {"PATH", "LANG", "HOME", "SHELL", "PWD", "SHLVL", "_"}


def test_a_script_runs_with_the_interpreter_of_its_first_line(bench: Bench):
    bench.tell(run(5, script="#!/bin/cat\nread me\n"), run(6, script="echo $((6 * 7))", gpus=(1,)))
    bench.wait_output(5, b"read me\n")
    bench.wait_output(6, b"42\n")


def test_a_command_that_does_not_exist_says_so_and_exits_127(bench: Bench):
    bench.tell(run(7, "no-such-program"))
    assert bench.wait_state(7, "exited")["exit_code"] == 127
    bench.wait_output(7, b"Command not found: no-such-program")


def test_a_command_ended_by_a_signal_exits_with_128_more(bench: Bench):
    bench.tell(run(8, "sh", "-c", "kill -SEGV $$"))
    ending = bench.wait_state(8, "exited")
    assert (ending["exit_code"], ending["detail"]) == (139, "Ended by SIGSEGV.")


def test_output_of_any_bytes_comes_back_as_it_was(bench: Bench):
    everything = "".join(f"\\{number:03o}" for number in range(256))
    bench.tell(run(9, "printf", everything))
    bench.wait_output(9, bytes(range(256)))


def test_a_hundred_megabytes_of_output_stay_bounded_on_the_disk_and_the_end_comes_back(bench: Bench):
    bench.tell(run(10, "sh", "-c", "head -c 100000000 /dev/zero; echo THE-END"))
    bench.wait_state(10, "exited")
    kept = sum(path.stat().st_size for path in bench.folder_of(10).path.glob("output.*"))
    assert kept <= 9 * 1024 * 1024
    assert bench.folder_of(10).ending["bytes"] == 100_000_008
    last = max(bench.folder_of(10).path.glob("output.*"))
    assert last.read_bytes().endswith(b"THE-END\n")
    # Megabytes go up in a while; this test has seen what it came for.
    sent_note(bench.folder_of(10), 100_000_008)


def test_a_stop_lets_the_command_save_within_its_grace(bench: Bench):
    bench.tell(run(11, "sh", "-c", "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"))
    bench.wait_output(11, b"ready")
    bench.tell(stop(11, grace_seconds=60))
    assert bench.wait_state(11, "exited")["exit_code"] == 0
    bench.wait_output(11, b"saved")


def test_what_ignores_the_stop_is_killed_after_its_grace(bench: Bench):
    bench.tell(run(12, "sh", "-c", STUBBORN))
    bench.wait_output(12, b"ready")
    asked_at = time.monotonic()
    bench.tell(stop(12, grace_seconds=2))
    assert bench.wait_state(12, "exited")["exit_code"] == 137
    assert time.monotonic() - asked_at >= 2


def test_a_daemonised_child_is_gone_before_the_exit_is_said(bench: Bench):
    daemon = f'setsid sh -c "echo $$; {STUBBORN}" & echo daemon $!; sleep 0.2; exit 0'
    bench.tell(run(13, "sh", "-c", daemon))
    bench.wait_output(13, b"daemon ")
    pid = int(bench.output(13).split(b"daemon ")[1].split()[0])
    assert bench.wait_state(13, "exited")["exit_code"] == 0
    assert not alive(pid)


def test_a_command_that_keeps_forking_is_ended_whole(bench: Bench):
    forking = "trap '' TERM; f() { trap '' TERM; sleep 0.05; (f) & f; }; i=0; echo ready; (f) & wait; sleep 60"
    bench.tell(run(14, "sh", "-c", f"ulimit -u 300 2>/dev/null; {forking}"))
    bench.wait_output(14, b"ready")
    bench.tell(stop(14, grace_seconds=0))
    bench.wait_state(14, "exited")
    token = bench.folder_of(14).record["token"]
    assert not [process for process in psutil.process_iter() if token in (environ_of(process) or "")]


def environ_of(process: psutil.Process) -> str | None:
    """The mark in a living process's environment."""
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.environ().get("COMMONS_RUN")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def test_an_attempt_that_is_no_longer_listed_is_ended_and_forgotten(bench: Bench):
    bench.tell(run(15, "sleep", "1000"))
    bench.wait_state(15, "running")
    pid = bench.folder_of(15).runner["pgid"]
    bench.tell()
    bench.wait(lambda: not bench.folder_of(15).path.exists(), "the folder's removal")
    assert not alive(pid)
    bench.wait(lambda: bench.replica(15) == {}, "a report without it")


def test_a_stop_of_what_never_started_is_reported_as_ended(bench: Bench):
    bench.tell(stop(16))
    ending = bench.wait_state(16, "exited")
    assert ending["exit_code"] is None


def test_an_attempt_waits_for_a_gpu_on_which_another_still_lives(bench: Bench):
    bench.tell(run(17, "sh", "-c", STUBBORN, gpus=(4, 5)))
    bench.wait_output(17, b"ready")
    bench.tell(stop(17, grace_seconds=2, gpus=(4, 5)), run(18, "true", gpus=(5,)), run(19, "true", gpus=(6,)))
    bench.wait_state(19, "exited")
    assert bench.replica(17)["state"] == "running"
    assert bench.replica(18) == {}
    bench.wait_state(18, "exited")
    assert bench.replica(17)["state"] == "exited"


def test_a_replica_that_ended_is_not_started_again(bench: Bench):
    bench.tell(run(20, "sh", "-c", "echo once"))
    bench.wait_state(20, "exited")
    bench.tell(run(20, "sh", "-c", "echo once"))
    bench.restart()
    bench.wait_output(20, b"once\n")
    count = len(bench.reports)
    bench.wait(lambda: len(bench.reports) > count, "another report")
    assert bench.replica(20)["state"] == "exited"
    assert bench.output(20) == b"once\n"


def test_the_time_since_the_last_checkpoint_is_reported(bench: Bench):
    bench.tell(run(21, "sh", "-c", "touch $COMMONS_CHECKPOINT_FILE; sleep 1000"))
    bench.wait(lambda: bench.replica(21).get("checkpointed_ago_seconds") is not None, "a checkpoint")
    assert bench.replica(21)["checkpointed_ago_seconds"] < 15


def test_an_agent_that_restarts_touches_nothing_and_sees_the_end(bench: Bench):
    bench.tell(run(22, "sh", "-c", "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo through; exit 3"))
    bench.wait_output(22, b"begun")
    runner = bench.folder_of(22).runner
    bench.restart()
    assert bench.wait_state(22, "running")["exit_code"] is None
    assert bench.folder_of(22).runner == runner
    go(bench, 22)
    assert bench.wait_state(22, "exited")["exit_code"] == 3
    bench.wait_output(22, b"begun\nthrough\n")


def test_an_agent_that_restarts_does_not_obey_an_old_message(bench: Bench):
    bench.tell(run(23, "sleep", "1000"))
    bench.wait_state(23, "running")
    bench.restart()
    bench.agent.take(bench.envelope([], bench.sequence))
    count = len(bench.reports)
    bench.wait(lambda: len(bench.reports) > count, "another report")
    assert bench.replica(23)["state"] == "running"


def test_a_message_that_is_not_the_portals_is_not_obeyed(bench: Bench):
    forged = bench.envelope([run(24, "true")], 5)
    forged["body"][0]["command"] = ["false"]
    bench.agent.take(forged)
    bench.agent.take({**bench.envelope([], 6), "host": "other"})
    bench.agent.take("nonsense")
    assert bench.agent.memory.desired is None


def test_a_runner_that_was_killed_is_reported_as_lost_once_nothing_of_it_lives(bench: Bench):
    bench.tell(run(25, "sh", "-c", "setsid sh -c 'trap \"\" TERM; sleep 1000' & echo child $!; sleep 1000"))
    bench.wait_output(25, b"child ")
    child = int(bench.output(25).split()[1])
    runner = bench.folder_of(25).runner
    os.kill(runner["pid"], signal.SIGKILL)
    ending = bench.wait_state(25, "exited")
    assert (ending["exit_code"], ending["detail"]) == (None, "lost")
    assert not alive(child)
    assert not alive(runner["pgid"])


def test_an_end_while_the_agent_is_away_is_reported_when_it_is_back(bench: Bench):
    bench.tell(run(26, "sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; exit 5"))
    bench.wait_state(26, "running")
    bench.stop()
    go(bench, 26)
    bench.wait(lambda: bench.folder_of(26).ending, "the end")
    bench.restart()
    assert bench.wait_state(26, "exited")["exit_code"] == 5


def test_replicas_run_on_while_the_broker_is_away_and_nothing_of_their_output_is_lost(bench: Bench):
    bench.tell(run(27, "sh", "-c", "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two"))
    bench.wait_output(27, b"one\n")
    bench.broker_answers = False
    go(bench, 27)
    bench.wait(lambda: bench.folder_of(27).ending, "the end")
    bench.broker_answers = True
    bench.wait_output(27, b"one\ntwo\n")
    assert bench.wait_state(27, "exited")["exit_code"] == 0


def test_the_exit_is_reported_within_a_second(bench: Bench):
    bench.tell(run(28, "sh", "-c", "while [ ! -e go ]; do sleep 0.02; done"))
    bench.wait_state(28, "running")
    go(bench, 28)
    began_at = time.monotonic()
    bench.wait_state(28, "exited")
    assert time.monotonic() - began_at < 1


@AS_ROOT
def test_as_root_each_replica_runs_under_a_number_of_its_own_and_sees_no_secret(bench: Bench):
    key = bench.folder / "key"
    script = f"id -u; id -G; cat {key} && echo LEAK; cat $COMMONS_OTHER/script && echo LEAK; echo done"
    bench.tell(run(29, script="sleep 1000"))
    bench.wait_state(29, "running")
    other = bench.folder_of(29).record["work_folder"]
    bench.tell(
        run(29, script="sleep 1000"), run(30, "sh", "-c", script, gpus=(1,), environment={"COMMONS_OTHER": other})
    )
    bench.wait_output(30, b"done")
    assert b"LEAK" not in bench.output(30)
    uid, groups = bench.output(30).split(b"\n")[:2]
    assert uid == groups
    assert int(uid) >= 61184
    assert int(uid) != bench.folder_of(29).record["uid"]
    assert bench.reports[-1]["separates_users"] is True


@AS_ROOT
def test_where_a_number_cannot_reach_the_agents_folder_work_goes_to_an_open_one(bench: Bench):
    bench.stop()
    bench.folder.parent.chmod(0o700)
    bench.restart()
    bench.tell(run(31, script="pwd; touch $COMMONS_CHECKPOINT_FILE && cat $HOME/script"))
    assert bench.wait_state(31, "exited")["exit_code"] == 0
    bench.wait_output(31, b"/var/tmp/gpu-commons-work-")


def test_folders_nested_deeper_than_python_follows_are_removed_and_the_agent_works_on(bench: Bench):
    bench.tell(run(36, script=f"mkdir -p {'d/' * 1500}"))
    assert bench.wait_state(36, "exited")["exit_code"] == 0
    bench.tell(run(37, "true"))
    bench.wait_state(37, "exited")
    bench.wait(lambda: not bench.folder_of(36).path.exists(), "the removal")


def test_only_the_owner_reads_what_the_agent_keeps(bench: Bench):
    bench.tell(run(32, "true"))
    bench.wait_state(32, "exited")
    for name in ("key", "state.json", "attempts/32-0/record.json", "attempts/32-0/exit.json"):
        assert stat.S_IMODE((bench.folder / name).stat().st_mode) == 0o600, name
    assert not (bench.folder / "attempts/32-0/launch.json").exists()


def test_a_runner_starts_in_a_moment_and_imports_nothing_but_the_standard_library():
    code = "import sys, portal.agent.runner; print([n for n in sys.modules if n.split('.')[0] in ('psutil', 'celery')])"
    began_at = time.monotonic()
    told = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, check=True)
    assert told.stdout.strip() == b"[]"
    assert time.monotonic() - began_at < 1
