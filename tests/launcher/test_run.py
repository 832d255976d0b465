"""`make run` as a whole: it comes up, ends without a trace however it is ended, and finds its data again."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest
import redis

from portal.launcher.folder import Folder
from portal.launcher.host_users import host_users
from portal.launcher.records import marked_processes, records_read, same_process
from portal.launcher.waiting import until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
UP_SECONDS = 180
GONE_SECONDS = 60
FIRST_START_SECONDS, LATER_START_SECONDS = 20, 6
# This machine is shared by the tests; the bounds above are for an idle one and are measured by hand.
SLACK = 4
PARTS = {"web", "worker", "receiver", "simulator", "beat", "agent", "postgres", "valkey"}


@dataclass
class Launch:
    """A launcher that was started by a test, and what it started."""

    process: subprocess.Popen[str]
    folder: Path
    port: int
    lines: list[str]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def seconds(self) -> float:
        return float(re.search(r"up in ([\d.]+) s", "".join(self.lines))[1])

    def parts(self) -> dict[str, psutil.Process]:
        _, records = records_read(self.folder / "run")
        found = {record.name: same_process(record.pid, record.started_at) for record in records}
        return {name: process for name, process in found.items() if process is not None}

    def everything(self) -> list[psutil.Process]:
        """All that the launch has started, down to the last descendant."""
        launch_id, _ = records_read(self.folder / "run")
        found = {process.pid: process for process in psutil.Process(self.process.pid).children(recursive=True)}
        found.update({process.pid: process for process in marked_processes(launch_id)})
        return list(found.values())

    def query(self, statement: str) -> list[tuple]:
        sockets = (self.folder / "run" / "sockets").resolve()
        with psycopg.connect(host=str(sockets), user="commons", dbname="commons") as connection:
            return connection.execute(statement).fetchall()


def watcher_of(launch: Launch) -> psutil.Process | None:
    found = [each for each in psutil.Process(launch.process.pid).children() if "portal.launcher.watcher" in argv(each)]
    return found[0] if found else None


def argv(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def launched(folder: Path, **variables: str) -> Iterator[Launch]:
    """A launch that is stopped at the end of the block and leaves nothing, unless the block has ended it."""
    launch = start(folder, **variables)
    try:
        assert until(lambda: set(launch.parts()) == PARTS, timeout_seconds=UP_SECONDS)
        yield launch
    finally:
        started = launch.everything() if launch.process.poll() is None else []
        launch.process.terminate()
        close(launch.process)
        assert all_gone(started + list(launch.parts().values()))


def start(folder: Path, **variables: str) -> Launch:
    """Start the launcher and wait for the line that says where it is."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "BROKER_URL"}}
    told = {"PORT": str(port), "DATA_DIR": str(folder), "DEMO": "0", "ADMIN_USER": "ada", **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", "portal.launcher"],
        cwd=ROOT,
        env={**kept, "ADMIN_PASSWORD": "a-long-pass-phrase-7", **told},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    launch = Launch(process, folder, port, [])
    for line in process.stdout:
        launch.lines.append(line)
        if line.startswith("GPU Commons is at"):
            return launch
    close(process)
    raise AssertionError("".join(launch.lines))


def close(process: subprocess.Popen[str]) -> None:
    """Collect a launcher that has ended or is about to."""
    process.wait(timeout=GONE_SECONDS)
    process.stdout.close()


def gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def all_gone(processes: list[psutil.Process]) -> bool:
    return until(lambda: all(gone(process) for process in processes), timeout_seconds=GONE_SECONDS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data folder for all launches of this file, one after another."""
    return tmp_path_factory.mktemp("run") / "data"


@pytest.fixture(scope="module")
def shared(data: Path) -> Iterator[Launch]:
    """A launch, the folder's first, for tests that leave it running."""
    with launched(data) as started:
        yield started


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """A launch with a folder of its own that the test ends."""
    with launched(tmp_path / "data") as started:
        yield started


def test_everything_comes_up_and_answers(shared):
    assert httpx.get(f"{shared.address}healthz").json()["status"] == "ok"
    assert shared.seconds < FIRST_START_SECONDS * SLACK


def test_a_second_launcher_on_the_folder_is_told_who_has_it(shared, data):
    with pytest.raises(AssertionError, match=rf"already runs on .*process {shared.process.pid}, {shared.address}"):
        start(data)


def test_the_agent_knows_neither_the_database_nor_the_portals_keys(shared):
    told = shared.parts()["agent"].environ()
    assert not set(told) & {"DATABASE_URL", "SECRET_KEY_FILE", "PORTAL_SIGNING_KEY_FILE", "ADMIN_PASSWORD"}
    assert "portal:" not in told["BROKER_URL"]


def test_nothing_listens_on_the_network_but_the_page_on_this_machine(shared):
    listening = [
        connection.laddr
        for process in shared.everything()
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {tuple(address) for address in listening} == {("127.0.0.1", shared.port)}


@pytest.mark.parametrize("name", ["worker", "postgres", "valkey"])
def test_a_part_that_is_killed_is_started_again(shared, name):
    before = shared.parts()[name]
    before.kill()
    assert f"{name} ended (signal SIGKILL); it starts again in 1 s" in shared.process.stdout.readline()
    assert until(lambda: shared.parts().get(name) not in (None, before), timeout_seconds=GONE_SECONDS)
    assert until(lambda: httpx.get(f"{shared.address}healthz").status_code == 200, timeout_seconds=GONE_SECONDS)


def test_a_watcher_that_is_killed_is_replaced(shared):
    before = watcher_of(shared)
    before.kill()
    assert until(lambda: watcher_of(shared) not in (None, before), timeout_seconds=GONE_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything_in_order(launch, number):
    started = launch.everything()
    launch.process.send_signal(number)
    assert launch.process.wait(timeout=GONE_SECONDS) == 0
    assert all_gone(started)
    assert "database system is shut down" in (launch.folder / "logs" / "postgres.log").read_text()


def test_a_kill_of_the_launcher_ends_everything_and_the_next_start_finds_its_data(launch):
    started = launch.everything()
    launch.process.kill()
    launch.process.wait()
    assert all_gone(started)
    with launched(launch.folder) as again:
        assert "Preparing the database" not in "".join(again.lines)
        assert again.query("SELECT username FROM projects_user WHERE is_superuser") == [("ada",)]
        assert again.seconds < LATER_START_SECONDS * SLACK


@pytest.mark.parametrize("ending", ["term", "kill"])
def test_a_data_folder_that_vanishes_ends_everything_in_bounded_time(tmp_path, ending):
    launch = start(tmp_path / "data")
    assert until(lambda: set(launch.parts()) == PARTS, timeout_seconds=UP_SECONDS)
    started = launch.everything()
    shutil.rmtree(launch.folder)
    launch.process.terminate() if ending == "term" else launch.process.kill()
    told, _ = launch.process.communicate(timeout=GONE_SECONDS)
    assert all_gone(started)
    assert "Traceback" not in told


def test_a_data_folder_that_vanishes_is_told_in_a_sentence(tmp_path):
    launch = start(tmp_path / "data")
    started = launch.everything()
    (launch.folder / "run").rename(tmp_path / "run")
    told, _ = launch.process.communicate(timeout=GONE_SECONDS)
    assert launch.process.returncode == 1
    assert "was removed or replaced while GPU Commons ran, so all of it was stopped" in told
    assert "Traceback" not in told
    assert all_gone(started)


def test_manage_works_on_what_runs(shared, data):
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "BROKER_URL"}}
    code = "from portal.projects.models import User; print(User.objects.get(is_superuser=True).username)"
    command = [sys.executable, "-m", "portal.launcher", "manage", "shell", "--no-imports", "-c", code]
    ended = subprocess.run(
        command, cwd=ROOT, env={**kept, "DATA_DIR": str(data)}, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "ada\n"


def test_a_further_host_is_let_onto_the_broker_and_only_to_its_own_queue(shared, data):
    kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "BROKER_URL"}}
    command = [sys.executable, "-m", "portal.launcher", "broker-user", "gpu-017"]
    told = subprocess.run(command, cwd=ROOT, env={**kept, "DATA_DIR": str(data)}, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    address = re.search(r"BROKER_URL='redis\+socket://host\.gpu-017:(\w+)@(.*)\?", told.stderr)
    assert Path(re.search(r"PORTAL_PUBLIC_KEY_FILE='(.*)'", told.stderr)[1]).exists()
    with redis.Redis(unix_socket_path=address[2], username="host.gpu-017", password=address[1]) as client:
        assert client.llen("host.gpu-017") == 0
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.llen("host.gpu-018")
    assert "host.gpu-017" in [user.name for user in host_users(Folder(data))]


def test_a_kill_of_launcher_and_watcher_together_is_cleared_up_by_the_next_start(launch):
    started = launch.everything()
    watcher_of(launch).kill()
    launch.process.kill()
    launch.process.wait()
    with launched(launch.folder):
        assert all_gone(started)


def rest(launch: Launch) -> httpx.Client:
    """The API as the demonstration's administrator."""
    told = json.loads((launch.folder / "demo.json").read_text())
    return httpx.Client(base_url=f"{launch.address}api/v1/", headers={"Authorization": f"Token {told['token']}"})


def submit(client: httpx.Client) -> int:
    """A workload that would run for long, and saves nothing."""
    body = {"project": "lab/nlp", "clusters": ["local"], "name": "long", "command": ["sleep", "987654"]}
    answer = client.post("workloads/", json={**body, "replicas": 1, "gpus_per_replica": 1, "resumable": True})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def state_of(client: httpx.Client, workload: int) -> str:
    return client.get(f"workloads/{workload}/").json()["state"]


def sleepers() -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if argv(process) == ["sleep", "987654"]]


def test_a_workload_outlives_its_agent_but_not_the_launch_and_is_requeued(tmp_path):
    with launched(tmp_path / "data", DEMO="1") as launch, rest(launch) as client:
        token = client.headers["Authorization"].split()[1]
        exports = [f"  export COMMONS_URL={launch.address.rstrip('/')}\n", f"  export COMMONS_TOKEN={token}\n"]
        assert [line for line in launch.lines if "export" in line] == exports
        workload = submit(client)
        assert until(lambda: state_of(client, workload) == "running", timeout_seconds=UP_SECONDS)
        (running,) = sleepers()
        agent = launch.parts()["agent"]
        agent.kill()
        assert until(lambda: launch.parts().get("agent") not in (None, agent), timeout_seconds=GONE_SECONDS)
        assert sleepers() == [running]
        launch.process.kill()
        launch.process.wait()
        assert until(lambda: gone(running), timeout_seconds=GONE_SECONDS)
    with launched(tmp_path / "data", DEMO="1") as again, rest(again) as client:
        assert until(lambda: len(attempts_of(client, workload)) == 2, timeout_seconds=UP_SECONDS)
        assert attempts_of(client, workload)[0]["outcome"] == "host_failed"
        assert state_of(client, workload) in {"pending", "running"}
    assert sleepers() == []


def attempts_of(client: httpx.Client, workload: int) -> list[dict]:
    return client.get(f"workloads/{workload}/").json()["attempts"]
