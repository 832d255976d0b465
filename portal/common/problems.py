"""Errors as RFC 9457 problems: one handler for every view of the API, built on drf-standardized-errors."""

from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from drf_standardized_errors.formatter import ExceptionFormatter
from drf_standardized_errors.handler import ExceptionHandler
from drf_standardized_errors.types import Error, ErrorResponse
from kombu.exceptions import OperationalError as BrokerError
from rest_framework import exceptions
from rest_framework.response import Response

from portal.common.errors import CommonsError, Unavailable
from portal.common.parsers import BodyTooLarge

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:gpu-commons:problem:"
TITLES = {
    400: "The request breaks a rule",
    401: "Sign in first",
    403: "You may not do this",
    404: "There is no such thing, or you may not see it",
    405: "This address doesn't do that",
    406: "That form of answer is not offered",
    409: "This can't be done as things are now",
    413: "The request is too large",
    415: "That kind of body is not read",
    429: "Too many requests",
    500: "The portal made a mistake",
    503: "The portal can't answer now",
}
TITLES_BY_CODE = {
    "conflict": "Somebody was faster",
    "key_reused": "This Idempotency-Key was used for another request",
}


class Problem(exceptions.APIException):
    """One of our own errors on its way through the handler."""

    def __init__(self, error: CommonsError) -> None:
        super().__init__(error.detail, code=error.code)
        self.status_code = error.status
        self.error = error
        if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.wait = 5


class ProblemFormatter(ExceptionFormatter):
    """The body of a problem."""

    def get_errors(self) -> list[Error]:
        if isinstance(self.exc, Problem):
            return [Error(error.code, error.detail, _attr(error.attr)) for error in self.exc.error.errors]
        return [Error(error.code, error.detail, _attr(error.attr)) for error in super().get_errors()]

    def format_error_response(self, error_response: ErrorResponse) -> dict[str, Any]:
        errors = [asdict(error) for error in error_response.errors]
        status = self.exc.status_code
        body: dict[str, Any] = {
            "type": f"{TYPE_PREFIX}{self._code(errors)}",
            "title": TITLES_BY_CODE.get(errors[0]["code"]) or TITLES.get(status, HTTPStatus(status).phrase),
            "status": status,
            "detail": " ".join(error["detail"] for error in errors),
            "errors": [{"attr": error["attr"], "code": error["code"], "detail": error["detail"]} for error in errors],
        }
        current_version = getattr(getattr(self.exc, "error", None), "current_version", None)
        if current_version is not None:
            body["current_version"] = current_version
        return body

    def _code(self, errors: list[dict[str, Any]]) -> str:
        if isinstance(self.exc, Problem):
            return self.exc.error.code
        return "invalid" if isinstance(self.exc, exceptions.ValidationError) else str(errors[0]["code"])


class ProblemHandler(ExceptionHandler):
    """Our errors, and those of database and broker, beside those that the framework knows."""

    def convert_known_exceptions(self, exc: Exception) -> Exception:
        if isinstance(exc, CommonsError):
            return Problem(exc)
        if isinstance(exc, OperationalError | InterfaceError):
            return Problem(Unavailable("The database is away: nothing was saved. Try again in a moment."))
        if isinstance(exc, BrokerError):
            return Problem(Unavailable("The broker is away: nothing was sent. Try again in a moment."))
        if isinstance(exc, RequestDataTooBig):
            return BodyTooLarge()
        return super().convert_known_exceptions(exc)

    def format_exception(self, exc: exceptions.APIException) -> dict[str, Any]:
        body: dict[str, Any] = ProblemFormatter(exc, self.context, self.exc).run()
        return body

    def report_exception(self, exc: exceptions.APIException, response: Response) -> None:
        """Something that is away is no fault of ours: the access log has its line, and no traceback follows."""
        if not isinstance(exc, Problem):
            super().report_exception(exc, response)

    def get_response(self, exc: exceptions.APIException, data: dict[str, Any]) -> Response:
        response = super().get_response(exc, data)
        response.content_type = MEDIA_TYPE
        return response


def problem_handler(exc: Exception, context: Any) -> Response | None:
    """The REST framework's EXCEPTION_HANDLER."""
    handler = ProblemHandler(exc, context)
    response = handler.run()
    if response is not None:
        _answer_as_json(context)
    return response


def _attr(attr: str | None) -> str | None:
    """A field's name as it can be sent: an unknown one may hold what is no Unicode."""
    if not attr or attr == "non_field_errors":
        return None
    return attr.encode(errors="backslashreplace").decode()


def _answer_as_json(context: Any) -> None:
    """A problem is JSON, whatever the view's own form of answer is (a log is text)."""
    from rest_framework.renderers import JSONRenderer

    request = context.get("request")
    if request is not None:
        request.accepted_renderer = JSONRenderer()
        request.accepted_media_type = MEDIA_TYPE
