"""Whether the broker is there: asked in a bounded time, and not again for a few seconds where it is away.

A submission is saved only where its request for a pass can be sent, so that nobody waits for a workload of which no
scheduler hears. The same answer stands in /healthz and above every page.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from portal.common.errors import Unavailable

BROKER_SECONDS = 0.9
"""How long one try may take to connect, and to answer."""
QUICK = {
    "socket_timeout": BROKER_SECONDS,
    "socket_connect_timeout": BROKER_SECONDS,
    "max_retries": 0,
}
ANSWER_SECONDS = 3.0
"""For so long an answer stands: for pages, and for submissions where it says that the broker is away."""
SURE_SECONDS = 0.25
"""For so long a submission trusts an answer that the broker is there."""
BROKER_AWAY = "The broker is away: running workloads go on; submissions are refused until it is back."


class Watch:
    """The last answer to whether something is there, shared by all threads of a process."""

    def __init__(self, question: Callable[[], bool]) -> None:
        self._question = question
        self._lock = threading.Lock()
        self._away = False
        self._asked_at = -ANSWER_SECONDS

    def is_away(self, *, there_seconds: float = ANSWER_SECONDS) -> bool:
        """Whether it is away; an answer that it is there may be this old. While one thread asks, the others go by the
        last answer."""
        with self._lock:
            now = time.monotonic()
            if now < self._asked_at + (ANSWER_SECONDS if self._away else there_seconds):
                return self._away
            self._asked_at = now
        away = not self._question()
        self.note(away=away)
        return away

    def note(self, *, away: bool) -> None:
        """What somebody has just learned."""
        with self._lock:
            self._away, self._asked_at = away, time.monotonic()

    def forget(self) -> None:
        """The next who asks asks anew."""
        with self._lock:
            self._away, self._asked_at = False, time.monotonic() - ANSWER_SECONDS


def _broker_answers() -> bool:
    from kombu.exceptions import OperationalError

    from portal.celery import app

    try:
        with app.connection_for_write(transport_options=QUICK, connect_timeout=BROKER_SECONDS) as broker:
            # The channel says hello to the broker when it is made.
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=BROKER_SECONDS)
    except OperationalError:
        return False
    return True


BROKER = Watch(_broker_answers)


def broker_require() -> None:
    """Refuse, before anything is saved, what would wait for a broker that is away."""
    if BROKER.is_away(there_seconds=SURE_SECONDS):
        raise Unavailable("The broker is away: nothing was saved. Running workloads go on. Try again in a moment.")


def quick_producers(app: Any) -> Any:
    """The pool of senders who give up soon: who sends for a person does not wait for a broker that hangs."""
    from kombu import pools

    return pools.producers[app.connection_for_write(transport_options=QUICK, connect_timeout=BROKER_SECONDS)]


def broker_context(request: Any) -> dict[str, str]:
    """Context processor: what stands above every page while the broker is away."""
    return {"broker_words": BROKER_AWAY if BROKER.is_away() else ""}
