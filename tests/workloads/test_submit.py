"""Submitting: every wrong field is named with its bound, nothing is half-saved, a form posted twice is one row."""

import threading
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from portal.clusters.models import Cluster
from portal.clusters.services import policy_change
from portal.common.errors import Conflict, Forbidden, Refused
from portal.projects.models import Project, User
from portal.workloads.models import Workload, WorkloadEvent
from portal.workloads.services import workload_submit
from tests.factories import START, after, cluster_make, host_make, project_make, user_make

pytestmark = pytest.mark.django_db


def scene() -> tuple[User, Project, Cluster]:
    project = project_make("lab/nlp")
    cluster = cluster_make("h100")
    for _ in range(2):
        host_make(cluster=cluster)
    return user_make(project=project), project, cluster


def submit(author: User, **fields: Any) -> tuple[Workload, bool]:
    return workload_submit(**{"author": author, "now": START, "project": "lab/nlp", "command": ["true"], **fields})


def complaints(**fields: Any) -> dict[str, str]:
    """What a submission with these fields is refused for, after making sure that nothing was saved."""
    author, _, _ = scene()
    with pytest.raises(Refused) as refused:
        submit(author, **fields)
    assert not Workload.objects.exists()
    assert not WorkloadEvent.objects.exists()
    return {error.attr: error.detail for error in refused.value.errors}


def test_a_workload_waits_with_a_reason_from_the_first_moment() -> None:
    author, project, cluster = scene()
    workload, created = submit(author, gpus_per_replica=8, replicas=2, min_runtime_seconds=3600)
    assert created
    assert (workload.state, workload.reason_code, workload.project) == ("pending", "not_yet_considered", project)
    assert list(workload.clusters.all()) == [cluster]
    assert [event.kind for event in workload.events.all()] == ["submitted"]


def test_moments_are_cut_to_whole_seconds() -> None:
    author, _, _ = scene()
    workload, _ = submit(author, now=START.replace(microsecond=999_999))
    assert (workload.submitted_at, workload.queued_at) == (START, START)


def test_an_unknown_project_is_refused_with_the_names_that_this_person_may_see() -> None:
    project_make("lab/secret")
    found = complaints(project="lab/nope")
    assert "lab/nlp" in found["project"]
    assert "secret" not in found["project"]


def test_an_unknown_cluster_is_refused_with_the_names_that_there_are() -> None:
    assert "h100" in complaints(clusters=["b200"])["clusters"]


def test_gpus_that_no_host_has_are_refused_with_the_largest_host() -> None:
    assert "largest has 8" in complaints(gpus_per_replica=9)["gpus_per_replica"]


def test_a_gang_larger_than_the_whole_cluster_is_refused() -> None:
    assert "room for 2 replicas" in complaints(gpus_per_replica=8, replicas=3)["replicas"]


@pytest.mark.parametrize("seconds", [8 * 3600 + 1, 10**9])
def test_a_minimum_runtime_above_the_bound_is_refused_with_the_bound(seconds: int) -> None:
    assert "8 h" in complaints(min_runtime_seconds=seconds)["min_runtime_seconds"]


def test_the_bound_itself_is_allowed() -> None:
    author, _, _ = scene()
    assert submit(author, min_runtime_seconds=8 * 3600)[1]


def test_the_bound_is_the_clusters_own() -> None:
    author, _, cluster = scene()
    policy_change(
        cluster=cluster,
        overrides={"min_runtime_max_seconds": 600, "min_runtime_min_seconds": 60},
        reason="short",
        author=None,
        base_version=0,
        now=START,
    )
    with pytest.raises(Refused, match="10 min"):
        submit(author, min_runtime_seconds=601)
    with pytest.raises(Refused, match="1 min"):
        submit(author, min_runtime_seconds=59)


def test_a_timeout_below_the_minimum_runtime_is_refused() -> None:
    assert "timeout_seconds" in complaints(min_runtime_seconds=3600, timeout_seconds=3599)


def test_a_timeout_equal_to_the_minimum_runtime_is_allowed() -> None:
    author, _, _ = scene()
    assert submit(author, min_runtime_seconds=3600, timeout_seconds=3600)[1]


@pytest.mark.parametrize("attr", ["replicas", "gpus_per_replica"])
@pytest.mark.parametrize("value", [0, -1, 2**40, 1.5, float("nan"), "1", None, True])
def test_a_count_that_is_not_a_positive_whole_number_is_refused(attr: str, value: object) -> None:
    assert attr in complaints(**{attr: value})


@pytest.mark.parametrize("value", [-1001, 1001, 0.5, "high", None])
def test_a_priority_out_of_bounds_is_refused(value: object) -> None:
    assert "between -1000 and 1000" in complaints(priority=value)["priority"]


@pytest.mark.parametrize(
    ("attr", "fields"),
    [
        ("command", {"command": ["echo", "a\0b"]}),
        ("script", {"command": [], "script": "echo\0"}),
        ("environment", {"environment": {"A": "x\0"}}),
        ("environment", {"environment": {"A\0": "x"}}),
        ("name", {"name": "a\0b"}),
        ("project", {"project": "lab\0"}),
        ("clusters", {"clusters": ["h\0"]}),
        ("idempotency_key", {"idempotency_key": "a\0b"}),
    ],
)
def test_a_nul_byte_is_refused_wherever_it_stands(attr: str, fields: dict[str, Any]) -> None:
    assert set(complaints(**fields)) == {attr}


@pytest.mark.parametrize("name", ["1A", "A-B", "A B", "", "é", "A=B", "A" * 201])
def test_an_environment_name_that_no_shell_takes_is_refused(name: str) -> None:
    assert "environment" in complaints(environment={name: "x"})


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "COMMONS_CHECKPOINT_FILE"])
def test_what_the_portal_sets_itself_can_not_be_set(name: str) -> None:
    assert "set by the portal" in complaints(environment={name: "0"})["environment"]


@pytest.mark.parametrize(
    ("attr", "fields"),
    [
        ("command", {"command": ["x" * 65_537]}),
        ("command", {"command": ["x"] * 1001}),
        ("command", {"command": "python train.py"}),
        ("command", {"command": [1, 2]}),
        ("command", {"command": [" "]}),
        ("command", {"command": []}),
        ("command", {"command": ["\ud800"]}),
        ("command", {"command": ["a"], "script": "b"}),
        ("script", {"command": [], "script": "x" * 262_145}),
        ("environment", {"environment": {"A": "x" * 65_537}}),
        ("environment", {"environment": {f"A{n}": "x" for n in range(201)}}),
        ("environment", {"environment": {"A": 1}}),
        ("environment", {"environment": ["A"]}),
        ("name", {"name": "x" * 201}),
        ("resumable", {"resumable": "yes"}),
        ("timeout_seconds", {"timeout_seconds": 0}),
        ("timeout_seconds", {"timeout_seconds": float("nan")}),
        ("clusters", {"clusters": "h100"}),
        ("idempotency_key", {"idempotency_key": "x" * 201}),
    ],
)
def test_what_has_the_wrong_shape_or_size_is_refused(attr: str, fields: dict[str, Any]) -> None:
    assert set(complaints(**fields)) == {attr}


def test_all_wrong_fields_are_reported_together() -> None:
    found = complaints(
        project="lab/nope", clusters=["nope"], replicas=0, command=[], priority=9999, environment={"1": "x"}
    )
    assert set(found) == {"project", "clusters", "replicas", "command", "priority", "environment"}


def test_a_name_in_any_script_is_kept_as_it_is() -> None:
    author, _, _ = scene()
    name = "=<b>训练</b> 🤖"
    assert submit(author, name=name)[0].name == name


def test_a_workload_without_a_name_is_called_by_its_program() -> None:
    author, _, _ = scene()
    assert submit(author, command=["/usr/bin/python3", "train.py"])[0].name == "python3"


def test_a_viewer_may_not_submit() -> None:
    _, project, _ = scene()
    with pytest.raises(Forbidden):
        submit(user_make(project=project, role="viewer"))


def test_of_several_clusters_those_that_can_not_hold_it_are_left_out_when_none_is_named() -> None:
    author, _, cluster = scene()
    small = cluster_make("small")
    host_make(cluster=small, gpus=2)
    assert list(submit(author, gpus_per_replica=4)[0].clusters.all()) == [cluster]
    assert set(submit(author, gpus_per_replica=2)[0].clusters.all()) == {cluster, small}


def test_the_same_key_with_the_same_body_is_the_first_workload() -> None:
    author, _, _ = scene()
    first, created = submit(author, idempotency_key="k1")
    again, created_again = submit(author, idempotency_key="k1", now=after(60))
    assert (created, created_again, again.pk) == (True, False, first.pk)
    assert Workload.objects.count() == 1


def test_the_same_key_with_another_body_is_a_conflict() -> None:
    author, _, _ = scene()
    submit(author, idempotency_key="k1")
    with pytest.raises(Conflict):
        submit(author, idempotency_key="k1", gpus_per_replica=2)


def test_a_key_belongs_to_its_author() -> None:
    author, project, _ = scene()
    submit(author, idempotency_key="k1")
    assert submit(user_make(project=project), idempotency_key="k1")[1]


def test_submitting_takes_a_fixed_number_of_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    author, _, cluster = scene()
    for _ in range(5):
        host_make(cluster=cluster)
    submit(author)
    with django_assert_num_queries(10):
        submit(author)


@pytest.mark.django_db(transaction=True)
def test_two_posts_of_one_form_at_once_make_one_workload() -> None:
    author, _, _ = scene()
    start = threading.Barrier(2)
    answers: list[tuple[int, bool]] = []

    def post() -> None:
        start.wait(timeout=10)
        try:
            workload, created = submit(author, idempotency_key="form-7")
            answers.append((workload.pk, created))
        finally:
            connection.close()

    threads = [threading.Thread(target=post) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len({workload_id for workload_id, _ in answers}) == 1
    assert sorted(created for _, created in answers) == [False, True]
    assert Workload.objects.count() == 1
    assert WorkloadEvent.objects.count() == 1
