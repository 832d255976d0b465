"""`manage.py host_register --cluster NAME [FILE]`: make a GPU host known."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal.clusters.registration import description_parse, host_register_described
from portal.clusters.selectors import cluster_by_name
from portal.common.errors import CommonsError


class Command(BaseCommand):
    help = "Register a GPU host from what `python -m portal.agent init` printed (a file, or standard input)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", default="-", help="the description; - is standard input")
        parser.add_argument("--cluster", required=True, help="the cluster that the host joins")
        parser.add_argument("--topology-block", default="", help="hosts of one block are near each other")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            text = sys.stdin.read() if options["file"] == "-" else Path(options["file"]).read_text()
            host = host_register_described(
                cluster=cluster_by_name(name=options["cluster"]),
                description=description_parse(text),
                topology_block=options["topology_block"],
                now=timezone.now(),
            )
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}.") from None
        except CommonsError as error:
            raise CommandError(error.detail) from None
        self.stdout.write(f"{host.name} is registered in {host.cluster.name} with {host.gpus} GPUs.")
