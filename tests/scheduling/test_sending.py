"""From a pass to the host's queue, through the real broker and signature; and back through the receiver."""

import base64
import json
from typing import Any

import pytest
from celery import current_app
from django.utils import timezone
from kombu.exceptions import OperationalError

from portal.clusters.models import Host
from portal.common import messages
from portal.common.units import whole_second
from portal.scheduling.dispatch import hosts_tell
from portal.scheduling.models import ReportsProbe
from portal.scheduling.probe import probe_send
from portal.scheduling.receiver import report_take
from portal.scheduling.services import pass_run
from portal.scheduling.transport import signing_key
from portal.workloads.models import WorkloadState
from tests.factories import after
from tests.scheduling.conftest import Lab, attempt_of, fresh


def taken(host: Host) -> list[messages.Envelope]:
    """What lies in the host's queue, verified as its agent would, oldest first."""
    found = []
    with current_app.connection_for_read() as connection:
        client = connection.default_channel.client
        while (raw := client.rpop(messages.host_queue(host.name))) is not None:
            arguments = json.loads(base64.b64decode(json.loads(raw)["body"]))[0]
            found.append(
                messages.envelope_verify(
                    arguments[0],
                    public_key=signing_key().public_key().public_bytes_raw(),
                    host=host.name,
                    action=messages.DESIRED_ACTION,
                )
            )
    return found


@pytest.mark.django_db(transaction=True)
def test_a_started_attempt_reaches_its_host_signed_and_its_report_comes_back() -> None:
    lab = Lab(hosts=1)
    key = messages.private_key(messages.key_make())
    host = lab.hosts[0]
    Host.objects.filter(pk=host.pk).update(public_key=key.public_key().public_bytes_raw())
    workload = lab.submit(gpus=2, command=["true"])
    pass_run(cluster=lab.cluster, now=after(0))
    (envelope,) = taken(host)
    (entry,) = envelope["body"]
    assert (entry["workload"], entry["action"]) == (workload.pk, "run")
    assert entry["replicas"] == [{"replica": 0, "gpus": [0, 1]}]
    body = {
        "boot_id": "boot",
        "gpus": 8,
        "gpu_model": "",
        "simulated": True,
        "separates_users": False,
        "agent_version": "1",
        "desired_sequence": envelope["sequence"],
        "replicas": [
            {
                "attempt": entry["attempt"],
                "replica": 0,
                "state": "exited",
                "exit_code": 0,
                "detail": "",
                "checkpointed_ago_seconds": None,
            }
        ],
        "logs": [],
    }
    report_take(messages.envelope_sign(key=key, host=host.name, sequence=1, action=messages.REPORT_ACTION, body=body))
    assert fresh(workload).state == WorkloadState.SUCCEEDED
    assert attempt_of(workload).ended_at is not None
    assert taken(host)[-1]["body"] == []


def reports_taken() -> list[messages.Envelope]:
    """What lies in the reports' queue, oldest first."""
    found = []
    with current_app.connection_for_read() as connection:
        client = connection.default_channel.client
        while (raw := client.rpop(messages.REPORTS_QUEUE)) is not None:
            found.append(json.loads(base64.b64decode(json.loads(raw)["body"]))[0][0])
    return found


@pytest.mark.django_db(transaction=True)
def test_a_probe_goes_through_the_broker_and_its_passage_is_kept() -> None:
    reports_taken()
    now = timezone.now()
    assert probe_send(now)
    (envelope,) = reports_taken()
    report_take(envelope)
    probe = ReportsProbe.objects.get()
    assert probe.sent_at == whole_second(now) <= probe.passed_at
    assert probe.unbroken_since == probe.passed_at
    with pytest.raises(messages.OldSequence):
        report_take(envelope)


@pytest.mark.django_db(transaction=True)
def test_nobody_but_the_portal_can_send_a_probe() -> None:
    key = messages.private_key(messages.key_make())
    forged = messages.envelope_sign(
        key=key, host=messages.PORTAL_NAME, sequence=2**50, action=messages.PROBE_ACTION, body={}
    )
    with pytest.raises(messages.WrongSignature):
        report_take(forged)
    assert not ReportsProbe.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_only_the_newest_telling_waits_for_a_host_that_was_away() -> None:
    lab = Lab(hosts=1)
    for _ in range(3):
        hosts_tell([lab.hosts[0].pk], whole_second(timezone.now()))
    assert len(taken(lab.hosts[0])) == 1


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_is_away_stops_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(messages, "envelope_send", away)
    lab = Lab(hosts=1)
    assert not probe_send(timezone.now())
    workload = lab.submit()
    pass_run(cluster=lab.cluster, now=after(0))
    assert fresh(workload).reason_code == "starting"
