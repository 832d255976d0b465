"""The audit log as CSV: a line for each field that was changed, with from and to."""

import json
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from portal.common.csv_text import BOM, csv_line
from portal.common.models import AuditEntry

COLUMNS = ("id", "at", "actor", "action", "target_type", "target_id", "target", "field", "from", "to", "reason")
CHUNK = 2_000
FILE_NAME = "audit.csv"


def audit_csv(entries: QuerySet[AuditEntry]) -> Iterator[str]:
    """Line by line, however many there are; an entry that changed no field has one line all the same."""
    yield BOM
    yield csv_line(COLUMNS)
    for entry in entries.select_related("actor").iterator(chunk_size=CHUNK):
        actor = entry.actor.get_username() if entry.actor else ""
        thing = (entry.target_type, entry.target_id, entry.target_name)
        start = [entry.pk, entry.at.isoformat(), actor, entry.action, *thing]
        for field in sorted({*entry.before, *entry.after}) or [""]:
            values = [_text(entry.before.get(field)), _text(entry.after.get(field))]
            yield csv_line([*start, field, *values, entry.reason])


def _text(value: Any) -> Any:
    """Texts and numbers as they are, the rest as JSON; nothing is nothing."""
    if value is None:
        return ""
    if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return json.dumps(value, ensure_ascii=False)
