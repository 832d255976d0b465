"""People and the project tree in Chromium: an invitation, two who edit at once, by keyboard, on a phone."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from portal.projects.models import Membership, Project
from portal.projects.services import project_change
from portal.projects.services_invitations import invitation_create
from tests.dashboard.scene import Scene, scene_make
from tests.e2e.axe import axe_violations
from tests.factories import after, project_make, user_make

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]

LONG = "W" * 200
PATHS = (
    *("/people/", "/people/?archived=1", "/people/lab/", "/people/lab/nlp/", "/tree/new/lab/nlp/"),
    *("/tree/rename/lab/nlp/", "/tree/move/lab/nlp/", "/tree/archive/lab/nlp/", "/tree/unarchive/lab/old/"),
    *("/audit/?kind=project", "/people/lab/long/"),
)


def people_scene() -> tuple[Scene, str]:
    """The lab with an archived project, one whose name is as long as a name may be, and an open invitation."""
    scene = scene_make()
    project_make("lab/old", archived_at=after(0))
    project_make("lab/long", name=LONG)
    _, secret = invitation_create(project=scene.nlp, role="member", label=LONG, actor=scene.lead, now=_now())
    project_change(project=scene.vision, name="=1+1 🤖 项目", actor=scene.lead, now=after(60))
    return scene, f"/invitation/{secret}/"


def _now():
    from django.utils import timezone

    return timezone.now()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_violates_accessibility_or_the_content_policy(page, sign_in, console_errors, scheme):
    scene, link = people_scene()
    sign_in(scene.admin)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    found = {}
    for path in (*PATHS, link):
        page.goto(path)
        if violations := axe_violations(page):
            found[path] = violations
    assert found == {}
    assert console_errors == []


def test_an_open_question_violates_nothing(page, sign_in):
    scene, _ = people_scene()
    sign_in(scene.admin)
    page.goto("/people/lab/nlp/")
    page.get_by_role("button", name="Change the role of ada").click()
    page.get_by_role("heading", name="ada in lab/nlp").wait_for()
    assert axe_violations(page) == []


def test_no_page_scrolls_sideways_on_a_phone(page, sign_in):
    scene, link = people_scene()
    sign_in(scene.admin)
    page.set_viewport_size({"width": 390, "height": 844})
    wide = {}
    for path in (*PATHS, link):
        page.goto(path)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            wide[path] = width
    assert wide == {}


def test_somebody_is_invited_makes_an_account_and_gets_in(page: Page, sign_in, chromium: Browser, live_server):
    scene = scene_make()
    sign_in(scene.lead)
    page.goto("/people/lab/nlp/")
    page.get_by_label("For whom").fill("Zoe from Turin")
    page.get_by_role("button", name="Make the link").click()
    link = page.locator("#link").inner_text()
    guest = chromium.new_context(base_url=live_server.url).new_page()
    guest.goto(link)
    guest.get_by_label("User name").fill("zoe")
    guest.get_by_label("Password", exact=True).fill("correct-horse-7")
    guest.get_by_label("Password again").fill("correct-horse-7")
    guest.get_by_role("button", name="Make the account").click()
    guest.get_by_text("The account zoe is made").wait_for()
    guest.get_by_label("User name").fill("zoe")
    guest.get_by_label("Password").fill("correct-horse-7")
    guest.get_by_role("button", name="Sign in").click()
    guest.get_by_role("navigation", name="Main").wait_for()
    guest.goto("/people/lab/nlp/")
    expect(guest.get_by_role("heading", level=1)).to_contain_text("2 people have roles right here")
    guest.goto(link)
    expect(guest.locator("main")).to_contain_text("works once")
    guest.context.close()
    assert Membership.objects.get(user__username="zoe").role == "member"


def test_the_effect_is_told_while_one_types_and_saved_by_keyboard_alone(page: Page, sign_in):
    scene = scene_make()
    sign_in(scene.lead)
    page.goto("/tree/rename/lab/vision/")
    page.get_by_label("Slug").focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("sight")
    expect(page.locator("#effect")).to_contain_text("from lab/vision to lab/sight")
    assert Project.objects.filter(path="lab/vision").exists()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == "Save":
            break
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/people/lab/sight/"))
    assert Project.objects.filter(path="lab/sight").exists()


def test_of_two_who_edit_at_once_the_second_sees_the_firsts_change_and_decides(page: Page, sign_in):
    scene = scene_make()
    sign_in(scene.lead)
    page.goto("/tree/rename/lab/vision/")
    other = user_make(username="mo", project=project_make("lab"), role="lead")
    project_change(project=scene.vision, name="Sight", actor=other, now=_now())
    page.locator("#id_name").fill("Images")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="Somebody changed it").wait_for()
    expect(page.locator("main")).to_contain_text("mo")
    expect(page.locator("main")).to_contain_text("name from vision to Sight")
    assert page.locator("#id_name").input_value() == "Images"
    assert Project.objects.get(path="lab/vision").name == "Sight"
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(re.compile("/people/lab/vision/"))
    assert Project.objects.get(path="lab/vision").name == "Images"


def test_a_role_is_changed_in_a_question(page: Page, sign_in):
    scene = scene_make()
    sign_in(scene.lead)
    page.goto("/people/lab/nlp/")
    page.get_by_role("button", name="Change the role of ada").click()
    page.get_by_role("dialog").get_by_label("Role").select_option("lead")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.get_by_text("ada is lead of lab/nlp").wait_for()
    assert Membership.objects.get(user=scene.member).role == "lead"
