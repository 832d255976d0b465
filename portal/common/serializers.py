"""Shapes of bodies, read strictly: unknown keys are refused, and a number is a number."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from drf_spectacular.drainage import set_override
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from portal.common.errors import FieldError


def fields_bad(serializer: serializers.Serializer[Any]) -> list[FieldError]:
    """The complaints of a serializer that is not valid, each on its field of the body: a list's on the list."""
    return [
        FieldError(attr, str(detail.code), str(detail))
        for attr, details in serializer.errors.items()
        for detail in dict.fromkeys(_details(details))
    ]


def _details(errors: Any) -> Iterator[serializers.ErrorDetail]:
    if isinstance(errors, dict | list):
        for inner in errors.values() if isinstance(errors, dict) else errors:
            yield from _details(inner)
    else:
        yield errors


class StrictSerializer(serializers.Serializer[Any]):
    """A body whose unknown keys are refused by name, with the valid ones."""

    def to_internal_value(self, data: Any) -> Any:
        errors: dict[str, Any] = {}
        if isinstance(data, dict):
            valid = ", ".join(name for name, field in self.fields.items() if not field.read_only)
            errors = {
                name: [
                    serializers.ErrorDetail(f"There is no field {name!r}; the fields are: {valid}.", "unknown_field")
                ]
                for name in data
                if name not in self.fields
            }
        try:
            value = super().to_internal_value(data)
        except ValidationError as error:
            raise ValidationError(
                {**error.detail, **errors} if isinstance(error.detail, dict) else error.detail
            ) from None
        if errors:
            raise ValidationError(errors)
        return value


class WholeField(serializers.IntegerField):
    """A whole number of JSON: neither a text nor true nor 1.5. The bounds are the schema's; the services judge."""

    default_error_messages = {"invalid": "Must be a whole number."}

    def __init__(self, *, low: int, high: int, **options: Any) -> None:
        super().__init__(**options)
        schema: dict[str, Any] = {"type": "integer", "minimum": low, "maximum": high}
        set_override(self, "field", {**schema, "nullable": True} if options.get("allow_null") else schema)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return int(data)


class YesNoField(serializers.BooleanField):
    """true or false of JSON, nothing that looks like it."""

    default_error_messages = {"invalid": "Must be true or false."}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return bool(data)


class TextField(serializers.CharField):
    """A text of JSON: a number is none. Blanks at its ends are kept where the text is a program's."""

    default_error_messages = {
        "invalid": "Must be a text.",
        "nul_byte": "A text may not hold a NUL byte.",
        "surrogate": "A text must be Unicode without lone surrogates.",
    }

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        if "\0" in data:
            self.fail("nul_byte")
        if any("\ud800" <= letter <= "\udfff" for letter in data):
            self.fail("surrogate")
        return super().to_internal_value(data)


class MomentField(serializers.DateTimeField):
    """A moment that carries its offset, in whole seconds or finer."""

    default_error_messages = {"invalid": "Must be a moment with its offset, as 2026-10-01T00:00:00Z."}

    def to_internal_value(self, data: Any) -> datetime:
        moment = None
        if isinstance(data, str):
            try:
                moment = parse_datetime(data)
                moment = moment.astimezone(UTC) if moment is not None and moment.tzinfo is not None else None
            except (ValueError, OverflowError):
                moment = None
        if moment is None:
            self.fail("invalid")
        return moment
