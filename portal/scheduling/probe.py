"""The portal's own message through broker and receiver: whose silence is whose (R15).

Each beat sends one onto the reports' queue, behind what hosts have pushed by then; the receiver notes that it came.
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

from portal.common import messages
from portal.common.units import moment_of
from portal.scheduling.models import ReportsProbe
from portal.scheduling.transport import signing_key

logger = logging.getLogger(__name__)

THE_ONE = 1
GAP_BEATS = 3
GAP_SECONDS_LEAST = 30


def probe_send(now: datetime) -> bool:
    """Push one; False: the broker is away, which ends nothing."""
    from portal.celery import app

    envelope = messages.envelope_sign(
        key=signing_key(),
        host=messages.PORTAL_NAME,
        sequence=int(now.timestamp() * 1000),
        action=messages.PROBE_ACTION,
        body={},
    )
    try:
        messages.envelope_send(app, messages.REPORT_TASK, envelope, messages.REPORTS_QUEUE)
    except OperationalError:
        logger.warning("The broker is away: no host is given up for its silence meanwhile.")
        return False
    return True


def probe_take(envelope: object, *, now: datetime) -> None:
    """One came through: verified as the portal's own, and newer than the last."""
    with transaction.atomic():
        last = ReportsProbe.objects.select_for_update(no_key=True).filter(pk=THE_ONE).first()
        checked = messages.envelope_verify(
            envelope,
            public_key=signing_key().public_key().public_bytes_raw(),
            host=messages.PORTAL_NAME,
            action=messages.PROBE_ACTION,
            after_sequence=-1 if last is None else last.sequence,
        )
        probe_note(last, sequence=checked["sequence"], now=now)


def probe_note(last: ReportsProbe | None, *, sequence: int, now: datetime) -> None:
    """Note the passage; after a gap the portal knows nothing of the time before."""
    goes_on = last is not None and now - last.passed_at <= timedelta(seconds=gap_seconds())
    facts = {
        "sequence": sequence,
        "sent_at": moment_of(sequence // 1000),
        "passed_at": now,
        "unbroken_since": last.unbroken_since if last is not None and goes_on else now,
    }
    ReportsProbe.objects.update_or_create(pk=THE_ONE, defaults=facts)


def gap_seconds() -> int:
    """The longest time between two passages that counts as none."""
    return max(GAP_BEATS * int(settings.PASS_INTERVAL_SECONDS), GAP_SECONDS_LEAST)


def silence_known(*, now: datetime) -> tuple[datetime, datetime] | None:
    """(since, until): the time in which a host that is not heard is silent itself; None: the portal can't tell."""
    probe = ReportsProbe.objects.filter(pk=THE_ONE).first()
    if probe is None or now - probe.passed_at > timedelta(seconds=gap_seconds()):
        return None
    return probe.unbroken_since, probe.sent_at
