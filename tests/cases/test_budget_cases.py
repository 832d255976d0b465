"""What went wrong with budgets in other portals, as inputs with the right behaviour for ours."""

import csv
import io
from typing import Any

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from portal.budgets.models import BudgetChange
from portal.common.models import AuditEntry
from portal.proposals.models import Proposal
from portal.workloads.models import Standing
from tests.api.support import Lab, attrs_of, client_of, lab_make, problem_require
from tests.factories import START, after, attempt_make, budget_make, project_make, segment_make, user_make
from tests.proposals.scene import NOW, Scene, proposal_make, scene_make
from tests.proposals.test_digests import (
    test_several_budgets_that_end_in_one_week_are_one_digest_and_again_sends_nothing,
)
from tests.scheduling.conftest import Lab as Passes
from tests.scheduling.conftest import attempt_of

pytestmark = pytest.mark.django_db
CHANGES = "/api/v1/budget-changes/"


@pytest.fixture
def lab() -> Lab:
    """nlp has 50 % and vision 25 % of lab."""
    made = lab_make()
    budget_make(cluster=made.cluster, parent=made.root, percent={"nlp": 50, "vision": 25})
    return made


@pytest.fixture
def scene() -> Scene:
    return scene_make()


def body(nlp: Any, vision: Any, **fields: Any) -> dict[str, Any]:
    children = [{"project": "lab/nlp", "percent": nlp}, {"project": "lab/vision", "percent": vision}]
    return {"cluster": "local", "parent": "lab", "base_version": 1, "reason": "why", "children": children, **fields}


def post(client: APIClient, sent: Any) -> Any:
    return client.post(CHANGES, sent, format="json")


def csv_of(response: Any) -> list[dict[str, str]]:
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return list(csv.DictReader(io.StringIO(content.decode().removeprefix("\ufeff"))))


def test_a_blank_reason_is_400_naming_it_and_a_members_change_403(lab: Lab) -> None:
    """Case 2 (coldfront#355)."""
    blank = post(client_of(lab.lead), body(40, 40, reason="  "))
    problem_require(blank, 400)
    assert attrs_of(blank) == {"reason"}
    problem_require(post(client_of(user_make(role="member", project=lab.root)), body(40, 40)), 403)
    assert BudgetChange.objects.count() == 1


def test_an_approval_by_get_is_405_and_one_without_its_csrf_token_changes_nothing(scene: Scene) -> None:
    """Case 3 (coldfront PR 488)."""
    proposal = proposal_make(scene)
    address = f"/api/v1/proposals/{proposal.pk}/approve/"
    assert client_of(scene.max).get(address).status_code == 405
    browser = APIClient(enforce_csrf_checks=True)
    browser.force_login(scene.max, backend="allauth.account.auth_backends.AuthenticationBackend")
    assert browser.post(address, {"reason": "Agreed."}, format="json").status_code == 403
    assert Proposal.objects.get().state == "open"


def test_several_budgets_that_end_in_one_week_are_one_digest(scene: Scene, mailoutbox: list[Any]) -> None:
    """Case 4 (coldfront#270)."""
    test_several_budgets_that_end_in_one_week_are_one_digest_and_again_sends_nothing(scene, mailoutbox)


def test_sixty_and_sixty_percent_are_refused_with_the_total_and_the_names(lab: Lab) -> None:
    """Case 5 (SDU-eScience/UCloud#3516)."""
    problem = problem_require(post(client_of(lab.lead), body(60, 60)), 400)
    words = str(problem)
    assert "120" in words and "nlp" in words and "vision" in words
    assert BudgetChange.objects.count() == 1


def test_a_sibling_that_overspends_keeps_no_protected_start_from_another() -> None:
    """Case 6 (SDU-eScience/UCloud#3972)."""
    passes, days = Passes(), 4 * 86_400
    ran = passes.submit(gpus=8, replicas=2, minimum=3600)
    past = attempt_make(
        workload=ran, hosts=passes.hosts, state="ended", outcome="succeeded", ended_at=after(days), claim=False
    )
    for host in passes.hosts:  # every GPU, for four of the seven days
        segment_make(attempt=past, host=host, gpus=8, start_at=START, end_at=after(days))
    type(ran).objects.filter(pk=ran.pk).update(state="succeeded", ended_at=after(days))
    spender = [passes.start(days, gpus=8, minimum=3600) for _ in range(2)]
    assert [attempt.standing for attempt in spender] == [Standing.UNALLOCATED] * 2
    sibling = passes.submit(at=days + 60, gpus=8, minimum=3600, project=passes.vision)
    passes.make_pass(days + 60)
    started = attempt_of(sibling)
    assert started.standing == Standing.PROTECTED
    assert started.victims.count() == 1


def test_usage_belongs_to_its_time_and_each_chart_says_which_budget_it_is_drawn_against(client: Any, lab: Lab) -> None:
    """Case 7 (SDU-eScience/UCloud#4235)."""
    budget_make(cluster=lab.cluster, parent=lab.root, percent={"nlp": 25, "vision": 25}, at=after(3 * 86_400))
    client.force_login(lab.lead)
    week = {"from": START.isoformat(), "to": after(7 * 86_400).isoformat()}
    use = client.get(reverse("dashboard:project", args=["lab/nlp"]), week).context["use"]
    assert "50 % of lab until 5 Nov 2026 00:00, then 25 %" in use.chart.subtitle
    assert use.allotted_gpu_seconds == 3 * 86_400 * 4 + 4 * 86_400 * 2


def test_an_export_of_four_levels_has_every_descendant_and_json_the_same_numbers(lab: Lab) -> None:
    """Case 8 (SDU-eScience/UCloud#4722)."""
    for path, percent in (("lab/nlp", {"chat": 50}), ("lab/nlp/chat", {"small": 40})):
        for slug in percent:
            project_make(f"{path}/{slug}")
        budget_make(cluster=lab.cluster, parent=project_make(path), percent=percent)
    client = client_of(lab.lead)
    rows = {row["project"]: row for row in csv_of(client.get("/api/v1/budgets/export/"))}
    assert list(rows) == ["lab", "lab/nlp", "lab/nlp/chat", "lab/nlp/chat/small", "lab/vision"]
    assert all({"own_gpus", "gpus", "percent", "percent_of_cluster"} <= row.keys() for row in rows.values())
    listed = client.get("/api/v1/budgets/").json()["results"]
    assert [row["project"] for row in listed] == [path for path in rows if path != "lab"]
    for row in listed:
        line = rows[row["project"]]
        assert (float(line["percent"]), float(line["gpus"]), float(line["own_gpus"])) == (
            row["percent_of_parent"],
            row["gpus"],
            row["own_gpus"],
        )


def test_an_approval_on_a_stale_base_or_past_its_start_is_blocked_saying_what_changed(scene: Scene) -> None:
    """Case 9 (SDU-eScience/UCloud#4503)."""
    stale = proposal_make(scene)
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": 40}, at=NOW)
    answer = client_of(scene.max).post(f"/api/v1/proposals/{stale.pk}/approve/", {"reason": "Yes."}, format="json")
    assert "lab/nlp from 30 % to 40 %" in problem_require(answer, 409)["detail"]
    past = proposal_make(scene, effective_at=NOW.replace(hour=23))
    answer = client_of(scene.max).post(f"/api/v1/proposals/{past.pk}/approve/", {"reason": "Yes."}, format="json")
    assert "has passed" in str(answer.json()) or "past" in str(answer.json()), answer.content
    assert BudgetChange.objects.count() == 2


def test_an_audit_line_has_from_and_to(lab: Lab) -> None:
    """Case 21 (getsentry/sentry#98902)."""
    assert post(client_of(lab.lead), body(40, 30)).status_code == 201
    entry = AuditEntry.objects.filter(target_type__startswith="budget").latest("pk")
    assert entry.before != entry.after
    assert "50" in str(entry.before) and "40" in str(entry.after)


def test_chinese_names_are_readable_in_a_spreadsheet_and_a_byte_order_mark_is_read(lab: Lab) -> None:
    """Case 22 (jieter/django-tables2#1041)."""
    project_make("lab/yuyan", name="语言组")
    client = client_of(lab.lead)
    response = client.get("/api/v1/budgets/export/")
    content = b"".join(response.streaming_content)
    assert content.startswith(b"\xef\xbb\xbf") and "语言组" in content.decode("utf-8-sig")
    sent = {"csv": content.decode(), "reason": "again", "dry_run": True}
    answer = client.post("/api/v1/budgets/import/", sent, format="json")
    assert answer.status_code == 200, answer.content


def test_the_second_of_two_managers_gets_409_and_sees_the_first_change_beside_their_own(client: Any, lab: Lab) -> None:
    """Case 26; the page, with both changes side by side, is in tests/dashboard/test_budgets_page.py."""
    lead = client_of(lab.lead)
    assert post(lead, body(40, 40, reason="the first")).status_code == 201
    assert problem_require(post(lead, body(30, 30, reason="the second")), 409)["current_version"] == 2
    assert BudgetChange.objects.count() == 2
