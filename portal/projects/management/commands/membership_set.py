"""`manage.py membership_set USER PROJECT ROLE`: give a person a role in a project, change it or take it away."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from portal.common.commands import refusals_said
from portal.projects.models import Role
from portal.projects.selectors import project_at, user_named
from portal.projects.services import membership_set

NONE = "none"


class Command(BaseCommand):
    help = "Give a person a role in a project and all below it; none takes it away."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("project", help="its path, as lab/nlp")
        parser.add_argument("role", choices=[*Role.values, NONE])

    def handle(self, *args: Any, **options: Any) -> None:
        role = None if options["role"] == NONE else options["role"]
        with refusals_said():
            user, project = user_named(username=options["username"]), project_at(path=options["project"])
            membership_set(user=user, project=project, role=role, actor=None, now=timezone.now())
        said = f"is {role} of {project.path}" if role else f"has no role of their own in {project.path}"
        self.stdout.write(f"{user.username} {said}.")
