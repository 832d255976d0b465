"""What one transaction of the scheduler changes beyond the rows themselves: who is told, what is written down."""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import connection, transaction

from portal.clusters.models import Cluster
from portal.common.bulk import rows_copy
from portal.scheduling.snapshot import policy_of
from portal.workloads.models import Attempt, WorkloadEvent
from scheduler.types import Policy

Tell = Callable[[Collection[int], datetime], None]
"""Gives the hosts with these ids their desired state."""

Event = tuple[int, int | None, datetime, str, str, str, str]
EVENT_COLUMNS = ("workload", "attempt", "at", "kind", "code", "text", "data")

PASS_LOCK = 0x4743_0001
STATE_LOCK = 0x4743_0002
CLOCK = """
SELECT greatest(%(now)s, (SELECT max(now_at) FROM scheduling_pass WHERE cluster_id = %(cluster)s),
    (SELECT max(last_heard_at) FROM clusters_host WHERE cluster_id = %(cluster)s))
"""


@dataclass
class Round:
    """One transaction over a cluster: its moment, the hosts that must hear of it, the timelines' new lines."""

    cluster: Cluster
    now: datetime
    hosts: set[int] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    freed: bool = False

    @cached_property
    def policy(self) -> Policy:
        """The cluster's policy, read when it is first needed."""
        return policy_of(cluster=self.cluster)

    def note(self, attempt: Attempt, kind: str, *, code: str = "", text: str = "", **data: Any) -> None:
        """One line of the workload's timeline."""
        self.events.append((attempt.workload_id, attempt.pk, self.now, kind, str(code), text[:1000], json.dumps(data)))

    def note_waiting(self, workload_id: int, kind: str, *, code: str, text: str, **data: Any) -> None:
        """One line of the timeline of a workload that has no attempt now."""
        self.events.append((workload_id, None, self.now, kind, str(code), text[:1000], json.dumps(data)))

    def finish(self, tell: Tell) -> None:
        """Write the lines; tell the hosts once everything is committed."""
        if self.events:
            rows_copy(WorkloadEvent, EVENT_COLUMNS, self.events)
        if self.hosts:
            transaction.on_commit(lambda: tell(frozenset(self.hosts), self.now))


def pass_lock_try(cluster: Cluster) -> bool:
    """The one pass over a cluster, until the transaction ends; False: another is under way."""
    return bool(_lock("SELECT pg_try_advisory_xact_lock(%s, %s)", PASS_LOCK, cluster))


def state_lock(cluster: Cluster) -> None:
    """Wait to be the only one who changes attempts of this cluster, until the transaction ends."""
    _lock("SELECT pg_advisory_xact_lock(%s, %s)", STATE_LOCK, cluster)


def _lock(statement: str, kind: int, cluster: Cluster) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, [kind, cluster.pk])
        return cursor.fetchone()[0]


def cluster_clock(cluster: Cluster, now: datetime) -> datetime:
    """`now`, or the latest moment that the cluster has already lived through: a step back counts as no time (R4)."""
    with connection.cursor() as cursor:
        cursor.execute(CLOCK, {"now": now, "cluster": cluster.pk})
        latest: datetime = cursor.fetchone()[0]
    return latest
