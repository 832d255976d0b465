"""Shapes of bodies, read strictly: unknown keys are refused, and a number is a number."""

from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

INTEGER_MAX = 2**31 - 1


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
    """A whole number of JSON: neither a text nor true nor 1.5."""

    default_error_messages = {"invalid": "Must be a whole number."}

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"min_value": 0, "max_value": INTEGER_MAX, **options})

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

    default_error_messages = {"invalid": "Must be a text."}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class ProblemErrorSerializer(serializers.Serializer[Any]):
    """One complaint of a problem."""

    attr = serializers.CharField(allow_null=True, help_text="The field it speaks of; null: the whole request.")
    code = serializers.CharField()
    detail = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """A problem (RFC 9457, application/problem+json)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = ProblemErrorSerializer(many=True)  # type: ignore[assignment]  # the problem's own list, as RFC 9457 allows
    current_version = serializers.IntegerField(required=False, help_text="On 409: the version that is current.")
