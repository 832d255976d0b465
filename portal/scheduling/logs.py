"""Output that comes up from hosts: each stretch once, bounded for each replica."""

import base64
from collections.abc import Sequence
from datetime import datetime

from django.db.models import F, Func, IntegerField, Max

from portal.clusters.models import Host
from portal.common.messages import LogChunkReport
from portal.workloads.models import GpuClaim, LogChunk

KEPT_BYTES = 4 * 1024 * 1024
LEFT_OUT = b"\n[GPU Commons keeps the first 4 MiB of a replica's output; what follows is left out.]\n"

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


def _ends(attempts: set[int]) -> dict[Key, int]:
    """Up to where each replica's output is kept already."""
    length = Func(F("data"), function="octet_length", output_field=IntegerField())
    rows = LogChunk.objects.filter(attempt__in=attempts).order_by().values("attempt", "replica")
    return {(row["attempt"], row["replica"]): row["end"] for row in rows.annotate(end=Max(F("offset") + length))}


def _row(key: Key, chunk: LogChunkReport, ends: dict[Key, int], now: datetime) -> LogChunk | None:
    """The part of a chunk that is not kept yet; at the bound one line that says so, and then nothing."""
    offset, data = int(chunk["offset"]), base64.b64decode(chunk["data"])
    kept_to = ends.get(key, 0)
    if kept_to > KEPT_BYTES:
        return None
    if offset < kept_to:
        offset, data = kept_to, data[kept_to - offset :]
    if not data:
        return None
    if offset + len(data) > KEPT_BYTES:
        data = data[: max(KEPT_BYTES - offset, 0)] + LEFT_OUT
        offset = min(offset, KEPT_BYTES)
    return LogChunk(attempt_id=key[0], replica=key[1], offset=offset, data=data, received_at=now)
