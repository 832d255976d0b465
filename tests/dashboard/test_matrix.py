"""Projects by clusters: every balance that a person may see, beside the others, readable and as CSV."""

import csv
import io

import pytest
from django.test import Client
from django.urls import reverse

from portal.clusters.models import Cluster
from portal.projects.models import Project
from portal.scheduling.models import Balance
from tests.factories import START, budget_make, cluster_make, host_make, project_make, user_make

pytestmark = pytest.mark.django_db
PAGE = reverse("dashboard:projects")


def balance_make(cluster: Cluster, project: Project, usage: int) -> None:
    Balance.objects.create(
        cluster=cluster, project=project, at=START, quota_gpu_seconds=100, usage_gpu_seconds=usage, share_ppb=0
    )


@pytest.fixture
def clusters() -> list[Cluster]:
    """Two clusters; nlp has a budget on both, vision on the first alone."""
    made = [cluster_make("first"), cluster_make("second")]
    lab, nlp = project_make("lab"), project_make("lab/nlp")
    project_make("lab/vision")
    for cluster, gpus, usage, shares in ((made[0], 8, 50, {"nlp": 25, "vision": 50}), (made[1], 4, 150, {"nlp": 50})):
        host_make(cluster=cluster, gpus=gpus)
        budget_make(cluster=cluster, parent=lab, percent=shares)
        balance_make(cluster, nlp, usage)
    return made


def rows_of(client: Client, **query: str) -> list[dict[str, str]]:
    response = client.get(PAGE, {"csv": "projects", **query})
    text = b"".join(response.streaming_content).decode()
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))


def lead_in(client: Client, path: str = "lab") -> None:
    client.force_login(user_make(role="lead", project=project_make(path)))


def test_each_project_stands_against_each_cluster_with_how_to_read_its_balance(
    client: Client, clusters: list[Cluster]
) -> None:
    lead_in(client)
    rows = client.get(PAGE).context["rows"]
    found = {
        row.project.path: [(cell.has_budget, cell.gpus_text, cell.standing.words) for cell in row.cells] for row in rows
    }
    assert found["lab/nlp"] == [(True, "2", "under-served"), (True, "2", "over-served")]
    assert found["lab/vision"] == [(True, "4", "no budget"), (False, "0", "no budget")]
    text = client.get(PAGE).text
    assert "3 projects on 2 clusters: 1 under-served, 1 over-served" in text
    for words in (">first<", ">second<", "50 %", "−50 %", "under-served", "over-served", "no budget", "no pass yet"):
        assert words in text


def test_the_csv_has_every_project_with_its_path_and_every_cluster(client: Client, clusters: list[Cluster]) -> None:
    lead_in(client)
    rows = rows_of(client)
    assert [row["path"] for row in rows] == ["lab", "lab/nlp", "lab/vision"]
    assert (rows[1]["balance on first (ratio)"], rows[1]["balance on second (ratio)"]) == ("0.5", "-0.5")
    assert (rows[1]["share of first (%)"], rows[1]["share of second (%)"]) == ("25", "50")
    assert rows[2]["balance on second (ratio)"] == ""
    assert rows[1]["reading on second"] == "over-served"


def test_it_shows_what_a_person_may_see_and_nothing_else(client: Client, clusters: list[Cluster]) -> None:
    lead_in(client, "lab/vision")
    assert [row["path"] for row in rows_of(client)] == ["lab/vision"]
    assert "nlp" not in client.get(PAGE).text
    client.force_login(user_make())
    assert "You belong to no project yet" in client.get(PAGE).text


def test_before_there_is_a_cluster_it_says_so(client: Client) -> None:
    lead_in(client)
    assert "There is no cluster yet" in client.get(PAGE).text
