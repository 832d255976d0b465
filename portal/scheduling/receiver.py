"""The worker that takes in what hosts report. It registers one task; who speaks is proved by a signature.

Run one process of it, with the solo pool: reports of a host are taken in the order in which they were sent.
"""

import logging
import os
import time
from typing import Any

from celery import Celery
from celery.exceptions import Reject
from celery.signals import worker_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.conf import settings  # noqa: E402 - Django's settings module must be named first
from django.db import OperationalError, connection, transaction  # noqa: E402 - as above
from django.utils import timezone  # noqa: E402 - as above

from portal.common import messages  # noqa: E402 - as above
from portal.common.units import whole_second  # noqa: E402 - as above
from portal.scheduling.report_shape import report_checked  # noqa: E402 - as above

logger = logging.getLogger(__name__)

AWAY_PAUSE_SECONDS = 1.0

app = Celery("receiver", amqp="portal.scheduling.reports_channel:ReportsAMQP", set_as_current=False)
app.conf.update(
    broker_url=settings.BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # Reports wait under names of their own while they are worked on: nothing of the portal's lies beside them.
    broker_transport_options={
        "visibility_timeout": 600,
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        "priority_steps": [0],
        "unacked_key": "reports.unacked",
        "unacked_index_key": "reports.unacked_index",
        "unacked_mutex_key": "reports.unacked_mutex",
    },
    task_queues=[messages.queue_bare(messages.REPORTS_QUEUE)],
    task_default_queue=messages.REPORTS_QUEUE,
    task_create_missing_queues=False,
    task_ignore_result=True,
    task_acks_late=True,
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    timezone="UTC",
)


@app.task(name=messages.REPORT_TASK)  # type: ignore[untyped-decorator]
def report_receive(envelope: Any) -> None:
    """Take in one report: 1. whose 2. proved and newer 3. of the right shape 4. applied, all or nothing."""
    try:
        report_take(envelope)
    except messages.MessageRefused as refusal:
        logger.warning("Refused: %s", refusal)
    except OperationalError as error:
        if database_answers():
            logger.exception("A report was dropped: the database refused it.")
            return
        logger.warning("The database is away; the report is put back.")
        # Back to the head of the queue, so that the order stays; the pause keeps this from spinning.
        time.sleep(AWAY_PAUSE_SECONDS)
        raise Reject(error, requeue=True) from error


def report_take(envelope: Any) -> None:
    """Verify and apply in one transaction: a kill in between leaves the sequence where it was."""
    from portal.clusters.models import Host
    from portal.scheduling.observe import report_apply
    from portal.scheduling.probe import probe_take

    checked = messages.envelope_shape(envelope)
    if checked["action"] == messages.PROBE_ACTION:
        probe_take(envelope, now=timezone.now())
        return
    with transaction.atomic():
        host = Host.objects.select_for_update(no_key=True).filter(name=checked["host"], retired_at__isnull=True).first()
        if host is None or host.public_key is None:
            raise messages.OtherHost(f"No host {checked['host'][:100]!r} is registered with a key.")
        messages.envelope_verify(
            envelope,
            public_key=bytes(host.public_key),
            host=host.name,
            action=messages.REPORT_ACTION,
            after_sequence=host.report_sequence,
        )
        report = report_checked(checked["body"])
        Host.objects.filter(pk=host.pk).update(report_sequence=checked["sequence"])
        host.report_sequence = checked["sequence"]
        report_apply(host=host, report=report, now=whole_second(timezone.now()))


def database_answers() -> bool:
    """Whether the database is there: if so, an error was the report's own."""
    connection.close()
    try:
        connection.ensure_connection()
    except OperationalError:
        return False
    return True


@worker_init.connect  # type: ignore[untyped-decorator]
def one_task_alone(**arguments: Any) -> None:
    """Forget Celery's own tasks and all that was imported: this worker knows one."""
    app.finalize()
    for name in set(app.tasks) - {messages.REPORT_TASK}:
        app.tasks.pop(name)
