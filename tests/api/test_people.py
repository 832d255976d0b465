"""Roles and invitations through REST."""

import pytest
from django.test import Client
from rest_framework.test import APIClient

from portal.projects.models import Invitation, Membership
from tests.api.support import Lab, attrs_of, client_of, problem_require
from tests.factories import user_make

MEMBERSHIPS, INVITATIONS = "/api/v1/memberships/", "/api/v1/invitations/"


@pytest.fixture
def lead(lab: Lab) -> APIClient:
    return client_of(lab.lead)


def grant(client: APIClient, **fields: object) -> object:
    return client.post(MEMBERSHIPS, {"project": "lab/nlp", "role": "viewer", **fields}, format="json")


def test_one_sees_the_roles_on_projects_that_one_sees(lab: Lab) -> None:
    rows = client_of(lab.member).get(MEMBERSHIPS).json()["results"]
    assert [(row["project"], row["user"], row["role"]) for row in rows] == [("lab/nlp", "mia", "member")]


def test_roles_are_filtered_by_project_person_and_role(lab: Lab, lead: APIClient) -> None:
    asked = {"project=lab/vision": ["ned"], "user=mia": ["mia"], "role=lead": ["lee"], "project=lab": 3}
    found = {query: lead.get(f"{MEMBERSHIPS}?{query}").json() for query in asked}
    assert len(found.pop("project=lab")["results"]) == asked.pop("project=lab")
    assert {query: [row["user"] for row in body["results"]] for query, body in found.items()} == asked
    problem_require(lead.get(f"{MEMBERSHIPS}?colour=red"), 400)


def test_a_role_is_given_changed_and_taken_away(lab: Lab, lead: APIClient) -> None:
    user_make(username="zoe")
    given = grant(lead, user="zoe")
    assert (given.status_code, given.json()["version"]) == (201, 1)
    assert grant(lead, user="zoe").status_code == 200
    one = f"{MEMBERSHIPS}{given.json()['id']}/"
    changed = lead.patch(one, {"role": "lead", "base_version": 1}, format="json")
    assert (changed.json()["role"], changed.json()["version"]) == ("lead", 2)
    stale = lead.patch(one, {"role": "viewer", "base_version": 1}, format="json")
    assert problem_require(stale, 409)["current_version"] == 2
    assert problem_require(lead.delete(f"{one}?base_version=1"), 409)["current_version"] == 2
    assert lead.delete(f"{one}?base_version=2").status_code == 204
    assert not Membership.objects.filter(user__username="zoe").exists()


@pytest.mark.parametrize(
    ("wrong", "attr"),
    [
        ({"user": "nobody"}, "user"),
        ({"user": "a\0"}, "user"),
        ({"role": "boss"}, "role"),
        ({"user": ""}, "user"),
        ({"base_version": "1"}, "base_version"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_wrong_field_is_named(lab: Lab, lead: APIClient, wrong: dict[str, object], attr: str) -> None:
    answer = grant(lead, **{"user": "ned", **wrong})
    assert answer.status_code == 400
    assert attr in attrs_of(answer)


def test_the_last_lead_of_the_root_can_not_be_removed(lab: Lab, lead: APIClient) -> None:
    own = Membership.objects.get(user=lab.lead)
    problem = problem_require(lead.delete(f"{MEMBERSHIPS}{own.pk}/"), 400)
    assert "lee is the last lead of lab" in problem["detail"]


def test_who_may_not_give_roles_does_not_learn_who_has_an_account(lab: Lab) -> None:
    answers = {grant(client_of(lab.member), user=name).status_code for name in ("ned", "nobody")}
    assert answers == {403}


def test_an_invitation_has_its_link_in_one_answer_only(lab: Lab, lead: APIClient) -> None:
    made = lead.post(INVITATIONS, {"project": "lab/nlp", "role": "member", "label": "Zoe"}, format="json")
    assert (made.status_code, made.headers["Cache-Control"]) == (201, "no-store")
    link = made.json()["link"]
    listed = lead.get(INVITATIONS).content.decode()
    assert "Zoe" in listed
    assert link.rsplit("/", 2)[1] not in listed
    page = Client().get(link.removeprefix("http://testserver"))
    assert page.status_code == 200


def test_an_invitation_is_withdrawn(lab: Lab, lead: APIClient) -> None:
    made = lead.post(INVITATIONS, {"project": "lab/nlp", "role": "member", "label": "Zoe"}, format="json").json()
    for _ in range(2):
        assert lead.post(f"{INVITATIONS}{made['id']}/revoke/").json()["revoked_at"] is not None
    assert Client().get(made["link"].removeprefix("http://testserver")).status_code == 404


def test_invitations_are_seen_by_leads_only(lab: Lab, lead: APIClient) -> None:
    made = lead.post(INVITATIONS, {"project": "lab/nlp", "role": "member", "label": "Zoe"}, format="json").json()
    member = client_of(lab.member)
    assert member.get(INVITATIONS).json()["count"] == 0
    problem_require(member.post(f"{INVITATIONS}{made['id']}/revoke/"), 404)
    assert Invitation.objects.get().revoked_at is None
