"""Queries that answer with one array a column, read as numpy arrays without building a Python object a value.

PostgreSQL's binary form of an array of fixed-size values without nulls is itself an array: a header, then length and
value in turn. Moments come as microseconds since 2000; they become whole epoch seconds, `infinity` becomes NEVER.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from django.db import connection
from django.db.backends.postgresql.base import ServerBindingCursor
from numpy.typing import NDArray
from psycopg.adapt import Buffer, Loader
from psycopg.pq import Format

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NEVER = -1
_HEADER_BYTES = 20
_SECONDS_TO_2000 = 946_684_800
_INFINITY = np.iinfo(np.int64).max


def _values(data: Buffer, kind: str) -> NDArray[Any]:
    """The values of a binary array: its header is dimensions, whether there are nulls, type, length, first index."""
    if len(data) < _HEADER_BYTES:
        return np.zeros(0, dtype=np.int64)
    if int.from_bytes(data[4:8], "big"):
        raise ValueError("A column that is read as an array holds a null.")
    values = np.frombuffer(data, dtype=np.dtype([("size", ">i4"), ("value", kind)]), offset=_HEADER_BYTES)
    return values["value"]


class _Wide(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> IntArray:
        return _values(data, ">i8").astype(np.int64)


class _Narrow(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> IntArray:
        return _values(data, ">i4").astype(np.int64)


class _Flags(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> BoolArray:
        return _values(data, "?").astype(np.bool_)


class _Moments(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> IntArray:
        microseconds = _values(data, ">i8").astype(np.int64)
        seconds = microseconds // 1_000_000 + _SECONDS_TO_2000
        return np.where(microseconds == _INFINITY, NEVER, seconds)


_LOADERS = {"int8[]": _Wide, "int4[]": _Narrow, "bool[]": _Flags, "timestamptz[]": _Moments}


def columns_fetch(sql: str, parameters: Mapping[str, Any]) -> list[NDArray[Any]]:
    """The one row of a query of `array_agg`s over bigint, integer, boolean or timestamptz; none of them null."""
    connection.ensure_connection()
    backend: Any = connection
    made: Any = ServerBindingCursor  # of Django's cursors the one that can ask for the binary form
    raw = made(backend.connection)
    raw.format = Format.BINARY
    for name, loader in _LOADERS.items():
        raw.adapters.register_loader(raw.adapters.types.get_oid(name), loader)
    with backend._prepare_cursor(raw) as cursor:  # counted, logged and its errors wrapped as of any other
        cursor.execute(sql, parameters)
        row = cursor.fetchone() or ()
    return [np.zeros(0, dtype=np.int64) if column is None else column for column in row]


def row_fetch(sql: str, parameters: Mapping[str, Any]) -> list[Any]:
    """The one row of a query that aggregates."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        row: list[Any] = list(cursor.fetchone() or [])
    return row


def int_array(values: Any) -> IntArray:
    """An int64 array of a list."""
    return np.array(values, dtype=np.int64)
