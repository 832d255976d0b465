"""Making an organisation with management commands."""

import io
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from portal.clusters.models import Cluster
from portal.common.models import AuditEntry
from portal.projects.models import Membership, Project, Role, User

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\nnot this line\n")
    return str(path)


def said(*words: str) -> str:
    output = io.StringIO()
    call_command(*words, stdout=output)
    return output.getvalue()


def test_an_organisation_is_made_and_the_audit_log_names_the_system(password_file: str) -> None:
    said("project_create", "lab", "Our lab")
    assert "lab/nlp is made" in said("project_create", "lab/nlp", "Language models")
    said("cluster_create", "h100")
    said("user_create", "mia", "--password-file", password_file, "--operator")
    assert said("membership_set", "mia", "lab/nlp", "lead") == "mia is lead of lab/nlp.\n"
    person = User.objects.get(username="mia")
    assert person.check_password(PASSWORD)
    assert (person.is_operator, person.is_superuser) == (True, False)
    assert Membership.objects.get().role == Role.LEAD
    assert Project.objects.get(path="lab/nlp").parent == Project.objects.get(path="lab")
    assert Cluster.objects.get().name == "h100"
    assert set(AuditEntry.objects.values_list("action", "actor")) == {
        (action, None) for action in ("project_create", "cluster_create", "user_create", "membership_set")
    }


def test_a_role_is_taken_away_with_none(password_file: str) -> None:
    said("project_create", "lab", "Our lab")
    said("user_create", "mia", "--password-file", password_file)
    said("membership_set", "mia", "lab", "member")
    said("membership_set", "mia", "lab", "none")
    assert not Membership.objects.exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("project_create", "lab/nlp/x", "X"), "There is no project 'lab/nlp'. The projects are: lab."),
        (("project_create", "lab", "Lab"), "has its root already"),
        (("project_create", "lab/a b", " "), "slug: .* name: "),
        (("membership_set", "mia", "lab", "lead"), "There is nobody called 'mia'"),
        (("membership_set", "mia", "lab", "boss"), "invalid choice: 'boss'"),
        (("cluster_create", "a b"), "letters, digits"),
        (("user_create", "mia"), "Nobody can be asked for the password here"),
        (("user_create", "mia", "--password-file", "/nowhere"), "/nowhere: No such file"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(
    words: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said("project_create", "lab", "Our lab")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(CommandError, match=complaint):
        said(*words)
    assert (Project.objects.count(), Cluster.objects.count(), User.objects.count()) == (1, 0, 0)


def test_a_password_that_is_too_weak_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weak").write_text("12345678")
    with pytest.raises(CommandError, match="password: "):
        said("user_create", "mia", "--password-file", str(tmp_path / "weak"))
