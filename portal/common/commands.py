"""What management commands share: refusals in words, and secrets that stand on no command line."""

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management.base import CommandError

from portal.common.errors import CommonsError


@contextmanager
def refusals_said() -> Iterator[None]:
    """A refusal ends the command with its sentences, each with its field."""
    try:
        yield
    except CommonsError as refusal:
        said = [f"{error.attr}: {error.detail}" if error.attr else error.detail for error in refusal.errors]
        raise CommandError(" ".join(said)) from None


def secret_read(path: str | None, question: str) -> str:
    """The first line of a file (- is standard input), else the answer to a question that is asked twice."""
    if path is None:
        return _asked(question)
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}.") from None
    secret = text.partition("\n")[0].rstrip("\r")
    if not secret:
        raise CommandError("The password's first line is empty.")
    return secret


def _asked(question: str) -> str:
    if not sys.stdin.isatty():
        raise CommandError("Nobody can be asked for the password here: give --password-file (- is the input).")
    while True:
        secret = getpass.getpass(f"{question}: ")
        if secret and secret == getpass.getpass("The same again: "):
            return secret
        sys.stderr.write("It is empty, or the two differ.\n")
