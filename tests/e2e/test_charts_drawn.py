"""Charts in a real browser: drawn under the content policy, both themes, exports; and axe on each page."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from portal.common.units import whole_second
from portal.dashboard.views_assets import plotly_gzipped
from tests.factories import (
    attempt_make,
    budget_make,
    cluster_make,
    host_make,
    project_make,
    segment_make,
    user_make,
    workload_make,
)

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]

PAGES = ("/projects/", "/projects/lab/nlp/", "/budgets/", "/budgets/lab/", "/queue-wait/", "/pyramid/")
CHARTED = ("/projects/lab/nlp/", "/queue-wait/", "/pyramid/")
DRAWN = '[...document.querySelectorAll(".chart-plot")].every(plot => plot.dataset.drawn)'
STANDINGS = ("protected", "funded", "unallocated")
AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
RUN_AXE = "axe.run().then(found => found.violations.map(each => `${each.id}: ${each.nodes[0].html.slice(0, 200)}`))"


@pytest.fixture
def lab(sign_in):
    """A day of ledger on two hosts, with restarts, three standings and a name that is no markup."""
    plotly_gzipped()  # once a process, and not in the seconds that a page has
    now = whole_second(timezone.now())
    start = now - timedelta(hours=20)
    cluster = cluster_make("local", created_at=start)
    hosts = [host_make(cluster=cluster, gpus=8, registered_at=start, simulated=True) for _ in range(2)]
    root = project_make("lab", name="Lab")
    nlp = project_make("lab/nlp", name="NLP <script>alert(1)</script>")
    budget_make(cluster=cluster, parent=root, percent={"nlp": 40}, at=start)
    author = user_make()
    for number in range(18):
        began = start + timedelta(hours=number)
        ended = began + timedelta(minutes=50)
        workload = workload_make(
            project=nlp,
            author=author,
            cluster=cluster,
            gpus_per_replica=4,
            min_runtime_seconds=600 if number % 2 else 7200,
            submitted_at=began - timedelta(seconds=number * 7),
            state="succeeded",
            ended_at=ended,
        )
        attempt = attempt_make(
            workload=workload,
            hosts=[hosts[number % 2]],
            state="ended",
            outcome="succeeded",
            claim=False,
            decided_at=began,
            running_at=began,
            ended_at=ended,
        )
        segment_make(
            attempt=attempt,
            host=hosts[number % 2],
            gpus=4,
            standing=STANDINGS[number % 3],
            start_at=began,
            end_at=ended,
        )
    sign_in(user_make(role="lead", project=root))
    return nlp


def opened(page, path):
    page.goto(path)
    page.wait_for_function(DRAWN)


def test_every_chart_is_drawn_without_a_complaint_of_the_browser(page, lab, console_errors):
    for path in CHARTED:
        opened(page, path)
        assert page.locator(".chart-plot svg.main-svg").count() > 0
    assert console_errors == []


def test_a_change_of_theme_redraws_with_the_same_standings(page, lab, console_errors):
    opened(page, "/pyramid/")
    ink = "document.querySelector('#chart-pyramid-plot .xtick text').style.fill"
    bar = "[...document.querySelectorAll('#chart-pyramid-plot .point path')].map(each => each.style.fill)"
    light, bars = page.evaluate(ink), page.evaluate(bar)
    page.evaluate("window.commonsTheme('dark')")
    page.wait_for_function(f"{ink} !== '{light}'")
    assert "rgb(0, 114, 178)" in bars
    assert "rgb(0, 114, 178)" in page.evaluate(bar)
    assert console_errors == []


def test_the_hover_box_is_exact(page, lab):
    opened(page, "/pyramid/?range=24h")
    plot = page.locator("#chart-standings-plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 120)
    page.mouse.move(box["x"] + box["width"] / 2 + 5, box["y"] + 120)
    expect(plot.locator(".hovertext").first).to_contain_text("GPU-hours")


def test_a_png_carries_title_and_subtitle(page, lab, console_errors, tmp_path):
    opened(page, "/pyramid/")
    with page.expect_download() as download:
        page.locator("[data-png=chart-pyramid-plot]").click()
    saved = tmp_path / "pyramid.png"
    download.value.save_as(saved)
    assert saved.read_bytes().startswith(b"\x89PNG")
    assert download.value.suggested_filename == "pyramid.png"
    assert console_errors == []


def test_the_table_follows_each_chart_and_opens_by_keyboard(page, lab):
    opened(page, "/pyramid/")
    for figure in page.locator("figure.chart").all():
        summary = figure.locator("summary")
        summary.focus()
        page.keyboard.press("Enter")
        assert figure.locator("tbody tr").count() > 0
        expect(figure.locator("tbody tr").first).to_be_visible()


def test_a_chart_that_can_not_be_drawn_says_so_and_opens_its_table(page, lab):
    page.route("**/assets/plotly-*", lambda route: route.abort())
    page.goto("/pyramid/")
    figure = page.locator("#chart-pyramid")
    expect(figure.get_by_text("could not be drawn")).to_be_visible()
    expect(figure.locator("tbody tr").first).to_be_visible()


def test_a_phone_reads_every_page_without_scrolling_sideways(page, lab):
    page.set_viewport_size({"width": 390, "height": 800})
    for path in PAGES:
        opened(page, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def test_names_are_text_in_charts(page, lab):
    opened(page, "/projects/lab/nlp/")
    assert page.evaluate("document.querySelectorAll('.chart script:not([type=\"application/json\"])').length") == 0
    expect(page.locator(".chart-title").first).to_contain_text("NLP <script>alert(1)</script>")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(page, lab, theme):
    page.emulate_media(color_scheme=theme)
    found = {}
    for path in PAGES:
        opened(page, path)
        page.evaluate(AXE.read_text())  # the content policy lets no script tag in
        found[path] = page.evaluate(RUN_AXE)
    assert found == {path: [] for path in PAGES}
