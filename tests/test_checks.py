"""What is wrong with the settings is said by a check, without a traceback."""

from django.conf import LazySettings
from django.core.checks import run_checks


def test_an_empty_secret_key_is_an_error_with_a_hint(settings: LazySettings) -> None:
    settings.SECRET_KEY = ""
    (error,) = [each for each in run_checks() if each.id == "commons.E001"]
    assert error.hint == "Set SECRET_KEY or SECRET_KEY_FILE."
