"""How many requests one person may make: counted per process and minute, so that counting costs no query."""

import threading
import time
from typing import Any

from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

WINDOW_SECONDS = 60


class PersonThrottle(BaseThrottle):
    """At most the rate `user` of the settings, as requests a minute, in each web process."""

    _lock = threading.Lock()
    _counts: dict[int, int] = {}
    _window = -1

    def allow_request(self, request: Request, view: Any) -> bool:
        person = None if request.user is None else request.user.pk
        if person is None:
            return True
        rate = int(str(api_settings.DEFAULT_THROTTLE_RATES["user"]).split("/")[0])
        window = int(time.monotonic() // WINDOW_SECONDS)
        with PersonThrottle._lock:
            if PersonThrottle._window != window:
                PersonThrottle._window = window
                PersonThrottle._counts = {}
            count = PersonThrottle._counts.get(person, 0) + 1
            PersonThrottle._counts[person] = count
        return count <= rate

    def wait(self) -> float | None:
        return WINDOW_SECONDS - time.monotonic() % WINDOW_SECONDS
