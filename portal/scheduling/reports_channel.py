"""The one door for what hosts push: whatever lies on the reports' queue becomes a bare REPORT_TASK or is dropped.

A host may write any bytes there, and Celery's own format lets a message ask for more than its task: callbacks, where
to be put back, when to run, any task's name. So nothing of it is kept but the one argument, an envelope.
"""

import base64
import binascii
import json
import logging
import uuid
from queue import Empty
from typing import Any

from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.transport.redis import Transport

from portal.common.broker import BrokerChannel
from portal.common.messages import REPORT_TASK, REPORT_TEXT_CHARACTERS, REPORTS_QUEUE, Malformed

logger = logging.getLogger(__name__)


def message_rebuilt(raw: Any) -> dict[str, Any]:
    """A new message with the first argument of the one that came in and nothing else of it."""
    try:
        if len(raw["body"]) > REPORT_TEXT_CHARACTERS * 2:
            raise Malformed("A report is too large.")
        arguments = json.loads(base64.b64decode(raw["body"], validate=True))[0]
        envelope = arguments[0]
    except (TypeError, KeyError, IndexError, ValueError, RecursionError, binascii.Error):
        raise Malformed("What was pushed is not a report.") from None
    if not isinstance(envelope, dict):
        raise Malformed("What was pushed is not a report.")
    return message_bare(envelope)


def message_bare(envelope: dict[str, Any]) -> dict[str, Any]:
    """Celery's second message format with every choice made here."""
    task_id = str(uuid.uuid4())
    body = json.dumps([[envelope], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
    return {
        "body": base64.b64encode(body.encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": REPORT_TASK, "id": task_id, "root_id": task_id, "argsrepr": "(a report)"},
        "properties": {
            "correlation_id": task_id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": REPORTS_QUEUE},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid.uuid4()),
        },
    }


class ReportsChannel(BrokerChannel):
    """The broker's channel with the door in it."""

    def _brpop_read(self, **options: Any) -> bool:
        """Read one message as kombu does, and hand on what is left of it."""
        connection = self.client.connection
        try:
            try:
                popped = self.client.parse_response(connection, "BRPOP", **options)
            except self.connection_errors:
                connection.disconnect()
                raise
            if not popped:
                raise Empty()
            return self.report_deliver(popped[1])
        finally:
            self._in_poll = None  # type: ignore[assignment]
            self._flush_brpop_reauth()  # type: ignore[no-untyped-call]

    def report_deliver(self, item: bytes) -> bool:
        """Rebuild and deliver, or drop with a line in the log."""
        try:
            message = message_rebuilt(json.loads(item))
        except (ValueError, RecursionError):
            logger.warning("Refused: what was pushed to the reports' queue is not JSON.")
            raise Empty() from None
        except Malformed as refusal:
            logger.warning("Refused: %s", refusal)
            raise Empty() from None
        self.connection._deliver(message, REPORTS_QUEUE)
        return True


class ReportsTransport(Transport):
    """Redis' transport with such channels."""

    Channel = ReportsChannel


class ReportsConnection(Connection):
    """A connection over it, whatever form the broker's address has."""

    def get_transport_cls(self) -> type[Transport]:
        """Ours."""
        return ReportsTransport


class ReportsAMQP(AMQP):  # type: ignore[misc]
    """Celery's wiring with our connection."""

    Connection = ReportsConnection
