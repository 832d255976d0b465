"""A year of a large laboratory, written by SQL: what the pages are measured on.

1,000,000 workloads that ended, each with an attempt and its segments, over 365 days on 400 hosts of 8; 30,000 that
wait; 2,000 that run; 300 projects four levels deep; 150 people; a balance of every project and hour of the last month.
"""

import os
from dataclasses import dataclass
from datetime import datetime, timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402 - Django is set up first

from portal.budgets.models import BudgetChange, BudgetLine  # noqa: E402 - as above
from portal.clusters.models import Cluster, Host, HostSpan  # noqa: E402 - as above
from portal.projects.models import Project, User  # noqa: E402 - as above

DAYS, HOSTS, PEOPLE = 365, 400, 150
TEAMS, GROUPS, TOPICS = 15, 3, 6  # 15 + 45 + 239 projects below the root

FILL = """
INSERT INTO workloads_workload (project_id, author_id, name, command, script, environment, replicas, gpus_per_replica,
    min_runtime_seconds, timeout_seconds, resumable, allow_unallocated, priority, state, submitted_at, queued_at,
    ended_at, exit_code, reason_code, reason_text, reason, idempotency_digest, is_demonstration)
SELECT (%(projects)s::bigint[])[1 + n * 7 %% cardinality(%(projects)s::bigint[])],
    (%(people)s::bigint[])[1 + n * 11 %% cardinality(%(people)s::bigint[])],
    'train-' || n, '["true"]', '', '{}', 1, 1 + n %% 8, CASE WHEN n %% 7 = 0 THEN 0 ELSE 600 + n %% 20 * 300 END, NULL,
    true, true, 0, CASE WHEN n %% 50 = 0 THEN 'failed' ELSE 'succeeded' END, queued_at, queued_at, ended_at, 0, '',
    '', '{}', '', false
FROM (SELECT n, at AS queued_at,
             at + make_interval(secs => (n %% 13) * (n %% 13) * 40 + 900 + n %% 97 * 300) AS ended_at
      FROM generate_series(%(first)s, %(last)s) AS n,
           LATERAL (SELECT to_timestamp(%(start)s + (n::bigint * %(seconds)s / %(count)s)) AS at) AS moment) AS made;
INSERT INTO workloads_workload_clusters (workload_id, cluster_id)
SELECT id, %(cluster)s FROM workloads_workload WHERE id > %(base)s;
INSERT INTO workloads_attempt (workload_id, cluster_id, number, state, standing, lapsed, express, min_runtime_seconds,
    queued_at, decided_at, assigned_at, running_at, stop_grace_seconds, stop_cause, ended_at, outcome, exit_code,
    reason_code, reason_text, reason)
SELECT id, %(cluster)s, 1, 'ended', CASE WHEN min_runtime_seconds = 0 THEN 'unallocated' ELSE 'funded' END, false,
    false,
    min_runtime_seconds, queued_at, started_at, started_at, started_at, 0, '', ended_at, state, 0, '', '', '{}'
FROM (SELECT *, queued_at + make_interval(secs => id %% 13 * (id %% 13) * 40) AS started_at
      FROM workloads_workload WHERE id > %(base)s) AS w;
INSERT INTO usage_segment (attempt_id, workload_id, cluster_id, host_id, project_id, author_id, path, gpus, standing,
    start_at, end_at)
SELECT a.id, w.id, %(cluster)s, (%(hosts)s::bigint[])[1 + w.id %% cardinality(%(hosts)s::bigint[])], w.project_id,
    w.author_id, p.path::bigint[], w.gpus_per_replica, s.standing, s.start_at, s.end_at
FROM workloads_workload w JOIN workloads_attempt a ON a.workload_id = w.id
JOIN unnest(%(projects)s::bigint[], %(paths)s::text[]) AS p(project, path) ON p.project = w.project_id
CROSS JOIN LATERAL (
    SELECT least(a.assigned_at + make_interval(secs => a.min_runtime_seconds), a.ended_at) AS turn
) AS contract
CROSS JOIN LATERAL (VALUES
    ('protected', a.assigned_at, contract.turn),
    (CASE WHEN a.min_runtime_seconds = 0 THEN 'unallocated' ELSE 'funded' END, contract.turn, a.ended_at)
) AS s(standing, start_at, end_at)
WHERE w.id > %(base)s AND s.start_at < s.end_at
"""
WAITING = """
INSERT INTO workloads_workload (project_id, author_id, name, command, script, environment, replicas, gpus_per_replica,
    min_runtime_seconds, resumable, allow_unallocated, priority, state, submitted_at, queued_at, reason_code,
    reason_text, reason, idempotency_digest, is_demonstration)
SELECT (%(projects)s::bigint[])[1 + n * 7 %% cardinality(%(projects)s::bigint[])],
    (%(people)s::bigint[])[1 + n * 11 %% cardinality(%(people)s::bigint[])],
    'wait-' || n, '["true"]', '', '{}', 1, 1 + n %% 8, 3600, true, true, 0, 'pending', to_timestamp(%(end)s - n),
    to_timestamp(%(end)s - n), 'waiting_turn', 'Waits its turn.',
    jsonb_build_object('position', n, 'gpus_ahead', n * 4), '', false
FROM generate_series(1, %(count)s) AS n;
INSERT INTO workloads_workload_clusters (workload_id, cluster_id)
SELECT id, %(cluster)s FROM workloads_workload WHERE id > %(base)s
"""
RUNNING = """
WITH made AS (
    INSERT INTO workloads_workload (project_id, author_id, name, command, script, environment, replicas,
        gpus_per_replica, min_runtime_seconds, resumable, allow_unallocated, priority, state, submitted_at, queued_at,
        reason_code, reason_text, reason, idempotency_digest, is_demonstration)
    SELECT (%(projects)s::bigint[])[1 + n * 7 %% cardinality(%(projects)s::bigint[])],
        (%(people)s::bigint[])[1 + n * 11 %% cardinality(%(people)s::bigint[])], 'run-' || n, '["true"]', '', '{}', 1,
        1, 7200, true, true, 0, 'running', to_timestamp(%(end)s - n * 5), to_timestamp(%(end)s - n * 5), '', '', '{}',
        '', false
    FROM generate_series(1, %(count)s) AS n RETURNING *
), placed AS (SELECT *, row_number() OVER (ORDER BY id) - 1 AS place FROM made),
tried AS (
    INSERT INTO workloads_attempt (workload_id, cluster_id, number, state, standing, lapsed, express,
        min_runtime_seconds, queued_at, decided_at, assigned_at, running_at, stop_grace_seconds, stop_cause, outcome,
        reason_code, reason_text, reason)
    SELECT id, %(cluster)s, 1, 'running', 'protected', false, false, 7200, queued_at, queued_at, queued_at, queued_at,
        0, '', '', '', '', '{}' FROM placed RETURNING id, workload_id, assigned_at
), claimed AS (
    INSERT INTO workloads_gpuclaim (attempt_id, replica, host_id, gpu_index, occupied)
    SELECT t.id, 0, (%(hosts)s::bigint[])[1 + place / 8], place %% 8, tstzrange(t.assigned_at, NULL)
    FROM tried t JOIN placed ON placed.id = t.workload_id
)
INSERT INTO usage_segment (attempt_id, workload_id, cluster_id, host_id, project_id, author_id, path, gpus, standing,
    start_at)
SELECT t.id, w.id, %(cluster)s, (%(hosts)s::bigint[])[1 + place / 8], w.project_id, w.author_id, p.path::bigint[], 1,
    'protected', t.assigned_at
FROM tried t JOIN placed w ON w.id = t.workload_id
JOIN unnest(%(projects)s::bigint[], %(paths)s::text[]) AS p(project, path) ON p.project = w.project_id
"""
BALANCES = """
INSERT INTO scheduling_balancesample (cluster_id, project_id, at, quota_gpu_seconds, usage_gpu_seconds)
SELECT %(cluster)s, project, date_trunc('hour', to_timestamp(%(end)s)) - make_interval(hours => hours),
    6000000, 5000000 + hours * 1000
FROM unnest(%(projects)s::bigint[]) AS project, generate_series(0, 720) AS hours;
INSERT INTO scheduling_balance (cluster_id, project_id, at, quota_gpu_seconds, usage_gpu_seconds, share_ppb)
SELECT %(cluster)s, project, to_timestamp(%(end)s), 6000000, 5000000, 3000000
FROM unnest(%(projects)s::bigint[]) AS project
"""


@dataclass(frozen=True)
class Laboratory:
    """What was made."""

    cluster: Cluster
    root: Project
    team: Project


def laboratory_make(*, now: datetime, workloads: int = 1_000_000, waiting: int = 30_000) -> Laboratory:
    """All of it; `now` is its end."""
    start = now - timedelta(days=DAYS)
    cluster = Cluster.objects.create(name="bench", created_at=start)
    projects = _tree(start)
    _budgets(cluster, projects, start)
    hosts = Host.objects.bulk_create(
        Host(cluster=cluster, name=f"host-{n:04}", gpus=8, state="schedulable", registered_at=start, last_heard_at=now)
        for n in range(HOSTS)
    )
    spans = {"cluster": cluster, "gpus": 8, "state": "schedulable", "start_at": start}
    HostSpan.objects.bulk_create(HostSpan(host=host, **spans) for host in hosts)
    people = User.objects.bulk_create(User(username=f"person-{n}") for n in range(PEOPLE))
    leaves = [project for project in projects if project.depth]
    common = {
        "cluster": cluster.pk,
        "projects": [project.pk for project in leaves],
        "paths": [_path_text(project, projects) for project in leaves],
        "people": [person.pk for person in people],
        "hosts": [host.pk for host in hosts],
        "start": int(start.timestamp()),
        "end": int(now.timestamp()),
        "seconds": DAYS * 86_400,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # rows of which each is known to be sound
        step = max(workloads // 10, 1)
        for first in range(1, workloads + 1, step):
            base = _latest(cursor)
            span = {"first": first, "last": min(first + step - 1, workloads), "count": workloads, "base": base}
            _each(cursor, FILL, common | span)
        _each(cursor, WAITING, common | {"count": waiting, "base": _latest(cursor)})
        _each(cursor, RUNNING, common | {"count": 2_000})
        _each(cursor, BALANCES, common)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    root = projects[0]
    return Laboratory(cluster, root, projects[1])


def _each(cursor: object, statements: str, parameters: dict[str, object]) -> None:
    for statement in statements.split(";\n"):
        cursor.execute(statement, parameters)  # type: ignore[attr-defined]


def _latest(cursor: object) -> int:
    cursor.execute("SELECT coalesce(max(id), 0) FROM workloads_workload")  # type: ignore[attr-defined]
    return int(cursor.fetchone()[0])  # type: ignore[attr-defined]


def _tree(at: datetime) -> list[Project]:
    """The root, teams, groups, topics; parents before their children."""
    root = Project.objects.create(slug="lab", name="Lab", path="lab", depth=0, created_at=at)
    made = [root]
    above = [root]
    for count, letter in ((TEAMS, "team"), (GROUPS, "group"), (TOPICS, "topic")):
        level = [
            Project(
                parent=parent,
                slug=f"{letter}-{n}",
                name=f"{letter}-{n}",
                path=f"{parent.path}/{letter}-{n}",
                depth=parent.depth + 1,
                created_at=at,
            )
            for parent in above
            for n in range(count)
        ][: 300 - len(made)]
        above = Project.objects.bulk_create(level)
        made += above
    return made


def _budgets(cluster: Cluster, projects: list[Project], at: datetime) -> None:
    """Each level divides 82 % evenly among its children."""
    children: dict[int, list[Project]] = {}
    for project in projects[1:]:
        children.setdefault(project.parent_id or 0, []).append(project)
    for parent_id, below in children.items():
        change = BudgetChange.objects.create(
            cluster=cluster,
            parent_id=parent_id,
            version=1,
            base_version=0,
            reason="made",
            effective_at=at,
            created_at=at,
        )
        share = 820_000 // len(below)
        BudgetLine.objects.bulk_create(BudgetLine(change=change, project=each, share_ppm=share) for each in below)


def _path_text(project: Project, projects: list[Project]) -> str:
    by_id = {each.pk: each for each in projects}
    ids, node = [project.pk], project
    while node.parent_id is not None:
        node = by_id[node.parent_id]
        ids.append(node.pk)
    return "{" + ",".join(str(each) for each in reversed(ids)) + "}"
