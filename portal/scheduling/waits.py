"""Why each pending workload waits, written where it changed.

Thousands of waits share a few reasons and differ by their place in the queue alone. So the shared parts go to the
database once each, with a stand-in where a place belongs, and the database puts the places in.
"""

import json
from typing import Any

from django.db import connection

from portal.clusters.models import Cluster
from portal.common.bulk import ids_array
from portal.scheduling.words import Words
from scheduler.types import Decision, Reason

# Stand-ins: numbers larger than any queue, which the words write out like any other.
POSITION = 7_000_000_000_000_001
GPUS_AHEAD = 7_000_000_000_000_002

# A workload that another cluster has just taken keeps that cluster's reason.
WAITS = """
UPDATE workloads_workload w SET reason_code = d.code, reason_text = d.text, reason = CASE WHEN d.position = 0
    THEN d.data ELSE d.data || jsonb_build_object('position', d.position, 'gpus_ahead', d.ahead) END
FROM (
    SELECT q.id, q.position, q.ahead, s.code, s.data::jsonb AS data, left(CASE WHEN q.position = 0 THEN s.text ELSE
        replace(replace(CASE WHEN q.ahead = 1 THEN s.text_of_one ELSE s.text END, %(position)s, q.position::text),
            %(gpus_ahead)s, q.ahead::text) END, 1000) AS text
    FROM unnest(%(ids)s::bigint[], %(kinds)s::int[], %(positions)s::bigint[], %(aheads)s::bigint[])
        AS q(id, kind, position, ahead)
    JOIN unnest(%(codes)s::text[], %(texts)s::text[], %(texts_of_one)s::text[], %(data)s::text[])
        WITH ORDINALITY AS s(code, text, text_of_one, data, kind) ON s.kind = q.kind
) AS d
WHERE w.id = d.id AND w.state = 'pending' AND w.reason_code NOT IN ('held', 'starting')
  AND ((w.reason_code, w.reason_text) IS DISTINCT FROM (d.code, d.text)
    OR d.code IN ('reserved', 'contract_too_large') AND (w.reason->>'position')::bigint IS DISTINCT FROM d.position)
"""


def waits_save(cluster: Cluster, decision: Decision, words: Words) -> int:
    """One statement for all of them; returns how many changed."""
    waits = decision.waits
    if not len(waits):
        return 0
    kinds: dict[tuple[Reason, bool], int] = {}
    numbers = [
        kinds.setdefault((shared, position > 0), len(kinds) + 1)
        for shared, position in zip(waits.shared, waits.position, strict=True)
    ]
    plain = [_placed(shared, GPUS_AHEAD) if queued else shared for shared, queued in kinds]
    of_one = [_placed(shared, 1) if queued else shared for shared, queued in kinds]
    data = [{**words.data(shared), "cluster": cluster.name} for shared, _ in kinds]
    parameters: dict[str, Any] = {
        "position": str(POSITION),
        "gpus_ahead": str(GPUS_AHEAD),
        "ids": ids_array(waits.workload),
        "kinds": ids_array(numbers),
        "positions": ids_array(waits.position),
        "aheads": ids_array(waits.gpus_ahead),
        "codes": [words.code(reason) for reason in plain],
        "texts": [words.text(reason) for reason in plain],
        "texts_of_one": [words.text(reason) for reason in of_one],
        "data": [json.dumps(entry) for entry in data],
    }
    with connection.cursor() as cursor:
        cursor.execute(WAITS, parameters)
        return int(cursor.rowcount)


def _placed(shared: Reason, gpus_ahead: int) -> Reason:
    return Reason(shared.code, (("position", POSITION), ("gpus_ahead", gpus_ahead), *shared.numbers))
