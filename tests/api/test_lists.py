"""Lists of the API: what they show, to whom, filtered and paged, in how many queries."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from portal.clusters.health import host_ready
from portal.clusters.services import host_cordon
from portal.common.units import whole_second
from portal.scheduling.models import Balance
from portal.workloads.models import Standing, Workload
from tests.api.support import Lab, attrs_of, client_of, problem_require
from tests.factories import (
    START,
    after,
    attempt_make,
    budget_make,
    cluster_make,
    host_make,
    project_make,
    segment_make,
    workload_make,
)

LISTS = ("projects", "clusters", "hosts", "budgets", "workloads")


@pytest.mark.parametrize("name", LISTS)
def test_every_list_has_the_same_frame(member: APIClient, name: str) -> None:
    body = member.get(f"/api/v1/{name}/").json()
    assert set(body) == {"count", "next", "previous", "results"}


@pytest.mark.parametrize("name", LISTS)
def test_every_list_refuses_an_unknown_filter_with_the_valid_ones(member: APIClient, name: str) -> None:
    response = member.get(f"/api/v1/{name}/", {"colour": "red"})
    assert "limit" in problem_require(response, 400)["detail"]
    assert attrs_of(response) == {"colour"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", "1001"), ("limit", "0"), ("limit", "x"), ("limit", "-1"), ("offset", "-1"), ("offset", "1.5")],
)
def test_paging_out_of_bounds_is_refused_by_name(member: APIClient, name: str, value: str) -> None:
    response = member.get("/api/v1/workloads/", {name: value})
    problem_require(response, 400)
    assert attrs_of(response) == {name}


def test_a_page_beyond_the_end_is_empty(member: APIClient) -> None:
    body = member.get("/api/v1/projects/", {"offset": "1000"}).json()
    assert body["results"] == []
    assert body["count"] == 1


def test_pages_are_linked(lab: Lab) -> None:
    client = client_of(lab.lead)
    first = client.get("/api/v1/projects/", {"limit": 2}).json()
    second = client.get(first["next"]).json()
    paths = [row["path"] for row in first["results"] + second["results"]]
    assert paths == ["lab", "lab/nlp", "lab/vision"]
    assert second["next"] is None


def test_projects_are_those_that_one_may_see(lab: Lab, member: APIClient) -> None:
    assert [row["path"] for row in member.get("/api/v1/projects/").json()["results"]] == ["lab/nlp"]


def test_a_project_is_found_by_path_and_by_id(lab: Lab, member: APIClient) -> None:
    by_path = member.get("/api/v1/projects/lab/nlp/").json()
    by_id = member.get(f"/api/v1/projects/{lab.nlp.pk}/").json()
    assert by_path == by_id
    assert by_path["parent"] == "lab"


def test_a_cluster_shows_its_gpus_and_its_policy(lab: Lab, member: APIClient) -> None:
    host_make(cluster=lab.cluster, gpus=4, state="cordoned")
    row = member.get("/api/v1/clusters/local/").json()
    assert (row["hosts"], row["installed_gpus"], row["schedulable_gpus"]) == (2, 12, 8)
    assert row["policy"]["min_runtime_max_seconds"] == 8 * 3600
    assert row["policy_version"] == 0


def test_a_host_shows_what_is_occupied_held_and_free(lab: Lab, member: APIClient) -> None:
    running = workload_make(project=lab.nlp, cluster=lab.cluster, gpus_per_replica=3)
    attempt_make(workload=running, hosts=[lab.host])
    row = member.get("/api/v1/hosts/node-1/").json()
    assert (row["gpus"], row["occupied_gpus"], row["held_gpus"], row["free_gpus"]) == (8, 3, 0, 5)


def test_a_host_shows_when_its_last_protection_ends_and_since_when_it_is_ready_for_repair(
    lab: Lab, member: APIClient
) -> None:
    now = whole_second(timezone.now())
    for minimum, standing in ((3600, "protected"), (7200, "protected"), (90_000, "unallocated")):
        workload = workload_make(project=lab.nlp, cluster=lab.cluster, min_runtime_seconds=minimum)
        attempt_make(workload=workload, hosts=[lab.host], standing=standing, decided_at=now)
    row = member.get("/api/v1/hosts/node-1/").json()
    assert datetime.fromisoformat(row["empty_at"]) == now + timedelta(seconds=7200)
    assert row["ready_at"] is None
    other = host_make(cluster=lab.cluster, name="node-9")
    host_cordon(host=other, reason="fans", actor=None, now=now)
    host_ready(host=other, now=now)
    row = member.get("/api/v1/hosts/node-9/").json()
    assert (row["empty_at"], datetime.fromisoformat(row["ready_at"])) == (None, now)


def test_a_budget_is_shown_in_every_unit(lab: Lab) -> None:
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50, "vision": 25})
    english = project_make("lab/nlp/english")
    budget_make(cluster=lab.cluster, parent=lab.nlp, percent={"english": 12.5})
    Balance.objects.create(
        cluster=lab.cluster, project=english, at=START, quota_gpu_seconds=1000, usage_gpu_seconds=250, share_ppb=1
    )
    rows = {row["project"]: row for row in client_of(lab.lead).get("/api/v1/budgets/").json()["results"]}
    assert list(rows) == ["lab/nlp", "lab/nlp/english", "lab/vision"]
    row = rows["lab/nlp/english"]
    assert (row["percent_of_parent"], row["percent_of_cluster"]) == (12.5, 6.25)
    assert (row["gpus"], row["gpu_hours_per_week"], row["gpu_seconds_per_week"]) == (0.5, 84.0, 302_400)
    assert (row["quota_gpu_seconds"], row["used_gpu_seconds"], row["balance"]) == (1000, 250, 0.75)
    assert row["change_version"] == 1
    assert rows["lab/vision"]["balance"] is None


def test_budgets_are_those_of_the_latest_change_in_force(lab: Lab) -> None:
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50})
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 60}, at=after(60))
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 70}, at=timezone.now() + timedelta(days=2))
    rows = client_of(lab.lead).get("/api/v1/budgets/", {"project": "lab/nlp"}).json()["results"]
    assert [(row["share_ppm"], row["change_version"]) for row in rows] == [(600_000, 2)]


def test_workloads_are_filtered_by_state_project_cluster_and_author(lab: Lab) -> None:
    other = cluster_make("other")
    mine = workload_make(project=lab.nlp, cluster=lab.cluster, author=lab.member)
    workload_make(project=lab.vision, cluster=other)
    running = workload_make(project=lab.vision, cluster=lab.cluster)
    attempt_make(workload=running, hosts=[lab.host])
    client = client_of(lab.lead)

    def found(**filters: str) -> list[int]:
        return [row["id"] for row in client.get("/api/v1/workloads/", filters).json()["results"]]

    assert found(author="mia") == [mine.pk]
    assert found(state="running") == [running.pk]
    assert found(project="lab/nlp") == [mine.pk]
    assert found(project="lab", cluster="local") == [running.pk, mine.pk]
    assert found(submitted_before="2026-11-02T00:00:00+00:00") == []
    assert len(found(submitted_after="2026-11-02T01:00:00+01:00")) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", "asleep"),
        ("project", "lab/vision"),
        ("cluster", "none"),
        ("submitted_after", "2026-13-40"),
        ("submitted_after", "2026-11-02T00:00:00"),
        ("ordering", "random"),
        ("name", "a" + chr(0)),
    ],
)
def test_a_wrong_value_of_a_filter_is_refused_by_name(member: APIClient, name: str, value: str) -> None:
    response = member.get("/api/v1/workloads/", {name: value})
    problem_require(response, 400)
    assert attrs_of(response) == {name}


def test_pending_workloads_show_their_place_in_the_queue(lab: Lab, member: APIClient) -> None:
    for position in (3, 1, 2):
        reason = {"position": position, "gpus_ahead": position * 8}
        workload_make(project=lab.nlp, cluster=lab.cluster, reason_code="waiting_turn", reason=reason)
    rows = member.get("/api/v1/workloads/", {"state": "pending", "ordering": "queue"}).json()["results"]
    assert [row["queue"] for row in rows] == [{"position": n, "gpus_ahead": 8 * n} for n in (1, 2, 3)]


def test_the_queue_starts_with_what_is_starting_and_ends_with_the_unallocated_queue(
    lab: Lab, member: APIClient
) -> None:
    reasons = [
        ("unallocated_queue", {"position": 1}),
        ("no_host_of_that_size", {}),
        ("waiting_turn", {"position": 2}),
        ("waiting_turn", {"position": 1}),
        ("starting", {}),
    ]
    ids = [
        workload_make(project=lab.nlp, cluster=lab.cluster, reason_code=code, reason=reason).pk
        for code, reason in reasons
    ]
    rows = member.get("/api/v1/workloads/", {"ordering": "queue"}).json()["results"]
    assert [row["id"] for row in rows] == ids[::-1]


def test_a_moment_among_the_numbers_of_a_reason_is_shown_as_one(lab: Lab, member: APIClient) -> None:
    reason = {"next_end_at": int(after(60).timestamp()), "gpus_ahead": 4}
    workload = workload_make(project=lab.nlp, cluster=lab.cluster, reason_code="waiting_turn", reason=reason)
    shown = member.get(f"/api/v1/workloads/{workload.pk}/").json()["reason"]
    assert (shown["next_end_at"], shown["gpus_ahead"]) == ("2026-11-02T00:01:00Z", 4)


def test_a_running_workload_shows_its_attempt_its_gpus_and_its_charge(lab: Lab, member: APIClient) -> None:
    workload = workload_make(project=lab.nlp, cluster=lab.cluster, gpus_per_replica=2, min_runtime_seconds=600)
    attempt = attempt_make(workload=workload, hosts=[lab.host], standing=Standing.PROTECTED)
    segment_make(attempt=attempt, host=lab.host, start_at=START, end_at=after(600), gpus=2, standing=Standing.PROTECTED)
    segment_make(
        attempt=attempt, host=lab.host, start_at=after(600), end_at=after(700), gpus=2, standing=Standing.UNALLOCATED
    )
    row = member.get(f"/api/v1/workloads/{workload.pk}/").json()
    assert row["charged_gpu_seconds"] == 1200
    assert row["queue"] is None
    [shown] = row["attempts"]
    assert shown["hosts"] == [{"replica": 0, "host": "node-1", "gpus": [0, 1]}]
    assert shown["protected_until"] == "2026-11-02T00:10:00Z"


@pytest.mark.parametrize(
    ("path", "queries"),
    [
        ("/api/v1/workloads/", 7),
        ("/api/v1/projects/", 3),
        ("/api/v1/hosts/", 6),
        ("/api/v1/clusters/", 5),
        ("/api/v1/budgets/", 8),
        ("/api/v1/budget-changes/", 6),
    ],
)
def test_a_list_asks_the_same_number_of_queries_however_many_rows(lab: Lab, path: str, queries: int) -> None:
    client = client_of(lab.lead)
    client.get("/api/v1/whoami/")  # the token's last use is written now, and not again for a minute
    rows_add(lab, 1)
    assert queries_of(client, path) == queries
    rows_add(lab, 5)
    assert queries_of(client, path) == queries


def queries_of(client: APIClient, path: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return len(captured)


def rows_add(lab: Lab, count: int) -> None:
    for _ in range(count):
        host = host_make(cluster=lab.cluster)
        project = project_make()
        workload_make(project=project, cluster=lab.cluster)
        running = workload_make(project=project, cluster=lab.cluster)
        attempt = attempt_make(workload=running, hosts=[host])
        segment_make(attempt=attempt, host=host, start_at=START)
    budget_make(cluster=lab.cluster, parent=lab.root, percent={})


def test_usage_counts_the_part_inside_the_range_and_rolls_it_up(lab: Lab) -> None:
    workload = workload_make(project=lab.nlp, cluster=lab.cluster, gpus_per_replica=2)
    attempt = attempt_make(workload=workload, hosts=[lab.host])
    segment_make(attempt=attempt, host=lab.host, start_at=START, end_at=after(7200), gpus=2)
    asked = {"start": "2026-11-02T01:00:00Z", "end": "2026-11-03T00:00:00Z"}
    rows = client_of(lab.lead).get("/api/v1/usage/", asked).json()["results"]
    assert [(row["project"], row["funded_gpu_seconds"], row["charged_gpu_seconds"]) for row in rows] == [
        ("lab", 7200, 7200),
        ("lab/nlp", 7200, 7200),
    ]
    assert client_of(lab.neighbour).get("/api/v1/usage/", asked).json()["results"] == []


@pytest.mark.parametrize(
    ("asked", "attr"),
    [
        ({"start": "2026-13-40"}, "start"),
        ({"start": "2026-11-03T00:00:00Z", "end": "2026-11-02T00:00:00Z"}, "start"),
        ({"start": "2023-11-03T00:00:00Z"}, "start"),
        ({"end": "0001-01-01T00:00:00Z"}, "end"),
        ({"cluster": "none"}, "cluster"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused_by_name(member: APIClient, asked: dict[str, str], attr: str) -> None:
    response = member.get("/api/v1/usage/", asked)
    problem_require(response, 400)
    assert attrs_of(response) == {attr}


def test_whoami_names_the_roles_and_the_token(member: APIClient) -> None:
    person = member.get("/api/v1/whoami/").json()
    assert person["username"] == "mia"
    assert person["roles"] == [{"project": "lab/nlp", "role": "member"}]
    assert person["token"]["scope"] == "write"


def test_a_workload_is_found_by_the_start_of_its_name(lab: Lab, member: APIClient) -> None:
    for name in ("Train-1", "retrain", "train_2", "trai"):
        workload_make(project=lab.nlp, cluster=lab.cluster, name=name)
    found = member.get("/api/v1/workloads/", {"name": "TRAIN"}).json()["results"]
    assert {row["name"] for row in found} == {"Train-1", "train_2"}


def test_the_start_of_a_name_is_looked_up_in_an_index(lab: Lab) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    plan = Workload.objects.filter(name__istartswith="train").order_by().explain()
    assert "Index Cond" in plan and "workload_by_name_start" in plan


SPANS = (
    ("audit", "start", "end"),
    ("audit/export", "start", "end"),
    ("budget-changes", "created_after", "created_before"),
    ("budget-changes", "effective_after", "effective_before"),
    ("workloads", "submitted_after", "submitted_before"),
)


@pytest.mark.parametrize(("name", "start", "end"), SPANS)
def test_a_span_that_ends_before_it_begins_is_refused_by_name(lab: Lab, name: str, start: str, end: str) -> None:
    client, address = client_of(lab.administrator), f"/api/v1/{name}/"
    response = client.get(address, {start: "2026-11-02T00:00:00Z", end: "2026-11-01T00:00:00Z"}, headers=ANY)
    problem_require(response, 400)
    assert attrs_of(response) == {end}
    same = {start: "2026-11-02T00:00:00Z", end: "2026-11-02T01:00:00+01:00"}
    assert client.get(address, same, headers=ANY).status_code == 200


ANY = {"accept": "*/*"}
