"""Budgets in Chromium: two managers at once, the keyboard alone, a phone, dark, axe; undo, and a file in."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import level_at, version_of_level
from portal.budgets.services import budget_change_create
from portal.scheduling.models import Balance
from tests.e2e.axe import axe_violations
from tests.e2e.test_budgets_editor import tab_to, typed
from tests.factories import START, budget_make, cluster_make, host_make, project_make, user_make

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]

TROUBLE = "<script>alert(1)</script>"
PAGES = ("/budgets/", "/budgets/lab/", "/budgets/lab/nlp/", "/budgets/~history/lab/nlp/", "/budgets/~import/")
COMPARED = "/budgets/?compare=2026-11-02T12:00&at=2026-11-20T12:00"


@pytest.fixture
def lab():
    """72 GPUs; lab gives vision 20 % and nlp a third, nlp gives chat half; one change is past, one still ahead."""
    cluster = cluster_make("local")
    for _ in range(9):
        host_make(cluster=cluster)
    root = project_make("lab", name="Lab")
    vision, nlp = project_make("lab/vision", name="Vision"), project_make("lab/nlp", name="NLP")
    project_make("lab/nlp/chat", name=TROUBLE)
    budget_make(cluster=cluster, parent=root, percent={"vision": 25, "nlp": 30})
    budget_make(cluster=cluster, parent=root, percent={"vision": 20, "nlp": 33.3333}, at=START + timedelta(days=5))
    budget_make(cluster=cluster, parent=nlp, percent={"chat": 50}, burst_gpus={"chat": 8})
    for project, usage in ((nlp, 2500), (vision, 10)):
        Balance.objects.create(
            cluster=cluster, project=project, at=timezone.now(), quota_gpu_seconds=1000, usage_gpu_seconds=usage,
            share_ppb=1,
        )  # fmt: skip
    now = timezone.now()
    budget_change_create(
        cluster=cluster,
        parent=root,
        base_version=version_of_level(cluster=cluster, parent=root),
        lines=[(vision, 400_000, None), (nlp, 300_000, None)],
        reason="the new quarter",
        author=None,
        effective_at=now + timedelta(days=3),
        now=now,
    )
    return root


def share_of(lab, slug, days=0):
    at = timezone.now() + timedelta(days=days)
    lines = level_at(cluster=BudgetChange.objects.first().cluster, parent=lab, at=at).lines
    return lines[lab.children.get(slug=slug).pk].share_ppm


@pytest.fixture
def lead(lab, sign_in):
    user = user_make(username="lena", role="lead", project=lab)
    sign_in(user)
    return user


def other_page(chromium, live_server, user):
    """A second browser, signed in as another person."""
    client = Client()
    client.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")
    context = chromium.new_context(base_url=live_server.url)
    context.set_default_timeout(10_000)
    cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}
    context.add_cookies([cookie])
    return context.new_page()


def test_of_two_managers_at_once_the_second_sees_the_firsts_change_beside_their_own(
    page, lab, lead, chromium, live_server
):
    other = other_page(chromium, live_server, user_make(username="omar", role="lead", project=lab))
    for each in (page, other):
        each.goto("/budgets/lab/")
    other.get_by_label("Vision: percent of the parent").fill("25")
    other.get_by_label("Reason").fill("vision ships")
    page.get_by_label("NLP: GPUs").fill("36")
    page.get_by_label("NLP: burst cap in GPUs").fill("40")
    page.get_by_label("Reason").fill("nlp trains")
    other.get_by_role("button", name="Save budgets").click()
    expect(other.get_by_text("Saved. Vision goes from 20 % to 25 %")).to_be_visible()
    page.get_by_role("button", name="Save budgets").click()
    complaint = page.get_by_role("alert").filter(has_text="Somebody changed this level while you were editing")
    for words in ("omar", "Vision: 20 % → 25 %", "vision ships"):
        expect(complaint).to_contain_text(words)
    expect(page.get_by_label("NLP: GPUs")).to_have_value("36")
    expect(page.get_by_label("NLP: burst cap in GPUs")).to_have_value("40")
    expect(page.get_by_label("Vision: percent of the parent")).to_have_value("25")
    expect(page.get_by_label("Reason")).to_have_value("nlp trains")
    expect(page.locator("[data-effects]")).to_contain_text("NLP: burst cap from none to 40 GPUs")
    page.get_by_role("button", name="Save budgets").click()
    expect(page.get_by_text("Saved. NLP goes from 33.3333 % to 50 %")).to_be_visible()
    assert (share_of(lab, "nlp"), share_of(lab, "vision")) == (500_000, 250_000)
    other.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_violate_neither_accessibility_nor_the_content_policy(page, lab, lead, console_errors, scheme):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    change = BudgetChange.objects.filter(parent=lab, version=2).get()
    found = {}
    for path in (*PAGES, COMPARED, f"/budgets/~changes/{change.pk}/"):
        assert page.goto(path).status == 200
        assert page.locator("html").get_attribute("data-bs-theme") == scheme
        if violations := axe_violations(page):
            found[path] = violations
    assert found == {}
    assert console_errors == []


def test_the_pages_do_not_scroll_sideways_on_a_phone(page, lab, lead):
    page.set_viewport_size({"width": 390, "height": 844})
    wide = {}
    for path in (*PAGES, COMPARED, f"/budgets/~changes/{BudgetChange.objects.latest('pk').pk}/"):
        page.goto(path)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            wide[path] = width
    assert wide == {}


def test_a_level_is_edited_on_a_phone(page, lab, lead):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/budgets/lab/")
    page.get_by_label("Vision: GPU-hours per week").fill("1209.6")
    expect(page.get_by_label("Vision: percent of the parent")).to_have_value("10")
    expect(page.locator("[data-total-words]")).to_be_in_viewport()
    page.get_by_label("Reason").fill("from the corridor")
    page.get_by_role("button", name="Save budgets").click()
    expect(page.get_by_text("Saved. Vision goes from 20 % to 10 %: 7.2 GPUs fewer")).to_be_visible()
    assert share_of(lab, "vision") == 100_000


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("percent of the parent", "33.33339"), ("percent of the cluster", "10"), ("percent of the cluster", "0.00001"),
        ("GPUs", "10.1"), ("GPUs", "12"), ("GPU-hours per week", "999.9"), ("GPU-hours per week", "0.001"),
    ],
)  # fmt: skip
def test_what_the_page_shows_beforehand_is_what_is_kept(page, lab, lead, unit, text):
    """NLP holds 23.999976 GPUs: no unit of chat's divides evenly. Of 12 GPUs it keeps the 50 % that it has."""
    page.goto("/budgets/lab/nlp/")
    page.get_by_label(f"{TROUBLE}: {unit}", exact=True).fill(text)
    row = page.locator("[data-row]")
    fields = {name: row.locator(f'[data-unit="{name}"]').input_value() for name in ("percent", "gpus", "hours")}
    live, kept = page.locator("[data-effects]").inner_text(), row.locator("[data-kept]").inner_text()
    page.get_by_label("Reason").fill("exactly")
    page.get_by_role("button", name="Check the effect").click()
    page.wait_for_load_state()
    assert page.locator("[data-effects]").inner_text() == live
    assert row.locator("[data-kept]").inner_text() == kept
    page.get_by_role("button", name="Save budgets").click()
    expect(page.get_by_text("Nothing changes:" if text == "12" else "Saved.")).to_be_visible()
    if unit != "percent of the parent":
        assert row.locator('[data-unit="percent"]').input_value() == fields["percent"]
    kept_percent = row.locator('[data-unit="percent"]').input_value()
    assert kept == "" or kept.startswith(f"Keeps {kept_percent} %")


def test_a_change_is_undone_and_one_ahead_withdrawn_with_the_keyboard_alone(page, lab, lead, console_errors):
    page.goto("/budgets/lab/")
    tab_to(page, "Undo version 2")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/budgets/~changes/"))
    tab_to(page, "Reason")
    page.keyboard.type("too early")
    tab_to(page, "Undo version 2")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Version 2 is undone by version 4.")).to_be_visible()
    assert share_of(lab, "nlp") == 300_000
    tab_to(page, "Withdraw version 3")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/budgets/~changes/"))
    tab_to(page, "Reason")
    page.keyboard.type("not this quarter")
    tab_to(page, "Withdraw version 3")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Version 3 is withdrawn.")).to_be_visible()
    assert share_of(lab, "vision", days=9) == 250_000
    assert console_errors == []


def test_a_level_is_set_for_later_with_the_keyboard_alone(page, lab, lead):
    page.goto("/budgets/lab/")
    tab_to(page, "Vision: percent of the cluster")
    typed(page, "30")
    expect(page.get_by_label("Vision: percent of the parent")).to_have_value("30")
    tab_to(page, "Reason")
    page.keyboard.type("next week")
    moment = timezone.localtime() + timedelta(days=7)
    page.get_by_label("Takes effect").fill(moment.strftime("%Y-%m-%dT%H:%M"))
    tab_to(page, "Save budgets")
    page.keyboard.press("Enter")
    expect(page.get_by_text("not in force yet. Vision goes from 20 % to 30 %")).to_be_visible()
    expect(page.get_by_text("Planned by lena")).to_be_visible()
    assert (share_of(lab, "vision"), share_of(lab, "vision", days=8)) == (200_000, 300_000)


def test_an_exported_file_is_edited_checked_and_imported(page, lab, lead, tmp_path, console_errors):
    page.goto("/budgets/")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    text = download.value.path().read_text(encoding="utf-8-sig")
    assert TROUBLE in text
    edited = tmp_path / "budgets.csv"
    edited.write_text(text.replace(",20,", ",22,").replace(",50,8,", ",x,8,"), encoding="utf-8-sig")
    page.get_by_role("link", name="Import").click()
    page.get_by_label("File").set_input_files(edited)
    page.get_by_role("button", name="Check the file").click()
    expect(page.get_by_role("heading", name="1 thing to put right in the file")).to_be_visible()
    assert axe_violations(page) == []
    field = page.get_by_label("Or its text")
    field.fill(field.input_value().replace(",x,8,", ",60,8,"))
    page.get_by_label("Reason").fill("from the sheet")
    page.get_by_role("button", name="Check the file").click()
    expect(page.get_by_role("heading", name="The file changes 2 levels; nothing was changed yet")).to_be_visible()
    expect(page.get_by_text("Vision: 20 % → 22 %")).to_be_visible()
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_text("Imported: 2 levels have new budgets.")).to_be_visible()
    assert share_of(lab, "vision") == 220_000
    assert [error for error in console_errors if "400 (Bad Request)" not in error] == []  # the check's own answer
