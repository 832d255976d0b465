"""`manage.py user_create NAME`: make a person who can sign in."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from portal.common.commands import refusals_said, secret_read
from portal.projects.services import user_create


class Command(BaseCommand):
    help = "Make a person. What they may do in projects is given with membership_set."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--password-file", help="its first line is the password; - is the input; else it is asked")
        parser.add_argument("--operator", action="store_true", help="runs hosts, clusters and policies")
        parser.add_argument("--administrator", action="store_true", help="may do everything")

    def handle(self, *args: Any, **options: Any) -> None:
        password = secret_read(options["password_file"], f"Password of {options['username']}")
        with refusals_said():
            user = user_create(
                username=options["username"],
                password=password,
                is_operator=options["operator"],
                is_superuser=options["administrator"],
                actor=None,
                now=timezone.now(),
            )
        self.stdout.write(f"{user.username} can sign in.")
