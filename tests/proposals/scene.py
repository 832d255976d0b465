"""A lab with two teams, two managers and their requests: what tests of proposals begin with."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from portal.budgets.selectors import version_of_level
from portal.clusters.models import Cluster
from portal.projects.models import Project, User
from portal.proposals.models import GrantRequest, Proposal
from portal.proposals.services.proposals import proposal_create, proposal_open
from portal.proposals.services.requests import request_create, request_submit
from tests.factories import after, budget_make, cluster_make, host_make, project_make, user_make

DAY = 86_400
NOW = after(10 * DAY)


@dataclass
class Scene:
    """lab on 64 GPUs: vision holds 20 %, nlp 30 %. `mona` and `max` lead lab, `vera` vision, `nils` nlp."""

    cluster: Cluster
    lab: Project
    vision: Project
    nlp: Project
    mona: User
    max: User
    vera: User
    nils: User
    viewer: User
    member: User
    stranger: User


def scene_make() -> Scene:
    cluster = cluster_make("local")
    for _ in range(8):
        host_make(cluster=cluster)
    lab, vision, nlp = project_make("lab"), project_make("lab/vision"), project_make("lab/nlp")
    budget_make(cluster=cluster, parent=lab, percent={"vision": 20, "nlp": 30})
    return Scene(
        cluster=cluster,
        lab=lab,
        vision=vision,
        nlp=nlp,
        mona=user_make(username="mona", role="lead", project=lab, email="mona@lab.example"),
        max=user_make(username="max", role="lead", project=lab, email="max@lab.example"),
        vera=user_make(username="vera", role="lead", project=vision, email="vera@lab.example"),
        nils=user_make(username="nils", role="lead", project=nlp, email="nils@lab.example"),
        viewer=user_make(username="vic", role="viewer", project=lab),
        member=user_make(username="mia", role="member", project=lab),
        stranger=user_make(username="stu"),
    )


def request_make(scene: Scene, *, submit: bool = True, now: datetime = NOW, **given: Any) -> GrantRequest:
    """vera asks for 20 GPUs for vision, for a month."""
    fields: dict[str, Any] = {
        "project": scene.vision,
        "cluster": scene.cluster,
        "title": "A larger detector",
        "purpose": "Training on the new images.",
        "impact": "Half as many misses.",
        "gpus": 20,
        "from_at": after(11 * DAY),
        "until_at": after(41 * DAY),
        "author": scene.vera,
        **given,
    }
    request = request_create(now=now, **fields)
    return request_submit(request=request, actor=fields["author"], now=now) if submit else request


def lines_of(scene: Scene, vision: float = 30, nlp: float = 30) -> list[tuple[Project, int, int | None]]:
    return [(scene.vision, round(vision * 10_000), None), (scene.nlp, round(nlp * 10_000), None)]


def proposal_make(scene: Scene, *, opened: bool = True, now: datetime = NOW, **given: Any) -> Proposal:
    """mona proposes 30 % for vision."""
    fields: dict[str, Any] = {
        "cluster": scene.cluster,
        "parent": scene.lab,
        "base_version": version_of_level(cluster=scene.cluster, parent=scene.lab),
        "title": "More for vision",
        "reason": "The detector pays for itself.",
        "lines": lines_of(scene),
        "author": scene.mona,
        "effective_at": None,
        **given,
    }
    proposal = proposal_create(now=now, **fields)
    return proposal_open(proposal=proposal, actor=fields["author"], now=now) if opened else proposal
