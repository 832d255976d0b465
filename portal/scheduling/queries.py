"""The snapshot's queries. Each table comes as one row of arrays, sorted by id: few values to parse, none to build.

Moments become whole epoch seconds, a missing one -1 (the core's NEVER).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A query that answers with one array a column."""

    columns: tuple[str, ...]
    sql: str


def _table(rows: str, **columns: str) -> Table:
    """`rows` is what follows FROM, ordered; each keyword is a column and its expression."""
    named = ", ".join(f"{expression} AS c_{name}" for name, expression in columns.items())
    arrays = ", ".join(f"array_agg(c_{name})" for name in columns)
    return Table(tuple(columns), f"SELECT {arrays} FROM (SELECT {named} FROM {rows}) AS rows")  # noqa: S608 - constants of this module


def _moment(column: str) -> str:
    return f"coalesce(extract(epoch FROM {column})::bigint, -1)"


PROJECTS = _table("projects_project ORDER BY id", id="id", parent="coalesce(parent_id, -1)")

HOSTS = _table(
    "clusters_host WHERE cluster_id = %(cluster)s ORDER BY id",
    id="id",
    gpus="gpus::bigint",
    schedulable="state = 'schedulable' AND retired_at IS NULL",
    draining="state = ANY(%(drained)s) AND retired_at IS NULL",
    block="topology_block",
)

PENDING = _table(
    """workloads_workload w JOIN workloads_workload_clusters m ON m.workload_id = w.id AND m.cluster_id = %(cluster)s
    WHERE w.state = 'pending' AND w.cancel_requested_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM workloads_attempt a WHERE a.workload_id = w.id AND a.state <> 'ended')
    ORDER BY w.id""",
    id="w.id",
    project="w.project_id",
    author="w.author_id",
    first_submit_at=_moment("w.submitted_at"),
    queued_at=_moment("w.queued_at"),
    replicas="w.replicas::bigint",
    gpus_per_replica="w.gpus_per_replica::bigint",
    min_runtime_seconds="w.min_runtime_seconds::bigint",
    resumable="w.resumable",
    allow_unallocated="w.allow_unallocated",
    priority="w.priority::bigint",
    first_start="""NOT EXISTS (SELECT 1 FROM workloads_attempt a
        WHERE a.workload_id = w.id AND a.assigned_at IS NOT NULL)""",
)

ATTEMPTS = _table(
    """workloads_attempt a JOIN workloads_workload w ON w.id = a.workload_id
    LEFT JOIN (SELECT attempt_id, min(start_at) AS start_at FROM usage_segment
        WHERE cluster_id = %(cluster)s AND end_at IS NULL GROUP BY attempt_id) s ON s.attempt_id = a.id
    LEFT JOIN workloads_attempt t ON t.id = a.taker_id AND t.state <> 'ended'
    WHERE a.cluster_id = %(cluster)s AND a.state <> 'ended' ORDER BY a.id""",
    id="a.id",
    workload="a.workload_id",
    project="w.project_id",
    author="w.author_id",
    priority="w.priority::bigint",
    first_submit_at=_moment("w.submitted_at"),
    queued_at=_moment("a.queued_at"),
    first_start="""NOT EXISTS (SELECT 1 FROM workloads_attempt b
        WHERE b.workload_id = a.workload_id AND b.id < a.id AND b.assigned_at IS NOT NULL)""",
    replicas="w.replicas::bigint",
    gpus_per_replica="w.gpus_per_replica::bigint",
    contract_seconds="a.min_runtime_seconds::bigint",
    resumable="w.resumable",
    allow_unallocated="w.allow_unallocated",
    express="a.express",
    decided_at=_moment("a.decided_at"),
    segments_at=_moment("a.assigned_at"),
    segment_at=_moment("s.start_at"),
    running_at=_moment("a.running_at"),
    stopping_at=_moment("a.stopping_at"),
    grace_seconds="a.stop_grace_seconds::bigint",
    standing="a.standing",
    lapsed="a.lapsed",
    last_checkpoint_at=_moment("a.checkpointed_at"),
    taker="coalesce(t.id, -1)",
)

PLACEMENTS = _table(
    """workloads_attempt a JOIN workloads_gpuclaim c ON c.attempt_id = a.id
    WHERE a.cluster_id = %(cluster)s AND a.state <> 'ended' AND (upper_inf(c.occupied) OR upper_inf(c.held))
    GROUP BY a.id, c.host_id ORDER BY a.id, c.host_id""",
    attempt="a.id",
    host="c.host_id",
    replicas="count(DISTINCT c.replica)",
)

EXPRESS = _table(
    """workloads_attempt a JOIN workloads_workload w ON w.id = a.workload_id
    WHERE a.cluster_id = %(cluster)s AND a.express AND a.decided_at >= %(since)s ORDER BY a.id""",
    project="w.project_id",
    decided_at=_moment("a.decided_at"),
    gpu_seconds="w.replicas::bigint * w.gpus_per_replica * greatest(a.min_runtime_seconds, %(floor)s)",
)

TAKERS = _table(
    """workloads_attempt a JOIN workloads_workload w ON w.id = a.workload_id
    WHERE a.cluster_id = %(cluster)s AND a.state = 'ended' AND a.ended_at >= %(since)s
      AND EXISTS (SELECT 1 FROM workloads_attempt v WHERE v.taker_id = a.id) ORDER BY a.id""",
    author="w.author_id",
    running_at=_moment("a.running_at"),
    ended_at=_moment("a.ended_at"),
    contract_seconds="a.min_runtime_seconds::bigint",
    cancelled="a.outcome = 'cancelled' AND w.cancelled_by_id = w.author_id",
)

CANCELLED_RESERVATIONS = _table(
    """scheduling_reservation r JOIN workloads_workload w ON w.id = r.workload_id
    WHERE r.cluster_id = %(cluster)s AND r."end" = 'cancelled' AND r.ended_at >= %(since)s
      AND w.cancelled_by_id = w.author_id ORDER BY r.id""",
    author="w.author_id",
    cancelled_at=_moment("w.cancel_requested_at"),
)

SEGMENTS = """
SELECT path, standing, array_agg(author_id), array_agg(extract(epoch FROM start_at)::bigint),
       array_agg(extract(epoch FROM end_at)::bigint), array_agg(gpus::bigint)
FROM usage_segment
WHERE cluster_id = %(cluster)s AND end_at > %(since)s AND standing IN ('protected', 'funded', 'unallocated')
GROUP BY path, standing ORDER BY path, standing
"""
