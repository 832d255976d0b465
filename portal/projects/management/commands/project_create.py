"""`manage.py project_create PATH NAME`: make a project below another, or the root of the tree."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from portal.common.commands import refusals_said
from portal.projects.selectors import project_at
from portal.projects.services import project_create


class Command(BaseCommand):
    help = "Make a project: lab/nlp below lab. A path without / is the root, of which there is one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", help="where it stands in the tree, as lab/nlp")
        parser.add_argument("name", help="what people call it")
        parser.add_argument("--description", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        above, _, slug = options["path"].rpartition("/")
        with refusals_said():
            project = project_create(
                parent=project_at(path=above) if above else None,
                slug=slug,
                name=options["name"],
                description=options["description"],
                actor=None,
                now=timezone.now(),
            )
        self.stdout.write(f"Project {project.path} is made. Its budget is granted on the page Budgets.")
