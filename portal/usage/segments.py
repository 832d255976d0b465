"""Segments of a range as columns: of closed days from what is packed of them, of the rest from the rows themselves."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np

from portal.clusters.models import Cluster
from portal.common.units import epoch_seconds
from portal.projects.models import Project
from portal.usage.arrays import NEVER, columns_fetch, row_fetch
from portal.usage.columns import STANDINGS, Parents, Path, SegmentColumns, parents_read
from portal.usage.days import days_read
from portal.usage.models import LedgerDayKind
from portal.usage.packing import Packed, chosen, joined

# Path, GPUs (at most 2**20 on a host) and standing travel as one number: an array costs more than the shifts.
_GPUS_SHIFT = 3
_PATH_SHIFT = 24
_STANDING_NUMBER = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(STANDINGS))
_COLUMNS = f"""
SELECT array_agg(s.workload_id), array_agg(s.host_id), array_agg(s.author_id), array_agg(s.start_at),
       array_agg(coalesce(s.end_at, 'infinity')),
       array_agg((coalesce(known.number, 0) << {_PATH_SHIFT}) | (s.gpus << {_GPUS_SHIFT})
                 | (CASE s.standing {_STANDING_NUMBER} END))
FROM usage_segment s LEFT JOIN (
    SELECT text::bigint[] AS path, number FROM unnest(%(paths)s::text[]) WITH ORDINALITY AS given(text, number)
) AS known ON known.path = s.path
WHERE s.cluster_id = %(cluster)s AND """  # noqa: S608 - the names of standings are constants
_REACHING = """(s.end_at IS NULL OR s.end_at > %(start)s AND s.end_at >= %(rows_from)s) AND s.start_at < %(end)s"""
_ENDED = """s.end_at >= %(first)s AND s.end_at < %(last)s"""
_PATHS = "SELECT array_agg(DISTINCT s.path::text) FROM usage_segment s WHERE s.cluster_id = %(cluster)s AND "
_NAMES = ("workload", "host", "author", "gpus", "standing", "began_at", "ended_at", "path")


def window_segments(
    *,
    cluster: Cluster,
    start: datetime,
    end: datetime,
    project: Project | None = None,
    parents: Parents | None = None,
) -> SegmentColumns:
    """Segments of the cluster that reach into [start, end); with `project`, those charged to it or below it.

    `parents`: the tree of projects, if the caller has read it already. `end` is at most now.
    """
    known = _tree_paths(parents_read() if parents is None else parents)

    def ended(first: datetime, last: datetime) -> Packed:
        return _rows_read(cluster, known, _ENDED, {"first": first, "last": last})

    days = days_read(cluster=cluster, kind=LedgerDayKind.SEGMENTS, start=start, end=end, reader=ended)
    range_asked = {"start": start, "end": end, "rows_from": days.rows_from}
    packed = joined([*days.parts, _rows_read(cluster, known, _REACHING, range_asked)], _NAMES)
    columns = _columns(_reaching(packed, start, end))
    return columns if project is None else columns.below(project.pk)


def _reaching(packed: Packed, start: datetime, end: datetime) -> Packed:
    """Of whole days, what reaches into the range."""
    began, ended = packed.columns["began_at"], packed.columns["ended_at"]
    return chosen(packed, (began < epoch_seconds(end)) & ((ended == NEVER) | (ended > epoch_seconds(start))))


def _columns(packed: Packed) -> SegmentColumns:
    """As columns, with those paths alone that occur."""
    found = packed.columns
    counts = np.bincount(found["path"], minlength=len(packed.paths))
    place = np.cumsum(counts > 0) - 1  # of each path among those that occur
    return SegmentColumns(
        workload=found["workload"],
        host=found["host"],
        author=found["author"],
        gpus=found["gpus"],
        standing=found["standing"],
        start_at=found["began_at"],
        end_at=found["ended_at"],
        path=place[found["path"]] if packed.paths else found["path"],
        paths=tuple(path for path, count in zip(packed.paths, counts, strict=True) if count),
    )


def _rows_read(cluster: Cluster, known: Sequence[Path], condition: str, moments: dict[str, datetime]) -> Packed:
    """Rows of the ledger as columns. Two queries more where one was charged along a path that the tree has no more."""
    parameters = {"cluster": cluster.pk, **moments}
    paths = list(known)
    columns = columns_fetch(_COLUMNS + condition, {**parameters, "paths": _texts(paths)})
    if (columns[-1] >> _PATH_SHIFT == 0).any():
        paths += _former_paths(condition, parameters, paths)
        columns = columns_fetch(_COLUMNS + condition, {**parameters, "paths": _texts(paths)})
    workload, host, author, began_at, ended_at, packed = columns
    return Packed(
        {
            "workload": workload,
            "host": host,
            "author": author,
            "gpus": (packed & 2**_PATH_SHIFT - 1) >> _GPUS_SHIFT,
            "standing": packed & 2**_GPUS_SHIFT - 1,
            "began_at": began_at,
            "ended_at": ended_at,
            "path": (packed >> _PATH_SHIFT) - 1,
        },
        tuple(paths),
    )


def _tree_paths(parents: Parents) -> list[Path]:
    """For every project the ids from the root down to it."""
    paths: dict[int, Path] = {}
    for project_id, parent_id in parents.items():
        paths[project_id] = (project_id,) if parent_id is None else (*paths[parent_id], project_id)
    return list(paths.values())


def _texts(paths: Iterable[Path]) -> list[str]:
    """As PostgreSQL writes arrays."""
    return [f"{{{','.join(map(str, path))}}}" for path in paths]


def _former_paths(condition: str, parameters: dict[str, object], known: Sequence[Path]) -> list[Path]:
    """Paths of the rows asked for that the tree does not have."""
    (texts,) = row_fetch(_PATHS + condition, parameters)
    paths = {tuple(int(part) for part in text.strip("{}").split(",")) for text in texts or ()}
    return sorted(paths - set(known))
