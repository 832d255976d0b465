"""The world of a replay, made through the real services: one cluster, a root with the trace's projects, authors."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import transaction

from portal.budgets.services import budget_change_create
from portal.clusters.models import Cluster, Host
from portal.clusters.services import cluster_create, host_heard, host_register
from portal.common.units import PPM
from portal.projects.models import Project, Role, User
from portal.projects.services import membership_set, project_create, user_create
from portal.simulations.replay.jobs import Job
from portal.simulations.replay.stub import STUB_NAME

START_AT = datetime(2017, 10, 9, tzinfo=UTC)
GPUS_PER_HOST = 8
ROOT = "replay"

# Nodes of 8 GPUs of each of Philly's virtual clusters (examples/traces/philly_vc_nodes.csv, MIT, with its source).
PHILLY_NODES = {
    "6214e9": 64,
    "7f04ca": 32,
    "11cb48": 16,
    "b436b2": 64,
    "ee9e8c": 64,
    "e13805": 16,
    "6c71a0": 32,
    "2869ce": 16,
    "ed69ec": 8,
    "103959": 8,
    "0e4a51": 32,
}


@dataclass(frozen=True)
class World:
    """What the replay submits to."""

    cluster: Cluster
    hosts: dict[int, Host]
    projects: dict[str, Project]
    authors: dict[tuple[str, str], User]


@transaction.atomic
def world_make(jobs: list[Job], *, hosts: int) -> World:
    """Everything in place at the trace's first second."""
    cluster = cluster_create(name="replay", actor=None, now=START_AT, description="A trace in virtual time.")
    root = project_create(parent=None, slug=ROOT, name="Replay", actor=None, now=START_AT)
    names = project_names(jobs)
    projects = {
        name: project_create(parent=root, slug=slug_of(name, names), name=name, actor=None, now=START_AT)
        for name in names
    }
    budgets = budgets_of(names)
    budget_change_create(
        cluster=cluster,
        parent=root,
        base_version=0,
        lines=[(projects[name], budgets[name], None) for name in names],
        reason="Node counts of the virtual clusters." if is_philly(names) else "Equal budgets.",
        author=None,
        effective_at=START_AT,
        now=START_AT,
    )
    return World(cluster, _hosts(cluster, hosts), projects, _authors(jobs, projects))


def is_philly(names: list[str]) -> bool:
    """Whether the trace's projects are Philly's virtual clusters."""
    return set(names) <= set(PHILLY_NODES)


def project_names(jobs: list[Job]) -> list[str]:
    """The projects that the trace names; of Philly all eleven, also those that sleep."""
    names = sorted({job.project for job in jobs})
    return sorted(PHILLY_NODES) if is_philly(names) else names


def budgets_of(names: list[str]) -> dict[str, int]:
    """Parts per million by project: by node count for Philly's virtual clusters, else equal."""
    nodes = {name: PHILLY_NODES[name] if is_philly(names) else 1 for name in names}
    total = sum(nodes.values())
    return {name: count * PPM // total for name, count in nodes.items()}


def slug_of(name: str, names: list[str]) -> str:
    """A slug for any project name: the name itself where it is one."""
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in name)
    return plain.lower() if plain.lower() == name and len(name) <= 60 else f"{plain.lower()[:40]}-{names.index(name)}"


def _hosts(cluster: Cluster, count: int) -> dict[int, Host]:
    made = {}
    for number in range(count):
        host = host_register(
            cluster=cluster,
            name=f"replay-{number:04d}",
            gpus=GPUS_PER_HOST,
            gpu_model=STUB_NAME,
            simulated=True,
            public_key=None,
            now=START_AT,
        )
        host_heard(host=host, gpus=GPUS_PER_HOST, boot_id="replay", now=START_AT)
        made[host.pk] = Host.objects.select_related("cluster").get(pk=host.pk)
    return made


def _authors(jobs: list[Job], projects: dict[str, Project]) -> dict[tuple[str, str], User]:
    """One author for each user of a project; a trace without users has one a project."""
    authors: dict[tuple[str, str], User] = {}
    for job in jobs:
        key = (job.project, job.user)
        if key not in authors:
            username = f"author-{len(authors) + 1}"
            authors[key] = user_create(username=username, password=None, actor=None, now=START_AT)
            membership_set(user=authors[key], project=projects[job.project], role=Role.MEMBER, actor=None, now=START_AT)
    return authors


def moment(seconds: int) -> datetime:
    """A second of the replay's clock as a moment."""
    return START_AT + timedelta(seconds=seconds)


def second(at: datetime) -> int:
    """A moment as a second of the replay's clock."""
    return int((at - START_AT).total_seconds())
