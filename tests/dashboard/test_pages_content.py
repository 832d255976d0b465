"""What pages say: names as text, reasons with numbers, bad addresses refused by name, errors in the frame."""

import re
from unittest.mock import patch

import pytest
from django.db import OperationalError
from django.urls import reverse

from portal.projects.models import ApiToken
from tests.dashboard.scene import TROUBLE, client_of
from tests.factories import workload_make


def text_of(client, name, *arguments, **query):
    answer = client.get(reverse(f"dashboard:{name}", args=arguments), query)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("name", ["overview", "queue", "workloads", "hosts", "search", "account", "audit"])
def test_names_with_markup_are_shown_as_text(scene, name):
    workload_make(project=scene.nlp, cluster=scene.cluster, author=scene.member, name=TROUBLE, reason_text=TROUBLE)
    page = text_of(client_of(scene.admin), name, **({"q": "script"} if name == "search" else {}))
    assert "<script>alert" not in page


@pytest.mark.parametrize("name", ["overview", "queue", "workloads", "search"])
def test_the_markup_is_there_as_text(scene, name):
    workload_make(project=scene.nlp, cluster=scene.cluster, author=scene.member, name=TROUBLE)
    page = text_of(client_of(scene.admin), name, **({"q": "script"} if name == "search" else {}))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.mark.parametrize("name", ["overview", "queue", "submit", "workloads", "hosts", "account", "audit", "search"])
def test_nothing_on_a_page_is_inline(scene, name):
    page = text_of(client_of(scene.admin), name)
    assert not re.search(r"\sstyle=|<style|\son\w+=|<script(?![^>]*\ssrc=)", page)


def test_output_is_shown_as_text_without_terminal_codes(scene):
    page = text_of(client_of(scene.member), "workload", scene.running.pk)
    assert "step 1 loss 3.2\n&lt;script&gt;alert(2)&lt;/script&gt;" in page


def test_the_whole_output_is_plain_text(scene):
    answer = client_of(scene.member).get(reverse("dashboard:workload_output", args=[scene.running.pk]))
    assert answer["Content-Type"].startswith("text/plain")
    assert b"<script>alert(2)</script>" in answer.content


def test_the_queue_says_position_gpus_ahead_and_reason(scene):
    page = text_of(client_of(scene.member), "queue")
    assert "1 workload waits for 1 GPU" in page
    assert "Waits its turn." in page


def test_a_workload_never_looked_at_says_so(scene):
    workload_make(project=scene.nlp, cluster=scene.cluster, author=scene.member)
    assert "Not yet considered." in text_of(client_of(scene.member), "queue")


def test_a_stranger_sees_an_empty_queue(scene):
    page = text_of(client_of(scene.stranger), "queue")
    assert "Nothing waits" in page
    assert "evaluate" not in page


def test_the_queue_is_paged_by_the_server(scene):
    for _ in range(60):
        workload_make(project=scene.nlp, cluster=scene.cluster, author=scene.member)
    client = client_of(scene.member)
    assert "1–50 of 61" in text_of(client, "queue")
    assert "51–61 of 61" in text_of(client, "queue", page=2)


def test_the_queue_is_filtered_by_project_author_and_reason(scene):
    client = client_of(scene.lead)
    assert "evaluate" in text_of(client, "queue", project="lab", author="ada", reason="waiting_turn")
    for query in ({"project": "lab/vision"}, {"author": "ben"}, {"reason": "unfunded"}):
        assert "evaluate" not in text_of(client, "queue", **query)


def test_gpus_of_unseen_workloads_are_counted_but_not_named(scene):
    page = text_of(client_of(scene.stranger), "host", "gpu-01")
    assert "of a project that you don't see" in page
    assert "train" not in page


@pytest.mark.parametrize(
    ("name", "query", "named"),
    [
        ("overview", {"range": "3y"}, "24h, 7d, 30d"),
        ("overview", {"cluster": "moon"}, "Clusters: local."),
        ("queue", {"page": "0"}, "page"),
        ("queue", {"reason": "luck"}, "reason"),
        ("workloads", {"sort": "colour"}, "sort"),
        ("workloads", {"state": "happy"}, "state"),
        ("audit", {"from": "2026-13-40"}, "from"),
        ("audit", {"from": "2026-11-03", "to": "2026-11-02"}, "to"),
        ("submit", {"from": "x"}, "from"),
    ],
)
def test_a_wrong_address_is_refused_by_name(scene, name, query, named):
    answer = client_of(scene.admin).get(reverse(f"dashboard:{name}"), query)
    assert answer.status_code == 400
    assert named in answer.content.decode()


def test_the_range_stands_at_every_figure(scene):
    page = text_of(client_of(scene.member), "overview", range="24h")
    assert page.count('<div class="figure-range">last 24 hours</div>') == 4


def test_an_unknown_project_names_those_that_one_sees(scene):
    answer = client_of(scene.stranger).get(reverse("dashboard:queue"), {"project": "lab/nlp"})
    assert answer.status_code == 404
    assert "You may see: lab/vision." in answer.content.decode()


def test_a_tokens_secret_is_shown_once(scene):
    client = client_of(scene.member)
    made = client.post(reverse("dashboard:account"), {"name": "laptop", "scope": "read", "days": "30"})
    secret = re.search(r"gc_[0-9a-f]{40}", made.content.decode()).group()
    assert made["Cache-Control"] == "no-store"
    assert secret not in text_of(client, "account")


def test_a_revoked_token_leaves_the_list(scene):
    client = client_of(scene.member)
    client.post(reverse("dashboard:account"), {"name": "laptop", "scope": "read", "days": "30"})
    client.post(reverse("dashboard:token_end", args=[ApiToken.objects.get().pk]))
    assert ApiToken.objects.get().revoked_at is not None
    assert "No tokens yet" in text_of(client, "account")


def test_a_token_without_a_name_is_refused_beside_its_field(scene):
    answer = client_of(scene.member).post(reverse("dashboard:account"), {"name": "", "scope": "read"})
    assert answer.status_code == 400
    assert 'id="id_name_error"' in answer.content.decode()


def test_search_by_number_leads_to_the_workload(scene):
    answer = client_of(scene.member).get(reverse("dashboard:search"), {"q": str(scene.running.pk)})
    assert answer["Location"] == reverse("dashboard:workload", args=[scene.running.pk])


def test_search_finds_only_what_one_sees(scene):
    page = text_of(client_of(scene.stranger), "search", q="evaluate")
    assert "Nothing found" in page


def test_a_missing_page_is_said_in_the_frame(scene):
    answer = client_of(scene.member).get("/nowhere/")
    assert answer.status_code == 404
    assert "Nothing here that you may see" in answer.content.decode()
    assert 'aria-label="Main"' in answer.content.decode()


def test_a_database_that_is_away_is_a_503_that_says_nothing_was_saved(scene):
    client = client_of(scene.member)
    with patch("django.db.backends.utils.CursorWrapper.execute", side_effect=OperationalError("gone")):
        answer = client.get("/queue/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "30")
    assert "Nothing was saved." in answer.content.decode()


def test_a_fault_of_ours_is_a_page_without_a_traceback(scene):
    with patch("portal.dashboard.views_queue.queue_rows", side_effect=RuntimeError("inner workings")):
        answer = client_of(scene.member).get("/queue/")
    assert answer.status_code == 500
    assert "inner workings" not in answer.content.decode()
