"""An audit entry in words: each field that it changed, from what, to what."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.timezone import localtime

from portal.common.models import AuditEntry
from portal.common.units import percent_words
from portal.dashboard.forms import as_json

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class FieldChange:
    """One field of an entry, before and after."""

    name: str
    before: str
    after: str


def changes_of(entry: AuditEntry) -> list[FieldChange]:
    """The fields that an entry changed, in words."""
    names = sorted({*entry.before, *entry.after})
    before, after = ([_words(name, side.get(name)) for name in names] for side in (entry.before, entry.after))
    return [FieldChange(_label(name), *words) for name, *words in zip(names, before, after, strict=True)]


LABELS = {
    "share_ppm": "share",
    "gpus": "GPUs",
    "min_runtime_seconds": "minimum runtime (s)",
    "is_superuser": "administrator",
    "is_operator": "operator",
    "is_staff": "may open the administration",
    "is_active": "may sign in",
}


def _label(name: str) -> str:
    """A field's name as people say it; a project's path stays as it is."""
    if name in LABELS or "/" in name:
        return LABELS.get(name, name)
    return name.removesuffix("_at").removeprefix("is_").replace("_", " ")


def _words(name: str, value: Any) -> str:
    if value is None or value == "":
        return "–"
    if name == "share_ppm" and isinstance(value, int):
        return percent_words(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "–"
    if isinstance(value, str) and MOMENT.fullmatch(value):
        return f"{localtime(datetime.fromisoformat(value)):%-d %b %Y %H:%M:%S}"
    if isinstance(value, dict) and "share_ppm" in value:
        cap = value.get("burst_gpus")
        return percent_words(value["share_ppm"]) + (f", at most {cap} GPUs" if cap is not None else "")
    return value if isinstance(value, str) else as_json(value)
