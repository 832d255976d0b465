"""Task names, queues and payloads: the words that portal, hosts and beat exchange. Django-free at import."""

from typing import Any

PORTAL_QUEUE = "portal"
REPORTS_QUEUE = "reports"

PASS_ALL_TASK = "portal.scheduling.pass_all"
PASS_TASK = "portal.scheduling.pass_one"
REPORT_TASK = "portal.scheduling.report_receive"
DESIRED_TASK = "portal.agent.desired"


DESIRED_SEQUENCE = "desired_sequence"
"""Field of a report's body: the sequence of the last desired state that the host has taken in, 0 for none since
the agent started. Only a report that is up to date (at or above the sequence last sent) can say by leaving an
attempt out that it is gone; an older one may simply not have heard of it yet."""


def host_queue(host: str) -> str:
    """The queue that only the agent of `host` consumes."""
    return f"host.{host}"


def pass_request(cluster_id: int) -> None:
    """Ask for a pass over a cluster once the caller's transaction has committed.

    A broker that is away is not an error here: the beat's next tick does the same work.
    """
    from celery import current_app
    from django.db import transaction
    from kombu.exceptions import OperationalError

    def send() -> None:
        try:
            current_app.send_task(PASS_TASK, args=[cluster_id], queue=PORTAL_QUEUE, retry=False)
        except OperationalError:
            import logging

            logging.getLogger(__name__).warning("The broker is away: the next beat makes the pass.")

    transaction.on_commit(send)


Payload = dict[str, Any]
