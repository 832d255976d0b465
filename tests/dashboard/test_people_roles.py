"""SPEC.md section 4, walked: every action on people and projects, by every role, on its page and through REST alike.

What one may not see answers 404, what one may see but not do 403, the rest is done.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from portal.projects.models import Invitation, Membership, Project, User
from portal.projects.services_invitations import invitation_create
from tests.api.support import client_of as api_client_of
from tests.dashboard.scene import client_of as browser_of
from tests.factories import START, cluster_make, membership_make, project_make, user_make

DONE, MAY_NOT, UNSEEN = 200, 403, 404
ROLES = ("viewer", "member", "lead", "manager", "operator", "administrator", "stranger")


def by_role(*statuses: int) -> dict[str, int]:
    return dict(zip(ROLES, statuses, strict=True))


SEEN = by_role(DONE, DONE, DONE, DONE, DONE, DONE, UNSEEN)
LEADS = by_role(MAY_NOT, MAY_NOT, DONE, DONE, MAY_NOT, DONE, UNSEEN)
LEADS_ABOVE = by_role(MAY_NOT, MAY_NOT, MAY_NOT, DONE, MAY_NOT, DONE, UNSEEN)
SITE_WIDE = by_role(MAY_NOT, MAY_NOT, MAY_NOT, MAY_NOT, DONE, DONE, MAY_NOT)


@dataclass
class Place:
    """lab/nlp with somebody in it and somebody invited; lab/vision beside it; an archived lab/nlp/old."""

    nlp: Project
    old: Project
    membership: Membership
    invitation: Invitation

    def person(self, role: str) -> User:
        rights = {"operator": {"is_operator": True}, "administrator": {"is_superuser": True}}
        if role in rights:
            return user_make(**rights[role])
        projects = {"manager": "lab", "stranger": "lab/vision"}
        held = {"manager": "lead", "stranger": "lead"}
        return user_make(project=project_make(projects.get(role, "lab/nlp")), role=held.get(role, role))


@pytest.fixture
def place(db: None) -> Place:
    nlp = project_make("lab/nlp")
    project_make("lab/vision")
    cluster_make("local")
    user_make(username="zoe")
    invitation, _ = invitation_create(project=nlp, role="member", label="Ada", actor=None, now=START)
    membership = membership_make(user=user_make(username="ned"), project=nlp, role="viewer")
    return Place(nlp, project_make("lab/nlp/old", archived_at=START), membership, invitation)


Ask = Callable[[Any, Place], Any]


def post(address: str, body: dict[str, Any] | None = None) -> Ask:
    """A POST, JSON through REST and a form on a page; `{membership}` and `{invitation}` stand for what there is."""

    def ask(client: Any, place: Place) -> Any:
        url = address.format(membership=place.membership.pk, invitation=place.invitation.pk)
        return client.post(url, body or {}, format="json") if isinstance(client, APIClient) else client.post(url, body)

    return ask


def get(address: str) -> Ask:
    return lambda client, _: client.get(address)


def patch(address: str, body: dict[str, Any]) -> Ask:
    return lambda client, place: client.patch(address.format(membership=place.membership.pk), body, format="json")


def delete(address: str) -> Ask:
    return lambda client, place: client.delete(address.format(membership=place.membership.pk))


NEW = {"slug": "mt", "name": "Translation"}
RENAMED = {"name": "Language", "slug": "nlp", "base_version": 1}
RESLUGGED = {"name": "nlp", "slug": "language", "base_version": 1}
API = "/api/v1/"

ACTIONS: dict[str, tuple[dict[str, int], Ask, Ask]] = {
    "see the project": (SEEN, get("/people/lab/nlp/"), get(f"{API}projects/lab/nlp/")),
    "make a project below": (
        LEADS,
        post("/tree/new/lab/nlp/", NEW),
        post(f"{API}projects/", {**NEW, "parent": "lab/nlp"}),
    ),
    "rename": (
        LEADS,
        post("/tree/rename/lab/nlp/", RENAMED),
        patch(f"{API}projects/lab/nlp/", {"name": "Language", "base_version": 1}),
    ),
    "give another path": (
        LEADS_ABOVE,
        post("/tree/rename/lab/nlp/", RESLUGGED),
        patch(f"{API}projects/lab/nlp/", {"slug": "language"}),
    ),
    "move": (
        LEADS_ABOVE,
        post("/tree/move/lab/nlp/", {"parent": "lab/vision", "base_version": 1}),
        post(f"{API}projects/lab/nlp/move/", {"parent": "lab/vision"}),
    ),
    "archive": (
        LEADS_ABOVE,
        post("/tree/archive/lab/nlp/", {"base_version": 1}),
        post(f"{API}projects/lab/nlp/archive/"),
    ),
    "bring back": (
        LEADS,  # who leads lab/nlp leads what is above lab/nlp/old
        post("/tree/unarchive/lab/nlp/old/", {"base_version": 1}),
        post(f"{API}projects/lab/nlp/old/unarchive/"),
    ),
    "give a role": (
        LEADS,
        post("/people-give/lab/nlp/", {"user": "zoe", "role": "viewer"}),
        post(f"{API}memberships/", {"project": "lab/nlp", "user": "zoe", "role": "viewer"}),
    ),
    "change a role": (
        LEADS,
        post("/people-change/lab/nlp/", {"user": "ned", "role": "lead", "base_version": 1}),
        patch(f"{API}memberships/{{membership}}/", {"role": "lead"}),
    ),
    "take a role away": (
        LEADS,
        post("/people-change/lab/nlp/", {"user": "ned", "role": "", "base_version": 1}),
        delete(f"{API}memberships/{{membership}}/"),
    ),
    "invite": (
        LEADS,
        post("/people-invite/lab/nlp/", {"label": "Bo", "invite_role": "member"}),
        post(f"{API}invitations/", {"project": "lab/nlp", "role": "member", "label": "Bo"}),
    ),
    "read the audit log": (SITE_WIDE, get("/audit/"), get(f"{API}audit/")),
    "export the audit log": (SITE_WIDE, get("/audit/?csv=audit"), get(f"{API}audit/export/")),
}
REST_ONLY: dict[str, tuple[dict[str, int], Ask]] = {
    "make a cluster": (SITE_WIDE, post(f"{API}clusters/", {"name": "h100"})),
    "describe a cluster": (SITE_WIDE, patch(f"{API}clusters/local/", {"description": "Hall 2"})),
    "pause a cluster": (SITE_WIDE, post(f"{API}clusters/local/pause/")),
    "change a policy": (
        SITE_WIDE,
        post(f"{API}clusters/local/policy/", {"overrides": {}, "reason": "x", "base_version": 0}),
    ),
    "make a root": (
        dict.fromkeys(ROLES, UNSEEN),  # a project is made below another, and there is none of that name
        post(f"{API}projects/", {"parent": "other", "slug": "x", "name": "x"}),
    ),
}
CASES = [(name, role) for name in ACTIONS for role in ROLES]


def outcome(answer: Any) -> int:
    """Done, whatever way it is said: 200, 201, 204, or the page to go on with."""
    return DONE if answer.status_code in {200, 201, 204, 302} else int(answer.status_code)


@pytest.mark.parametrize(("name", "role"), CASES)
def test_a_page_and_rest_answer_alike(place: Place, name: str, role: str) -> None:
    expected, on_page, by_rest = ACTIONS[name]
    person = place.person(role)
    client: Client = browser_of(person)
    if expected[role] != DONE:  # what is refused leaves all as it was, so both can be asked of one place
        assert outcome(on_page(client, place)) == expected[role]
    assert outcome(by_rest(api_client_of(person), place)) == expected[role]


@pytest.mark.parametrize(("name", "role"), [(name, role) for name, role in CASES if ACTIONS[name][0][role] == DONE])
def test_a_page_does_what_the_role_allows(place: Place, name: str, role: str) -> None:
    assert outcome(ACTIONS[name][1](browser_of(place.person(role)), place)) == DONE


@pytest.mark.parametrize(("name", "role"), [(name, role) for name in REST_ONLY for role in ROLES])
def test_what_only_rest_does_follows_the_same_roles(place: Place, name: str, role: str) -> None:
    expected, by_rest = REST_ONLY[name]
    assert outcome(by_rest(api_client_of(place.person(role)), place)) == expected[role]


@pytest.mark.parametrize("role", ROLES)
def test_an_invitation_is_withdrawn_by_leads_and_unknown_to_others(place: Place, role: str) -> None:
    person = place.person(role)
    expected = DONE if LEADS[role] == DONE else UNSEEN
    address = "/invitations/{invitation}/withdraw/"
    assert outcome(post(f"{API}invitations/{{invitation}}/revoke/")(api_client_of(person), place)) == expected
    assert outcome(post(address)(browser_of(person), place)) == expected


@pytest.mark.parametrize("name", ["new", "rename", "move", "archive", "unarchive"])
def test_a_form_is_not_even_shown_to_who_may_not_send_it(place: Place, name: str) -> None:
    answers = {
        role: browser_of(place.person(role)).get(f"/tree/{name}/lab/nlp/").status_code
        for role in ("member", "manager", "stranger")
    }
    assert answers == {"member": 403, "manager": 200, "stranger": 404}


ADDRESSES = (
    "/people-give/lab/nlp/",
    "/people-change/lab/nlp/",
    "/people-invite/lab/nlp/",
    "/invitations/1/withdraw/",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_action_can_not_be_done_by_get(place: Place, address: str) -> None:
    assert browser_of(place.person("administrator")).get(address).status_code == 405


@pytest.mark.parametrize("address", [*ADDRESSES, "/tree/archive/lab/nlp/", "/tree/move/lab/nlp/"])
def test_an_action_needs_the_forms_secret(place: Place, address: str) -> None:
    client = browser_of(place.person("administrator"))
    client.handler.enforce_csrf_checks = True
    assert client.post(address, {}).status_code == 403
