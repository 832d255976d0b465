"""What went wrong with queues and submissions in other portals, as inputs with the right behaviour for ours."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient
from typer.testing import CliRunner

from portal.cli.main import app
from portal.workloads.models import Workload, WorkloadEvent
from tests.api.support import BODY, Lab, attrs_of, client_of, lab_make, problem_require, token_of
from tests.factories import after, project_make, workload_make
from tests.scheduling.conftest import Lab as Passes
from tests.scheduling.conftest import fresh

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def lab() -> Lab:
    return lab_make()


@pytest.fixture
def member(lab: Lab) -> APIClient:
    return client_of(lab.member)


def test_each_reason_to_wait_is_its_own_sentence_with_numbers() -> None:
    """Case 10 (rackslab/Slurm-web#298): want of balance, of a host big enough, of health, and protected rivals."""
    passes = Passes()
    size = passes.submit(gpus=16, minimum=HOUR)
    for _ in range(2):
        passes.start(0, gpus=8, minimum=2 * HOUR, project=passes.vision)
    rivals = passes.submit(gpus=1, minimum=HOUR // 4)
    broke = passes.submit(gpus=1, minimum=HOUR, project=project_make("lab/guests"), allow_unallocated=False)
    passes.make_pass(60)
    told = {fresh(row).reason_code: fresh(row).reason_text for row in (size, rivals, broke)}
    assert list(told) == ["no_host_of_that_size", "reserved", "unfunded"]
    for code, words in (
        ("no_host_of_that_size", ("1 replica of 16 GPUs", "the largest host has 8")),
        ("reserved", ("1 host reserved", "2026-11-02 02:00 UTC")),
        ("unfunded", ("lab/guests has no budget", "Allow it to run unallocated, or ask for one")),
    ):
        assert all(each in told[code] for each in words)


def test_a_cluster_whose_hosts_are_all_ill_says_so() -> None:
    """Case 10 (rackslab/Slurm-web#298), health."""
    passes = Passes()
    for host in passes.hosts:
        type(host).objects.filter(pk=host.pk).update(state="unhealthy", unhealthy_cause="GPU fell off the bus")
    waiting = passes.submit(gpus=1, minimum=HOUR)
    passes.make_pass(10)
    assert fresh(waiting).reason_code == "no_schedulable_host"
    assert fresh(waiting).reason_text


def test_a_status_right_after_the_submission_is_never_empty(member: APIClient) -> None:
    """Case 11 (ROCm/spur#547)."""
    made = member.post("/api/v1/workloads/", BODY, format="json").json()
    status = member.get(f"/api/v1/workloads/{made['id']}/").json()
    assert (status["reason"]["code"], status["reason"]["text"]) == ("not_yet_considered", "Not yet considered.")


def test_position_and_gpus_ahead_are_the_same_in_page_rest_and_cli(
    client: Any, transactional_db: None, live_server: Any
) -> None:
    """Case 12 (kubernetes-sigs/kueue#4046): ten queued, ask for the seventh; names only where permitted."""
    lab = lab_make()
    rows = []
    for place in range(1, 11):
        whose = lab.vision if place == 3 else lab.nlp
        rows.append(
            workload_make(
                project=whose,
                cluster=lab.cluster,
                author=lab.neighbour if place == 3 else lab.member,
                name=f"number {place}",
                gpus_per_replica=2,
                reason_code="waiting_turn",
                reason_text=f"Waits its turn: position {place}, {2 * (place - 1)} GPUs ahead.",
                reason={"position": place, "gpus_ahead": 2 * (place - 1)},
            )
        )
    seventh = rows[6]
    rest = client_of(lab.member).get(f"/api/v1/workloads/{seventh.pk}/").json()
    assert (rest["queue"]["position"], rest["queue"]["gpus_ahead"]) == (7, 12)
    client.force_login(lab.member)
    page = client.get(reverse("dashboard:workload", args=[seventh.pk])).text
    assert "position 7, 12 GPUs ahead" in page
    variables = {"COMMONS_URL": live_server.url, "COMMONS_TOKEN": token_of(lab.member)}
    cli = CliRunner().invoke(app, ["why", str(seventh.pk)], env=variables)
    assert "position 7, 12 GPUs ahead" in " ".join(cli.output.split())
    queue = client.get(reverse("dashboard:queue")).text
    assert "number 7" in queue and "number 3" not in queue and "ned" not in queue


def test_who_is_preempted_for_a_sibling_is_told_level_taker_both_balances_and_times() -> None:
    """Case 13 (kubernetes-sigs/kueue#7067)."""
    passes = Passes(hosts=1)
    victim = passes.start(0, gpus=8, minimum=600)
    taker = passes.submit(at=4 * HOUR, gpus=8, minimum=HOUR, project=passes.vision, name="the taker")
    passes.make_pass(4 * HOUR)
    event = WorkloadEvent.objects.get(workload=victim.workload, kind="stopping")
    for words in (
        f"workload {taker.pk} of lab/vision (balance 100 %)",
        "lab/nlp (balance 95 %)",
        "for 4 h, minimum runtime 10 min",
    ):
        assert words in event.data["named_text"]
    assert "lab/vision" not in event.text  # what everybody reads names nobody else's project
    assert event.data["named_projects"] == [passes.vision.pk]


@pytest.mark.parametrize("waiting", [300, 3000])
def test_a_long_queue_is_paged_and_filtered_by_the_server(client: Any, lab: Lab, waiting: int) -> None:
    """Case 17 (rackslab/Slurm-web#215): the first page reads as much of three thousand as of three hundred."""
    fields = {"author": lab.member, "command": ["true"], "replicas": 1, "gpus_per_replica": 1, "min_runtime_seconds": 0}
    moments = {"submitted_at": after(0), "queued_at": after(0)}
    made = Workload.objects.bulk_create(
        Workload(project=lab.nlp if number % 3 else lab.vision, name=f"wait-{number}", **fields, **moments)
        for number in range(waiting)
    )
    through = Workload.clusters.through
    through.objects.bulk_create(through(workload=row, cluster=lab.cluster) for row in made)
    client.force_login(lab.lead)
    for address, query in (
        ("workloads", {"state": "pending"}),
        ("workloads", {"state": "pending", "project": "lab/vision"}),
        ("queue", {}),
    ):
        with CaptureQueriesContext(connection) as asked:
            answer = client.get(reverse(f"dashboard:{address}"), query)
        assert answer.status_code == 200
        assert len(asked) <= 12
        shown = answer.text.count("wait-")
        assert 0 < shown <= 4 * 100
        assert ("wait-1<" in answer.text) <= ("project" not in query)


def test_an_unknown_project_or_cluster_is_refused_with_those_that_this_person_may_see(member: APIClient) -> None:
    """Case 19 (kubernetes-sigs/kueue#4050)."""
    for change, attr, named, hidden in (
        ({"project": "lab/nowhere"}, "project", "lab/nlp", "lab/vision"),
        ({"clusters": ["nowhere"]}, "clusters", "local", "lab/vision"),
    ):
        answer = member.post("/api/v1/workloads/", {**BODY, **change}, format="json")
        problem = problem_require(answer, 400)
        assert attrs_of(answer) == {attr}
        assert named in str(problem) and hidden not in str(problem)
    assert not Workload.objects.exists()


def test_thirty_seconds_are_thirty_seconds(member: APIClient) -> None:
    """Case 28 (facebookincubator/submitit#1656): no hidden minimum."""
    body = {**BODY, "min_runtime_seconds": 30, "timeout_seconds": 30}
    made = member.post("/api/v1/workloads/", body, format="json")
    assert made.status_code == 201, made.content
    assert (made.json()["min_runtime_seconds"], made.json()["timeout_seconds"]) == (30, 30)
