"""`manage.py host_broker_user NAME`: the broker's user of a GPU host, as a line of the broker's list of users."""

import hashlib
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.common.commands import secret_read
from portal.common.messages import Malformed, broker_acl_rules, broker_user


class Command(BaseCommand):
    help = "Print the line of the broker's aclfile that lets a host's agent in: its own queue and the way up, no more."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the host's name, as `portal.agent init` was told")
        parser.add_argument("--password-file", help="a file with the password that the host shall use; - is the input")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user, rules = broker_user(options["name"]), broker_acl_rules(options["name"])
        except Malformed as wrong:
            raise CommandError(str(wrong)) from None
        digest = hashlib.sha256(secret_read(options["password_file"], f"Password of {user}").encode()).hexdigest()
        self.stdout.write(f"user {user} reset on #{digest} {rules}")
