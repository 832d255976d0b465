"""Simulations in Chromium: asked for by form, watched, cancelled, compared; no complaint by axe or the policy."""

import re
from uuid import uuid4

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from portal.simulations.life import run_finish, run_progress, run_start
from portal.simulations.models import Run, RunState
from tests.dashboard.scene import scene_make
from tests.e2e.axe import axe_violations
from tests.simulations.portal_runs import TINY_TRACE, report_make, run_make

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]


def begin(run):
    claim = uuid4()
    assert run_start(claim=claim, now=timezone.now()).pk == run.pk
    return claim


def finish(run, claim):
    run_finish(
        run_id=run.pk, claim=claim, report=report_make(), notes=["A note."], code_version="1+x", wall_seconds=1.0,
        now=timezone.now(),
    )  # fmt: skip


def done(**fields):
    run = run_make(**fields)
    finish(run, begin(run))
    return run


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_violates_accessibility_or_the_content_policy(page, sign_in, console_errors, scheme):
    scene = scene_make()
    runs = [done(title="Today"), done(title="Draft")]
    waiting = run_make()
    sign_in(scene.lead)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    found = {}
    paths = ["/simulations/", f"/simulations/{runs[0].pk}/", f"/simulations/{waiting.pk}/"]
    paths += [f"/simulations/new/?source={source}" for source in ("history", "trace", "generator")]
    paths += [f"/simulations/compare/?run={runs[0].pk}&run={runs[1].pk}"]
    for path in paths:
        page.goto(path)
        for plot in page.locator(".chart-plot").all():
            expect(plot).to_have_attribute("data-drawn", re.compile(r"\d+"))
        if violations := axe_violations(page):
            found[path] = violations
    assert found == {}
    assert console_errors == []


def test_no_page_scrolls_sideways_on_a_phone(page, sign_in):
    scene = scene_make()
    runs = [done(title="A title that is quite long for a phone in a corridor"), done(title="Draft")]
    sign_in(scene.lead)
    page.set_viewport_size({"width": 390, "height": 844})
    wide = {}
    paths = ["/simulations/", "/simulations/new/", f"/simulations/{runs[0].pk}/"]
    for path in [*paths, f"/simulations/compare/?run={runs[0].pk}&run={runs[1].pk}"]:
        page.goto(path)
        if over := page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"):
            wide[path] = over
    assert wide == {}


def test_a_trace_is_uploaded_and_its_progress_and_result_show_by_themselves(page, sign_in, console_errors):
    scene = scene_make()
    sign_in(scene.lead)
    page.goto("/simulations/new/")
    page.get_by_role("link", name="Uploaded trace").click()
    # This field is on the next page alone; a title filled in before it is there would stay behind.
    page.locator("#id_upload").set_input_files({"name": "tiny.csv", "mimeType": "text/csv", "buffer": TINY_TRACE})
    page.get_by_label("Title").fill("Theirs on our hosts")
    page.get_by_label("Budgets").fill("lab/nlp 60\nlab/vision 40")
    page.get_by_role("button", name="Run the simulation").click()
    page.wait_for_url(re.compile(r"/simulations/\d+/$"))
    expect(page.get_by_text("It starts as soon as a simulator is free")).to_be_visible()
    run = Run.objects.get()
    claim = begin(run)
    run_progress(run_id=run.pk, claim=claim, progress_ppm=370_000, seconds_left=42, now=timezone.now())
    expect(page.get_by_text("about 42 s left")).to_be_visible()
    expect(page.get_by_role("progressbar", name="How far the simulation is")).to_have_attribute("value", "370000")
    finish(run, claim)
    expect(page.get_by_role("heading", level=1)).to_contain_text("of what they were owed")
    expect(page.locator("#chart-delivery-plot")).to_have_attribute("data-drawn", re.compile(r"\d+"))
    assert console_errors == []


def test_one_that_runs_is_cancelled_after_a_question(page, sign_in):
    scene = scene_make()
    run = run_make(author=scene.lead, title="Too long")
    begin(run)
    sign_in(scene.lead)
    page.goto(f"/simulations/{run.pk}/")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("What it has found so far is not kept")).to_be_visible()
    page.get_by_role("button", name="Cancel the simulation").click()
    expect(page.get_by_text("ends within seconds").first).to_be_visible()
    run.refresh_from_db()
    assert (run.state, run.cancelled_by) == (RunState.RUNNING, scene.lead)


def test_two_are_ticked_in_the_list_and_compared_while_it_refreshes(page, sign_in):
    scene = scene_make()
    done(title="Today"), done(title="Draft")
    sign_in(scene.member)
    page.goto("/simulations/")
    page.get_by_label("Compare Today").check()
    later = run_make(title="Later")
    expect(page.get_by_role("link", name="Later")).to_be_visible(timeout=15_000)
    expect(page.get_by_label("Compare Today")).to_be_checked()
    page.get_by_label("Compare Draft").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Delivered of what was owed")
    assert later.state == RunState.QUEUED
