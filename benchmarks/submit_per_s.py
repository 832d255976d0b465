"""submit_per_s: REST submissions a second that two web workers take, each one committed before it is answered.

One JSON line. People submit over kept connections to gunicorn on the loopback interface, first to an almost empty
queue, then to one of ten times as many: `growth` is how many times slower it became, `cpu_ms` the processor time
of web and database for one. No pass runs meanwhile: the requests for one go to the broker and lie there.
`python -m benchmarks --only submit_per_s` brings database and broker; `python -m benchmarks.submit_per_s --seconds 60`
is the sustained minute of SPEC.md section 9, on those that the environment names.
"""

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import django
import psutil

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
os.environ.setdefault("ALLOWED_HOSTS", "127.0.0.1")
django.setup()

from django.core.management import call_command  # noqa: E402 - Django is set up first
from django.db import connection  # noqa: E402 - as above

from portal.clusters.models import Cluster, Host  # noqa: E402 - as above
from portal.projects.models import Project, User  # noqa: E402 - as above
from portal.projects.services import membership_set, token_create  # noqa: E402 - as above
from portal.workloads.models import Workload  # noqa: E402 - as above

WORKERS, THREADS = 2, 8
PEOPLE = 8
PROJECTS = 30
HOSTS = 100
QUEUED_FEW, QUEUED_MANY = 1_000, 10_000
START_SECONDS = 60
BODY = {"command": ["python", "train.py", "--epochs", "3"], "gpus_per_replica": 2, "min_runtime_seconds": 3600}


def lab_make(now: datetime) -> list[tuple[str, str]]:
    """A lab of three levels with its people; each one's token and project."""
    root = Project.objects.create(slug="lab", name="lab", path="lab", depth=0, created_at=now)
    cluster = Cluster.objects.create(name="bench", created_at=now)
    host_fields = {"gpus": 8, "state": "schedulable", "registered_at": now, "last_heard_at": now}
    Host.objects.bulk_create(Host(cluster=cluster, name=f"host-{number}", **host_fields) for number in range(HOSTS))
    projects: list[Project] = []
    for number in range(PROJECTS):
        above = projects[number // 6] if number >= 5 else root
        slug = f"p{number}"
        place = {"path": f"{above.path}/{slug}", "depth": above.depth + 1}
        projects.append(Project.objects.create(parent=above, slug=slug, name=slug, created_at=now, **place))
    people = []
    for number in range(PEOPLE):
        user = User.objects.create(username=f"person-{number}")
        project = projects[-1 - number]
        membership_set(user=user, project=project, role="member", actor=None, now=now)
        people.append((token_create(user=user, name="bench", now=now)[1], project.path))
    return people


def queue_fill(count: int, now: datetime) -> None:
    """Workloads that wait already, until `count` do."""
    missing = count - Workload.objects.count()
    project, author = Project.objects.order_by("-pk")[0], User.objects.order_by("pk")[0]
    fields = {"name": "waits", "command": ["true"], "replicas": 1, "gpus_per_replica": 1, "min_runtime_seconds": 0}
    moments = {"submitted_at": now, "queued_at": now}
    rows = (Workload(project=project, author=author, **fields, **moments) for _ in range(missing))
    Workload.objects.bulk_create(rows, batch_size=5000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


@contextmanager
def web_serve() -> Iterator[tuple[int, psutil.Process]]:
    """Two workers as docker-compose.yml runs them, on a free port; the port and their master."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.listen(128)
        listener.set_inheritable(True)
        command = [sys.executable, "-m", "gunicorn", "portal.wsgi", "--bind", f"fd://{listener.fileno()}"]
        command += ["--worker-class", "gthread", "--workers", str(WORKERS), "--threads", str(THREADS)]
        command += ["--no-control-socket", "--log-level", "warning", "--graceful-timeout", "3"]
        web = subprocess.Popen(command, pass_fds=[listener.fileno()], stdout=sys.stderr)
        try:
            yield port, psutil.Process(web.pid)
        finally:
            web.terminate()
            web.wait()


def submit(link: http.client.HTTPConnection, token: str, project: str) -> None:
    """One submission; anything but 201 ends the benchmark."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    link.request("POST", "/api/v1/workloads/", json.dumps({**BODY, "project": project}), headers)
    answer = link.getresponse()
    text = answer.read()
    if answer.status != 201:
        raise SystemExit(f"submit_per_s: {answer.status} {text[:500]!r}")


def web_warm(port: int, people: list[tuple[str, str]]) -> None:
    """Both workers have started and opened their connections: one submission of each person, patiently."""
    for token, project in people:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
        submit(link, token, project)
        link.close()


def cpu_seconds(web: psutil.Process) -> float:
    """Processor time so far of the web workers, and of the database's processes where it runs on this machine."""
    processes = web.children()
    with suppress(psutil.NoSuchProcess):
        processes += psutil.Process(connection.connection.info.backend_pid).parent().children()
    times = [process.cpu_times() for process in processes]
    return float(sum(one.user + one.system for one in times))


def rate_measure(port: int, people: list[tuple[str, str]], seconds: float) -> tuple[float, float]:
    """Submissions a second, and the 95th percentile of one, while each person submits one after another."""
    took: list[list[float]] = [[] for _ in people]
    failures: list[str] = []
    ends_at = time.perf_counter() + seconds

    def person(number: int) -> None:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
        try:
            while (began := time.perf_counter()) < ends_at:
                submit(link, *people[number])
                took[number].append(time.perf_counter() - began)
        except (SystemExit, OSError) as problem:
            failures.append(str(problem))
        finally:
            link.close()

    threads = [threading.Thread(target=person, args=(number,)) for number in range(len(people))]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    if failures:
        raise SystemExit(failures[0])
    every = sorted(second for one in took for second in one)
    return len(every) / elapsed, every[int(len(every) * 0.95)]


def main() -> None:
    """Measure with a short queue and with a long one; the figure is the long one's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long submissions are sustained")
    seconds = parser.parse_args().seconds
    now = datetime.now(tz=UTC).replace(microsecond=0)
    call_command("migrate", verbosity=0)
    people = lab_make(now)
    queue_fill(QUEUED_FEW, now)
    with web_serve() as (port, web):
        web_warm(port, people)
        few, _ = rate_measure(port, people, min(5.0, seconds))
        queue_fill(QUEUED_MANY, now)
        before, used = Workload.objects.count(), cpu_seconds(web)
        many, slow = rate_measure(port, people, seconds)
        accepted, used = Workload.objects.count() - before, cpu_seconds(web) - used
    facts = {"seconds": seconds, "accepted": accepted, "p95_s": round(slow, 4), "workers": WORKERS}
    facts["cpu_ms"] = round(1000 * used / accepted, 2)
    print(
        json.dumps(
            {"name": "submit_per_s", "value": round(many, 1), "unit": "1/s", "growth": round(few / many, 2), **facts}
        )
    )


if __name__ == "__main__":
    main()
