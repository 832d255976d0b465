"""Every page in Chromium: no complaint on the console or by axe, in light and dark; no sideways scrolling."""

import re

import pytest

from tests.dashboard.scene import scene_make
from tests.e2e.axe import axe_violations

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]

ACCOUNT = re.compile("account and theme")
PATHS = (
    *("/", "/queue/", "/submit/", "/workloads/", "/hosts/", "/hosts/gpu-01/", "/account/", "/audit/"),
    *("/search/?q=train", "/nowhere/", "/accounts/password/change/"),
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_violates_accessibility_or_the_content_policy(page, sign_in, console_errors, scheme):
    scene = scene_make()
    sign_in(scene.admin)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    found = {}
    for path in (*PATHS, f"/workloads/{scene.running.pk}/", f"/workloads/{scene.waiting.pk}/"):
        page.goto(path)
        assert page.locator("html").get_attribute("data-bs-theme") == scheme
        if violations := axe_violations(page):
            found[path] = violations
    assert found == {}
    assert [error for error in console_errors if "/nowhere/" not in error] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sign_in_page_violates_nothing(page, db, console_errors, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto("/accounts/login/")
    assert axe_violations(page) == []
    assert console_errors == []


def test_open_menus_and_questions_violate_nothing(page, sign_in):
    scene = scene_make()
    sign_in(scene.admin)
    page.goto(f"/workloads/{scene.running.pk}/")
    page.get_by_role("button", name=ACCOUNT).click()
    assert axe_violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("heading", name="Cancel train").wait_for()
    assert axe_violations(page) == []


def test_no_page_scrolls_sideways_on_a_phone(page, sign_in):
    scene = scene_make()
    sign_in(scene.admin)
    page.set_viewport_size({"width": 390, "height": 844})
    wide = {}
    for path in (*PATHS, f"/workloads/{scene.running.pk}/"):
        page.goto(path)
        if over := page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"):
            wide[path] = over
    assert wide == {}


def test_the_navigation_opens_on_a_phone(page, sign_in):
    sign_in(scene_make().member)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/")
    page.get_by_role("button", name="Open the list of pages").click()
    page.get_by_role("link", name="Hosts", exact=True).click()
    page.wait_for_url("**/hosts/")


def test_the_chosen_theme_stays_and_the_system_can_have_it_back(page, sign_in):
    sign_in(scene_make().member)
    page.emulate_media(color_scheme="light")
    page.goto("/queue/")
    page.get_by_role("button", name=ACCOUNT).click()
    page.get_by_role("button", name="Dark").click()
    page.goto("/hosts/")
    assert page.locator("html").get_attribute("data-bs-theme") == "dark"
    page.get_by_role("button", name=ACCOUNT).click()
    page.get_by_role("button", name="As the system").click()
    assert page.locator("html").get_attribute("data-bs-theme") == "light"
