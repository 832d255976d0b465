"""What REST says of planned changes that set back what is decided now, and of changes that change nothing."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import version_of_level
from tests.api.support import Lab, client_of, problem_require
from tests.factories import budget_make

CHANGES = "/api/v1/budget-changes/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def granted(lab: Lab) -> Lab:
    """nlp has 50 % and vision 25 % of lab."""
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 50, "vision": 25})
    return lab


@pytest.fixture
def lead(granted: Lab) -> APIClient:
    return client_of(granted.lead)


def post(lead: APIClient, lab: Lab, nlp: float, vision: float, **fields: Any) -> Any:
    sent = {
        "cluster": "local",
        "parent": "lab",
        "base_version": version_of_level(cluster=lab.cluster, parent=lab.root),
        "reason": "nlp ships",
        "children": [{"project": "lab/nlp", "percent": nlp}, {"project": "lab/vision", "percent": vision}],
        **fields,
    }
    return lead.post(CHANGES, sent, format="json")


def planned(lead: APIClient, lab: Lab, nlp: float, vision: float) -> dict[str, Any]:
    at = timezone.now() + timedelta(days=5)
    made: dict[str, Any] = post(lead, lab, nlp, vision, effective_at=at.isoformat()).json()
    return made


def test_the_answer_names_the_planned_change_that_sets_it_back(granted: Lab, lead: APIClient) -> None:
    later = planned(lead, granted, 50, 30)
    assert later["planned_after"] == []
    made = post(lead, granted, 37.5, 25).json()
    assert made["planned_after"] == [
        {
            "change": later["id"],
            "effective_at": later["effective_at"],
            "sets_back": [
                {
                    "project": "lab/nlp",
                    "from_percent": 37.5,
                    "to_percent": 50,
                    "from_burst_gpus": None,
                    "to_burst_gpus": None,
                }
            ],
        }
    ]


def test_a_dry_run_of_a_file_names_it_too(granted: Lab, lead: APIClient) -> None:
    later = planned(lead, granted, 50, 30)
    exported = b"".join(lead.get("/api/v1/budgets/export/").streaming_content).decode()  # type: ignore[attr-defined]
    sent = {"csv": exported.replace(",50,", ",40,"), "dry_run": True}
    [level] = lead.post("/api/v1/budgets/import/", sent, format="json").json()["levels"]
    assert [(each["change"], each["sets_back"][0]["to_percent"]) for each in level["planned_after"]] == [
        (later["id"], 50)
    ]


def test_a_level_that_stands_so_already_gets_no_version(granted: Lab, lead: APIClient) -> None:
    response = post(lead, granted, 50, "25.0000")  # type: ignore[arg-type]
    assert response.status_code == 200, response.content
    assert (response.json()["version"], response.json()["state"]) == (1, "in_force")
    assert BudgetChange.objects.count() == 1


def test_nothing_on_top_of_an_old_version_is_still_a_conflict(granted: Lab, lead: APIClient) -> None:
    post(lead, granted, 60, 25)
    problem_require(post(lead, granted, 60, 25, base_version=1), 409)


def test_a_plan_that_keeps_what_another_plan_would_move_is_a_change(granted: Lab, lead: APIClient) -> None:
    later = planned(lead, granted, 60, 25)
    response = post(lead, granted, 50, 25, effective_at=later["effective_at"])
    assert response.status_code == 201, response.content
