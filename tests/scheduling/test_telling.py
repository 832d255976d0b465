"""What hosts are told, by which words workloads are told why they wait, and what output is kept."""

import base64
from datetime import datetime
from typing import Any

import pytest
from celery.exceptions import Retry
from django.db import IntegrityError

from portal.clusters.models import Cluster, Host
from portal.common.messages import LogChunkReport
from portal.scheduling import tasks
from portal.scheduling.desired import desired_of
from portal.scheduling.dispatch import hosts_due, is_overdue
from portal.scheduling.logs import HEAD_BYTES, TAIL_BYTES, logs_save
from portal.scheduling.models import Pass
from portal.scheduling.services import pass_run
from portal.scheduling.words import Words
from portal.workloads.models import Attempt, LogChunk
from portal.workloads.selectors import log_read, workload_log
from portal.workloads.services import workload_cancel
from scheduler.types import Code, reason
from tests.factories import after, cluster_make
from tests.scheduling.conftest import Lab, attempt_of, fresh


def chunk(attempt: Attempt, offset: int, data: bytes, replica: int = 0) -> LogChunkReport:
    return {"attempt": attempt.pk, "replica": replica, "offset": offset, "data": base64.b64encode(data).decode()}


def kept(attempt: Attempt) -> bytes:
    return workload_log(workload=attempt.workload, attempt=attempt.number, limit=2 * (HEAD_BYTES + TAIL_BYTES))


def test_a_host_is_told_what_to_run_on_which_gpus(lab: Lab) -> None:
    workload = lab.submit(gpus=2, command=["python", "train.py"], environment={"SEED": "1"})
    lab.make_pass(0)
    assert desired_of(host=lab.hosts[0]) == [
        {
            "attempt": attempt_of(workload).pk,
            "workload": workload.pk,
            "action": "run",
            "grace_seconds": 0,
            "replicas": [{"replica": 0, "gpus": [0, 1]}],
            "gang_replicas": 1,
            "environment": {"SEED": "1"},
            "command": ["python", "train.py"],
        }
    ]
    assert desired_of(host=lab.hosts[1]) == []


def test_a_script_goes_down_in_place_of_a_command(lab: Lab) -> None:
    lab.submit(command=[], script="echo hello\n")
    lab.make_pass(0)
    (entry,) = desired_of(host=lab.hosts[0])
    assert entry["script"] == "echo hello\n"
    assert "command" not in entry


def test_a_cancelled_attempt_is_to_stop_within_its_grace_and_then_is_not_listed(lab: Lab) -> None:
    attempt = lab.start(0)
    workload_cancel(workload=attempt.workload, actor=lab.author, now=after(10))
    lab.make_pass(10)
    (entry,) = desired_of(host=lab.hosts[0])
    assert (entry["action"], entry["grace_seconds"]) == ("stop", 10)
    lab.all_stop(15)
    assert desired_of(host=lab.hosts[0]) == []


def test_what_is_only_held_for_is_on_no_host_yet(lab: Lab) -> None:
    victims = [lab.start(0, gpus=8, project=lab.vision) for _ in lab.hosts]
    lab.submit(at=10, gpus=8, minimum=600)
    lab.make_pass(10)
    told = [entry["attempt"] for host in lab.hosts for entry in desired_of(host=host)]
    assert sorted(told) == sorted(victim.pk for victim in victims)


def test_hosts_told_long_ago_are_due_again(lab: Lab) -> None:
    now = after(1000)
    told_at = int(now.timestamp() * 1000)
    Host.objects.filter(pk=lab.hosts[0].pk).update(desired_sequence=told_at - 31_000)
    Host.objects.filter(pk=lab.hosts[1].pk).update(desired_sequence=told_at - 6_000)
    assert hosts_due(now) == {lab.hosts[0].pk}
    assert is_overdue(fresh(lab.hosts[1]), now)
    assert not is_overdue(fresh(lab.hosts[1]), after(998))


def test_a_host_that_never_took_in_what_it_was_told_is_told_again(
    lab: Lab, django_capture_on_commit_callbacks: Any
) -> None:
    told_at = int(after(0).timestamp() * 1000)
    Host.objects.filter(pk=lab.hosts[0].pk).update(desired_sequence=told_at)
    with django_capture_on_commit_callbacks(execute=True):
        lab.report(lab.hosts[0], 4, desired_sequence=0)
        assert lab.told == set()
        lab.report(lab.hosts[0], 6, desired_sequence=0)
    assert lab.told == {lab.hosts[0].pk}


def test_reasons_name_projects_hosts_and_moments(lab: Lab) -> None:
    words = Words(lab.cluster)
    spent = reason(Code.UNFUNDED, project=lab.nlp.pk, balance_ppm=-30_000, recovers_at=int(after(3600).timestamp()))
    assert words.code(spent) == "unfunded"
    assert "lab/nlp has used its budget (balance -3.0 %, recovers about 2026-11-02 01:00 UTC)" in words.text(spent)
    silent = reason(Code.HOST_SILENT, host=lab.hosts[0].pk, attempt=5, silent_seconds=121)
    assert words.text(silent).startswith("lab-0 has not freed the GPUs of attempt 5")


def test_what_the_root_funds_is_said_without_a_budget_that_it_can_not_have(lab: Lab) -> None:
    funded = reason(Code.FUNDED, project=lab.root.pk, gpus=1, min_runtime_seconds=60)
    said = Words(lab.cluster).text(funded)
    assert said == "Started: lab funds it, from what it granted to no project below it."


@pytest.mark.parametrize("code", list(Code))
def test_every_code_of_the_core_has_one_in_the_portal(lab: Lab, code: Code) -> None:
    assert Words(lab.cluster).code(reason(code)) in {
        *{one.value for one in Code},
        "unfunded",
        "cluster_full_protected",
        "no_host_of_that_size",
        "host_drained",
    }


def test_output_said_twice_or_overlapping_is_kept_once(lab: Lab) -> None:
    attempt = lab.start(0)
    for offset, data in ((0, b"hello "), (0, b"hello "), (3, b"lo world\0\n"), (6, b"world\0\n")):
        logs_save(host=lab.hosts[0], chunks=[chunk(attempt, offset, data)], now=after(5))
    assert kept(attempt) == b"hello world\0\n"
    assert LogChunk.objects.count() == 2


def test_of_a_long_output_the_start_and_the_end_are_kept_and_one_line_names_the_gap(lab: Lab) -> None:
    attempt = lab.start(0)
    pieces = [f"{number:03}".encode() + b"x" * 65_533 for number in range(100)]
    for number, piece in enumerate(pieces):
        logs_save(host=lab.hosts[0], chunks=[chunk(attempt, number * len(piece), piece)], now=after(5))
    output = kept(attempt)
    assert output.startswith(b"".join(pieces[: HEAD_BYTES // 65_536]))
    assert output.endswith(b"".join(pieces[-TAIL_BYTES // 65_536 :]))
    left_out = 100 * 65_536 - sum(len(row.data) for row in LogChunk.objects.all())
    assert output.count(f"[GPU Commons: {left_out:,} bytes of this output are left out here.]".encode()) == 1
    assert HEAD_BYTES + TAIL_BYTES <= 100 * 65_536 - left_out <= HEAD_BYTES + TAIL_BYTES + 2 * 65_536


def test_reading_on_part_by_part_gives_the_same_as_reading_at_once(lab: Lab) -> None:
    attempt = lab.start(0)
    for offset, data in ((0, b"start"), (100, b"traceback"), (109, b": end")):
        LogChunk.objects.create(attempt=attempt, replica=0, offset=offset, data=data, received_at=after(5))
    read, offset = b"", 0
    while (part := log_read(workload=attempt.workload, offset=offset, limit=4)).has_more:
        read, offset = read + part.data, part.next_offset
    assert (
        read + part.data
        == kept(attempt)
        == (b"start\n[GPU Commons: 95 bytes of this output are left out here.]\ntraceback: end")
    )
    assert part.next_offset == 114


def test_output_after_the_end_is_still_kept(lab: Lab) -> None:
    attempt = lab.start(0)
    lab.report(lab.hosts[0], 20, exited={(attempt, 0): 0})
    lab.report(lab.hosts[0], 30, logs=[chunk(attempt, 0, b"bye\n")])
    assert kept(attempt) == b"bye\n"


def test_a_host_cannot_write_the_output_of_what_it_never_had(lab: Lab) -> None:
    attempt = lab.start(0)
    logs_save(host=lab.hosts[1], chunks=[chunk(attempt, 0, b"forged")], now=after(5))
    logs_save(host=lab.hosts[0], chunks=[chunk(attempt, 0, b"forged", replica=1)], now=after(5))
    assert not LogChunk.objects.exists()


def test_a_pass_that_finds_another_under_way_is_asked_for_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "pass_run", lambda **_: None)
    with pytest.raises(Retry):
        tasks.pass_one.apply(args=[lab.cluster.pk], throw=True).get()


def test_the_beat_makes_a_pass_over_every_cluster(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "hosts_tell", lab.tell)
    tasks.pass_all()
    assert lab.cluster.passes.count() == 1
    assert lab.told == {host.pk for host in lab.hosts}


def test_a_cluster_whose_pass_the_database_undoes_holds_up_no_other(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    other = cluster_make("zebra")
    monkeypatch.setattr(tasks, "hosts_tell", lab.tell)

    def undone_for_the_first(*, cluster: Cluster, now: datetime) -> Pass | None:
        if cluster == lab.cluster:
            raise IntegrityError("no")
        return pass_run(cluster=cluster, now=now, tell=lab.tell)

    monkeypatch.setattr(tasks, "pass_run", undone_for_the_first)
    tasks.pass_all()
    assert (lab.cluster.passes.count(), other.passes.count()) == (0, 1)
