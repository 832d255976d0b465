"""Before the portal is brought up, a page that says so; after that, errors of the one exception tree as pages.

The API answers for itself.
"""

from collections.abc import Callable

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from portal.common.errors import CommonsError, Moved
from portal.common.health import database_is_away
from portal.common.starting import AWAY, missing
from portal.dashboard.views_errors import error_page, starting_page, unavailable_page

PROBES = ("/healthz", "/readyz", "/metrics")
FILES = "/static/"


class StartingMiddleware:
    """Until the portal is brought up, every page says that it is starting; probes and files answer for themselves."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path in PROBES or request.path.startswith(FILES):
            return self.get_response(request)
        lacking = missing()
        # A database that is away is told as such, by who notices.
        if not lacking or AWAY in lacking.values():
            return self.get_response(request)
        return starting_page(request)


class DatabaseAwayMiddleware:
    """A database that hangs would hold a thread for each request, until none is left to say so."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path in PROBES or request.path.startswith(FILES) or not database_is_away():
            return self.get_response(request)
        return unavailable_page(request)


class ErrorPageMiddleware:
    """Turns what a view raised into the page that says so."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A page for what we know, None for what we do not. What moved is shown where it is now."""
        if isinstance(exception, Moved) and request.method in {"GET", "HEAD"}:
            old, new = f"/{exception.old}/", f"/{exception.new}/"
            if old in request.path_info:
                query = request.META.get("QUERY_STRING", "")
                return redirect(request.path.replace(old, new, 1) + (f"?{query}" if query else ""))
        if isinstance(exception, CommonsError):
            return error_page(request, exception.status, exception.detail)
        if isinstance(exception, OperationalError | InterfaceError):
            return unavailable_page(request)
        return None
