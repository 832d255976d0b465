"""Celery's way to the broker, with two faults of its Redis transport mended.

A broker that hangs while a message is acknowledged must not stop a worker for good, and a message that is put back
must be the next one again.
"""

from typing import Any

from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.transport import virtual
from kombu.transport.base import Transport as AnyTransport
from kombu.transport.redis import Channel, QoS, Transport


class BrokerQoS(QoS):
    """What a worker has taken and not yet acknowledged."""

    def ack(self, delivery_tag: str) -> None:
        """Count it as done here even when the broker didn't hear of it.

        Else the worker has no room for another message, for ever. The broker gives it out again after its visibility
        timeout, which does no harm: passes and reports are level-triggered.
        """
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        except BaseException:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]
            raise

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Put it back at the end from which messages are taken; the transport's own would put it last."""
        if not requeue:
            super().reject(delivery_tag)  # type: ignore[no-untyped-call]
            return
        self.restore_by_tag(delivery_tag, leftmost=False)  # type: ignore[no-untyped-call]
        virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]


class BrokerChannel(Channel):
    """Redis' channel with that."""

    QoS = BrokerQoS


class BrokerTransport(Transport):
    """Redis' transport with such channels."""

    Channel: Any = BrokerChannel


class BrokerConnection(Connection):
    """A connection over it, whatever form the broker's address has; others (a test's memory) stay as they are."""

    def get_transport_cls(self) -> type[AnyTransport]:
        """Ours in place of Redis'."""
        found: type[AnyTransport] = super().get_transport_cls()  # type: ignore[no-untyped-call]
        return BrokerTransport if issubclass(found, Transport) else found


class BrokerAMQP(AMQP):  # type: ignore[misc]
    """Celery's wiring with our connection."""

    Connection = BrokerConnection
