"""System checks: what must be right before the portal serves anybody."""

from typing import Any

from django.conf import settings
from django.core.checks import Error, register


@register()
def secret_key_given(**_: Any) -> list[Error]:
    """SECRET_KEY must come from the environment or a file."""
    if settings.SECRET_KEY:
        return []
    return [Error("SECRET_KEY is empty.", hint="Set SECRET_KEY or SECRET_KEY_FILE.", id="commons.E001")]
