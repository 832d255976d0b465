"""What automation finds about a host, and what follows (R15). A person's word outranks it: see `host_uncordon`."""

from datetime import datetime

from django.db import transaction

from portal.clusters.models import Host
from portal.clusters.services import (
    DRAINED_STATES,
    OVERRIDE_FIELDS,
    host_event,
    host_locked,
    host_state_refresh,
    operator_require,
)
from portal.clusters.spans import spans_lose
from portal.common.services import audit_record
from portal.common.units import whole_second
from portal.projects.models import User

NOT_FREED = "gpus_not_freed"
"""It keeps what it was told to kill (R11)."""
FATAL_CODE = "gpu_lost"
"""A GPU has fallen off the bus: `gpu_lost:3`."""


def is_fatal(code: str) -> bool:
    """Whether the cause is a fault that only a repair ends."""
    return code.startswith(FATAL_CODE)


@transaction.atomic
def host_unhealthy(*, host: Host, cause: str, now: datetime, code: str = NOT_FREED) -> bool:
    """Automation says that the host must take no new work. Whether that holds: a person may have overridden it.

    `code` names the cause for that: one or several, with commas. A fatal fault is not replaced by a lesser cause.
    """
    held = host_locked(host)
    if set(code.split(",")) <= set(held.overridden_codes):
        return False
    lesser = is_fatal(held.unhealthy_code) and not is_fatal(code)
    if not lesser and (held.unhealthy_cause, held.unhealthy_code) != (cause[:200], code):
        held.unhealthy_cause, held.unhealthy_code = cause[:200], code
        held.save(update_fields=["unhealthy_cause", "unhealthy_code"])
        host_event(held, "unhealthy", cause, None, now)
    host.unhealthy_cause, host.unhealthy_code = held.unhealthy_cause, held.unhealthy_code
    host_state_refresh(host=host, now=now)
    return True


@transaction.atomic
def host_recovered(*, host: Host, now: datetime) -> None:
    """What made the host unhealthy is over. A cordon stays."""
    held = host_locked(host)
    if held.unhealthy_cause:
        host_event(held, "recovered", held.unhealthy_cause, None, now)
        held.unhealthy_cause, held.unhealthy_code = "", ""
        held.save(update_fields=["unhealthy_cause", "unhealthy_code"])
    host.unhealthy_cause, host.unhealthy_code = "", ""
    host_state_refresh(host=host, now=now)


@transaction.atomic
def host_override_lift(*, host: Host, actor: User | None, now: datetime) -> None:
    """Automation may find the host unhealthy again for what a person had overridden."""
    operator_require(actor)
    held = host_locked(host)
    if held.overridden_codes:
        before = {"overridden_codes": held.overridden_codes}
        held.overridden_codes, held.overridden_at, held.overridden_by = [], None, None
        held.save(update_fields=OVERRIDE_FIELDS)
        host_event(held, "override_lifted", "Automation may judge the host again.", actor, now)
        after: dict[str, object] = {"overridden_codes": []}
        audit_record(actor=actor, action="host_override_lift", target=held, before=before, after=after, now=now)
    host.overridden_codes, host.overridden_at, host.overridden_by = [], None, None


@transaction.atomic
def host_gone(*, host: Host, now: datetime) -> None:
    """Unheard while the portal heard itself: away since its last heartbeat, in its history too."""
    held = host_locked(host)
    if held.gone_at is not None or held.last_heard_at is None:
        return
    heard_at = whole_second(held.last_heard_at)
    held.gone_at, held.silent_at = now, held.silent_at or now
    held.save(update_fields=["gone_at", "silent_at"])
    spans_lose(held, heard_at, whole_second(now), f"Not heard since {heard_at:%F %T} UTC.")
    host_event(held, "gone", f"Not heard since {heard_at:%F %T} UTC: what ran on it has ended.", None, now)
    host_state_refresh(host=host, now=now)
    host.gone_at, host.silent_at = held.gone_at, held.silent_at


@transaction.atomic
def host_away(*, host: Host, since: datetime, now: datetime) -> None:
    """It is back and has lost what ran on it: from its last heartbeat until now it took no work."""
    spans_lose(host_locked(host), since, whole_second(now), f"Not heard since {since:%F %T} UTC.")
    host_state_refresh(host=host, now=now)


@transaction.atomic
def host_empty(*, host: Host, now: datetime) -> None:
    """A host that was gone says that nothing is left on it of what was ended: it takes work again."""
    held = host_locked(host)
    if held.gone_at is not None:
        held.gone_at = None
        held.save(update_fields=["gone_at"])
        host_event(held, "empty", "Nothing is left on it of what was ended: it takes work again.", None, now)
    host.gone_at = None
    host_state_refresh(host=host, now=now)


@transaction.atomic
def host_ready(*, host: Host, now: datetime) -> None:
    """Taken out and empty: it can be repaired."""
    held = host_locked(host)
    if held.ready_at is None and held.state in DRAINED_STATES:
        held.ready_at = now
        held.save(update_fields=["ready_at"])
        host_event(held, "ready", "Nothing runs on it: ready for repair.", None, now)
    host.ready_at = held.ready_at
