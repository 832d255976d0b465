"""A small laboratory, and people who speak to the API with their tokens."""

from dataclasses import dataclass
from typing import Any

from django.utils import timezone
from rest_framework.test import APIClient

from portal.clusters.models import Cluster, Host
from portal.projects.models import Project, User
from portal.projects.services import token_create
from tests.factories import cluster_make, host_make, project_make, user_make

BODY = {"project": "lab/nlp", "command": ["python", "train.py"], "gpus_per_replica": 2, "min_runtime_seconds": 600}


@dataclass
class Lab:
    """lab with nlp and vision; a member of nlp, a lead of the root, somebody of vision, and an administrator."""

    root: Project
    nlp: Project
    vision: Project
    cluster: Cluster
    host: Host
    member: User
    lead: User
    neighbour: User
    administrator: User


def lab_make() -> Lab:
    root, nlp, vision = project_make("lab"), project_make("lab/nlp"), project_make("lab/vision")
    cluster = cluster_make("local")
    return Lab(
        root=root,
        nlp=nlp,
        vision=vision,
        cluster=cluster,
        host=host_make(cluster=cluster, name="node-1", gpus=8),
        member=user_make(username="mia", role="member", project=nlp),
        lead=user_make(username="lee", role="lead", project=root),
        neighbour=user_make(username="ned", role="member", project=vision),
        administrator=user_make(username="ada", is_superuser=True),
    )


def token_of(user: User, **options: Any) -> str:
    return token_create(user=user, name="test", now=timezone.now(), **options)[1]


def client_of(user: User, **options: Any) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token_of(user, **options)}")
    return client


def attrs_of(response: Any) -> set[str | None]:
    """The fields that a problem speaks of."""
    return {error["attr"] for error in response.json()["errors"]}


def problem_require(response: Any, status: int) -> dict[str, Any]:
    """The body, having checked that it is a problem of that status."""
    assert response.status_code == status, response.content
    assert response.headers["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["title"] and body["type"] and body["detail"]
    assert all(set(error) == {"attr", "code", "detail"} for error in body["errors"])
    return body
