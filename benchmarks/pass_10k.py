"""pass_10k: the whole pass on PostgreSQL, snapshot to committed rows: 10,000 pending, 1,250 hosts, 2,500 running.

JSON lines, one figure each. The first pass starts, preempts and writes a reason for everyone; the second, ten seconds
later, finds little to do. `cpu_s` is the processor time of the pass and of its database connection: what it costs
where nothing else runs. `growth` is how many times a tenth of everything costs. `python -m benchmarks --only pass_10k`
brings the database.
"""

import json
import os
from datetime import datetime
from itertools import count
from time import perf_counter, process_time

import django
import psutil

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from django.core.management import call_command  # noqa: E402 - Django is set up first
from django.core.management.color import no_style  # noqa: E402 - as above
from django.db import connection, transaction  # noqa: E402 - as above

from benchmarks.decide import NOW, build_snapshot  # noqa: E402 - as above
from portal.budgets.models import BudgetChange, BudgetLine  # noqa: E402 - as above
from portal.clusters.models import Cluster, Host, HostSpan  # noqa: E402 - as above
from portal.common.units import moment_of  # noqa: E402 - as above
from portal.projects.models import Project, User  # noqa: E402 - as above
from portal.scheduling.services import pass_run  # noqa: E402 - as above
from portal.scheduling.snapshot import STANDING_NUMBERS  # noqa: E402 - as above
from portal.usage.models import Segment  # noqa: E402 - as above
from portal.workloads.models import Attempt, GpuClaim, Standing, Workload  # noqa: E402 - as above
from scheduler.types import NEVER, Attempts, Pending, Segments, Snapshot  # noqa: E402 - as above

BATCH = 5000
START = moment_of(NOW - 14 * 86_400)


class Store:
    """The rows of a snapshot, with the snapshot's own ids."""

    def __init__(self, facts: Snapshot) -> None:
        self.facts = facts
        self.cluster = Cluster.objects.create(name="bench", created_at=START)
        self.taken: set[tuple[int, int]] = set()
        authors = {*facts.pending.author.tolist(), *facts.attempts.author.tolist()}
        authors |= {*facts.charged.author.tolist(), *facts.unallocated.author.tolist()}
        User.objects.bulk_create(User(pk=pk, username=f"author-{pk}") for pk in sorted(authors))
        self._tree()
        self._hosts()
        self.workloads(facts.pending, "pending")
        self.workloads(facts.attempts, "running")
        self._attempts(facts.attempts)
        self._history()

    def _tree(self) -> None:
        ids, parents = self.facts.projects.id.tolist(), self.facts.projects.parent.tolist()
        paths: dict[int, str] = {}
        for row, (pk, parent) in enumerate(zip(ids, parents, strict=True)):
            paths[row] = f"p{pk}" if parent == NEVER else f"{paths[parent]}/p{pk}"
            Project.objects.create(
                pk=pk,
                slug=f"p{pk}",
                name=f"p{pk}",
                path=paths[row],
                depth=paths[row].count("/"),
                parent_id=None if parent == NEVER else ids[parent],
                created_at=START,
            )
        changes: dict[int, BudgetChange] = {}
        for project, at, share in zip(
            self.facts.shares.project.tolist(),
            self.facts.shares.at.tolist(),
            self.facts.shares.share_ppm.tolist(),
            strict=True,
        ):
            parent = ids[parents[project]]
            if parent not in changes:
                changes[parent] = BudgetChange.objects.create(
                    cluster=self.cluster,
                    parent_id=parent,
                    version=1,
                    base_version=0,
                    reason="bench",
                    created_at=moment_of(at),
                    effective_at=moment_of(at),
                )
            BudgetLine.objects.create(change=changes[parent], project_id=ids[project], share_ppm=share)

    def _hosts(self) -> None:
        hosts = [
            Host(
                pk=pk,
                cluster=self.cluster,
                name=f"host-{pk}",
                gpus=gpus,
                state="schedulable",
                topology_block=str(block),
                registered_at=START,
                last_heard_at=START,
            )
            for pk, gpus, block in zip(
                self.facts.hosts.id.tolist(),
                self.facts.hosts.gpus.tolist(),
                self.facts.hosts.block.tolist(),
                strict=True,
            )
        ]
        Host.objects.bulk_create(hosts)
        HostSpan.objects.bulk_create(
            HostSpan(host=host, cluster=self.cluster, gpus=host.gpus, state=host.state, start_at=START)
            for host in hosts
        )

    def workloads(self, table: Pending | Attempts, state: str) -> None:
        is_pending = isinstance(table, Pending)
        pks = (table.id if isinstance(table, Pending) else table.workload).tolist()
        contracts = (table.min_runtime_seconds if isinstance(table, Pending) else table.contract_seconds).tolist()
        projects = self.facts.projects.id[table.project].tolist()
        Workload.objects.bulk_create(
            [
                Workload(
                    pk=pk,
                    project_id=projects[row],
                    author_id=int(table.author[row]),
                    name=f"workload {pk}",
                    command=["true"],
                    replicas=int(table.replicas[row]),
                    gpus_per_replica=int(table.gpus_per_replica[row]),
                    min_runtime_seconds=contracts[row],
                    resumable=bool(table.resumable[row]),
                    allow_unallocated=bool(table.allow_unallocated[row]),
                    priority=int(table.priority[row]),
                    state="pending" if is_pending else state,
                    submitted_at=moment_of(int(table.first_submit_at[row])),
                    queued_at=moment_of(int(table.queued_at[row])),
                )
                for row, pk in enumerate(pks)
            ],
            batch_size=BATCH,
        )
        through = Workload.clusters.through
        through.objects.bulk_create(
            [through(workload_id=pk, cluster_id=self.cluster.pk) for pk in pks], batch_size=BATCH
        )

    def _attempts(self, table: Attempts) -> None:
        names = {number: name for name, number in STANDING_NUMBERS.items()}
        rows = [
            Attempt(
                pk=int(table.id[row]),
                workload_id=int(table.workload[row]),
                cluster=self.cluster,
                number=1,
                state="running",
                standing=names[int(table.standing[row])],  # type: ignore[index]
                min_runtime_seconds=int(table.contract_seconds[row]),
                queued_at=moment_of(int(table.queued_at[row])),
                decided_at=moment_of(int(table.decided_at[row])),
                assigned_at=moment_of(int(table.segments_at[row])),
                running_at=moment_of(int(table.running_at[row])),
            )
            for row in range(len(table.id))
        ]
        Attempt.objects.bulk_create(rows, batch_size=BATCH)
        self._places(rows)

    def _places(self, attempts: list[Attempt]) -> None:
        table, places = self.facts.attempts, self.facts.placements
        hosts = self.facts.hosts.id.tolist()
        used: dict[int, int] = {}
        claims, segments = [], []
        for row, host, replicas in zip(
            places.attempt.tolist(), places.host.tolist(), places.replicas.tolist(), strict=True
        ):
            gpus = replicas * int(table.gpus_per_replica[row])
            first = used.get(host, 0)
            used[host] = first + gpus
            span = (attempts[row].assigned_at, None)
            claims += [
                GpuClaim(attempt=attempts[row], replica=0, host_id=hosts[host], gpu_index=index, occupied=span)
                for index in range(first, first + gpus)
            ]
            start = moment_of(int(table.segment_at[row]))
            segments.append(self._segment(attempts[row], row, hosts[host], gpus, start))
        GpuClaim.objects.bulk_create(claims, batch_size=BATCH)
        Segment.objects.bulk_create(segments, batch_size=BATCH)

    def _segment(self, attempt: Attempt, row: int, host: int, gpus: int, start: datetime) -> Segment:
        project = int(self.facts.attempts.project[row])
        return Segment(
            attempt=attempt,
            workload_id=attempt.workload_id,
            cluster=self.cluster,
            host_id=host,
            project_id=int(self.facts.projects.id[project]),
            author_id=int(self.facts.attempts.author[row]),
            path=self._path(project),
            gpus=gpus,
            standing=attempt.standing,
            start_at=start,
        )

    def _path(self, project: int) -> list[int]:
        path = []
        while project != NEVER:
            path.append(int(self.facts.projects.id[project]))
            project = int(self.facts.projects.parent[project])
        return path[::-1]

    def _history(self) -> None:
        """Closed segments of the window: of one ended attempt for each path, each segment on a host of its own."""
        ended = {}
        author = int(self.facts.pending.author[0])
        for number, path in enumerate(self.facts.paths):
            workload = Workload.objects.create(
                pk=50_000_000 + number,
                project_id=path[-1],
                author_id=author,
                name="history",
                command=["true"],
                replicas=1,
                gpus_per_replica=1,
                min_runtime_seconds=0,
                state="succeeded",
                submitted_at=START,
                queued_at=START,
                ended_at=START,
            )
            ended[number] = Attempt.objects.create(
                pk=50_000_000 + number,
                workload=workload,
                cluster=self.cluster,
                number=1,
                state="ended",
                outcome="succeeded",
                standing=Standing.FUNDED,
                min_runtime_seconds=0,
                queued_at=START,
                decided_at=START,
                assigned_at=START,
                ended_at=START,
            )
        hosts = count()
        for table, standing in (
            (self.facts.charged, Standing.FUNDED),
            (self.facts.unallocated, Standing.UNALLOCATED),
        ):
            self._closed(table, standing, ended, hosts)

    def _closed(self, table: Segments, standing: Standing, ended: dict[int, Attempt], hosts: "count[int]") -> None:
        pks = self.facts.hosts.id.tolist()
        seen: dict[int, count[int]] = {}
        rows = []
        for row, path in enumerate(table.path.tolist()):
            host = pks[next(seen.setdefault(path, count(0 if standing == Standing.FUNDED else 625))) % len(pks)]
            attempt = ended[path]
            rows.append((attempt, host, path, row))
        fresh = []
        for one in rows:
            place = (one[0].pk, one[1])
            if place not in self.taken:
                self.taken.add(place)
                fresh.append(one)
        Segment.objects.bulk_create(
            [
                Segment(
                    attempt=attempt,
                    workload_id=attempt.workload_id,
                    cluster=self.cluster,
                    host_id=host,
                    project_id=self.facts.paths[path][-1],
                    author_id=int(table.author[row]),
                    path=list(self.facts.paths[path]),
                    gpus=int(table.gpus[row]),
                    standing=standing,
                    start_at=moment_of(int(table.start_at[row])),
                    end_at=moment_of(int(table.end_at[row])),
                )
                for attempt, host, path, row in fresh
                if table.end_at[row] > table.start_at[row]
            ],
            batch_size=BATCH,
        )


def store_fill(facts: Snapshot) -> Cluster:
    """The database holds these facts and nothing else, and knows how they are spread."""
    call_command("flush", interactive=False, verbosity=0)
    with transaction.atomic():
        cluster = Store(facts).cluster
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [Attempt, Workload, Project, User, Host]):
            cursor.execute(statement)
        cursor.execute("ANALYZE")
    return cluster


def backend_seconds() -> float:
    """Processor time of our database connection so far; 0 where the database runs elsewhere."""
    try:
        used = psutil.Process(connection.connection.info.backend_pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(used.user + used.system)


def pass_measure(cluster: Cluster, now: int) -> tuple[float, dict[str, float]]:
    """Seconds of one pass, snapshot to committed rows, and what it did."""
    ours, database, started = process_time(), backend_seconds(), perf_counter()
    done = pass_run(cluster=cluster, now=moment_of(now), tell=lambda hosts, now: None)
    elapsed = perf_counter() - started
    cpu = process_time() - ours + backend_seconds() - database
    if done is None or done.error or done.stale:
        raise SystemExit(f"pass_10k: the pass was not whole: {done and (done.error or done.stale)}")
    names = ("starts", "preempts", "snapshot_ms", "decide_ms", "apply_ms")
    return elapsed, {"cpu_s": round(cpu, 3), **{name: getattr(done, name) for name in names}}


def main() -> None:
    """Fill, measure two passes, at a tenth first; the database is thrown away by whoever brought it."""
    call_command("migrate", verbosity=0)
    small = store_fill(build_snapshot(scale=0.1))
    small_seconds = [pass_measure(small, NOW + later)[0] for later in (0, 10)]
    cluster = store_fill(build_snapshot())
    for name, later, tenth in zip(("pass_10k", "pass_10k_second"), (0, 10), small_seconds, strict=True):
        seconds, facts = pass_measure(cluster, NOW + later)
        line = {"name": name, "value": round(seconds, 3), "unit": "s", "growth": round(seconds / tenth, 2), **facts}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
