"""Pages of budget changes: one change and taking it back, a history, the tree at moments, files in and out."""

import csv
from datetime import timedelta
from io import StringIO

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import budgets_at, version_of_level
from portal.budgets.services import budget_change_create
from portal.clusters.models import Cluster, PolicyChange
from portal.projects.models import Project
from portal.scheduling.models import Balance, BalanceSample
from tests.factories import START, after, budget_make, cluster_make, host_make, project_make, user_make

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def lab():
    """64 GPUs; lab gives vision 20 % and nlp 30 %; nlp gives chat, whose name is trouble, half."""
    cluster = cluster_make("local")
    for _ in range(8):
        host_make(cluster=cluster)
    for slug, name in (("lab", "Lab"), ("lab/vision", "=SUM(A1)"), ("lab/nlp", "nlp"), ("lab/nlp/chat", SCRIPT)):
        project_make(slug, name=name)
    root = project_make("lab")
    budget_make(cluster=cluster, parent=root, percent={"vision": 20, "nlp": 30})
    budget_make(cluster=cluster, parent=project_make("lab/nlp"), percent={"chat": 50})
    return root


@pytest.fixture
def lead(client, lab):
    client.force_login(user_make(username="lena", role="lead", project=lab))
    return client


def cluster():
    return Cluster.objects.get(name="local")


def percents(at=None):
    lines = budgets_at(cluster=cluster(), at=at or timezone.now())
    return {Project.objects.get(pk=pk).slug: line.share_ppm / 10_000 for pk, line in lines.items()}


def moved(lab, at=None, **percent):
    return budget_make(cluster=cluster(), parent=lab, percent=percent, at=at or after(60))


def planned(lab, **percent):
    """A change that is three days ahead."""
    now = timezone.now()
    return budget_change_create(
        cluster=cluster(),
        parent=lab,
        base_version=version_of_level(cluster=cluster(), parent=lab),
        lines=[(child, percent.get(child.slug, 0) * 10_000, None) for child in lab.children.all()],
        reason="the new quarter",
        author=None,
        effective_at=now + timedelta(days=3),
        now=now,
    )


def page_of(change):
    return reverse("dashboard:budgets_change", args=[change.pk])


def sent(change, reason="a mistake", **fields):
    newest = version_of_level(cluster=change.cluster, parent=change.parent)
    return {"base_version": newest, "reason": reason, **fields}


def test_a_change_says_who_when_why_from_and_to(lead, lab):
    text = lead.get(page_of(moved(lab, vision=25, nlp=30))).text
    for words in ("Version 2", "in force", "the system", "for a test", "20 % → 25 %", "Undo version 2"):
        assert words in text
    assert "30 % → 30 %" not in text


def test_a_change_is_undone_from_its_page(lead, lab):
    change = moved(lab, vision=25, nlp=40)
    moved(lab, at=after(120), vision=25, nlp=60)
    assert "=SUM(A1): 25 % → 20 %" in lead.get(page_of(change)).text
    response = lead.post(page_of(change), sent(change), follow=True)
    assert "Version 2 is undone by version 4." in response.text
    assert percents()["vision"] == 20
    assert "Undone by lena in version 4" in lead.get(page_of(change)).text
    undone = BudgetChange.objects.get(version=4)
    assert (undone.reason, undone.undoes) == ("a mistake", change)


def test_a_planned_change_is_withdrawn_from_its_page(lead, lab):
    change = planned(lab, nlp=70)
    text = lead.get(page_of(change)).text
    assert "Withdraw version 2" in text and "Takes effect" not in text
    assert "Version 2 is withdrawn." in lead.post(page_of(change), sent(change), follow=True).text
    assert percents(timezone.now() + timedelta(days=9))["nlp"] == 30
    text = lead.get(page_of(change)).text
    assert "Withdrawn by lena in version 3" in text and "take-back" not in text
    assert "Changes that are still ahead" not in lead.get(reverse("dashboard:budgets")).text


def test_the_second_of_two_who_take_back_sees_the_firsts_change_and_keeps_the_reason(lead, lab):
    change = moved(lab, vision=25, nlp=30)
    before = sent(change, reason="mine")
    moved(lab, at=after(120), vision=25, nlp=60)
    response = lead.post(page_of(change), before)
    assert response.status_code == 409
    for words in ("Somebody changed this level meanwhile", "30 % → 60 %", "mine", "version 3"):
        assert words in response.text
    again = response.context["form"].data
    assert lead.post(page_of(change), again).status_code == 302
    assert percents()["vision"] == 20


def test_taking_back_needs_a_reason(lead, lab):
    change = moved(lab, vision=25)
    response = lead.post(page_of(change), sent(change, reason=" "))
    assert response.status_code == 400
    assert "Give the reason for this change." in response.text
    assert BudgetChange.objects.filter(parent=lab).count() == 2


def test_only_leads_take_back_by_post_with_their_own_form(lab):
    change = moved(lab, vision=25)
    member = Client()
    member.force_login(user_make(role="member", project=lab))
    assert "take-back" not in member.get(page_of(change)).text
    assert member.post(page_of(change), sent(change)).status_code == 403
    stranger = Client()
    stranger.force_login(user_make(role="lead", project=project_make("lab/vision")))
    assert stranger.get(page_of(change)).status_code == 404
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user_make(role="lead", project=lab))
    assert strict.post(page_of(change), sent(change)).status_code == 403
    assert BudgetChange.objects.filter(parent=lab).count() == 2


def test_the_history_of_a_project_has_only_what_moved_it(lead, lab):
    moved(lab, at=after(60), vision=20, nlp=40)
    moved(lab, at=after(120), vision=25, nlp=40)
    text = lead.get(reverse("dashboard:budgets_history", args=["lab/nlp"])).text
    assert "The budget of nlp has 2 changes; now it is 40\N{NO-BREAK SPACE}% of its parent" in text
    assert '<td data-label="From">30 %</td><td data-label="To">40 %</td>' in text
    assert "25 %" not in text


def test_who_does_not_see_the_level_sees_their_own_history_without_the_reasons(lab):
    moved(lab, nlp=40)
    client = Client()
    client.force_login(user_make(role="member", project=project_make("lab/nlp")))
    text = client.get(reverse("dashboard:budgets_history", args=["lab/nlp"])).text
    assert "no budget</td><td" in text.replace("\n", "") and "40 %" in text
    assert "for a test" not in text
    assert client.get(reverse("dashboard:budgets_history", args=["lab/vision"])).status_code == 404


def test_the_tree_as_of_a_moment_has_its_budgets_and_its_balances(lead, lab):
    nlp = project_make("lab/nlp")
    moved(lab, at=after(7200), vision=20, nlp=45)
    BalanceSample.objects.create(
        cluster=cluster(), project=nlp, at=after(3600), quota_gpu_seconds=100, usage_gpu_seconds=250
    )
    Balance.objects.create(
        cluster=cluster(), project=nlp, at=after(9000), quota_gpu_seconds=100, usage_gpu_seconds=33, share_ppb=1
    )
    then = lead.get(reverse("dashboard:budgets"), {"at": after(7199).isoformat()}).text
    assert "250 %" in then and "over-served" in then and '(%)">30</td>' in then
    now = lead.get(reverse("dashboard:budgets")).text
    assert "33 %" in now and "under-served" in now and '(%)">45</td>' in now


def test_before_the_first_pass_a_balance_is_unknown_and_not_a_missing_budget(lead, lab):
    project_make("lab/new", name="new")
    text = lead.get(reverse("dashboard:budgets")).text
    assert text.count('title="No pass has looked at this budget yet"') == 4
    assert text.count('<span class="quiet">no budget</span>') == 2  # the share and the balance of new


def test_two_moments_the_other_way_round_are_compared_in_order(lead, lab):
    moved(lab, at=after(60), vision=20, nlp=60)
    asked = {"at": after(59).isoformat(), "compare": after(61).isoformat()}
    text = lead.get(reverse("dashboard:budgets"), asked).text
    assert "2 budgets differ between the two moments" in text and "<b>+9.6</b>" in text
    assert "the other way round" in text


def test_a_moment_ahead_is_compared_with_now(lead, lab):
    planned(lab, nlp=70)
    ahead = (timezone.now() + timedelta(days=30)).isoformat()
    text = lead.get(reverse("dashboard:budgets"), {"compare": ahead}).text
    assert "<b>+25.6</b>" in text and "the other way round" in text


def test_the_use_of_a_quota_names_its_window(lead, lab):
    PolicyChange.objects.create(
        cluster=cluster(), version=1, overrides={"lookback_seconds": 259_200}, created_at=START, reason="shorter"
    )
    assert "Used in 3 d (GPU-hours · of quota)" in lead.get(reverse("dashboard:budgets")).text


def test_a_child_whose_share_moved_through_its_parent_is_said_to_have_moved(lead, lab):
    moved(lab, at=after(60), vision=20, nlp=60)
    asked = {"at": after(61).isoformat(), "compare": after(59).isoformat()}
    text = lead.get(reverse("dashboard:budgets"), asked).text
    assert "2 budgets differ between the two moments" in text
    assert "<b>+9.6</b>" in text


def export_of(client, **asked):
    response = client.get(reverse("dashboard:budgets_export"), asked)
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    return b"".join(response.streaming_content).decode()


def test_the_csv_has_every_level_with_names_as_text(lead, lab):
    rows = list(csv.DictReader(StringIO(export_of(lead).removeprefix("\ufeff"))))
    assert [row["project"] for row in rows] == ["lab", "lab/nlp", "lab/nlp/chat", "lab/vision"]
    assert rows[2]["name"] == SCRIPT
    assert rows[3]["name"] == "'=SUM(A1)"
    assert [row["own_gpus"] for row in rows] == ["32.0", "9.6", "9.6", "12.8"]


def test_the_pages_show_names_as_text(lead, lab):
    moved_chat = budget_make(cluster=cluster(), parent=project_make("lab/nlp"), percent={"chat": 60})
    for address in (
        reverse("dashboard:budgets"),
        reverse("dashboard:budgets_level", args=["lab/nlp"]),
        reverse("dashboard:budgets_history", args=["lab/nlp/chat"]),
        page_of(moved_chat),
    ):
        assert SCRIPT not in lead.get(address).text


def file_of(text):
    return SimpleUploadedFile("budgets.csv", text.encode(), content_type="text/csv")


def upload(client, text, **fields):
    return client.post(reverse("dashboard:budgets_import"), {"file": file_of(text), "reason": "", "text": "", **fields})


def test_a_file_is_checked_then_imported_from_the_text_that_stands_there(lead, lab):
    text = export_of(lead).replace(",30,", ",45,").replace(",50,", ",100,")
    checked = upload(lead, text, check="1")
    assert checked.status_code == 200
    for words in ("The file changes 2 levels; nothing was changed yet", "30 % → 45 %", "50 % → 100 %"):
        assert words in checked.text
    assert percents()["nlp"] == 30
    kept = checked.context["form"].data["text"]
    fields = {"text": kept, "reason": "the new quarter", "import": "1"}
    done = lead.post(reverse("dashboard:budgets_import"), fields, follow=True)
    assert "Imported: 2 levels have new budgets." in done.text
    assert percents() == {"vision": 20, "nlp": 45, "chat": 100}


def test_wrong_lines_are_listed_and_nothing_typed_is_lost(lead, lab):
    text = export_of(lead).replace(",30,", ",NaN,").replace(",20,", ",-1,")
    response = upload(lead, text, reason="kept", **{"import": "1"})
    assert response.status_code == 400
    for words in ("2 things to put right in the file", "no percent", "is below 0", "kept", "lab/nlp/chat,"):
        assert words in response.text
    assert BudgetChange.objects.count() == 2


def test_an_import_without_a_reason_is_asked_for_one_and_keeps_the_text(lead, lab):
    response = upload(lead, export_of(lead).replace(",30,", ",40,"), **{"import": "1"})
    assert response.status_code == 400
    assert "Give the reason for this change." in response.text
    assert "lab/nlp,nlp,1,40," in response.text
    assert percents()["nlp"] == 30


def test_a_file_of_older_versions_is_a_conflict(lead, lab):
    text = export_of(lead).replace(",30,", ",40,")
    moved(lab, nlp=31)
    response = upload(lead, text, reason="x", **{"import": "1"})
    assert response.status_code == 409
    assert "at version 2 by now, not 1" in response.text
    assert percents()["nlp"] == 31


@pytest.mark.parametrize("raw", [b"", b"\xff\xfea\x00", b"a\x00b", b"a,\xff", b"x" * 2_000_001])
def test_a_file_that_is_no_text_is_refused_beside_its_field(lead, raw):
    response = lead.post(
        reverse("dashboard:budgets_import"), {"file": SimpleUploadedFile("budgets.csv", raw), "reason": "x"}
    )
    assert response.status_code == 400
    assert "put right" in response.text


def test_who_leads_nothing_does_not_import(lab):
    client = Client()
    client.force_login(user_make(role="member", project=lab))
    assert client.get(reverse("dashboard:budgets_import")).status_code == 403
    assert "Import</a>" not in client.get(reverse("dashboard:budgets")).text


def test_percent_of_the_cluster_is_read_too(lead, lab):
    nlp = project_make("lab/nlp")
    [chat] = nlp.children.all()
    data = {
        "base_version": 1, "reason": "chat", "effective_at": "", "save": "1",
        f"percent_{chat.pk}": "50", f"cluster_{chat.pk}": "10", f"gpus_{chat.pk}": "9.6",
        f"hours_{chat.pk}": "1612.8", f"burst_{chat.pk}": "8", f"unit_{chat.pk}": "",
        f"shown_{chat.pk}": "50|15|9.6|1612.8|500000",
    }  # fmt: skip
    text = lead.post(reverse("dashboard:budgets_level", args=["lab/nlp"]), data, follow=True).text
    assert percents()["chat"] == 33.3333
    assert "burst cap from none to 8 GPUs" in text


def test_what_is_kept_is_said_where_more_was_typed(lead, lab):
    nlp = project_make("lab/nlp")
    [chat] = nlp.children.all()
    data = {
        "base_version": 1, "reason": "chat", "preview": "1", f"percent_{chat.pk}": "33.33339", f"burst_{chat.pk}": "",
        f"shown_{chat.pk}": "50|15|9.6|1612.8|500000",
    }  # fmt: skip
    assert (
        "Keeps 33.3333 %, 6.39 GPUs, 1075.1 GPU-hours per week"
        in lead.post(reverse("dashboard:budgets_level", args=["lab/nlp"]), data).text
    )


def big_tree(lab):
    """300 projects: 20 teams of 14 below lab, every level budgeted, each with a balance."""
    for team in range(20):
        parent = project_make(f"lab/team-{team:02d}")
        for child in range(14):
            project_make(f"{parent.path}/group-{child:02d}")
        budget_make(cluster=cluster(), parent=parent, percent={f"group-{child:02d}": 7 for child in range(14)})
    moved(lab, at=after(60), **{f"team-{team:02d}": 4 for team in range(20)})
    Balance.objects.bulk_create(
        Balance(cluster=cluster(), project=project, at=START, quota_gpu_seconds=1000, usage_gpu_seconds=9, share_ppb=1)
        for project in Project.objects.all()
    )


@pytest.mark.parametrize("name", ["budgets", "compare", "level", "history", "import"])
def test_a_page_of_three_hundred_projects_is_shown(lead, lab, name):
    big_tree(lab)
    asked = {"compare": after(59).isoformat(), "at": after(61).isoformat()} if name == "compare" else {}
    address = {
        "level": reverse("dashboard:budgets_level", args=["lab"]),
        "history": reverse("dashboard:budgets_history", args=["lab/team-07"]),
        "import": reverse("dashboard:budgets_import"),
    }.get(name, reverse("dashboard:budgets"))
    assert lead.get(address, asked).status_code == 200


def test_a_level_of_three_hundred_children_that_all_moved_fifty_times_lists_few_moves(lead, lab):
    for number in range(300):
        project_make(f"lab/p-{number:03d}")
    for step in range(50):
        moved(lab, at=after(60 + step), **{f"p-{number:03d}": 0.1 + step / 1000 for number in range(300)})
    address = reverse("dashboard:budgets_level", args=["lab"])
    text = lead.get(address).text
    assert text.count("data-row") == 302 and "and 292 more" in text


PINNED = {"change": 18, "history": 15, "import": 4}


@pytest.mark.parametrize("name", PINNED)
def test_a_page_asks_the_database_as_often_as_pinned(lead, lab, name):
    for step in range(10):
        moved(lab, at=after(60 + step), vision=20, nlp=30 + step)
    address = {
        "change": page_of(BudgetChange.objects.filter(parent=lab).latest("version")),
        "history": reverse("dashboard:budgets_history", args=["lab/nlp"]),
        "import": reverse("dashboard:budgets_import"),
    }[name]
    lead.get(address)
    with CaptureQueriesContext(connection) as captured:
        assert lead.get(address).status_code == 200
    assert len(captured) == PINNED[name]
