"""`manage.py cluster_create NAME`: make a cluster, which hosts then join."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from portal.clusters.services import cluster_create
from portal.common.commands import refusals_said


class Command(BaseCommand):
    help = "Make a cluster with the default policy; hosts join it with host_register."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="letters, digits, - and _, as h100")
        parser.add_argument("--description", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals_said():
            cluster = cluster_create(
                name=options["name"], description=options["description"], actor=None, now=timezone.now()
            )
        self.stdout.write(f"Cluster {cluster.name} is made. It has no hosts yet.")
