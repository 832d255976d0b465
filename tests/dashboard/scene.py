"""A small lab for tests of pages: two projects, a host, something that runs, something that waits."""

from dataclasses import dataclass

from django.test import Client

from portal.clusters.models import Cluster, Host
from portal.projects.models import Project, User
from portal.usage.services import segments_open
from portal.workloads.models import LogChunk, Workload, WorkloadEvent
from tests.factories import (
    after,
    attempt_make,
    budget_make,
    cluster_make,
    host_make,
    project_make,
    user_make,
    workload_make,
)

TROUBLE = "<script>alert(1)</script>"
LOG = b"step 1 loss 3.2\n\x1b[31m<script>alert(2)</script>\x1b[0m\n"


@dataclass
class Scene:
    """What was made."""

    cluster: Cluster
    host: Host
    nlp: Project
    vision: Project
    member: User
    stranger: User
    lead: User
    operator: User
    admin: User
    running: Workload
    waiting: Workload


def scene_make() -> Scene:
    """lab/nlp with a member, lab/vision with a stranger to it; both waiting and running work belong to lab/nlp."""
    cluster = cluster_make("local")
    host = host_make(cluster=cluster, name="gpu-01", simulated=True)
    nlp, vision = project_make("lab/nlp", name=TROUBLE), project_make("lab/vision")
    lab = project_make("lab")
    budget_make(cluster=cluster, parent=lab, percent={"nlp": 60, "vision": 30})
    member = user_make(username="ada", project=nlp)
    running = workload_make(
        project=nlp,
        cluster=cluster,
        author=member,
        name=f"train {TROUBLE}",
        gpus_per_replica=2,
        min_runtime_seconds=600,
    )
    attempt = attempt_make(workload=running, hosts=[host], standing="protected")
    segments_open(attempt=attempt, at=attempt.assigned_at, standing="protected")
    LogChunk.objects.create(attempt=attempt, replica=0, offset=0, data=LOG, received_at=after(5))
    WorkloadEvent.objects.create(workload=running, attempt=attempt, at=after(1), kind="started", text=f"For {TROUBLE}.")
    waiting = workload_make(
        project=nlp,
        cluster=cluster,
        author=member,
        name="evaluate",
        reason_code="waiting_turn",
        reason_text="Waits its turn: position 1, 2 GPUs ahead.",
        reason={"position": 1, "gpus_ahead": 2},
    )
    return Scene(
        cluster=cluster,
        host=host,
        nlp=nlp,
        vision=vision,
        member=member,
        stranger=user_make(username="ben", project=vision),
        lead=user_make(username="lee", project=lab, role="lead"),
        operator=user_make(username="olga", is_operator=True),
        admin=user_make(username="root", is_superuser=True, is_staff=True),
        running=running,
        waiting=waiting,
    )


def client_of(user: User) -> Client:
    """A browser in which `user` has signed in; errors become pages, as for people."""
    client = Client(raise_request_exception=False)
    client.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")
    return client
