"""`manage.py portal_public_key`: what hosts check the portal's orders against."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.common.messages import public_key_hex


class Command(BaseCommand):
    help = "Print the public half of the portal's signing key; a host keeps it in PORTAL_PUBLIC_KEY_FILE."

    def handle(self, *args: Any, **options: Any) -> None:
        path = settings.PORTAL_SIGNING_KEY_FILE
        if not path:
            raise CommandError("PORTAL_SIGNING_KEY_FILE is not set: the portal has no key yet.")
        try:
            self.stdout.write(public_key_hex(Path(path).read_text()))
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}.") from None
        except ValueError as error:
            raise CommandError(f"{path}: {error}") from None
