"""Columns of whole numbers as bytes and back: what one day of the ledger is kept as. Pure.

Each column is its least value and the distance of every value from it in as few bytes as the greatest distance
takes: 100 bytes of a row become about 20. Values are any 64-bit integers; what is read is what was written.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from portal.usage.arrays import IntArray

_LENGTHS = struct.Struct("<II")
_WIDTHS = ("<u1", "<u2", "<u4", "<u8")

Path = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Packed:
    """Columns of one length, by name; where one is `path`, its values index into `paths`."""

    columns: Mapping[str, IntArray]
    paths: tuple[Path, ...] = ()


def pack(packed: Packed) -> bytes:
    """A header and the paths in JSON (their lengths first), then the columns one after the other."""
    parts = [_narrowed(column) for column in packed.columns.values()]
    header = {
        "rows": len(next(iter(packed.columns.values()), ())),
        "columns": [[name, base, kind] for name, (base, kind, _) in zip(packed.columns, parts, strict=True)],
    }
    heads = [json.dumps(part, separators=(",", ":")).encode() for part in (header, packed.paths)]
    return b"".join([_LENGTHS.pack(*map(len, heads)), *heads, *(data for _, _, data in parts)])


def _narrowed(column: IntArray) -> tuple[int, str, bytes]:
    base = int(column.min()) if len(column) else 0
    distance = column.astype(np.uint64) - np.uint64(base & 2**64 - 1)  # modulo 2**64: also over the whole range
    most = int(distance.max()) if len(column) else 0
    kind = next(kind for kind in _WIDTHS if most < 2 ** (8 * np.dtype(kind).itemsize))
    return base, kind, distance.astype(kind).tobytes()


def unpack(data: Any) -> Packed:
    """What `pack` was given."""
    view = memoryview(data)
    length, paths_length = _LENGTHS.unpack_from(view)
    head = _LENGTHS.size + length
    offset = head + paths_length
    paths = _paths(bytes(view[head:offset]))
    header, columns = json.loads(bytes(view[_LENGTHS.size : head])), {}
    rows = header["rows"]
    for name, base, kind in header["columns"]:
        distance = np.frombuffer(view, dtype=kind, count=rows, offset=offset)
        columns[name] = (distance.astype(np.uint64) + np.uint64(base & 2**64 - 1)).view(np.int64)
        offset += distance.nbytes
    return Packed(columns, paths)


@lru_cache(maxsize=512)
def _paths(text: bytes) -> tuple[Path, ...]:
    """Neighbouring days have the same paths: one object then."""
    return tuple(tuple(path) for path in json.loads(text))


def joined(parts: Sequence[Packed], names: Sequence[str]) -> Packed:
    """The rows of all parts after one another; paths that they share are one."""
    places: dict[Path, int] = {}
    moves: dict[int, IntArray] = {}  # by the identity of a part's paths, each of which lives as long as its part
    for part in parts:
        if id(part.paths) not in moves:
            moves[id(part.paths)] = np.array(
                [places.setdefault(path, len(places)) for path in part.paths], dtype=np.int64
            )
    columns = {name: _column(parts, name) for name in names if name != "path"}
    if "path" in names:
        moved = [moves[id(part.paths)][part.columns["path"]] for part in parts if len(part.columns["path"])]
        columns["path"] = np.concatenate(moved) if moved else np.zeros(0, dtype=np.int64)
    return Packed(columns, tuple(places))


def _column(parts: Sequence[Packed], name: str) -> IntArray:
    return np.concatenate([part.columns[name] for part in parts]) if parts else np.zeros(0, dtype=np.int64)


def chosen(packed: Packed, rows: Any) -> Packed:
    """Some of the rows, by mask or by places; the paths stay."""
    return Packed({name: column[rows] for name, column in packed.columns.items()}, packed.paths)
