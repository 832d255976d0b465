"""Why each pending workload waits, written where it changed."""

import json

from django.db import connection

from portal.clusters.models import Cluster
from portal.scheduling.words import Words
from scheduler.types import Decision

# A workload that another cluster has just taken keeps that cluster's reason.
WAITS = """
UPDATE workloads_workload w SET reason_code = d.code, reason_text = d.text, reason = d.data::jsonb
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[]) AS d(id, code, text, data)
WHERE w.id = d.id AND w.state = 'pending' AND w.reason_code NOT IN ('held', 'starting')
  AND (w.reason_code, w.reason_text) IS DISTINCT FROM (d.code, d.text)
"""


def waits_save(cluster: Cluster, decision: Decision, words: Words) -> int:
    """One statement for all of them; returns how many changed."""
    if not len(decision.waits):
        return 0
    rows = [
        (wait.workload, words.code(wait.reason), words.text(wait.reason)[:1000], words.data(wait.reason))
        for wait in decision.waits
    ]
    data = [json.dumps({**entry, "cluster": cluster.name}) for *_, entry in rows]
    with connection.cursor() as cursor:
        cursor.execute(WAITS, [[row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows], data])
        return int(cursor.rowcount)
