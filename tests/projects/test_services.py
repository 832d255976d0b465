"""The tree, people, roles and tokens: what may not happen, and what the audit log says of the rest."""

import pytest

from portal.common.errors import Conflict, Forbidden, NotFound, Refused
from portal.common.models import AuditEntry
from portal.projects.authentication import token_digest
from portal.projects.models import ApiToken, Membership, Project
from portal.projects.services import (
    membership_set,
    project_create,
    token_create,
    token_revoke,
    user_create,
)
from tests.factories import START, after, project_make, user_make

pytestmark = pytest.mark.django_db


def attrs(refusal: Refused) -> set[str]:
    return {error.attr for error in refusal.errors}


def test_a_project_has_its_path_from_the_root() -> None:
    root = project_create(parent=None, slug="lab", name="Lab", actor=None, now=START)
    nlp = project_create(parent=root, slug="nlp", name="NLP", actor=None, now=START)
    assert (nlp.path, nlp.depth) == ("lab/nlp", 1)


def test_there_is_one_root() -> None:
    project_make("lab")
    with pytest.raises(Refused) as refused:
        project_create(parent=None, slug="other", name="Other", actor=None, now=START)
    assert attrs(refused.value) == {"parent"}


def test_the_same_slug_twice_below_one_parent_is_refused() -> None:
    project_make("lab/nlp")
    with pytest.raises(Refused) as refused:
        project_create(parent=project_make("lab"), slug="nlp", name="again", actor=None, now=START)
    assert attrs(refused.value) == {"slug"}


@pytest.mark.parametrize("slug", ["", "a b", "a/b", "..", "x" * 61, "a\0"])
def test_a_slug_that_would_break_a_path_is_refused(slug: str) -> None:
    with pytest.raises(Refused) as refused:
        project_create(parent=project_make("lab"), slug=slug, name="x", actor=None, now=START)
    assert attrs(refused.value) == {"slug"}


def test_a_name_may_be_any_text() -> None:
    name = "=<script>alert(1)</script> 🤖 项目"
    assert project_create(parent=project_make("lab"), slug="x", name=name, actor=None, now=START).name == name


def test_a_member_makes_no_project() -> None:
    lab = project_make("lab")
    with pytest.raises(Forbidden):
        project_create(parent=lab, slug="x", name="x", actor=user_make(project=lab), now=START)
    assert Project.objects.count() == 1


def test_a_role_is_given_changed_and_taken_away_with_from_and_to_in_the_log() -> None:
    nlp, user = project_make("lab/nlp"), user_make()
    for role in ("member", "lead", None):
        membership_set(user=user, project=nlp, role=role, actor=None, now=START)
    assert not Membership.objects.exists()
    entries = AuditEntry.objects.filter(action="membership_set").order_by("pk")
    assert [(entry.before["role"], entry.after["role"]) for entry in entries] == [
        (None, "member"),
        ("member", "lead"),
        ("lead", None),
    ]


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(Refused):
        membership_set(user=user_make(), project=project_make("lab"), role="boss", actor=None, now=START)


def test_a_lead_elsewhere_gives_no_roles_here() -> None:
    lead = user_make(project=project_make("lab/nlp"), role="lead")
    with pytest.raises(NotFound):
        membership_set(user=lead, project=project_make("lab/vision"), role="lead", actor=lead, now=START)


def test_a_weak_password_is_refused_and_nobody_is_added() -> None:
    with pytest.raises(Refused) as refused:
        user_create(username="ada", password="password", actor=None, now=START)
    assert attrs(refused.value) == {"password"}


def test_a_name_that_is_taken_is_refused() -> None:
    user_make(username="ada")
    with pytest.raises(Refused) as refused:
        user_create(username="ada", password=None, actor=None, now=START)
    assert attrs(refused.value) == {"username"}


def test_a_token_is_kept_only_as_a_digest() -> None:
    token, secret = token_create(user=user_make(), name="laptop", now=START)
    assert secret.startswith("gc_")
    assert token.digest == token_digest(secret)
    kept = ApiToken.objects.values_list("prefix", "digest", "name").get()
    assert all(secret not in text for text in kept)


def test_a_secret_never_reaches_the_audit_log() -> None:
    _, secret = token_create(user=user_make(), name="laptop", now=START)
    user_create(username="ada", password="correct-horse-7", actor=None, now=START)
    for entry in AuditEntry.objects.all():
        assert secret not in str(vars(entry))
        assert "correct-horse-7" not in str(vars(entry))


def test_a_token_that_would_be_expired_at_once_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        token_create(user=user_make(), name="x", now=START, expires_at=START)
    assert attrs(refused.value) == {"expires_at"}


def test_a_token_is_revoked_by_its_owner_and_by_nobody_else() -> None:
    owner = user_make()
    token, _ = token_create(user=owner, name="x", now=START)
    with pytest.raises(Forbidden):
        token_revoke(token=token, actor=user_make(), now=after(1))
    token_revoke(token=token, actor=owner, now=after(2))
    token_revoke(token=token, actor=owner, now=after(3))
    token.refresh_from_db()
    assert token.revoked_at == after(2)


def test_the_last_lead_of_the_root_stays_whoever_asks() -> None:
    lab = project_make("lab")
    manager = user_make(username="mo", project=lab, role="lead")
    user_make(project=lab, role="lead", is_active=False)
    for actor in (None, manager, user_make(is_superuser=True)):
        for role in ("member", None):
            with pytest.raises(Refused, match="mo is the last lead of lab"):
                membership_set(user=manager, project=lab, role=role, actor=actor, now=START)


def test_with_another_lead_of_the_root_the_first_may_go() -> None:
    lab = project_make("lab")
    manager = user_make(project=lab, role="lead")
    user_make(project=lab, role="lead")
    assert membership_set(user=manager, project=lab, role=None, actor=manager, now=START) is None


def test_a_role_changed_meanwhile_is_a_conflict_with_its_version() -> None:
    nlp, user = project_make("lab/nlp"), user_make(username="ada")
    membership_set(user=user, project=nlp, role="viewer", actor=None, now=START, base_version=0)
    membership_set(user=user, project=nlp, role="member", actor=None, now=START, base_version=1)
    with pytest.raises(Conflict, match="ada is member of lab/nlp by now") as conflict:
        membership_set(user=user, project=nlp, role="lead", actor=None, now=START, base_version=1)
    assert conflict.value.current_version == 2
    assert membership_set(user=user, project=nlp, role="member", actor=None, now=START, base_version=1) is not None


def test_a_closed_account_gets_no_role_but_can_lose_one() -> None:
    nlp, user = project_make("lab/nlp"), user_make(project=project_make("lab/nlp"), is_active=False)
    with pytest.raises(Refused, match="closed"):
        membership_set(user=user, project=nlp, role="lead", actor=None, now=START)
    assert membership_set(user=user, project=nlp, role=None, actor=None, now=START) is None
