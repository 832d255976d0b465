"""System checks: what must be right before the portal serves anybody."""

import contextlib
from typing import Any

from django.conf import settings
from django.core.checks import Error, register
from django.core.exceptions import ImproperlyConfigured


@register()
def secret_key_given(**_: Any) -> list[Error]:
    """SECRET_KEY must come from the environment or a file."""
    with contextlib.suppress(ImproperlyConfigured):
        # Django raises where it is empty.
        if settings.SECRET_KEY:
            return []
    return [Error("SECRET_KEY is empty.", hint="Set SECRET_KEY or SECRET_KEY_FILE.", id="commons.E001")]
