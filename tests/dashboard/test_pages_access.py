"""Who may open and do what on the pages: 404 for what is not seen, 403 for what is not allowed, no change by GET."""

import re

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.clusters.health import host_ready, host_unhealthy
from portal.clusters.models import Host
from portal.clusters.services import host_cordon
from portal.common.models import AuditEntry
from portal.projects.models import ApiToken
from portal.workloads.models import Attempt, Workload
from tests.dashboard.scene import client_of
from tests.factories import host_make

READ_PAGES = ("overview", "queue", "submit", "workloads", "hosts", "account", "search")
ACTIONS = ("workload_end", "host_close", "host_open", "host_judge", "token_end")


def action_url(scene, name):
    arguments = {"workload_end": [scene.running.pk], "token_end": [1]}.get(name, [scene.host.name])
    return reverse(f"dashboard:{name}", args=arguments)


@pytest.mark.parametrize("name", READ_PAGES)
def test_a_page_opens_for_a_member(scene, name):
    assert client_of(scene.member).get(reverse(f"dashboard:{name}")).status_code == 200


@pytest.mark.parametrize("name", READ_PAGES)
def test_a_page_sends_who_has_not_signed_in_to_the_sign_in(scene, client, name):
    answer = client.get(reverse(f"dashboard:{name}"))
    assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/accounts/login/")


@pytest.mark.parametrize("name", ["workload", "workload_output"])
def test_a_workload_of_an_unseen_project_is_not_found(scene, name):
    url = reverse(f"dashboard:{name}", args=[scene.running.pk])
    assert client_of(scene.stranger).get(url).status_code == 404


def test_unseen_and_missing_workloads_answer_alike(scene):
    client = client_of(scene.stranger)
    unseen, missing = (
        re.search(r"<main.*</main>", client.get(f"/workloads/{number}/").content.decode(), re.S).group()
        for number in (scene.running.pk, 987654)
    )
    assert unseen.replace(str(scene.running.pk), "N") == missing.replace("987654", "N")


def test_a_host_whose_name_no_database_could_hold_is_not_found(scene):
    assert client_of(scene.admin).get("/hosts/%00/").status_code == 404


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_can_not_be_done_by_get(scene, name):
    before = [list(model.objects.values()) for model in (Workload, Host, ApiToken, AuditEntry)]
    assert client_of(scene.admin).get(action_url(scene, name)).status_code == 405
    assert [list(model.objects.values()) for model in (Workload, Host, ApiToken, AuditEntry)] == before


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_needs_the_forms_secret(scene, name):
    client = client_of(scene.admin)
    client.handler.enforce_csrf_checks = True
    answer = client.post(action_url(scene, name))
    assert answer.status_code == 403
    assert "secret does not match" in answer.content.decode()


def test_a_fellow_member_may_not_cancel(scene):
    from tests.factories import user_make

    fellow = user_make(project=scene.nlp)
    assert client_of(fellow).post(action_url(scene, "workload_end")).status_code == 403


@pytest.mark.parametrize("who", ["member", "lead", "admin"])
def test_its_author_a_lead_and_an_administrator_cancel(scene, who):
    client_of(getattr(scene, who)).post(action_url(scene, "workload_end"))
    assert Workload.objects.get(pk=scene.running.pk).cancel_requested_at is not None


def test_a_member_may_not_cordon(scene):
    client = client_of(scene.member)
    answer = client.post(reverse("dashboard:host_close", args=[scene.host.name]), {"reason": "because"})
    assert answer.status_code == 403
    assert Host.objects.get(pk=scene.host.pk).cordoned_at is None


def test_an_operator_cordons_with_a_reason_and_gives_the_host_back(scene):
    client = client_of(scene.operator)
    client.post(reverse("dashboard:host_close", args=[scene.host.name]), {"reason": "Fan 3"})
    assert Host.objects.get(pk=scene.host.pk).cordon_reason == "Fan 3"
    client.post(reverse("dashboard:host_open", args=[scene.host.name]))
    assert Host.objects.get(pk=scene.host.pk).cordoned_at is None


def test_a_host_page_says_that_it_is_ready_for_repair_and_when_it_will_be_empty(scene):
    client, url = client_of(scene.operator), reverse("dashboard:host", args=[scene.host.name])
    assert "when the last protection ends" not in client.get(url).content.decode()
    Attempt.objects.filter(workload=scene.running).update(running_at=timezone.now())
    assert "when the last protection ends" in client.get(url).content.decode()
    host = host_make(cluster=scene.cluster, name="gpu-02")
    host_cordon(host=host, reason="Fan 3", actor=None, now=timezone.now())
    host_ready(host=host, now=timezone.now())
    assert "ready for repair since" in client.get(reverse("dashboard:host", args=["gpu-02"])).content.decode()
    assert "ready for repair" in client.get(reverse("dashboard:hosts")).content.decode()


def test_an_operator_gives_a_host_back_against_automation_and_lifts_that_again(scene):
    host_unhealthy(host=scene.host, cause="GPU 3 has fallen off the bus", code="gpu_lost:3", now=timezone.now())
    client, url = client_of(scene.operator), reverse("dashboard:host", args=[scene.host.name])
    client.post(reverse("dashboard:host_open", args=[scene.host.name]))
    assert "automation does not take it out for the same cause" in client.get(url).content.decode()
    assert client_of(scene.member).post(reverse("dashboard:host_judge", args=[scene.host.name])).status_code == 403
    client.post(reverse("dashboard:host_judge", args=[scene.host.name]))
    assert Host.objects.get(pk=scene.host.pk).overridden_codes == []
    assert "automation does not take it out" not in client.get(url).content.decode()


def test_a_cordon_without_a_reason_is_refused_beside_its_field(scene):
    answer = client_of(scene.operator).post(reverse("dashboard:host_close", args=[scene.host.name]), {"reason": " "})
    assert answer.status_code == 400
    assert 'id="id_reason_error"' in answer.content.decode()


def test_the_audit_log_is_for_operators_and_administrators(scene):
    url = reverse("dashboard:audit")
    answers = {who: client_of(getattr(scene, who)).get(url).status_code for who in ("member", "lead", "operator")}
    assert answers == {"member": 403, "lead": 403, "operator": 200}


def test_the_navigation_leads_only_to_pages_that_open(scene):
    from portal.dashboard.frame import frame_of

    client = client_of(scene.member)
    request = client.get("/").wsgi_request
    urls = [item["url"] for _, items in frame_of(request).navigation for item in items]
    assert len(urls) > 5
    assert {url: client.get(url).status_code for url in urls} == dict.fromkeys(urls, 200)


def test_someone_elses_token_is_not_found(scene):
    token = ApiToken.objects.create(
        user=scene.lead, name="x", prefix="gc_x", digest="d", created_at=scene.lead.date_joined
    )
    assert client_of(scene.admin).post(reverse("dashboard:token_end", args=[token.pk])).status_code == 404


def test_environment_values_are_shown_to_author_and_leads_only(scene):
    from tests.factories import user_make

    Workload.objects.filter(pk=scene.waiting.pk).update(environment={"WANDB_KEY": "hush-1234"})
    url = reverse("dashboard:workload", args=[scene.waiting.pk])
    seen = {
        who: "hush-1234" in client_of(user).get(url).content.decode()
        for who, user in {"author": scene.member, "lead": scene.lead, "fellow": user_make(project=scene.nlp)}.items()
    }
    assert seen == {"author": True, "lead": True, "fellow": False}
