"""Invitations: one link, one account, for a week, by who may; and never a secret where it could be read again."""

from datetime import timedelta

import pytest

from portal.common.errors import Forbidden, NotFound, Refused
from portal.common.models import AuditEntry
from portal.projects.models import Invitation, Membership, User
from portal.projects.selectors import role_of
from portal.projects.services import membership_set
from portal.projects.services_invitations import (
    OPEN_MAX,
    invitation_accept,
    invitation_create,
    invitation_of_secret,
    invitation_revoke,
    invitation_take,
)
from tests.factories import START, after, membership_make, project_make, user_make

pytestmark = pytest.mark.django_db

PASSWORD = "correct-horse-7"


def invite(role: str = "member", actor: User | None = None) -> tuple[Invitation, str]:
    return invitation_create(project=project_make("lab/nlp"), role=role, label="Ada L.", actor=actor, now=START)


def test_a_link_makes_an_account_with_its_role() -> None:
    _, secret = invite()
    ada = invitation_accept(secret=secret, username="ada", password=PASSWORD, now=after(60))
    assert role_of(user=ada, project=project_make("lab/nlp/mt")) == "member"
    assert ada.check_password(PASSWORD)


def test_it_works_once() -> None:
    _, secret = invite()
    invitation_accept(secret=secret, username="ada", password=PASSWORD, now=after(60))
    with pytest.raises(NotFound, match="works once"):
        invitation_accept(secret=secret, username="eve", password=PASSWORD, now=after(61))
    assert not User.objects.filter(username="eve").exists()


def test_it_works_for_a_week() -> None:
    invitation, secret = invite()
    assert invitation_of_secret(secret=secret, now=START + timedelta(days=7, seconds=-1)) == invitation
    with pytest.raises(NotFound, match="expired"):
        invitation_of_secret(secret=secret, now=START + timedelta(days=7))


def test_a_withdrawn_one_works_no_longer_and_withdrawing_twice_is_one_change() -> None:
    invitation, secret = invite()
    for _ in range(2):
        invitation_revoke(invitation=invitation, actor=None, now=after(5))
    with pytest.raises(NotFound, match="withdrawn"):
        invitation_of_secret(secret=secret, now=after(6))
    assert AuditEntry.objects.filter(action="invitation_revoke").count() == 1


@pytest.mark.parametrize("secret", ["", "x", "a\0b", "é" * 50, "x" * 5000])
def test_what_is_no_invitation_is_not_found(secret: str) -> None:
    invite()
    with pytest.raises(NotFound, match="no invitation"):
        invitation_of_secret(secret=secret, now=START)


def test_a_weak_password_uses_nothing_up() -> None:
    _, secret = invite()
    with pytest.raises(Refused):
        invitation_accept(secret=secret, username="ada", password="password", now=START)
    assert invitation_accept(secret=secret, username="ada", password=PASSWORD, now=START).username == "ada"


def test_it_falls_with_the_rights_of_who_sent_it() -> None:
    lead = user_make(project=project_make("lab/nlp"), role="lead")
    _, secret = invite(actor=lead)
    membership_set(user=lead, project=project_make("lab/nlp"), role="member", actor=None, now=after(1))
    with pytest.raises(NotFound, match="may no longer invite"):
        invitation_of_secret(secret=secret, now=after(2))


def test_a_member_invites_nobody_and_a_stranger_sees_nothing() -> None:
    nlp = project_make("lab/nlp")
    with pytest.raises(Forbidden):
        invite(actor=user_make(project=nlp))
    with pytest.raises(NotFound):
        invite(actor=user_make(project=project_make("lab/vision"), role="lead"))


@pytest.mark.parametrize("held", ["viewer", "lead"])
def test_with_an_account_one_takes_the_role_but_never_loses_one(held: str) -> None:
    nlp = project_make("lab/nlp")
    user = user_make()
    membership_make(user=user, project=nlp, role=held)
    _, secret = invite()
    invitation_take(secret=secret, user=user, now=after(1))
    assert Membership.objects.get(user=user).role == {"viewer": "member", "lead": "lead"}[held]


@pytest.mark.parametrize("label", ["", " ", "x" * 201, "a\0"])
def test_a_label_is_needed_and_bounded(label: str) -> None:
    with pytest.raises(Refused) as refused:
        invitation_create(project=project_make("lab"), role="boss", label=label, actor=None, now=START)
    assert {error.attr for error in refused.value.errors} == {"label", "role"}


def test_not_into_an_archived_project() -> None:
    with pytest.raises(Refused, match="archived"):
        invitation_create(
            project=project_make("lab/old", archived_at=START), role="member", label="Ada", actor=None, now=START
        )


def test_a_project_has_so_many_open_ones_and_no_more() -> None:
    invitation, _ = invite()
    Invitation.objects.bulk_create(
        Invitation(
            project=invitation.project,
            role="member",
            label="x",
            digest=str(number),
            created_at=START,
            expires_at=after(1000),
        )
        for number in range(OPEN_MAX - 1)
    )
    with pytest.raises(Refused, match="withdraw some"):
        invite()


def test_the_secret_is_nowhere_in_the_database() -> None:
    _, secret = invite()
    invitation_accept(secret=secret, username="ada", password=PASSWORD, now=after(1))
    kept = [*Invitation.objects.values_list(), *AuditEntry.objects.values_list(), *User.objects.values_list()]
    assert secret not in str(kept)


def test_the_log_says_who_invited_whom_and_what_became_of_it() -> None:
    lead = user_make(username="lee", project=project_make("lab/nlp"), role="lead")
    _, secret = invite(actor=lead)
    ada = invitation_accept(secret=secret, username="ada", password=PASSWORD, now=after(1))
    entries = {entry.action: entry for entry in AuditEntry.objects.all()}
    assert entries["invitation_create"].actor == lead
    assert (entries["membership_set"].actor, entries["membership_set"].after) == (
        lead,
        {"user": "ada", "role": "member"},
    )
    assert (entries["invitation_accept"].actor, entries["invitation_accept"].after["user"]) == (ada, "ada")
