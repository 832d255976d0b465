"""The admin site shows everything and changes nothing but people."""

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from portal.common.models import AuditEntry
from portal.projects.models import User
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

pytestmark = pytest.mark.django_db

OURS = [model for model in admin.site._registry if model.__module__.startswith("portal.")]


@pytest.fixture
def administrator() -> Client:
    client = Client()
    client.force_login(user_make(username="root-admin", is_superuser=True, is_staff=True))
    return client


def some_of_everything() -> None:
    project, cluster = project_make("lab/nlp"), cluster_make()
    host = host_make(cluster=cluster)
    budget_make(cluster=cluster, parent=project_make("lab"), percent={"nlp": 10})
    attempt = attempt_make(workload=workload_make(project=project, cluster=cluster), hosts=[host])
    segment_make(attempt=attempt, host=host, start_at=attempt.decided_at)


@pytest.mark.parametrize("model", OURS, ids=lambda model: model.__name__)
def test_every_list_opens_and_its_rows_too(administrator: Client, model: type) -> None:
    some_of_everything()
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"  # type: ignore[attr-defined]
    assert administrator.get(reverse(f"{name}_changelist")).status_code == 200
    row = model.objects.first()  # type: ignore[attr-defined]
    if row is not None:
        assert administrator.get(reverse(f"{name}_change", args=[row.pk])).status_code == 200


@pytest.mark.parametrize("model", [model for model in OURS if model is not User], ids=lambda model: model.__name__)
def test_nothing_but_people_is_added_changed_or_deleted(administrator: Client, model: type) -> None:
    site = admin.site._registry[model]
    request = administrator.get(reverse("admin:index")).wsgi_request
    rights = (site.has_add_permission, site.has_change_permission, site.has_delete_permission)
    assert [right(request) for right in rights] == [False, False, False]


def test_a_person_who_becomes_operator_leaves_from_and_to_in_the_log(administrator: Client) -> None:
    person = user_make(username="ada")
    address = reverse("admin:projects_user_change", args=[person.pk])
    answer = administrator.post(address, {"username": "ada", "is_active": "on", "is_operator": "on"})
    assert answer.status_code == 302
    person.refresh_from_db()
    assert person.is_operator
    entry = AuditEntry.objects.get(action="user_change")
    assert (entry.before["is_operator"], entry.after["is_operator"]) == ("False", "True")
    assert "password" not in entry.after
