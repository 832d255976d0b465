"""Many rows at once, where Django's own ways cost too much: COPY in, one UPDATE from arrays, ids as one array.

Values pass through the model's fields, so constraints and types are the same as with `save`; only `rows_copy` takes
them as COPY reads them.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum
from operator import attrgetter
from typing import Any

from django.db import connection, models
from django.db.models.expressions import RawSQL

Column = Any  # a field of a model that has a column of its own

PLAIN = (int, str, datetime)
AS_THEY_ARE = (models.IntegerField, models.AutoField, models.BooleanField, models.DateTimeField, models.ForeignKey)
COPY_FROM = 20
"""Fewer rows than this are inserted the ordinary way: a COPY costs three round trips."""


def ids_array(ids: Iterable[int]) -> str:
    """Whole numbers as a PostgreSQL array's text: to be cast by the statement. Far cheaper than a list of them."""
    return f"{{{','.join(map(str, ids))}}}"


def ids_among(ids: Iterable[int]) -> RawSQL:
    """For `pk__in`: one parameter however many ids there are."""
    return RawSQL("SELECT unnest(%s::bigint[])", [ids_array(ids)])  # noqa: S611 - a constant statement, digits within


def rows_insert(rows: Sequence[models.Model]) -> None:
    """Insert new rows of one model; afterwards none of them knows its id."""
    if len(rows) < COPY_FROM:
        if rows:
            type(rows[0])._default_manager.bulk_create(rows)
        return
    _rows_copy(rows, [field for field in rows[0]._meta.concrete_fields if not field.primary_key])


def rows_insert_with_ids(rows: Sequence[models.Model]) -> None:
    """Insert new rows of one model, each with an id from the table's sequence, set on it."""
    if len(rows) < COPY_FROM:
        if rows:
            type(rows[0])._default_manager.bulk_create(rows)
        return
    meta = rows[0]._meta
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT array_agg(nextval(pg_get_serial_sequence(%s, %s))) FROM generate_series(1, %s)",
            [meta.db_table, meta.pk.column, len(rows)],
        )
        for row, pk in zip(rows, cursor.fetchone()[0], strict=True):
            row.pk = pk
    _rows_copy(rows, list(meta.concrete_fields))
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


def rows_copy(model: type[models.Model], names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """New rows as tuples of these columns, without a model object each; ranges, arrays and JSON as their text."""
    fields: list[Column] = [model._meta.get_field(name) for name in names]
    columns = ", ".join(_name(field.column) for field in fields)
    statement = f"COPY {_name(model._meta.db_table)} ({columns}) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _rows_copy(rows: Sequence[models.Model], fields: Sequence[Column]) -> None:
    values = attrgetter(*(field.attname for field in fields))
    prepared = [(place, field) for place, field in enumerate(fields) if not isinstance(field, AS_THEY_ARE)]

    def row_of(row: models.Model) -> list[Any]:
        answer = list(values(row))
        for place, field in prepared:
            answer[place] = _prepared(field, answer[place])
        return answer

    rows_copy(type(rows[0]), [field.name for field in fields], map(row_of, rows))


def rows_update(rows: Sequence[models.Model], names: Sequence[str]) -> None:
    """Write these fields of rows of one model, in one statement."""
    if not rows:
        return
    meta = rows[0]._meta
    key = meta.pk
    fields: list[Column] = [field for name in names for field in meta.concrete_fields if field.name == name]
    columns = [_name(field.column) for field in fields]
    types = [key.rel_db_type(connection), *(field.db_type(connection) for field in fields)]
    arrays = ", ".join(f"%s::{kind}[]" for kind in types)
    changes = ", ".join(f"{column} = d.{column}" for column in columns)
    table, pk = _name(meta.db_table), _name(key.column)
    statement = (
        f"UPDATE {table} AS t SET {changes} "  # noqa: S608 - the model's own names
        f"FROM unnest({arrays}) AS d({', '.join([pk, *columns])}) WHERE t.{pk} = d.{pk}"
    )
    values = [[_prepared(field, getattr(row, field.attname)) for row in rows] for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(statement, [ids_array(row.pk for row in rows), *values])


def _prepared(field: Column, value: Any) -> Any:
    """As the database wants it. Numbers, texts and moments are that already, and are by far the most."""
    if value is None or isinstance(value, PLAIN):
        return value.value if isinstance(value, Enum) else value
    return field.get_db_prep_save(value, connection)


def _name(name: str | None) -> str:
    return connection.ops.quote_name(name or "")
