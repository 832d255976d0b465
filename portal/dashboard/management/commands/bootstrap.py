"""`manage.py bootstrap`: root project, cluster `local`, this host, and either the demonstration or an administrator.

Run at every start of the embedded default; what is there stays as it is.
"""

from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from portal.clusters.models import Cluster
from portal.clusters.registration import description_parse, host_register_described
from portal.clusters.services import cluster_create
from portal.common.errors import CommonsError
from portal.dashboard.demonstration import ACCOUNTS, ROOT_SLUG, SignIns, demonstration_make, demonstration_rest
from portal.dashboard.demonstration_file import FILE_NAME, sign_ins_read, sign_ins_write
from portal.dashboard.first_administrator import administrator_first
from portal.projects.models import Project
from portal.projects.services import project_create

CLUSTER_NAME = "local"


class Command(BaseCommand):
    help = "Make what the embedded default needs: root project, cluster, this host, demonstration or administrator."
    # It runs at every start, which has run the checks: they would read every page's code once more.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--data-dir", required=True, type=Path)
        parser.add_argument("--url", required=True)
        parser.add_argument("--demo", required=True, choices=["0", "1"])
        parser.add_argument("--host-file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        try:
            self._bootstrap(options, now)
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}.") from None
        except CommonsError as error:
            raise CommandError(error.detail) from None

    def _bootstrap(self, options: dict[str, Any], now: datetime) -> None:
        demo = options["demo"] == "1"
        with transaction.atomic():
            root = root_make(demo=demo, now=now)
            cluster = Cluster.objects.filter(name=CLUSTER_NAME).first()
            cluster = cluster or cluster_create(name=CLUSTER_NAME, actor=None, now=now, description="This machine")
        if options["host_file"]:
            description = description_parse(options["host_file"].read_text())
            host_register_described(cluster=cluster, description=description, now=now)
        if demo and root.is_demonstration:
            self._demonstration(options, root, cluster, now)
        else:
            self._own(options, demo, root, now)

    def _demonstration(self, options: dict[str, Any], root: Project, cluster: Cluster, now: datetime) -> None:
        data_dir = options["data_dir"]
        sign_ins = demonstration_make(root=root, cluster=cluster, known=sign_ins_read(data_dir), now=now)
        sign_ins_write(data_dir, options["url"], sign_ins)
        self.stdout.write(sign_ins_words(options["url"], sign_ins, data_dir / FILE_NAME))

    def _own(self, options: dict[str, Any], demo: bool, root: Project, now: datetime) -> None:
        if demo:
            self.stdout.write("This folder holds an organisation of its own: no demonstration is added to it.")
        elif root.is_demonstration and demonstration_rest(now=now):
            self.stdout.write(
                "This folder holds the demonstration: its projects are archived, its accounts still work. "
                "For an organisation of your own, start with another DATA_DIR."
            )
        if words := administrator_first(url=options["url"], now=now):
            self.stdout.write(words)


def root_make(*, demo: bool, now: datetime) -> Project:
    """The root of the project tree; marked as a demonstration only if it was made for one."""
    root = Project.objects.filter(parent=None).first()
    if root is not None:
        return root
    name = "Demonstration lab" if demo else "Lab"
    return project_create(parent=None, slug=ROOT_SLUG, name=name, actor=None, now=now, is_demonstration=demo)


def sign_ins_words(url: str, sign_ins: SignIns, path: Path) -> str:
    """How to sign in, as a table."""
    rows = [f"  {each.role:<14} {each.username:<10} {sign_ins.passwords[each.username]}" for each in ACCOUNTS]
    head = f"Demonstration at {url}; accounts (role, user name, password):"
    told = [f"  API token      {sign_ins.token}", f"The same is in {path}."]
    shell = [f"  export COMMONS_URL={url.rstrip('/')}", f"  export COMMONS_TOKEN={sign_ins.token}"]
    return "\n".join([head, *rows, *told, "For ./commons in another terminal:", *shell])
