"""Writing the audit log."""

from datetime import datetime
from typing import Any

from django.db import models

from portal.common.models import AuditEntry


def audit_record(
    *,
    actor: Any,
    action: str,
    target: models.Model,
    before: dict[str, Any],
    after: dict[str, Any],
    now: datetime,
    reason: str = "",
) -> AuditEntry:
    """Record one change inside the caller's transaction; `actor` None is the system itself."""
    return AuditEntry.objects.create(
        at=now,
        actor=actor,
        action=action,
        target_type=target._meta.model_name or "",
        target_id=target.pk,
        target_name=str(target)[:300],
        before=before,
        after=after,
        reason=reason,
    )
