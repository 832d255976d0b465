"""Asking the workers of simulations to look for a run that waits."""

import logging

from django.db import transaction
from kombu.exceptions import OperationalError

from portal.common.availability import BROKER, quick_producers
from portal.common.messages import SIMULATION_WORK_TASK, SIMULATIONS_QUEUE

WORK_REQUEST_SECONDS = 60
"""A request that waited longer behind a run is not needed: the beat asks again while runs wait."""

logger = logging.getLogger(__name__)


def work_request() -> None:
    """Once the caller's transaction has committed. A broker that is away is no error: the beat asks again."""
    transaction.on_commit(_send)


def _send() -> None:
    from portal.celery import app

    try:
        with quick_producers(app).acquire(block=True, timeout=1) as producer:
            app.send_task(
                SIMULATION_WORK_TASK,
                queue=SIMULATIONS_QUEUE,
                producer=producer,
                retry=False,
                expires=WORK_REQUEST_SECONDS,
            )
        BROKER.note(away=False)
    except OperationalError:
        BROKER.note(away=True)
        logger.warning("The broker is away: the beat asks for simulations once it is back.")
