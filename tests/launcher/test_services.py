"""Throw-away services: started for a block, gone after it however it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from portal.launcher.services import Services, services_throwaway
from portal.launcher.valkey import BrokerUser
from portal.launcher.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def own_services(monkeypatch: pytest.MonkeyPatch):
    """Services that this test may break."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("BROKER_URL", raising=False)
    with services_throwaway() as started:
        yield started


def connect(services: Services) -> psycopg.Connection:
    return psycopg.connect(services.database_url.replace("postgres://", "postgresql://"))


def broker_client(services: Services, user: str, password: str) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(services.valkey.socket), username=user, password=password)


def test_the_database_answers_and_has_what_constraints_need(own_services):
    with connect(own_services) as connection:
        connection.execute("CREATE EXTENSION btree_gist")
        assert connection.execute("SELECT current_database()").fetchone() == ("commons",)


def test_services_listen_on_no_network_address(own_services):
    for record in own_services.records:
        addresses = psutil.Process(record.pid).net_connections(kind="inet")
        assert addresses == []


def test_services_never_run_as_root(own_services):
    for record in own_services.records:
        assert psutil.Process(record.pid).uids().effective != 0


def test_the_broker_refuses_who_has_no_password(own_services):
    with pytest.raises(redis.exceptions.AuthenticationError):
        redis.Redis(unix_socket_path=str(own_services.valkey.socket)).ping()


def test_a_host_of_the_broker_reads_its_own_keys_alone(own_services):
    host = BrokerUser("host-a", "secret", "~host.a +@read +@write")
    own_services.valkey.users_reload([host])
    with broker_client(own_services, "host-a", "secret") as client:
        client.set("host.a", "1")
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.get("host.b")


def test_nothing_is_left_after_the_block(own_services):
    with services_throwaway() as inner:
        processes = [psutil.Process(record.pid) for record in inner.records]
        root = inner.folder.root
    assert not any(process.is_running() for process in processes)
    assert not root.exists()


def test_nothing_is_left_after_a_kill():
    code = (
        "from portal.launcher.services import services_throwaway\n"
        "with services_throwaway() as s:\n"
        "    print(s.folder.root, *[r.pid for r in s.records], flush=True)\n"
        "    input()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "BROKER_URL"}}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        root, *pids = process.stdout.readline().split()
        processes = [psutil.Process(int(pid)) for pid in pids]
        assert len(processes) == 2
        process.send_signal(signal.SIGKILL)
    assert until(lambda: not any(found.is_running() for found in processes), timeout_seconds=20)
    assert until(lambda: not Path(root).exists(), timeout_seconds=10)
