"""pass_10k: the whole pass on PostgreSQL, snapshot to committed rows: 10,000 pending, 1,250 hosts, 2,500 running.

JSON lines, one figure each. The first pass starts, preempts and writes a reason for everyone; the second, ten seconds
later, finds little to do. `python -m benchmarks pass_10k` brings the database.
"""

import json
import os
from itertools import count
from time import perf_counter

import django

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

    def _segment(self, attempt: Attempt, row: int, host: int, gpus: int, start: object) -> Segment:
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
        taken: set[tuple[int, int]] = getattr(self, "_taken", set())
        self._taken = taken
        fresh = [one for one in rows if (one[0].pk, one[1]) not in taken and not taken.add((one[0].pk, one[1]))]
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


def figure(name: str, value: float, **facts: object) -> None:
    print(json.dumps({"name": name, "value": round(value, 3), "unit": "s", **facts}), flush=True)


def main() -> None:
    """Fill, measure two passes, leave nothing: the database is thrown away by whoever brought it."""
    call_command("migrate", verbosity=0)
    with transaction.atomic():
        cluster = Store(build_snapshot()).cluster
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [Attempt, Workload, Project, User, Host]):
            cursor.execute(statement)
        cursor.execute("ANALYZE")
    for name, seconds in (("pass_10k", 0), ("pass_10k_second", 10)):
        started = perf_counter()
        done = pass_run(cluster=cluster, now=moment_of(NOW + seconds), tell=lambda hosts, now: None)
        elapsed = perf_counter() - started
        if done is None or done.error or done.stale:
            raise SystemExit(f"{name}: the pass was not whole: {done and (done.error or done.stale)}")
        parts = {part: getattr(done, part) for part in ("snapshot_ms", "decide_ms", "apply_ms")}
        figure(name, elapsed, starts=done.starts, preempts=done.preempts, **parts)


if __name__ == "__main__":
    main()
