"""A lead edits a level of budgets with the keyboard alone, and sees before saving what it will do."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import level_at
from tests.factories import budget_make, cluster_make, host_make, project_make, user_make

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]

TABS_MAX = 60


@pytest.fixture
def level(sign_in):
    """64 GPUs; lab gives vision 20 % and nlp 30 %; its lead is signed in."""
    cluster = cluster_make("local")
    for _ in range(8):
        host_make(cluster=cluster)
    lab = project_make("lab", name="Lab")
    vision, nlp = project_make("lab/vision", name="Vision"), project_make("lab/nlp", name="NLP")
    budget_make(cluster=cluster, parent=lab, percent={"vision": 20, "nlp": 30})
    sign_in(user_make(username="lena", role="lead", project=lab))
    return cluster, lab, vision, nlp


def tab_to(page, name):
    """Press Tab until the control with that name has the focus."""
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "(document.activeElement.ariaLabel || document.activeElement.labels?.[0]?.textContent"
            " || document.activeElement.textContent).trim()"
        )
        if focused.startswith(name):
            return
    raise AssertionError(f"no Tab led to {name!r}")


def typed(page, text):
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def share_of(level, project):
    cluster, lab, *_ = level
    return level_at(cluster=cluster, parent=lab, at=timezone.now()).lines[project.pk].share_ppm


def test_a_level_is_edited_by_keyboard_with_live_units_total_and_effect(page, level, console_errors):
    *_, nlp = level
    page.goto("/budgets/")
    tab_to(page, "Edit the budgets below Lab")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/budgets/lab/"))
    tab_to(page, "NLP: GPUs")
    typed(page, "16")
    expect(page.get_by_label("NLP: percent of the parent")).to_have_value("25")
    expect(page.get_by_label("NLP: GPU-hours per week")).to_have_value("2688")
    expect(page.locator("[data-total-words]")).to_have_text("Given out: 45 %. Left: 55 % (35 GPUs).")
    expect(page.locator("[data-effects]")).to_have_text("NLP goes from 30 % to 25 %: 3.2 GPUs fewer")
    tab_to(page, "Reason")
    page.keyboard.type("vision ships first")
    tab_to(page, "Save budgets")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Saved. NLP goes from 30 % to 25 %")).to_be_visible()
    assert share_of(level, nlp) == 250_000
    assert console_errors == []


def test_more_than_a_hundred_percent_is_named_and_not_sent(page, level):
    page.goto("/budgets/lab/")
    page.get_by_label("NLP: percent of the parent").fill("60")
    page.get_by_label("Vision: percent of the parent").fill("60")
    total = page.locator("[data-total-words]")
    expect(total).to_contain_text("120 %, 20 % more than there is: NLP 60 % + Vision 60 %")
    page.get_by_label("Reason").fill("too much")
    page.get_by_role("button", name="Save budgets").click()
    expect(page.get_by_label("NLP: percent of the parent")).to_be_focused()
    assert BudgetChange.objects.count() == 1


def test_what_is_no_number_is_marked_while_typing(page, level):
    page.goto("/budgets/lab/")
    field = page.get_by_label("NLP: percent of the parent")
    for text in ("NaN", "-1", "1e309", "100.0000001"):
        field.fill(text)
        expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("33.333333333333333333")
    expect(field).to_have_attribute("aria-invalid", "false")
    expect(page.get_by_label("NLP: GPUs")).to_have_value("21.33")


def test_the_page_and_the_server_say_the_same_effect(page, level):
    page.goto("/budgets/lab/")
    page.get_by_label("NLP: GPU-hours per week").fill("1000")
    live = page.locator("[data-effects]").inner_text()
    page.get_by_label("Reason").fill("a look")
    page.get_by_role("button", name="Check the effect").click()
    page.wait_for_load_state()
    assert page.locator("[data-effects]").inner_text() == live
    assert BudgetChange.objects.count() == 1


def test_the_second_editor_sees_the_others_change_and_keeps_what_they_typed(page, level):
    cluster, lab, vision, nlp = level
    page.goto("/budgets/lab/")
    page.get_by_label("NLP: percent of the parent").fill("44")
    page.get_by_label("Reason").fill("nlp trains")
    budget_make(cluster=cluster, parent=lab, percent={"vision": 25, "nlp": 30}, at=timezone.now())
    page.get_by_role("button", name="Save budgets").click()
    expect(page.get_by_text("Somebody changed this level while you were editing")).to_be_visible()
    expect(page.get_by_label("NLP: percent of the parent")).to_have_value("44")
    expect(page.get_by_label("Vision: percent of the parent")).to_have_value("25")
    expect(page.get_by_label("Reason")).to_have_value("nlp trains")
    page.get_by_role("button", name="Save budgets").click()
    expect(page.get_by_text("Saved. NLP goes from 30 % to 44 %")).to_be_visible()
    assert (share_of(level, nlp), share_of(level, vision)) == (440_000, 250_000)


def test_a_decimal_comma_is_said_beside_its_row_and_not_saved(page, level, console_errors):
    page.goto("/budgets/lab/")
    field = page.get_by_label("NLP: percent of the parent")
    field.press("Control+A")
    field.press_sequentially("33,5")
    row = page.locator("tr[data-row]", has=field)
    sentence = "'33,5' is not a number of %; write digits with a point, such as 12.5."
    expect(row).to_contain_text(sentence)
    words = page.locator("[data-total-words]")
    expect(words).to_have_text(
        "Given out: 53 %. Left: 47 % (30 GPUs). NLP is counted with 33 %: what is typed there can’t be read."
    )
    page.get_by_label("Reason").fill("a comma")
    page.get_by_role("button", name="Save budgets").click()
    expect(field).to_be_focused()
    assert BudgetChange.objects.count() == 1
    page.get_by_role("button", name="Check the effect").click()
    page.wait_for_load_state()
    expect(page.locator("tr[data-row] .error")).to_have_text([sentence])
    field.fill("33.5")
    expect(page.locator("tr[data-row] .error")).to_have_count(0)
    expect(words).to_have_text("Given out: 53.5 %. Left: 46.5 % (30 GPUs).")


def test_what_a_planned_change_sets_back_is_said_while_typing(page, level, console_errors):
    cluster, lab, *_ = level
    at = timezone.now().replace(second=0, microsecond=0) + timedelta(days=5)
    budget_make(cluster=cluster, parent=lab, percent={"vision": 25, "nlp": 30}, at=at)
    page.goto("/budgets/lab/")
    page.get_by_label("NLP: percent of the parent").fill("37.5")
    effects = page.locator("[data-effects]")
    expect(effects).to_contain_text("by the system sets NLP from 37.5 % to 30 %.")
    page.get_by_label("Takes effect").fill(f"{at + timedelta(days=1):%Y-%m-%dT%H:%M}")
    expect(effects).not_to_contain_text("by the system")
