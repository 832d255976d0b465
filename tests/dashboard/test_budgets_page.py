"""The budgets pages: the tree, one level edited, what is refused, and two people at once."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import level_at
from portal.clusters.models import Cluster
from portal.scheduling.models import Balance
from tests.factories import START, budget_make, cluster_make, host_make, project_make, user_make, without_tokens

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab():
    """A cluster of 64 GPUs, lab with vision and nlp, vision at 20 % and nlp at 30 %."""
    cluster = cluster_make("local")
    for _ in range(8):
        host_make(cluster=cluster)
    root = project_make("lab")
    project_make("lab/vision", name="vision")
    project_make("lab/nlp", name="nlp")
    budget_make(cluster=cluster, parent=root, percent={"vision": 20, "nlp": 30})
    return root


@pytest.fixture
def cluster(lab):
    return Cluster.objects.get()


def signed_in(client, role="lead", path="lab", **fields):
    user = user_make(role=role, project=project_make(path), **fields)
    client.force_login(user)
    return user


def address(path="lab"):
    return reverse("dashboard:budgets_level", args=[path])


def form_of(lab, percent=None, *, base=1, reason="more for nlp", **more):
    """What the browser sends: every field as it was shown, and what was typed over it."""
    ids = {child.slug: child.pk for child in lab.children.all()}
    shown = {"vision": ("20", "20", "12.8", "2150.4"), "nlp": ("30", "30", "19.2", "3225.6")}
    data = {"base_version": base, "reason": reason, "effective_at": "", "save": "1"}
    for slug, texts in shown.items():
        for unit, text in zip(("percent", "cluster", "gpus", "hours"), texts, strict=True):
            data[f"{unit}_{ids[slug]}"] = text
        data[f"burst_{ids[slug]}"] = data[f"unit_{ids[slug]}"] = ""
        data[f"shown_{ids[slug]}"] = "|".join([*texts, f"{texts[0]}0000"])
    for slug, text in (percent or {}).items():
        data[f"percent_{ids[slug]}"] = text
    for name, text in more.items():
        unit, slug = name.split("_")
        data[f"{unit}_{ids[slug]}"] = text
    return data


def shares(cluster, lab):
    lines = level_at(cluster=cluster, parent=lab, at=timezone.now()).lines
    return {child.slug: lines[child.pk].share_ppm for child in lab.children.all()}


def test_a_lead_changes_a_level_in_percent(client, lab, cluster):
    user = signed_in(client)
    response = client.post(address(), form_of(lab, {"nlp": "40"}), follow=True)
    assert response.status_code == 200
    assert shares(cluster, lab) == {"vision": 200_000, "nlp": 400_000}
    change = BudgetChange.objects.order_by("-version").first()
    assert (change.author, change.reason, change.version) == (user, "more for nlp", 2)
    assert "nlp goes from 30 % to 40 %: 6.4 GPUs more" in response.text


def test_gpus_and_hours_are_read_without_the_script(client, lab, cluster):
    signed_in(client)
    client.post(address(), form_of(lab, gpus_nlp="32"))
    assert shares(cluster, lab)["nlp"] == 500_000
    ids = {child.slug: child.pk for child in lab.children.all()}
    again = form_of(lab, base=2, hours_vision="1075.2") | {
        f"percent_{ids['nlp']}": "50",
        f"gpus_{ids['nlp']}": "32",
        f"hours_{ids['nlp']}": "5376",
        f"cluster_{ids['nlp']}": "50",
        f"shown_{ids['nlp']}": "50|50|32|5376|500000",
    }
    client.post(address(), again)
    assert shares(cluster, lab) == {"vision": 100_000, "nlp": 500_000}


def test_the_unit_that_the_script_marked_counts(client, lab, cluster):
    signed_in(client)
    client.post(address(), form_of(lab, {"nlp": "24.9"}, gpus_nlp="16", hours_nlp="2688", unit_nlp="gpus"))
    assert shares(cluster, lab)["nlp"] == 250_000


def test_two_units_changed_apart_are_asked_about(client, lab, cluster):
    signed_in(client)
    response = client.post(address(), form_of(lab, {"nlp": "40"}, gpus_nlp="16"))
    assert response.status_code == 400
    assert "change one of them" in response.text
    assert shares(cluster, lab)["nlp"] == 300_000


def test_sixty_and_sixty_percent_are_refused_with_the_total_and_the_names(client, lab, cluster):
    signed_in(client)
    response = client.post(address(), form_of(lab, {"nlp": "60", "vision": "60"}))
    assert response.status_code == 400
    for words in ("120 %", "lab/nlp 60 %", "lab/vision 60 %"):
        assert words in response.text
    assert BudgetChange.objects.count() == 1


def test_exactly_a_hundred_percent_is_taken(client, lab, cluster):
    signed_in(client)
    assert client.post(address(), form_of(lab, {"nlp": "80", "vision": "20"})).status_code == 302


@pytest.mark.parametrize("text", ["NaN", "-5", "1e309", "Infinity", "abc", "\x00", "100.0001", "9" * 61])
def test_what_is_no_share_is_refused_beside_its_field_and_kept(client, lab, cluster, text):
    signed_in(client)
    response = client.post(address(), form_of(lab, {"nlp": text}))
    assert response.status_code == 400
    assert BudgetChange.objects.count() == 1
    assert "is-invalid" in response.text
    assert "more for nlp" in response.text


def test_thirty_decimals_are_cut_down_to_whole_parts_per_million(client, lab, cluster):
    signed_in(client)
    client.post(address(), form_of(lab, {"nlp": "33.333333333333333333333333333333"}))
    assert shares(cluster, lab)["nlp"] == 333_333
    assert "33.3333" in client.get(address()).text


@pytest.mark.parametrize("reason", ["", "   ", "\n\t"])
def test_a_blank_reason_is_refused_by_name(client, lab, reason):
    signed_in(client)
    response = client.post(address(), form_of(lab, {"nlp": "40"}, reason=reason))
    assert response.status_code == 400
    assert "Reason</a>: Give the reason for this change." in response.text
    assert BudgetChange.objects.count() == 1


@pytest.mark.parametrize("role", ["member", "viewer"])
def test_a_plain_member_may_read_but_not_change(client, lab, role):
    signed_in(client, role=role)
    assert "data-level" not in client.get(address()).text
    assert client.post(address(), form_of(lab, {"nlp": "40"})).status_code == 403
    assert BudgetChange.objects.count() == 1


def test_an_operator_who_leads_nothing_may_not_change(client, lab):
    client.force_login(user_make(is_operator=True))
    assert client.get(address()).status_code == 200
    assert client.post(address(), form_of(lab, {"nlp": "40"})).status_code == 403


def test_a_level_that_one_may_not_see_does_not_exist(client, lab):
    signed_in(client, path="lab/nlp")
    assert client.get(address("lab")).status_code == 404
    assert client.post(address("lab"), form_of(lab)).status_code == 404
    assert client.get(address("lab/nlp")).status_code == 200


def test_a_lead_of_a_project_may_not_give_it_more(client, lab):
    signed_in(client, path="lab/nlp")
    tree = client.get(reverse("dashboard:budgets")).text
    assert "Edit the budgets below lab" not in tree


def test_a_form_from_elsewhere_is_refused(lab):
    client = Client(enforce_csrf_checks=True)
    signed_in(client)
    assert client.post(address(), form_of(lab, {"nlp": "40"})).status_code == 403
    assert BudgetChange.objects.count() == 1


def test_reading_changes_nothing(client, lab):
    signed_in(client)
    client.get(address(), form_of(lab, {"nlp": "40"}))
    assert BudgetChange.objects.count() == 1


def test_the_second_of_two_managers_sees_the_firsts_change_and_loses_nothing(client, lab, cluster):
    first, second = Client(), client
    signed_in(first, username="first")
    signed_in(second, username="second")
    assert first.post(address(), form_of(lab, {"vision": "25"}, reason="vision ships")).status_code == 302
    response = second.post(address(), form_of(lab, {"nlp": "44"}, reason="nlp trains"))
    assert response.status_code == 409
    for words in ("<b>first</b>", "</span>: 20 % → 25 %", "vision ships", 'value="44"', "nlp trains"):
        assert words in response.text
    assert shares(cluster, lab) == {"vision": 250_000, "nlp": 300_000}


def test_saving_again_after_a_conflict_puts_the_edit_on_top(client, lab, cluster):
    budget_make(cluster=cluster, parent=lab, percent={"vision": 25, "nlp": 30}, at=timezone.now())
    signed_in(client)
    response = client.post(address(), form_of(lab, {"nlp": "44"}))
    assert response.status_code == 409
    again = response.context["form"].data
    assert again["base_version"] == "2"
    assert client.post(address(), again).status_code == 302
    assert shares(cluster, lab) == {"vision": 250_000, "nlp": 440_000}


def test_a_version_that_never_was_is_a_conflict_too(client, lab):
    signed_in(client)
    assert client.post(address(), form_of(lab, {"nlp": "44"}, base=101)).status_code == 409


def test_checking_the_effect_saves_nothing(client, lab):
    signed_in(client)
    data = form_of(lab, {"nlp": "11"})
    del data["save"]
    response = client.post(address(), data | {"preview": "1"})
    assert "nlp goes from 30 % to 11 %: 12 GPUs fewer" in response.text
    assert BudgetChange.objects.count() == 1


def test_a_change_may_wait_for_its_time_and_not_lie_in_the_past(client, lab, cluster):
    signed_in(client)
    moment = timezone.localtime() + timedelta(days=3)
    later = {"effective_at": moment.strftime("%Y-%m-%dT%H:%M")}
    assert client.post(address(), form_of(lab, {"nlp": "40"}) | later).status_code == 302
    assert shares(cluster, lab)["nlp"] == 300_000
    level, tree = client.get(address()).text, client.get(reverse("dashboard:budgets")).text
    assert f"Planned for {moment:%-d %b %Y %H:%M} (UTC), not in force yet. nlp goes" in level
    assert "Planned by" in level and "</span>: 30 % → 40 %" in level
    assert "Changes that are still ahead" in tree and "</span>: 30 % → 40 %" in tree
    past = client.post(address(), form_of(lab, {"nlp": "50"}, base=2) | {"effective_at": "2020-01-01T08:00"})
    assert past.status_code == 400
    assert "in the past" in past.text


def test_the_history_has_who_when_from_to_and_why(client, lab):
    signed_in(client, username="ada")
    client.post(address(), form_of(lab, {"nlp": "40"}, reason="nlp <b>trains</b>"))
    text = client.get(address()).text
    for words in ("ada", "nlp</span>: 30 % → 40 %", "nlp &lt;b&gt;trains&lt;/b&gt;"):
        assert words in text


def test_names_are_shown_as_text(client, lab):
    project_make("lab/x", name="<script>alert(1)</script>")
    signed_in(client)
    for page in (address(), reverse("dashboard:budgets")):
        assert "<script>alert(1)" not in client.get(page).text


@pytest.mark.parametrize(
    ("quota", "usage", "words"),
    [
        (100, 107, ("107 %", "over-served", "−7 %")),
        (100, 250, ("250 %", "over-served")),
        (100, 0, ("0 %", "under-served", "100 %")),
        (100, 99, ("99 %", "on its share")),
        (0, 50, ("no budget",)),
    ],
)
def test_a_balance_is_read_out_and_its_bar_stops_at_its_end(client, lab, cluster, quota, usage, words):
    at = timezone.now()
    project = project_make("lab/nlp")
    Balance.objects.create(
        cluster=cluster, project=project, at=at, quota_gpu_seconds=quota, usage_gpu_seconds=usage, share_ppb=0
    )
    signed_in(client, path="lab/nlp")
    text = client.get(reverse("dashboard:budgets")).text
    for each in words:
        assert each in text
    assert "nan" not in without_tokens(text).lower().replace("finance", "")
    assert 'width="107"' not in text
    assert 'width="250"' not in text


def test_the_tree_shows_every_unit(client, lab):
    signed_in(client)
    text = client.get(reverse("dashboard:budgets")).text
    for words in ("19.2", "3,225", "50 % not given out"):
        assert words in text


def test_two_dates_are_compared(client, lab, cluster):
    budget_make(cluster=cluster, parent=lab, percent={"vision": 25, "nlp": 30}, at=START + timedelta(days=5))
    signed_in(client)
    text = client.get(reverse("dashboard:budgets"), {"compare": "2026-11-03", "at": "2026-11-08"}).text
    assert "1 budget differs between the two moments" in text
    assert "<b>20</b>" in text and "<b>25</b>" in text and "<b>+3.2</b>" in text
    assert '<span class="quiet" title="as then">30</span>' in text


@pytest.mark.parametrize("name", ["at", "compare"])
def test_a_date_that_can_not_be_is_refused_by_name(client, lab, name):
    signed_in(client)
    response = client.get(reverse("dashboard:budgets"), {name: "2026-13-40"})
    assert response.status_code == 400
    assert name in response.text


def test_without_a_cluster_the_tree_is_empty_not_broken(client):
    client.force_login(user_make())
    assert client.get(reverse("dashboard:budgets")).status_code == 200
    assert client.get(reverse("dashboard:budgets_level", args=["lab"])).status_code == 404


def queries_of(client, url, asked=None):
    client.get(url, asked)
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url, asked).status_code == 200
    return len(captured)


def test_the_pages_take_a_fixed_number_of_queries(client, lab, cluster):
    """Planned changes ask three times more in the tree, once more in a level, however many they are."""
    signed_in(client)
    tree = reverse("dashboard:budgets")
    moments = {"compare": "2026-11-02T12:00", "at": "2026-11-08T12:00"}

    def counted():
        return queries_of(client, tree), queries_of(client, tree, moments), queries_of(client, address())

    assert counted() == (11, 16, 19)
    for number in range(10):
        project_make(f"lab/nlp/team-{number}")
        ahead = timezone.now() + timedelta(days=number + 1)
        budget_make(cluster=cluster, parent=lab, percent={"nlp": number}, at=ahead)
    assert counted() == (14, 16, 20)
