"""The history of this portal as a trace: what was submitted to a cluster in a range, and how long it really ran."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from portal.clusters.models import Cluster
from portal.common.errors import Refused
from portal.common.units import epoch_seconds
from portal.projects.models import Project
from portal.simulations.traces.rows import MISSING, BoolArray, TraceRows
from portal.usage.arrays import IntArray, columns_fetch, row_fetch

# What ran on the cluster in the range. An attempt that was interrupted counts up to its last reported checkpoint, where
# it reported one: what it did after that was done again.
_RAN = """
WITH asked AS (SELECT %(start)s::timestamptz AS start_at, %(end)s::timestamptz AS end_at),
ran AS (
    SELECT a.workload_id AS id,
        sum(greatest(0, extract(epoch FROM least(
            CASE WHEN a.outcome IN ('preempted', 'host_failed') AND w.resumable AND a.checkpointed_at > a.running_at
                THEN a.checkpointed_at ELSE coalesce(a.ended_at, asked.end_at) END,
            asked.end_at) - greatest(a.running_at, asked.start_at))))::bigint AS seconds
    FROM workloads_attempt a JOIN workloads_workload w ON w.id = a.workload_id, asked
    WHERE a.cluster_id = %(cluster)s AND a.running_at < asked.end_at
      AND (a.ended_at IS NULL OR a.ended_at > asked.start_at)
    GROUP BY a.workload_id
)
SELECT array_agg(w.id), array_agg(w.project_id), array_agg(w.author_id),
    array_agg(greatest(w.submitted_at, asked.start_at)), array_agg(ran.seconds), array_agg(w.replicas),
    array_agg(w.gpus_per_replica), array_agg(w.min_runtime_seconds), array_agg(w.resumable),
    array_agg(w.allow_unallocated), array_agg(w.priority::integer),
    array_agg(w.ended_at IS NULL OR w.ended_at > asked.end_at),
    array_agg(w.ended_at <= asked.end_at AND w.state IN ('preempted', 'host_failed'))
FROM ran JOIN workloads_workload w USING (id), asked
WHERE w.submitted_at < asked.end_at
"""
_COUNTED = """
SELECT count(DISTINCT a.workload_id) FROM workloads_attempt a
WHERE a.cluster_id = %(cluster)s AND a.running_at < %(end)s AND (a.ended_at IS NULL OR a.ended_at > %(start)s)
"""
# A workload that several clusters could have taken counts where it may have waited for this one.
_NEVER_RAN = """
SELECT count(*) FROM workloads_workload w
WHERE w.submitted_at < %(end)s AND (w.ended_at IS NULL OR w.ended_at > %(start)s)
  AND w.id IN (SELECT workload_id FROM workloads_workload_clusters WHERE cluster_id = %(cluster)s)
  AND NOT EXISTS (SELECT 1 FROM workloads_attempt a WHERE a.workload_id = w.id AND a.running_at < %(end)s)
"""


@dataclass(frozen=True)
class History:
    """A range as a trace. `allow_unallocated` goes with its rows; `notes` say what doesn't count as it was."""

    rows: TraceRows
    allow_unallocated: BoolArray
    notes: list[str]


def history_read(*, cluster: Cluster, start: datetime, end: datetime, rows_most: int) -> History:
    """What ran on the cluster in [start, end), in the order in which it was submitted; times count from `start`.

    Persons are numbers here, not names. Refused above `rows_most` workloads, and where nothing ran.
    """
    asked = {"cluster": cluster.pk, "start": start, "end": end}
    count = row_fetch(_COUNTED, asked)[0]
    if count > rows_most:
        raise Refused(f"{count} workloads ran in this range; a simulation takes at most {rows_most}.", attr="history")
    if not count:
        raise Refused(f"Nothing ran on {cluster.name} in this range: choose a longer one.", attr="history")
    columns = columns_fetch(_RAN, asked)
    order = np.lexsort((columns[0], columns[3]))
    return _history([column[order] for column in columns], cluster, start, row_fetch(_NEVER_RAN, asked)[0])


def _history(columns: list[IntArray], cluster: Cluster, start: datetime, never_ran: int) -> History:
    ids, project, author, submitted, seconds, replicas, gpus, least, resumable, unallocated, priority = columns[:11]
    open_at_end, cut = columns[11:]
    project_ids, project_index = np.unique(project, return_inverse=True)
    author_ids, author_index = np.unique(author, return_inverse=True)
    paths = dict(Project.objects.filter(pk__in=project_ids.tolist()).values_list("pk", "path"))
    unsaid = np.full(len(ids), MISSING, dtype=np.int64)
    rows = TraceRows(
        file="the history of this portal",
        format="history",
        ids=[str(number) for number in ids.tolist()],
        lines=np.arange(1, len(ids) + 1, dtype=np.int64),
        projects=tuple(paths[int(pk)] for pk in project_ids),
        project=project_index.astype(np.int64),
        users=tuple(f"person {pk}" for pk in author_ids.tolist()),
        user=author_index.astype(np.int64),
        clusters=(cluster.name,),
        cluster=np.zeros(len(ids), dtype=np.int64),
        submit_at=submitted - epoch_seconds(start),
        duration_seconds=np.maximum(seconds, 1),
        gpus=replicas * gpus,
        rounded=np.zeros(len(ids), dtype=np.bool_),
        replicas=replicas,
        min_runtime_seconds=least,
        resumable=resumable.astype(np.int64),
        priority=priority,
        checkpoint_interval_seconds=unsaid,
        instant_jobs=int((seconds < 1).sum()),
    )
    notes = _notes(len(ids), int(open_at_end.sum()), int(cut.sum()), never_ran)
    return History(rows, unallocated.astype(np.bool_), notes)


def _notes(count: int, open_at_end: int, cut: int, never_ran: int) -> list[str]:
    """What a reader must know of the numbers."""
    notes = [f"{count:,} workloads ran in the range."]
    if open_at_end:
        notes.append(f"{open_at_end:,} of them had not ended by its end: they count with what they had run until then.")
    if cut:
        notes.append(f"{cut:,} of them ended by a preemption or a failed host: they count with what they had run.")
    if never_ran:
        notes.append(f"{never_ran:,} more had asked and not run: left out, because nobody knows how long they would.")
    return notes
