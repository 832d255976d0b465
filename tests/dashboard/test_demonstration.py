"""The demonstration: made once, kept as it is, plainly marked, with bounded real work."""

import io
import json
import stat
import subprocess
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from portal.budgets.models import BudgetChange
from portal.clusters.models import Cluster, Host
from portal.clusters.selectors import policy_values
from portal.dashboard.demonstration import ACCOUNTS
from portal.dashboard.demonstration_work import PENDING_MOST, SCRIPT, demonstration_submit
from portal.dashboard.management.commands.bootstrap import CLUSTER_NAME
from portal.projects.models import ApiToken, Project, User
from portal.projects.selectors import role_of
from portal.proposals.models import GrantRequest, Proposal
from portal.proposals.selectors import own_refusal
from portal.proposals.services.decisions import proposal_approve
from portal.scheduling.project_tree import project_archive, project_move
from portal.workloads.models import Workload
from tests.factories import after

pytestmark = pytest.mark.django_db


@pytest.fixture
def cheap_passwords(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def data(tmp_path: Path, cheap_passwords: None) -> Path:
    """A data folder, with this host's description in it."""
    described = {"name": "node", "public_key": "ab" * 32, "gpus": 8, "gpu_model": "simulated", "simulated": True}
    (tmp_path / "host.json").write_text(json.dumps(described))
    return tmp_path


def bootstrap(data: Path, demo: str = "1") -> None:
    arguments = ["--data-dir", str(data), "--url", "http://127.0.0.1:8000/", "--demo", demo]
    call_command("bootstrap", *arguments, "--host-file", str(data / "host.json"))


def demo_json(data: Path) -> dict[str, object]:
    kept: dict[str, object] = json.loads((data / "demo.json").read_text())
    return kept


def test_it_makes_tree_budgets_host_and_an_account_for_each_role(data: Path) -> None:
    bootstrap(data)
    paths = set(Project.objects.values_list("path", flat=True))
    assert {"lab", "lab/nlp", "lab/vision", "lab/robotics/arms", "lab/robotics/mobile", "lab/platform"} <= paths
    assert Project.objects.filter(is_demonstration=False).count() == 0
    assert Host.objects.get().cluster.name == CLUSTER_NAME
    assert policy_values(cluster=Cluster.objects.get())["lookback_seconds"] == 3600
    assert BudgetChange.objects.count() == 2
    lab = Project.objects.get(path="lab")
    assert role_of(user=User.objects.get(username="manager"), project=lab) == "lead"
    assert role_of(user=User.objects.get(username="member"), project=Project.objects.get(path="lab/nlp")) == "member"
    assert User.objects.get(username="admin").is_superuser
    assert User.objects.get(username="operator").is_operator


def test_it_has_a_request_and_a_proposal_to_decide_once(data: Path) -> None:
    for _ in range(2):
        bootstrap(data)
    request, proposal = GrantRequest.objects.get(), Proposal.objects.get()
    assert (request.state, request.author.username, request.gpus) == ("taken_up", "lead", 2)
    assert (proposal.state, proposal.author.username) == ("open", "admin")
    manager = User.objects.get(username="manager")
    assert not own_refusal(user=manager, proposal=proposal)
    done = proposal_approve(proposal=proposal, actor=manager, reason="Agreed.", now=timezone.now())
    assert done.state == "approved"


def test_a_demonstration_whose_lead_lost_the_role_still_starts(data: Path) -> None:
    bootstrap(data)
    Proposal.objects.all().delete()
    GrantRequest.objects.all().delete()
    User.objects.get(username="lead").memberships.all().delete()
    bootstrap(data)
    assert not GrantRequest.objects.exists()


def test_the_file_is_for_its_owner_alone_and_its_passwords_and_token_work(data: Path) -> None:
    bootstrap(data)
    assert stat.S_IMODE((data / "demo.json").stat().st_mode) == 0o600
    kept = demo_json(data)
    assert set(kept) == {"url", "token", "accounts"}
    accounts = kept["accounts"]
    assert isinstance(accounts, list)
    assert [account["role"] for account in accounts] == [account.role for account in ACCOUNTS]
    for account in accounts:
        assert Client().login(username=account["username"], password=account["password"])
    answer = Client().get("/api/v1/projects/", headers={"Authorization": f"Bearer {kept['token']}"})
    assert answer.status_code == 200


def test_a_later_start_changes_nothing(data: Path) -> None:
    bootstrap(data)
    before = (demo_json(data), User.objects.count(), BudgetChange.objects.count(), ApiToken.objects.count())
    bootstrap(data)
    assert (demo_json(data), User.objects.count(), BudgetChange.objects.count(), ApiToken.objects.count()) == before


def test_a_tick_that_comes_twice_submits_once_however_long_the_queue_is_by_then(data: Path) -> None:
    bootstrap(data)
    for tick in range(12):  # every other tick fills an empty queue to the length at which fewer are submitted
        if tick % 2 == 0:
            Workload.objects.update(is_demonstration=False)
        demonstration_submit(now=after(15 * tick))
        assert demonstration_submit(now=after(15 * tick + 5)) == 0


def test_a_tick_that_comes_twice_submits_once_although_projects_have_moved(data: Path) -> None:
    bootstrap(data)
    demonstration_submit(now=after(0))
    parent = Project.objects.get(path="lab/robotics")
    for path in ("lab/vision", "lab/nlp"):
        project_move(project=Project.objects.get(path=path), parent=parent, actor=None, now=timezone.now())
    assert demonstration_submit(now=after(5)) == 0


def test_what_somebody_moved_or_archived_stays_so_at_a_later_start_and_the_work_goes_on(data: Path) -> None:
    bootstrap(data)
    paths = {path: Project.objects.get(path=path) for path in ("lab/vision", "lab/robotics", "lab/nlp")}
    project_move(project=paths["lab/vision"], parent=paths["lab/robotics"], actor=None, now=timezone.now())
    project_archive(project=paths["lab/nlp"], actor=None, now=timezone.now())
    before = set(Project.objects.values_list("path", "archived_at"))
    bootstrap(data)
    assert set(Project.objects.values_list("path", "archived_at")) == before
    for tick in range(12):
        demonstration_submit(now=timezone.now() + timedelta(seconds=10 * tick))
    worked = set(Workload.objects.values_list("project__path", flat=True))
    assert "lab/robotics/vision" in worked
    assert "lab/nlp" not in worked


@pytest.mark.parametrize("text", [None, "", "[]", '{"token": 1}', "{"])
def test_a_lost_or_damaged_file_means_new_passwords_and_a_new_token(data: Path, text: str | None) -> None:
    bootstrap(data)
    old = demo_json(data)
    (data / "demo.json").unlink()
    if text is not None:
        (data / "demo.json").write_text(text)
    bootstrap(data)
    new = demo_json(data)
    assert new["token"] != old["token"]
    assert ApiToken.objects.filter(revoked_at=None).count() == 1
    account = new["accounts"][0]  # type: ignore[index]
    assert Client().login(username=account["username"], password=account["password"])


def test_a_file_with_one_account_missing_gets_a_new_password_for_that_one(data: Path) -> None:
    bootstrap(data)
    kept = demo_json(data)
    kept["accounts"] = kept["accounts"][1:]  # type: ignore[index]
    (data / "demo.json").write_text(json.dumps(kept))
    bootstrap(data)
    assert demo_json(data)["accounts"][1:] == kept["accounts"]  # type: ignore[index]
    assert demo_json(data)["token"] == kept["token"]


def test_an_organisation_of_ones_own_never_gets_a_demonstration(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ADMIN_USER", "ada")
    monkeypatch.setenv("ADMIN_PASSWORD", "correct-horse-7")
    bootstrap(data, demo="0")
    bootstrap(data, demo="1")
    assert "organisation of its own" in capsys.readouterr().out
    assert list(Project.objects.values_list("path", flat=True)) == ["lab"]
    assert list(User.objects.values_list("username", flat=True)) == ["ada"]
    assert not (data / "demo.json").exists()


def test_started_without_it_the_demonstration_takes_no_new_work(data: Path) -> None:
    bootstrap(data)
    bootstrap(data, demo="0")
    assert demonstration_submit(now=after(0)) == 0
    bootstrap(data)
    assert demonstration_submit(now=after(0)) > 0


def test_an_administrator_comes_from_the_environment(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIN_USER", "ada")
    monkeypatch.setenv("ADMIN_PASSWORD", "correct-horse-7")
    bootstrap(data, demo="0")
    assert Client().login(username="ada", password="correct-horse-7")
    assert User.objects.get().is_superuser


def test_a_weak_password_is_refused_in_a_sentence(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIN_USER", "ada")
    monkeypatch.setenv("ADMIN_PASSWORD", "123")
    with pytest.raises(CommandError, match="too short"):
        bootstrap(data, demo="0")
    assert not User.objects.exists()


def test_half_of_the_environment_is_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIN_USER", "ada")
    with pytest.raises(CommandError, match="both"):
        bootstrap(data, demo="0")


def test_else_a_link_sets_the_first_password_once(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    bootstrap(data, demo="0")
    printed = capsys.readouterr().out
    link = next(word for word in printed.split() if word.startswith("http"))
    path = link.removeprefix("http://127.0.0.1:8000")
    client = Client()
    form = client.get(path, follow=True)
    assert form.status_code == 200
    address = form.redirect_chain[-1][0]
    client.post(address, {"password1": "correct-horse-7", "password2": "correct-horse-7"})
    assert Client().login(username="admin", password="correct-horse-7")
    again = Client().get(path, follow=True)
    assert b'name="password1"' not in again.content


def test_a_host_file_that_is_no_description_is_refused_in_a_sentence(data: Path) -> None:
    (data / "host.json").write_text('{"name": "node"}')
    with pytest.raises(CommandError, match="public_key"):
        bootstrap(data)


def test_every_tick_draws_the_same_work_from_its_own_time(data: Path) -> None:
    bootstrap(data)
    first = demonstration_submit(now=after(0))
    assert first > 0
    assert demonstration_submit(now=after(5)) == 0
    assert Workload.objects.count() == first


def test_the_queue_of_the_demonstration_is_bounded_and_mixed(data: Path) -> None:
    bootstrap(data)
    for tick in range(40):
        demonstration_submit(now=after(15 * tick))
    workloads = list(Workload.objects.select_related("project"))
    assert len(workloads) == PENDING_MOST
    assert all(workload.is_demonstration for workload in workloads)
    assert len(Counter(workload.author_id for workload in workloads)) > 2
    assert len({workload.gpus for workload in workloads}) > 1


def test_without_a_demonstration_a_tick_does_nothing(data: Path) -> None:
    assert demonstration_submit(now=after(0)) == 0


def test_the_script_is_real_work_that_ends_by_itself_and_leaves_a_checkpoint(tmp_path: Path) -> None:
    script, checkpoint = tmp_path / "script", tmp_path / "checkpoint"
    script.write_text(SCRIPT)
    environment = {
        "PATH": "/usr/bin:/bin",
        "COMMONS_CHECKPOINT_FILE": str(checkpoint),
        "COMMONS_REPLICA": "0",
        "COMMONS_REPLICAS": "1",
        "CUDA_VISIBLE_DEVICES": "3",
        "DEMO_STEPS": "5",
        "DEMO_STEP_SECONDS": "0",
        "DEMO_FAILS": "0",
    }
    finished = subprocess.run(["/bin/sh", str(script)], env=environment, capture_output=True, text=True, check=True)
    assert "step 5 of 5" in finished.stdout
    assert "GPUs 3" in finished.stdout
    assert checkpoint.read_text() == "5\n"
    failing = subprocess.run(["/bin/sh", str(script)], env={**environment, "DEMO_FAILS": "1"}, check=False)
    assert failing.returncode == 1
