"""400, 403, 404, 405, 409, 500 and 503 in the frame of every page: what happened, why, what to do."""

import sys
from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string

TITLES = {
    400: "This address or form has something that can't be right",
    403: "Your roles do not allow this",
    404: "Nothing here that you may see",
    405: "This can't be done by opening an address",
    409: "Somebody changed this in the meantime",
    500: "Something of ours went wrong",
    503: "The database is away",
}
HINTS = {
    400: "Go back and put it right; what you typed is still there.",
    403: "Ask a lead of the project or an administrator for the role.",
    404: "It does not exist, or your roles do not reach it. Check the address, or search by name or id.",
    405: "Use the button on the page.",
    409: "Open the page again to see what is there now, then decide anew.",
    500: "It has been written to the log with the time below. Nothing that you sent was half-saved.",
    503: "Nothing was saved. Workloads that run go on running. Try again in a minute.",
}


def error_page(request: HttpRequest, status: int, detail: str = "") -> HttpResponse:
    """The page of an error, in the frame where the frame can be drawn."""
    context = {"status": status, "title": TITLES.get(status, TITLES[500]), "detail": detail, "hint": HINTS.get(status)}
    return HttpResponse(render_to_string("dashboard/error.html", context, request), status=status)


def unavailable_page(request: HttpRequest) -> HttpResponse:
    """503 without a look at the database: frame and words only."""
    return _plain(request, 503, retry_after="30")


def starting_page(request: HttpRequest) -> HttpResponse:
    """503 while tables and first accounts are made."""
    title, hint = "GPU Commons is starting", "Its database is being prepared. Open this page again in a few seconds."
    return _plain(request, 503, retry_after="3", title=title, hint=hint)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler400."""
    return _plain(request, 400)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without its secret, or from another site."""
    return error_page(
        request, 403, "The form was too old, or came from another site: its secret does not match. Open it again."
    )


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler403."""
    return error_page(request, 403)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler404: the API answers in its own form."""
    if request.path.startswith("/api/"):
        return _problem(404, "not_found", TITLES[404], "There is nothing at this address.")
    return error_page(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    """handler500: a database that is away is a 503, wherever it was noticed."""
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return _plain(request, 503, retry_after="30")
    return _plain(request, 500)


def _plain(
    request: HttpRequest, status: int, retry_after: str = "", *, title: str = "", hint: str = ""
) -> HttpResponse:
    """Drawn without the request's context, so that nothing is asked of the database."""
    title, hint = title or TITLES[status], hint or HINTS[status]
    if request.path.startswith("/api/"):
        code = {400: "invalid", 503: "unavailable"}.get(status, "error")
        response: HttpResponse = _problem(status, code, title, f"{title}. {hint}")
    else:
        context = {
            "status": status,
            "title": title,
            "hint": hint,
        }
        response = HttpResponse(render_to_string("dashboard/error.html", context), status=status)
    if retry_after:
        response["Retry-After"] = retry_after
    return response


def _problem(status: int, code: str, title: str, detail: str) -> JsonResponse:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "errors": [{"attr": None, "code": code, "detail": detail}],
    }
    return JsonResponse(body, status=status, content_type="application/problem+json")
