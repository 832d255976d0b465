"""What a worker has taken from the broker and not yet acknowledged."""

import uuid
from collections.abc import Iterator

import pytest
from kombu.simple import SimpleQueue
from redis.exceptions import TimeoutError as BrokerTimeout

from portal.celery import app
from portal.common.broker import BrokerQoS
from portal.common.messages import queue_bare


@pytest.fixture
def queue() -> Iterator[SimpleQueue]:
    """A queue of the portal's own broker, taken from one message at a time."""
    with app.connection_for_read() as connection:
        found = SimpleQueue(connection, queue_bare(f"test.{uuid.uuid4().hex}"), no_ack=False)
        found.channel.basic_qos(0, 1, False)
        yield found
        found.clear()
        found.close()


def test_a_worker_takes_messages_again_after_a_broker_that_hung_at_its_acknowledgement(queue, monkeypatch):
    queue.put("first")
    message = queue.get(timeout=5)

    def hangs(self: BrokerQoS, delivery_tag: str) -> None:
        raise BrokerTimeout("Timeout reading from socket")

    with monkeypatch.context() as hanging:
        hanging.setattr(BrokerQoS, "_remove_from_indices", hangs)
        with pytest.raises(BrokerTimeout):
            message.ack()
    queue.put("second")
    assert queue.get(timeout=5).payload == "second"


def test_a_message_that_is_put_back_is_the_next_one_again(queue):
    for text in ("first", "second"):
        queue.put(text)
    queue.get(timeout=5).reject(requeue=True)
    assert queue.get(timeout=5).payload == "first"
