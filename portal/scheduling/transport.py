"""What the portal sends down: the signed list of what should be on a host, into the queue that only it may read."""

import logging
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

from portal.clusters.models import Host
from portal.common import messages

logger = logging.getLogger(__name__)


def sequence_next(host: Host, now: datetime) -> int:
    """The next sequence of this host: ahead of the last, and of any that a restored backup has forgotten.

    The caller holds the host's row while it reads what is desired, so that a newer sequence never carries an older
    list, and publishes once that transaction has committed.
    """
    with transaction.atomic():
        row = Host.objects.select_for_update(no_key=True).only("desired_sequence").get(pk=host.pk)
        sequence = max(row.desired_sequence + 1, int(now.timestamp() * 1000))
        Host.objects.filter(pk=host.pk).update(desired_sequence=sequence)
    host.desired_sequence = sequence
    return sequence


def desired_publish(host: Host, sequence: int, body: list[messages.DesiredAttempt]) -> bool:
    """Sign and push, in place of what the host has not yet taken: only the newest list matters."""
    envelope = messages.envelope_sign(
        key=signing_key(), host=host.name, sequence=sequence, action=messages.DESIRED_ACTION, body=body
    )
    # Not the current app: in the worker that takes in reports, that is another.
    from portal.celery import app

    queue = messages.host_queue(host.name)
    try:
        messages.envelope_send(app, messages.DESIRED_TASK, envelope, queue, newest_only=True)
    except OperationalError:
        logger.warning("The broker is away: host %s is told at the next pass.", host.name)
        return False
    return True


def signing_key() -> Ed25519PrivateKey:
    """The portal's own key, read from the file that PORTAL_SIGNING_KEY_FILE names."""
    path = settings.PORTAL_SIGNING_KEY_FILE
    if not path:
        raise RuntimeError("PORTAL_SIGNING_KEY_FILE is not set: hosts would not believe what they are told.")
    return messages.private_key(Path(path).read_text())
