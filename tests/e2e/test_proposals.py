"""Requests and proposals in Chromium: the keyboard alone, axe, light and dark, a phone; two managers at once."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.common.units import whole_second
from portal.proposals.models import GrantRequest, Proposal
from portal.proposals.services.decisions import proposal_reject
from portal.simulations.models import Comparison, Run
from tests.e2e.axe import axe_violations
from tests.factories import budget_make
from tests.proposals.scene import NOW, proposal_make, request_make, scene_make

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]


def simulated(proposal):
    """A finished simulation of the proposal."""
    now = whole_second(timezone.now())
    runs = []
    for vision in (0.7, 0.95):
        figures = {
            f"lab/{slug}": {
                "delivery": ratio,
                "waits": {"all": {"p50_s": 30, "p90_s": int(9000 * (1 - ratio))}},
                "preemptions": 2,
                "lost_gpu_hours": 0.5,
            }
            for slug, ratio in (("vision", vision), ("nlp", 0.9))
        }
        runs.append(
            Run.objects.create(
                cluster=proposal.cluster,
                title="t",
                source="history",
                scenario={},
                state="done",
                created_at=now,
                ended_at=now,
                history_from=now - timedelta(days=14),
                history_to=now,
                report={"delivery_mean": 0.8, "delivery_min": 0.7, "preemptions": 4, "by_project": figures},
            )
        )
    comparison = Comparison.objects.create(
        cluster=proposal.cluster, title="t", created_at=now, shares={}, today=runs[0], draft=runs[1]
    )
    Proposal.objects.filter(pk=proposal.pk).update(comparison=comparison)


def paths_of(scene):
    """Every page with something on it."""
    request = request_make(scene)
    waiting = request_make(scene, title="Another")
    proposal = proposal_make(scene, requests=[request.pk])
    rival = proposal_make(scene, title="Another")
    simulated(proposal)
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": 40}, at=NOW)
    return (
        *("/proposals/", "/proposals/requests/", "/proposals/requests/new/", "/proposals/new/"),
        f"/proposals/new/?parent=lab&request={waiting.pk}",
        f"/proposals/requests/{request.pk}/",
        f"/proposals/{proposal.pk}/",
        f"/proposals/{rival.pk}/rebase/",
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_violates_accessibility_or_the_content_policy(page, sign_in, console_errors, scheme):
    scene = scene_make()
    paths = paths_of(scene)
    sign_in(scene.mona)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    found = {}
    for path in paths:
        page.goto(path)
        page.wait_for_load_state("networkidle")
        if violations := axe_violations(page):
            found[path] = violations
    assert found == {}
    assert console_errors == []


def test_no_page_scrolls_sideways_on_a_phone(page, sign_in):
    scene = scene_make()
    paths = paths_of(scene)
    sign_in(scene.mona)
    page.set_viewport_size({"width": 390, "height": 844})
    wide = {}
    for path in paths:
        page.goto(path)
        if over := page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"):
            wide[path] = over
    assert wide == {}


def press_to(page, name):
    """Tab on until the thing of that name has the focus."""
    for _ in range(80):
        page.keyboard.press("Tab")
        text = page.evaluate("(document.activeElement.innerText || document.activeElement.id || '').trim()")
        if text == name:
            return
    raise AssertionError(f"{name} is not reached by Tab")


def test_a_proposal_is_approved_by_the_keyboard_alone(page, sign_in):
    scene = scene_make()
    proposal = proposal_make(scene)
    sign_in(scene.max)
    page.goto(f"/proposals/{proposal.pk}/")
    press_to(page, "Approve")
    page.keyboard.press("Enter")
    press_to(page, "approve_reason")
    page.keyboard.type("Agreed on Monday.")
    press_to(page, "Approve")
    page.keyboard.press("Enter")
    page.get_by_text("Approved. The budgets of lab are at version 2.").wait_for()
    assert Proposal.objects.get().state == "approved"


def test_the_level_of_a_draft_adds_up_as_it_is_typed(page, sign_in):
    scene = scene_make()
    request = request_make(scene)
    sign_in(scene.mona)
    page.goto(f"/proposals/new/?parent=lab&request={request.pk}")
    page.get_by_text("vision goes from 20 % to 31.25 %: 7.2 GPUs more").wait_for()
    page.get_by_label("nlp: GPUs", exact=True).fill("32")
    page.get_by_text("Given out: 81.25 %. Left: 18.75 %").wait_for()
    page.get_by_label("The case for it").fill("It pays.")
    page.get_by_role("button", name="Keep the draft").click()
    page.get_by_text("The draft is kept.").wait_for()
    assert dict(Proposal.objects.get().lines.values_list("project__slug", "share_ppm")) == {
        "nlp": 500_000,
        "vision": 312_500,
    }
    assert GrantRequest.objects.get().state == "taken_up"


def test_of_two_managers_the_second_reads_what_the_first_did_and_keeps_the_words(page, sign_in):
    scene = scene_make()
    proposal = proposal_make(scene)
    sign_in(scene.max)
    page.goto(f"/proposals/{proposal.pk}/")
    page.get_by_role("button", name="Approve").click()
    page.locator("#approve_reason").fill("Agreed on Monday.")
    proposal_reject(proposal=proposal, actor=scene.mona, reason="Too much.", now=NOW)
    page.locator("#ask-approve button[type=submit]").click()
    page.get_by_text("This proposal is rejected; only what is open can be approved.").wait_for()
    assert page.get_by_text("Too much.").is_visible()
    assert Client().get(f"/proposals/{proposal.pk}/").status_code == 302
