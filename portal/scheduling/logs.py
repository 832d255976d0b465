"""Output that comes up from hosts: each stretch once; of a long one the start and, rolling, the end."""

import base64
from collections.abc import Sequence
from datetime import datetime

from django.db.models import F, Func, IntegerField, Max

from portal.clusters.models import Host
from portal.common.messages import LOG_CHUNK_BYTES, LogChunkReport
from portal.workloads.models import GpuClaim, LogChunk

HEAD_BYTES = 1024 * 1024
TAIL_BYTES = 3 * 1024 * 1024

Key = tuple[int, int]


def logs_save(*, host: Host, chunks: Sequence[LogChunkReport], now: datetime) -> None:
    """Keep what is new of each replica that this host has or had: a stretch said twice is one row."""
    if not chunks:
        return
    attempts = {int(chunk["attempt"]) for chunk in chunks}
    own = set(GpuClaim.objects.filter(attempt__in=attempts, host=host).values_list("attempt", "replica").distinct())
    ends = _ends(attempts)
    rows = []
    for chunk in sorted(chunks, key=lambda chunk: int(chunk["offset"])):
        key = (int(chunk["attempt"]), int(chunk["replica"]))
        row = _row(key, chunk, ends, now) if key in own else None
        if row is not None:
            rows.append(row)
            ends[key] = row.offset + len(row.data)
    LogChunk.objects.bulk_create(rows, ignore_conflicts=True)
    for key in {(row.attempt_id, row.replica) for row in rows}:
        _middle_drop(key, ends[key])


def _middle_drop(key: Key, end: int) -> None:
    """Forget what lies between the head and the tail; whole chunks, so the tail is a little longer than its bound."""
    before = end - TAIL_BYTES - LOG_CHUNK_BYTES
    if before > HEAD_BYTES:
        middle = LogChunk.objects.filter(attempt=key[0], replica=key[1], offset__gte=HEAD_BYTES, offset__lt=before)
        middle.delete()


def _ends(attempts: set[int]) -> dict[Key, int]:
    """Up to where each replica's output is kept already."""
    length = Func(F("data"), function="octet_length", output_field=IntegerField())
    rows = LogChunk.objects.filter(attempt__in=attempts).order_by().values("attempt", "replica")
    return {(row["attempt"], row["replica"]): row["end"] for row in rows.annotate(end=Max(F("offset") + length))}


def _row(key: Key, chunk: LogChunkReport, ends: dict[Key, int], now: datetime) -> LogChunk | None:
    """The part of a chunk that is not kept yet."""
    offset, data = int(chunk["offset"]), base64.b64decode(chunk["data"])
    kept_to = ends.get(key, 0)
    if offset < kept_to:
        offset, data = kept_to, data[kept_to - offset :]
    if not data:
        return None
    return LogChunk(attempt_id=key[0], replica=key[1], offset=offset, data=data, received_at=now)
