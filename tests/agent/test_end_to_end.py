"""Broker, receiver and agent together, each in its own process: what is told runs, and what is seen comes up."""

import base64
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
import redis
from celery import Celery
from django.db import connection
from django.utils import timezone

from portal.clusters.models import Host
from portal.common import messages
from portal.launcher.services import Services
from portal.launcher.valkey import BrokerUser, broker_url
from portal.launcher.waiting import until
from portal.scheduling.dispatch import hosts_tell
from portal.scheduling.models import ReportsProbe
from portal.scheduling.probe import probe_send
from portal.scheduling.transport import sequence_next
from portal.usage.services import segments_open
from portal.workloads.models import Attempt, AttemptState, LogChunk, ReplicaStatus
from tests.factories import attempt_make, cluster_make, host_make, project_make, workload_make

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 40.0
USERS = [
    BrokerUser(messages.broker_user(name), "password", messages.broker_acl_rules(name)) for name in ("one", "other")
]


@pytest.fixture
def broker(services: Services) -> Iterator[redis.Redis]:
    """The broker with two hosts' users, as the portal sees it."""
    if services.valkey is None:
        pytest.skip("BROKER_URL names a broker that these tests may not make users in")
    services.valkey.users_reload(USERS)
    with redis.Redis(
        unix_socket_path=str(services.valkey.socket), username="portal", password=services.valkey.portal_password
    ) as client:
        client.flushdb()
        yield client
        client.flushdb()


def url_of(services: Services, user: str) -> str:
    """The broker's address as a host's user."""
    assert services.valkey is not None
    return broker_url(services.valkey.socket, messages.broker_user(user), "password")


def client_of(services: Services, user: str) -> redis.Redis:
    """A plain connection as a host's user."""
    assert services.valkey is not None
    path = str(services.valkey.socket)
    return redis.Redis(unix_socket_path=path, username=messages.broker_user(user), password="password")


FORBIDDEN = [
    ("BRPOP", "host.other", 1),
    ("RPOP", "host.other"),
    ("LLEN", "host.other"),
    ("LPUSH", "host.other", "x"),
    ("LPUSH", "host.one", "x"),
    ("LPUSH", "portal", "x"),
    ("BRPOP", "portal", 1),
    ("RPOP", "reports"),
    ("BRPOP", "host.one", "reports", 1),
    ("LRANGE", "reports", 0, -1),
    ("DEL", "reports"),
    ("LPUSH", "reports.unacked", "x"),
    ("KEYS", "*"),
    ("SUBSCRIBE", "anything"),
    ("PUBLISH", "anything", "x"),
    ("EVAL", "return redis.call('RPOP', 'portal')", 0),
    ("CONFIG", "GET", "*"),
    ("ACL", "LIST"),
    ("FLUSHALL",),
]


@pytest.mark.parametrize("command", FORBIDDEN, ids=lambda command: " ".join(map(str, command)))
def test_a_hosts_broker_user_may_do_nothing_but_take_its_own_and_report(command, broker, services):
    broker.lpush("host.other", "secret")
    broker.lpush("reports", "secret")
    broker.lpush("portal", "secret")
    with client_of(services, "one") as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


def test_a_hosts_broker_user_takes_its_own_and_reports(broker, services):
    broker.lpush("host.one", "told")
    with client_of(services, "one") as client:
        assert tuple(client.execute_command("BRPOP", "host.one", 1)) == (b"host.one", b"told")
        client.lpush("reports", "said")
    assert broker.lrange("reports", 0, -1) == [b"said"]


def test_only_the_newest_desired_state_waits_for_a_host(broker, services):
    key = messages.private_key(messages.key_make())
    portal = Celery("portal", broker=services.broker_url, set_as_current=False)
    for sequence in (1, 2, 3):
        envelope = messages.envelope_sign(key=key, host="one", sequence=sequence, action="desired", body=[])
        messages.envelope_send(portal, messages.DESIRED_TASK, envelope, "host.one", newest_only=True)
    waiting = [json.loads(item) for item in broker.lrange("host.one", 0, -1)]
    assert [json.loads(base64.b64decode(item["body"]))[0][0]["sequence"] for item in waiting] == [3]
    assert broker.keys("*") == [b"host.one"]


@dataclass
class World:
    """A host in the database, its agent and the receiver as processes."""

    services: Services
    broker: redis.Redis
    folder: Path
    host: Host
    key: Any
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, name: str, *argv: str, **environment: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *argv], cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log
            )

    def receiver_start(self) -> None:
        parts = urlsplit(self.services.database_url)
        database = urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))
        worker = ("-A", "portal.scheduling.receiver", "worker", "-Q", "reports", "-P", "solo", "-l", "INFO")
        self.start("receiver", "celery", *worker, "--without-gossip", "--without-mingle", DATABASE_URL=database)

    def agent_start(self) -> None:
        public_key = self.folder / "portal.pub"
        signing = Path(os.environ["PORTAL_SIGNING_KEY_FILE"]).read_text()
        public_key.write_text(messages.public_key_hex(signing))
        self.start(
            "agent",
            "portal.agent",
            "run",
            "--dir",
            str(self.folder / "agent"),
            BROKER_URL=url_of(self.services, "one"),
            PORTAL_PUBLIC_KEY_FILE=str(public_key),
        )

    def stop(self, name: str) -> None:
        process = self.processes.pop(name)
        process.terminate()
        process.wait(timeout=PATIENCE_SECONDS)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def wait(self, condition: Any, what: str) -> None:
        assert until(condition, timeout_seconds=PATIENCE_SECONDS), f"{what} did not come about\n" + "\n".join(
            self.log(name)[-3000:] for name in self.processes
        )

    def report(self, sequence: int, **fields: Any) -> messages.Envelope:
        body = {
            "boot_id": "b",
            "gpus": 8,
            "gpu_model": "simulated",
            "simulated": True,
            "separates_users": False,
            "agent_version": "1",
            "desired_sequence": 0,
            "replicas": [],
            "logs": [],
        }
        told = {"key": self.key, "host": "one", "action": "report", "body": {**body, **fields}}
        return messages.envelope_sign(sequence=sequence, **told)

    def heard(self) -> int:
        return Host.objects.get(pk=self.host.pk).report_sequence


@pytest.fixture
def world(services: Services, broker: redis.Redis, transactional_db: None) -> Iterator[World]:
    """One host, registered with its key; its processes are started by the test."""
    with tempfile.TemporaryDirectory(prefix="commons-world-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        command = [sys.executable, "-m", "portal.agent", "init", "--dir", str(folder / "agent"), "--name", "one"]
        told = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
        host = host_make(cluster=cluster_make(), name="one", public_key=bytes.fromhex(told["public_key"]))
        key = messages.private_key((folder / "agent" / "key").read_text())
        found = World(services, broker, folder, host, key)
        yield found
        for name in list(found.processes):
            found.stop(name)


def attempt_assigned(host: Host, **fields: Any) -> Attempt:
    """An attempt of one GPU that is to start on the host now."""
    now = timezone.now().replace(microsecond=0)
    workload = workload_make(project=project_make("lab/one"), cluster=host.cluster, submitted_at=now, **fields)
    attempt = attempt_make(workload=workload, hosts=[host], state=AttemptState.ASSIGNED)
    segments_open(attempt=attempt, at=now, standing=attempt.standing)
    return attempt


def test_a_desired_state_becomes_a_process_and_its_output_and_end_come_back(world: World):
    world.receiver_start()
    world.agent_start()
    attempt = attempt_assigned(world.host, command=["sh", "-c", "echo on gpu $CUDA_VISIBLE_DEVICES; exit 4"])
    hosts_tell([world.host.pk], timezone.now())
    ended = ReplicaStatus.objects.filter(attempt=attempt, exit_code=4, freed_at__isnull=False)
    world.wait(ended.exists, "the end")
    world.wait(LogChunk.objects.filter(attempt=attempt).exists, "the output")
    assert bytes(LogChunk.objects.get(attempt=attempt).data) == b"on gpu 0\n"
    attempt.refresh_from_db()
    assert (attempt.state, attempt.exit_code) == (AttemptState.ENDED, 4)
    world.wait(lambda: not list((world.folder / "agent" / "attempts").iterdir()), "the record's end")


def test_the_portals_own_probe_comes_through_broker_and_receiver(world: World):
    assert probe_send(timezone.now())
    assert not ReportsProbe.objects.exists()
    world.receiver_start()
    world.wait(ReportsProbe.objects.exists, "the probe's passage")


def test_agent_and_receiver_find_the_broker_again_and_the_workload_runs_on(world: World):
    world.receiver_start()
    world.agent_start()
    script = "echo begun; while [ ! -e go ]; do sleep 0.05; done; exit 0"
    attempt = attempt_assigned(world.host, command=["sh", "-c", script])
    hosts_tell([world.host.pk], timezone.now())
    running = ReplicaStatus.objects.filter(attempt=attempt, running_at__isnull=False)
    world.wait(running.exists, "the start")
    with world.services.valkey.client() as launcher:
        launcher.client_kill_filter(_type="normal", skipme=True)
    second = attempt_assigned(world.host, command=["true"])
    hosts_tell([world.host.pk], timezone.now())
    ended = ReplicaStatus.objects.filter(attempt=second, exit_code=0, freed_at__isnull=False)
    world.wait(ended.exists, "the second's end")
    assert running.get().freed_at is None
    record = json.loads((world.folder / "agent" / "attempts" / f"{attempt.pk}-0" / "record.json").read_text())
    Path(record["work_folder"], "go").touch()
    world.wait(ReplicaStatus.objects.filter(attempt=attempt, exit_code=0).exists, "the first's end")


def raw(task: str, arguments: list[Any], embed: dict[str, Any], **headers: Any) -> str:
    """A message as a hostile host could write it, byte by byte."""
    tag = str(uuid.uuid4())
    return json.dumps(
        {
            "body": base64.b64encode(json.dumps([arguments, {}, embed]).encode()).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {"lang": "py", "task": task, "id": tag, "root_id": tag, **headers},
            "properties": {
                "delivery_tag": tag,
                "body_encoding": "base64",
                "priority": 0,
                "delivery_info": {"exchange": "", "routing_key": "planted"},
            },
        }
    )


def test_what_a_hostile_host_pushes_runs_nothing_and_stops_nobody(world: World):
    planted = {"task": messages.PASS_ALL_TASK, "args": [], "kwargs": {}, "options": {"queue": "planted"}}
    stranger = messages.private_key(messages.key_make())
    forged = messages.envelope_sign(key=stranger, host="one", sequence=50, action="report", body={})
    of_another = {**world.report(51), "host": "other"}
    good = world.report(10, gpus=7)
    hostile = [
        b"\xff\xfe no json",
        b"[" * 100_000,
        json.dumps({"body": 5}),
        json.dumps([1, 2]),
        raw(messages.PASS_ALL_TASK, [], {}),
        raw("celery.group", [planted], {}),
        raw(messages.REPORT_TASK, ["x"], {}),
        raw(messages.REPORT_TASK, [forged], {}),
        raw(messages.REPORT_TASK, [of_another], {}),
        raw(messages.REPORT_TASK, [world.report(60, gpus=0)], {}),
        raw(messages.REPORT_TASK, [world.report(61, logs=[{"attempt": 1}])], {}),
        raw(messages.REPORT_TASK, [good], {"callbacks": [planted], "errbacks": [planted]}, eta="2099-01-01T00:00:00"),
        raw(messages.REPORT_TASK, [good], {}),
    ]
    with client_of(world.services, "one") as client:
        for message in hostile:
            client.lpush("reports", message)
        client.lpush("reports", raw(messages.REPORT_TASK, [world.report(11, gpus=6)], {}))
    world.receiver_start()
    world.wait(lambda: world.heard() == 11, "the last report")
    assert Host.objects.get(pk=world.host.pk).gpus == 6
    assert world.broker.exists("planted") == 0
    log = world.log("receiver")
    for reason in ("not JSON", "not a report", "signature", "No host 'other'", "gpus must be", "is not after 10"):
        assert reason in log, f"{reason} is not in the receiver's log:\n{log}"
    listed = log.split("[tasks]")[1].split("\n\n")[0].split("\n")
    assert [line.strip(" .") for line in listed if line.strip(" .")] == [messages.REPORT_TASK]


def test_a_sequence_is_ahead_of_the_last_and_of_what_a_backup_forgot(world: World):
    now = timezone.now()
    first = sequence_next(world.host, now)
    Host.objects.filter(pk=world.host.pk).update(desired_sequence=3)
    assert sequence_next(world.host, now) == first
    Host.objects.filter(pk=world.host.pk).update(desired_sequence=first + 10**6)
    assert sequence_next(world.host, now) == first + 10**6 + 1
