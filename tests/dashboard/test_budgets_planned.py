"""Pages say what a planned change will set back of what is decided now, and that nothing changes where nothing does."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.budgets.models import BudgetChange
from portal.clusters.models import Cluster
from tests.dashboard.test_budgets_page import address, cluster, form_of, lab, signed_in
from tests.factories import budget_make

__all__ = ["cluster", "lab"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def planned_at(lab):
    """vision is planned to have 25 %, in a change that lists nlp with its 30 %."""
    at = timezone.now().replace(microsecond=0) + timedelta(days=5)
    budget_make(cluster=Cluster.objects.get(), parent=lab, percent={"vision": 25, "nlp": 30}, at=at)
    return at


def sentence(at, text="sets nlp from 40 % to 30 %."):
    year = "" if at.year == timezone.now().year else f" {at.year}"
    return f"The change planned for {at:%-d %b}{year} {at:%H:%M} by the system {text}"


def test_checking_the_effect_names_the_planned_change(client, lab, planned_at):
    signed_in(client)
    data = form_of(lab, {"nlp": "40"}, base=2)
    del data["save"]
    assert f"<li>{sentence(planned_at)}</li>" in client.post(address(), data | {"preview": "1"}).text
    unplanned = client.post(address(), form_of(lab, {"nlp": "30"}, base=2) | {"preview": "1"}).text
    assert "<li>The change planned for" not in unplanned


def test_saving_says_it_once_more(client, lab, planned_at):
    signed_in(client)
    text = client.post(address(), form_of(lab, {"nlp": "40"}, base=2), follow=True).text
    assert f"Saved. nlp goes from 30 % to 40 %: 6.4 GPUs more. {sentence(planned_at)}" in text


def test_undoing_says_it_before_and_after(client, lab, cluster, planned_at):
    signed_in(client)
    change = budget_make(
        cluster=cluster, parent=lab, percent={"vision": 20, "nlp": 40}, at=timezone.now() - timedelta(hours=1)
    )
    at = timezone.now() + timedelta(days=6)
    budget_make(cluster=cluster, parent=lab, percent={"vision": 20, "nlp": 40}, at=planned_at)
    page = reverse("dashboard:budgets_change", args=[change.pk])
    words = sentence(planned_at, "sets nlp from 30 % to 40 %.")
    assert at > planned_at and f"<li>{words}</li>" in client.get(page).text
    data = {"base_version": 4, "reason": "a mistake", "effective_at": ""}
    assert f"is undone by version 5. {words}" in client.post(page, data, follow=True).text


def test_a_file_is_checked_against_it(client, lab, planned_at):
    signed_in(client)
    export = b"".join(client.get(reverse("dashboard:budgets_export")).streaming_content).decode()
    fields = {"text": export.replace(",30,", ",40,"), "reason": ""}
    assert sentence(planned_at) in client.post(reverse("dashboard:budgets_import"), fields | {"check": "1"}).text
    done = client.post(reverse("dashboard:budgets_import"), fields | {"import": "1", "reason": "more"}, follow=True)
    assert f"Imported: 1 level has new budgets. {sentence(planned_at)}" in done.text


def test_a_save_that_changes_nothing_makes_no_version(client, lab):
    signed_in(client)
    response = client.post(address(), form_of(lab))
    assert response.status_code == 200
    assert "Nothing changes: the budgets stand so already, in version 1." in response.text
    assert BudgetChange.objects.count() == 1
