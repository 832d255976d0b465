"""People at work in Chromium: submit, watch, cancel, cordon, by mouse and by keyboard alone."""

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import expect

from portal.clusters.models import Host
from portal.workloads.models import LogChunk, Workload
from tests.dashboard.scene import scene_make
from tests.factories import after, workload_make

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def scene():
    return scene_make()


def test_a_workload_is_submitted_after_its_error_is_put_right(page, sign_in, scene, console_errors):
    sign_in(scene.member)
    page.goto("/submit/")
    page.get_by_label("Command", exact=True).and_(page.locator("input[type=text]")).fill("python train.py")
    page.get_by_label("GPUs per replica").fill("9")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("alert")).to_contain_text("One thing to put right")
    expect(page.locator("#id_gpus_per_replica_error")).to_contain_text("the largest has 8")
    expect(page.locator("#id_command")).to_have_value("python train.py")
    page.get_by_label("GPUs per replica").fill("8")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("python")
    assert Workload.objects.filter(gpus_per_replica=8, command=["python", "train.py"]).count() == 1
    assert [error for error in console_errors if "400" not in error] == []


def test_the_effect_follows_what_is_typed(page, sign_in, scene):
    sign_in(scene.member)
    page.goto("/submit/")
    page.get_by_label("GPUs per replica").fill("4")
    page.get_by_label("Minimum runtime").fill("2h")
    expect(page.locator("#effect")).to_contain_text("4 × 2 h")
    page.get_by_label("Minimum runtime").fill("0")
    expect(page.locator("#effect")).to_contain_text("preemptible at any moment")


def test_command_and_script_take_turns_and_keep_what_was_typed(page, sign_in, scene):
    sign_in(scene.member)
    page.goto("/submit/")
    page.locator("#id_command").fill("python train.py")
    page.get_by_text("Script", exact=True).first.click()
    expect(page.locator("#id_script")).to_be_visible()
    expect(page.locator("#id_command")).to_be_hidden()
    page.get_by_text("Command", exact=True).first.click()
    expect(page.locator("#id_command")).to_have_value("python train.py")


def test_the_queue_shows_what_is_submitted_without_a_reload(page, sign_in, scene):
    sign_in(scene.member)
    page.goto("/queue/")
    expect(page.get_by_role("heading", level=1)).to_have_text("1 workload waits for 1 GPU")
    workload_make(project=scene.nlp, cluster=scene.cluster, author=scene.member, name="newcomer")
    expect(page.get_by_role("link", name="newcomer")).to_be_visible(timeout=15_000)
    page.get_by_role("link", name="newcomer").click()
    page.wait_for_url("**/workloads/*/")


def test_a_filter_of_the_queue_stands_in_the_address(page, sign_in, scene):
    sign_in(scene.member)
    page.goto("/queue/")
    page.get_by_label("Reason").select_option("unfunded")
    page.wait_for_url("**/queue/?*reason=unfunded*")
    expect(page.get_by_text("No waiting workload fits these filters")).to_be_visible()


def test_the_log_grows_while_one_looks(page, sign_in, scene):
    sign_in(scene.member)
    page.goto(f"/workloads/{scene.running.pk}/")
    expect(page.locator("#log")).to_contain_text("<script>alert(2)</script>")
    chunk = LogChunk.objects.get()
    LogChunk.objects.create(
        attempt=chunk.attempt, replica=0, offset=len(chunk.data), data=b"step 2 loss 3.1\n", received_at=after(9)
    )
    expect(page.locator("#log")).to_contain_text("step 2 loss 3.1", timeout=15_000)


def log_grows(scene, text):
    chunk = LogChunk.objects.order_by("offset").last()
    LogChunk.objects.create(
        attempt=chunk.attempt,
        replica=0,
        offset=chunk.offset + len(chunk.data),
        data=text.encode(),
        received_at=after(9),
    )


def test_the_log_follows_its_end_unless_one_has_scrolled_back(page, sign_in, scene):
    sign_in(scene.member)
    log_grows(scene, "filler\n" * 100)
    page.goto(f"/workloads/{scene.running.pk}/")
    log_grows(scene, "the first news\n")
    expect(page.locator("#log")).to_contain_text("the first news", timeout=15_000)
    assert page.evaluate("log.scrollHeight - log.scrollTop - log.clientHeight") < 24
    page.evaluate("log.scrollTop = 50")
    log_grows(scene, "the second news\n")
    expect(page.locator("#log")).to_contain_text("the second news", timeout=15_000)
    assert page.evaluate("log.scrollTop") == 50


def test_a_running_workload_is_cancelled_after_a_question(page, sign_in, scene):
    sign_in(scene.member)
    page.goto(f"/workloads/{scene.running.pk}/")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the workload").click()
    expect(page.get_by_text("was told to stop at")).to_be_visible()
    assert Workload.objects.get(pk=scene.running.pk).cancelled_by == scene.member


def test_a_host_is_cordoned_with_a_reason(page, sign_in, scene):
    sign_in(scene.operator)
    page.goto("/hosts/")
    page.get_by_role("link", name="gpu-01").click()
    page.get_by_role("button", name="Cordon").first.click()
    page.get_by_label("Reason").fill("Fan 3 makes noise")
    page.get_by_role("dialog").get_by_role("button", name="Cordon").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("is cordoned")
    assert Host.objects.get(pk=scene.host.pk).cordon_reason == "Fan 3 makes noise"


def test_a_member_is_offered_no_cordon(page, sign_in, scene):
    sign_in(scene.member)
    page.goto("/hosts/gpu-01/")
    expect(page.get_by_role("button", name="Cordon")).to_have_count(0)


def test_a_workload_is_submitted_by_keyboard_alone(page, sign_in, scene):
    sign_in(scene.member)
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the page")
    press_until(page, "Tab", "Submit")
    page.keyboard.press("Enter")
    page.wait_for_url("**/submit/")
    press_until(page, "Tab", "", element_id="id_command")
    page.keyboard.type("echo by keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_text("is submitted.")).to_be_visible()
    assert Workload.objects.filter(command=["echo", "by", "keyboard"]).count() == 1


def press_until(page, key, text, element_id=""):
    """Press a key until the focus stands on the link with that text, or on the element with that id."""
    for _ in range(60):
        page.keyboard.press(key)
        focused = page.evaluate("[document.activeElement.id, document.activeElement.textContent.trim()]")
        if (element_id and focused[0] == element_id) or (not element_id and focused[1] == text):
            return
    raise AssertionError(f"{text or element_id} is not reached by keyboard")


def test_slash_leads_to_the_search(page, sign_in, scene):
    sign_in(scene.member)
    page.goto("/queue/")
    page.keyboard.press("/")
    page.keyboard.type("evaluate")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=evaluate")
    expect(page.get_by_role("link", name="evaluate")).to_be_visible()


def test_a_page_whose_session_has_ended_goes_to_the_sign_in_by_itself(page, sign_in, scene):
    sign_in(scene.member)
    page.goto("/queue/")
    Session.objects.all().delete()
    page.wait_for_url("**/accounts/login/**", timeout=15_000)


def test_a_refresh_that_fails_is_said_and_taken_back(page, sign_in, scene):
    sign_in(scene.member)
    page.goto("/queue/")
    page.route("**/queue/", lambda route: route.fulfill(status=503, body="away"))
    expect(page.get_by_text("The portal does not answer")).to_be_visible(timeout=15_000)
    page.unroute("**/queue/")
    expect(page.get_by_text("The portal does not answer")).to_be_hidden(timeout=15_000)
    expect(page.get_by_role("link", name="evaluate")).to_be_visible()


def test_a_token_is_made_and_shown_once(page, sign_in, scene):
    sign_in(scene.member)
    page.goto("/account/")
    page.get_by_label("Name", exact=True).fill("laptop")
    page.get_by_role("button", name="Make the token").click()
    expect(page.locator("#secret")).to_contain_text("gc_")
    page.goto("/account/")
    expect(page.locator("#secret")).to_have_count(0)
