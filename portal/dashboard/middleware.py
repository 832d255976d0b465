"""Errors of the one exception tree become pages in the frame; the API answers for itself."""

from collections.abc import Callable

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse

from portal.common.errors import CommonsError
from portal.dashboard.views_errors import error_page, unavailable_page


class ErrorPageMiddleware:
    """Turns what a view raised into the page that says so."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A page for what we know, None for what we do not."""
        if isinstance(exception, CommonsError):
            return error_page(request, exception.status, exception.detail)
        if isinstance(exception, OperationalError | InterfaceError):
            return unavailable_page(request)
        return None
