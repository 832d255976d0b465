"""Budget changes over REST: made whole on top of the version that was looked at, listed, undone, and from a CSV."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import budgets_at
from tests.api.support import Lab, attrs_of, client_of, problem_require
from tests.factories import after, budget_make, project_make, user_make

CHANGES = "/api/v1/budget-changes/"


@pytest.fixture
def granted(lab: Lab) -> Lab:
    """nlp has 50 % and vision 25 % of lab's 8 GPUs, from START on."""
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50, "vision": 25})
    return lab


@pytest.fixture
def lead(granted: Lab) -> APIClient:
    return client_of(granted.lead)


def body(nlp: Any = 60, vision: Any = "20", **fields: Any) -> dict[str, Any]:
    children = [
        {"project": "lab/nlp", "percent": nlp, "burst_gpus": 6},
        {"project": "lab/vision", "percent": vision},
    ]
    return {
        "cluster": "local",
        "parent": "lab",
        "base_version": 1,
        "reason": "nlp ships",
        "children": children,
        **fields,
    }


def post(client: APIClient, sent: Any, path: str = CHANGES) -> Any:
    return client.post(path, sent, format="json")


def raw_post(client: APIClient, text: str) -> Any:
    return client.post(CHANGES, text, content_type="application/json")


def test_a_change_sets_a_level_and_says_from_and_to(granted: Lab, lead: APIClient) -> None:
    response = post(lead, body())
    assert response.status_code == 201, response.content
    made = response.json()
    assert (made["version"], made["author"], made["state"], made["level_version"]) == (2, "lee", "in_force", 2)
    assert made["moves"] == [
        {"project": "lab/nlp", "from_percent": 50, "to_percent": 60, "from_burst_gpus": None, "to_burst_gpus": 6},
        {"project": "lab/vision", "from_percent": 25, "to_percent": 20, "from_burst_gpus": None, "to_burst_gpus": None},
    ]
    assert lead.get(response.headers["Location"]).json() == made
    lines = budgets_at(cluster=granted.cluster, at=timezone.now())
    assert lines[granted.nlp.pk] == (600_000, 6)


@pytest.mark.parametrize(("percent", "ppm"), [(12.3457, 123_457), ("12.3457", 123_457), (0, 0), (100, 1_000_000)])
def test_a_percent_is_read_exactly_as_number_and_as_text(granted: Lab, lead: APIClient, percent: Any, ppm: int) -> None:
    assert post(lead, body(percent, 0)).status_code == 201
    assert budgets_at(cluster=granted.cluster, at=timezone.now())[granted.nlp.pk].share_ppm == ppm


@pytest.mark.parametrize(
    "percent",
    [
        "NaN", "Infinity", "1e309", "1e999999999", "-5", "-0.5", "100.0001", "33.333333333333333333333333333333",
        "12.50000000000000000000000000000001", "true", "null", '"12,5"', '"1e2"', '"NaN"', '""', "[1]", '"١٢"',
    ],
)  # fmt: skip
def test_what_is_no_percent_that_can_be_kept_is_refused_by_name(lead: APIClient, percent: str) -> None:
    text = (
        '{"cluster": "local", "parent": "lab", "base_version": 1, "reason": "x", "children": '
        f'[{{"project": "lab/nlp", "percent": {percent}}}, {{"project": "lab/vision", "percent": 1}}]}}'
    )
    response = raw_post(lead, text)
    problem_require(response, 400)
    assert attrs_of(response) == {"children.0.percent"}
    assert BudgetChange.objects.count() == 1


def test_more_decimals_than_can_be_kept_are_refused_with_the_bound(lead: APIClient) -> None:
    response = post(lead, body("33.33333"))
    assert "at most 4 decimals of a percent" in problem_require(response, 400)["detail"]


@pytest.mark.parametrize("burst", [-1, 1.5, "8", True, 1_000_001])
def test_a_burst_cap_that_is_no_whole_number_in_its_bounds_is_refused(lead: APIClient, burst: Any) -> None:
    sent = body()
    sent["children"][0]["burst_gpus"] = burst
    response = post(lead, sent)
    problem_require(response, 400)
    assert attrs_of(response) <= {"children.0.burst_gpus", "children.burst_gpus"}


def test_sixty_and_sixty_percent_are_refused_with_the_total_and_the_names(lead: APIClient) -> None:
    detail = problem_require(post(lead, body(60, 60)), 400)["detail"]
    for words in ("120 %", "lab/nlp 60 %", "lab/vision 60 %"):
        assert words in detail
    assert BudgetChange.objects.count() == 1


@pytest.mark.parametrize("reason", ["", "   "])
def test_a_blank_reason_is_a_400_that_names_it(lead: APIClient, reason: str) -> None:
    response = post(lead, body(reason=reason))
    problem_require(response, 400)
    assert attrs_of(response) == {"reason"}


def test_a_plain_member_may_not_and_a_stranger_sees_nothing_there(granted: Lab) -> None:
    member = user_make(username="mona", role="member", project=granted.root)
    problem_require(post(client_of(member), body()), 403)
    response = post(client_of(granted.neighbour), body())
    problem_require(response, 400)
    assert "parent" in attrs_of(response)
    assert "lab/vision" in response.json()["detail"]
    assert BudgetChange.objects.count() == 1


def test_a_token_that_may_only_read_changes_nothing(granted: Lab) -> None:
    problem_require(post(client_of(granted.lead, scope="read"), body()), 403)
    assert BudgetChange.objects.count() == 1


def test_a_stale_base_is_a_409_with_the_version_that_is_current(granted: Lab, lead: APIClient) -> None:
    budget_make(cluster=granted.cluster, parent=granted.root, percent={"nlp": 10})
    problem = problem_require(post(lead, body()), 409)
    assert problem["current_version"] == 2
    assert BudgetChange.objects.count() == 2


@pytest.mark.parametrize(
    ("fields", "attr"),
    [
        ({"cluster": "mars"}, "cluster"),
        ({"parent": "lab/none"}, "parent"),
        ({"base_version": "1"}, "base_version"),
        ({"effective_at": "2026-11-02T00:00:00"}, "effective_at"),
        ({"effective_at": "2020-01-01T00:00:00Z"}, "effective_at"),
        ({"effective_at": "9999-12-31T23:59:59-23:59"}, "effective_at"),
        ({"effective_at": 5}, "effective_at"),
        ({"children": []}, "children"),
        ({"children": "lab/nlp"}, "children"),
        ({"childs": []}, "childs"),
    ],
)
def test_a_wrong_field_is_refused_by_name(lead: APIClient, fields: dict[str, Any], attr: str) -> None:
    response = post(lead, body(**fields))
    problem_require(response, 400)
    assert attr in attrs_of(response)
    assert BudgetChange.objects.count() == 1


def test_a_child_that_is_missing_twice_or_somebody_elses_is_named(granted: Lab, lead: APIClient) -> None:
    project_make("lab/nlp/chat")
    nlp, vision = body()["children"]
    for children, words in (
        ([nlp], "missing: lab/vision"),
        ([nlp, vision, vision], "more than once: lab/vision"),
        ([nlp, vision, {"project": "lab/nlp/chat", "percent": 1}], "lab/nlp/chat is no child of lab"),
        ([nlp, {"project": "lab/none", "percent": 1}], "lab/none"),
    ):
        assert words in problem_require(post(lead, body(children=children)), 400)["detail"]


def test_a_change_may_take_effect_later_and_is_then_withdrawn(granted: Lab, lead: APIClient) -> None:
    later = timezone.now() + timedelta(days=2)
    made = post(lead, body(effective_at=later.isoformat())).json()
    assert made["state"] == "planned"
    undone = post(lead, {"base_version": 2, "reason": "not now"}, f"{CHANGES}{made['id']}/undo/")
    assert undone.status_code == 201, undone.content
    assert (undone.json()["withdraws"], undone.json()["state"], undone.json()["children"]) == (
        made["id"],
        "withdrawal",
        [],
    )
    again = lead.get(f"{CHANGES}{made['id']}/").json()
    assert (again["state"], again["withdrawn_by"]) == ("withdrawn", undone.json()["id"])
    shares = {
        row["project"]: row["share_ppm"]
        for row in lead.get("/api/v1/budgets/", {"at": later.isoformat()}).json()["results"]
    }
    assert shares["lab/nlp"] == 500_000


def test_a_change_is_undone_by_a_new_one(granted: Lab, lead: APIClient) -> None:
    made = post(lead, body()).json()
    undone = post(lead, {"base_version": 2, "reason": "too much"}, f"{CHANGES}{made['id']}/undo/").json()
    assert (undone["version"], undone["undoes"]) == (3, made["id"])
    assert [child["percent"] for child in undone["children"]] == [50, 25]
    problem = problem_require(post(lead, {"base_version": 2, "reason": "x"}, f"{CHANGES}{made['id']}/undo/"), 409)
    assert problem["current_version"] == 3
    problem_require(post(lead, {"base_version": 3, "reason": "x"}, f"{CHANGES}{made['id']}/undo/"), 400)


def test_undo_is_a_post_by_somebody_who_may(granted: Lab, lead: APIClient) -> None:
    made = post(lead, body()).json()
    path = f"{CHANGES}{made['id']}/undo/"
    problem_require(lead.get(path), 405)
    member = client_of(user_make(role="member", project=granted.root))
    problem_require(post(member, {"base_version": 2, "reason": "x"}, path), 403)
    problem_require(post(client_of(granted.neighbour), {"base_version": 2, "reason": "x"}, path), 404)
    assert BudgetChange.objects.count() == 2


def test_changes_are_listed_newest_first_and_filtered(granted: Lab, lead: APIClient) -> None:
    project_make("lab/nlp/chat")
    budget_make(cluster=granted.cluster, parent=granted.nlp, percent={"chat": 50}, at=after(60))
    post(lead, body())

    def found(**filters: Any) -> list[tuple[str, int]]:
        rows = lead.get(CHANGES, filters).json()["results"]
        return [(row["parent"], row["version"]) for row in rows]

    assert found() == [("lab", 2), ("lab/nlp", 1), ("lab", 1)]
    assert found(parent="lab/nlp") == [("lab/nlp", 1)]
    assert found(project="lab/nlp") == [("lab", 2), ("lab", 1)]
    assert found(author="lee") == [("lab", 2)]
    assert found(cluster="local", created_before=after(1).isoformat()) == [("lab", 1)]
    assert found(effective_after=after(60).isoformat(), effective_before=after(61).isoformat()) == [("lab/nlp", 1)]


def test_one_sees_changes_of_levels_whose_parent_one_sees(granted: Lab, member: APIClient) -> None:
    assert member.get(CHANGES).json()["count"] == 0
    problem_require(member.get(f"{CHANGES}{BudgetChange.objects.get().pk}/"), 404)


def test_a_change_is_read_in_a_fixed_number_of_queries(granted: Lab, lead: APIClient) -> None:
    lead.get("/api/v1/whoami/")
    for step in range(1, 20):
        budget_make(cluster=granted.cluster, parent=granted.root, percent={"nlp": step}, at=after(step))
    newest = BudgetChange.objects.latest("pk").pk
    with CaptureQueriesContext(connection) as captured:
        assert lead.get(f"{CHANGES}{newest}/").status_code == 200
    assert len(captured) == 8
