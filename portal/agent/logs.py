"""A replica's output on its way up: what follows the offset that was sent, in bounded chunks."""

import base64
import os
from dataclasses import dataclass
from pathlib import Path

from portal.agent.replica import ReplicaFolder
from portal.common.messages import LOG_CHUNK_BYTES, REPORT_LOG_BYTES, REPORT_LOG_CHUNKS, LogChunkReport

SEGMENT_PREFIX = "output."


@dataclass(frozen=True)
class Segment:
    """A stretch of output on the disk."""

    path: Path
    start: int
    end: int


def segments(folder: ReplicaFolder) -> list[Segment]:
    """What is kept of the output, oldest first; a segment that the runner just dropped is left out."""
    found = []
    for entry in os.scandir(folder.path):
        number = entry.name.removeprefix(SEGMENT_PREFIX)
        if number != entry.name and number.isdigit():
            try:
                size = os.lstat(entry.path).st_size
            except FileNotFoundError:
                continue
            found.append(Segment(Path(entry.path), int(number), int(number) + size))
    return sorted(found, key=lambda segment: segment.start)


def sent_offset(folder: ReplicaFolder) -> int:
    """How far the output went up."""
    try:
        return int((folder.path / "sent").read_text())
    except (FileNotFoundError, ValueError):
        return 0


def sent_note(folder: ReplicaFolder, offset: int) -> None:
    """Remember how far it went; a crash before this sends a chunk twice, which the portal keeps once."""
    partial = folder.path / "sent.part"
    partial.write_text(str(offset))
    partial.rename(folder.path / "sent")


def logs_pending(folder: ReplicaFolder) -> bool:
    """Whether output waits to be sent."""
    kept = segments(folder)
    return bool(kept) and kept[-1].end > sent_offset(folder)


def chunk_next(folder: ReplicaFolder, offset: int, limit: int) -> tuple[int, bytes] | None:
    """The first chunk from `offset` on, with its true start: later when the runner dropped what lay between."""
    for segment in segments(folder):
        if segment.end > offset:
            start = max(offset, segment.start)
            try:
                with segment.path.open("rb") as file:
                    file.seek(start - segment.start)
                    data = file.read(limit)
            except FileNotFoundError:
                continue
            if data:
                return start, data
    return None


def chunks_collect(found: list[ReplicaFolder]) -> tuple[list[LogChunkReport], dict[ReplicaFolder, int]]:
    """One chunk a replica in turn until the report is full, and the offsets that are sent once it has gone."""
    chunks: list[LogChunkReport] = []
    offsets = {folder: sent_offset(folder) for folder in found}
    room = REPORT_LOG_BYTES
    waiting = list(found)
    while waiting and room > 0 and len(chunks) < REPORT_LOG_CHUNKS:
        folder = waiting.pop(0)
        chunk = chunk_next(folder, offsets[folder], min(LOG_CHUNK_BYTES, room))
        if chunk is None:
            continue
        start, data = chunk
        attempt, replica = folder.key
        encoded = base64.b64encode(data).decode()
        chunks.append({"attempt": attempt, "replica": replica, "offset": start, "data": encoded})
        offsets[folder] = start + len(data)
        room -= len(data)
        waiting.append(folder)
    return chunks, offsets
