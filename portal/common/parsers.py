"""JSON bodies, read strictly: bounded before they are read, and nothing that JSON itself does not have."""

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser, get_encoding  # type: ignore[attr-defined]  # the stubs lack it

DEPTH_MAX = 32


class BodyTooLarge(APIException):
    """413: the body is longer than the portal reads."""

    status_code = 413
    default_code = "too_large"

    def __init__(self) -> None:
        super().__init__(
            f"The body is larger than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes, the most that is read."
        )


class NoNumber:
    """Stands where a body has NaN, Infinity or a number beyond a float: of no kind that a field takes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text[:40]


class StrictJSONParser(JSONParser):
    """JSON in one document: no key twice. NaN and numbers beyond a float are no value of any field, which names it."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        context = dict(parser_context or {})
        raw = _read_bounded(stream, context)
        try:
            text = raw.decode(get_encoding(context))
            data = json.loads(
                text, parse_constant=NoNumber, parse_float=self.number_parse, object_pairs_hook=_pairs_once
            )
        except RecursionError:
            raise ParseError(f"The JSON is nested more than {DEPTH_MAX} levels deep.") from None
        except ValueError as error:
            raise ParseError(f"The body is not JSON that can be read: {error}.") from None
        if isinstance(data, NoNumber):
            raise ParseError(f"{data} is no number of JSON.")
        _depth_check(data)
        return data

    def number_parse(self, text: str) -> Any:
        """A number that isn't whole."""
        number = float(text)
        return NoNumber(text) if number in (float("inf"), float("-inf")) else number


class ExactJSONParser(StrictJSONParser):
    """The same, with numbers that have a point or an exponent read as they stand there: nothing of them is rounded."""

    def number_parse(self, text: str) -> Any:
        try:
            return Decimal(text)
        except InvalidOperation:
            return NoNumber(text)


def _read_bounded(stream: IO[Any], context: Mapping[str, Any]) -> bytes:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    request = context.get("request")
    declared = request.META.get("CONTENT_LENGTH") if request is not None else None
    if declared and declared.isdigit() and int(declared) > limit:
        raise BodyTooLarge()
    raw = stream.read(limit + 1)
    if len(raw) > limit:
        raise BodyTooLarge()
    return bytes(raw)


def _pairs_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return result


def _depth_check(data: Any, depth: int = 0) -> None:
    """Refuse what is nested without end. What texts may hold is the fields' to say, so that all are named together."""
    if depth > DEPTH_MAX:
        raise ParseError(f"The JSON is nested more than {DEPTH_MAX} levels deep.")
    if isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            _depth_check(value, depth + 1)
