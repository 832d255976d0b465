"""Every address that shows a page: all that can be used there is reached by the Tab key, and can be seen then."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.urls import URLPattern, get_resolver
from django.utils import timezone

from portal.budgets.models import BudgetChange
from portal.common.units import whole_second
from portal.projects.services import token_create
from portal.simulations.models import Run
from tests.dashboard.scene import scene_make
from tests.proposals.scene import Scene as Debate
from tests.proposals.scene import proposal_make, request_make

pytestmark = [pytest.mark.e2e, pytest.mark.django_db(transaction=True)]

# Answers that are no page of their own: a change (POST), a part that is put into a page, a file.
NO_PAGES = re.compile(
    r"assets/|submit/effect/|/output/|/revoke/|~export/|/history\.csv|\.csv|people-(give|change|invite)/|invitation"
    r"|/(cancel|cordon|uncordon|judge|submit|withdraw|decline|open|revise|approve|reject|comment|simulate)/$"
)
MARK = """
window.unseen = new Set(); window.plain = new Set();
const probe = document.body.appendChild(document.createElement('i'));
probe.style.borderTopColor = 'var(--accent)'; window.accent = getComputedStyle(probe).borderTopColor; probe.remove();
const wanted = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
[...document.querySelectorAll(wanted)].forEach((each, number) => {
  const shown = each.checkVisibility({visibilityProperty: true}) && !each.disabled && each.tabIndex >= 0;
  const group = each.type === 'radio' && each.name ? `${each.form?.id}:${each.name}` : number;
  if (shown && !each.closest('[inert]')) { each.dataset.k = group; window.unseen.add(String(group)); }
});
document.activeElement?.blur();
window.unseen.size
"""
SEE = """() => {
  const each = document.activeElement;
  if (!each?.dataset.k) return;
  if (window.unseen.delete(each.dataset.k)) window.plain.add(each.dataset.k);
  const styles = [getComputedStyle(each), getComputedStyle(each, '::after')];
  if (each.nextElementSibling) styles.push(getComputedStyle(each.nextElementSibling));
  const ringed = styles.some(style => (style.outlineStyle !== 'none' && style.outlineWidth !== '0px')
    || style.boxShadow !== 'none') || getComputedStyle(each).borderTopColor === window.accent;
  if (ringed && each.checkVisibility()) window.plain.delete(each.dataset.k);
}"""
LEFT = "[...window.unseen, ...window.plain].map(k => document.querySelector(`[data-k='${k}']`).outerHTML.slice(0, 160))"


def patterns_of(patterns: list[object], prefix: str = "") -> Iterator[str]:
    """The addresses, as their patterns write them."""
    for each in patterns:
        if isinstance(each, URLPattern):
            yield prefix + str(each.pattern)
        else:
            yield from patterns_of(each.url_patterns, prefix + str(each.pattern))


def dashboard_patterns() -> Iterator[str]:
    return patterns_of([each for each in get_resolver().url_patterns if getattr(each, "namespace", "") == "dashboard"])


def addresses_made() -> tuple[object, dict[str, str]]:
    """Somebody who may see everything; and for each pattern that is a page an address with something on it."""
    scene = scene_make()
    now = whole_second(timezone.now())
    debate = Debate(
        cluster=scene.cluster,
        lab=scene.nlp.parent,
        vision=scene.vision,
        nlp=scene.nlp,
        mona=scene.lead,
        max=scene.admin,
        vera=scene.admin,
        nils=scene.admin,
        viewer=scene.member,
        member=scene.member,
        stranger=scene.stranger,
    )
    ahead = {"from_at": now + timedelta(days=1), "until_at": now + timedelta(days=30), "now": now}
    request = request_make(debate, submit=False, gpus=4, author=scene.admin, **ahead)
    draft = proposal_make(debate, opened=False, author=scene.admin, now=now)
    run = Run.objects.create(cluster=scene.cluster, title="t", source="generator", scenario={}, created_at=now)
    token_create(user=scene.admin, name="for the page", now=now)
    values = {
        "workload_id": scene.running.pk,
        "host_name": scene.host.name,
        "change_id": BudgetChange.objects.latest("pk").pk,
        "request_id": request.pk,
        "proposal_id": draft.pk,
        "run_id": run.pk,
        "path": "lab/nlp",
        "name": scene.host.name,
    }
    addresses = {}
    for pattern in dashboard_patterns():
        address = re.sub(r"<(?:\w+:)?(\w+)>", lambda found: str(values.get(found[1], "?")), pattern)
        if not NO_PAGES.search(address) and "?" not in address:
            addresses[pattern] = "/" + address.replace("budgets/lab/nlp/", "budgets/lab/")
    return scene.admin, addresses


def test_all_that_can_be_used_on_any_page_is_reached_by_the_tab_key_and_is_seen(page, sign_in):
    person, addresses = addresses_made()
    sign_in(person)
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 1280, "height": 900})
    missed, shown = {}, 0
    for address in addresses.values():
        answer = page.goto(address)
        if answer is None or answer.status == 405:
            continue
        assert answer.status in (200, 400), (address, answer.status)  # 400: the page that says what is missing
        shown += 1
        for _ in range(20 + 3 * page.evaluate(MARK)):  # a date takes several
            page.keyboard.press("Tab")
            page.evaluate(SEE)
            if not page.evaluate("window.unseen.size"):
                break
        if left := page.evaluate(LEFT):
            missed[address] = left
    assert missed == {}
    assert shown >= 25
