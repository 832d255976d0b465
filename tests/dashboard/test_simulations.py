"""The pages of simulations: who opens and asks, what they say, what they hide, how often they ask the database."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from portal.clusters.models import HostSpan
from portal.simulations.life import run_fail, run_finish, run_progress, run_start
from portal.simulations.models import Run, RunState, Source
from tests.dashboard.scene import client_of
from tests.factories import attempt_make, user_make, workload_make
from tests.simulations.portal_runs import TINY, TINY_TRACE, report_make, run_make

PINNED = {"simulations": 6, "simulation": 8, "simulations_compare": 12, "simulation_new": 11}
TROUBLE = "<script>alert(9)</script>"


def started(**fields):
    run, claim = run_make(**fields), uuid4()
    assert run_start(claim=claim, now=timezone.now()).pk == run.pk
    return run, claim


def done(**fields):
    run, claim = started(**fields)
    run_finish(
        run_id=run.pk, claim=claim, report=report_make(), notes=["Of lab/vision."], code_version="0.1.0+abc",
        wall_seconds=2.0, now=timezone.now(),
    )  # fmt: skip
    return Run.objects.get(pk=run.pk)


def text_of(client, url, status=200):
    answer = client.get(url)
    assert answer.status_code == status, answer.content
    return answer.content.decode()


def url_of(name, *runs):
    if name == "simulations_compare":
        return f"{reverse('dashboard:simulations_compare')}?{'&'.join(f'run={run.pk}' for run in runs)}"
    return reverse(f"dashboard:{name}", args=[run.pk for run in runs])


def form_of(source, **changed):
    """What the form sends when nothing but the title was typed."""
    fields = {"title": "What if", "scheduler": "budgets", "lookback": "7d", "min_runtime_max": "8h", "hosts": "1"}
    if source == Source.HISTORY:
        fields["from"] = f"{timezone.now() - timedelta(days=3):%Y-%m-%d}"
    if source == Source.GENERATOR:
        fields |= {"days": "2", "warmup_days": "1", "seed": "4", "whose": "teams"}
    return {**fields, **changed}


def rows_of(scene, **percents):
    """The budget rows of the form: 60 % and 30 % unless changed."""
    percents = {"nlp": "60", "vision": "30", **percents}
    return {f"percent_{getattr(scene, name).pk}": percent for name, percent in percents.items()}


def ask(client, source, **fields):
    return client.post(f"{reverse('dashboard:simulation_new')}?source={source}", form_of(source, **fields))


@pytest.fixture
def lived(scene):
    """A lab whose history of the last days has a workload that ran."""
    began = timezone.now() - timedelta(days=5)
    HostSpan.objects.filter(host=scene.host).update(start_at=began)
    workload = workload_make(project=scene.nlp, cluster=scene.cluster, submitted_at=began + timedelta(days=4))
    ended = workload.submitted_at + timedelta(hours=2)
    attempt_make(workload=workload, hosts=[scene.host], state="ended", outcome="succeeded", ended_at=ended, claim=False)
    type(workload).objects.filter(pk=workload.pk).update(state="succeeded", ended_at=ended)
    return scene


@pytest.mark.parametrize("who", ["member", "stranger", "lead", "operator", "admin"])
def test_everybody_who_signed_in_reads(scene, who):
    run = done()
    client = client_of(getattr(scene, who))
    for url in (url_of("simulations"), url_of("simulation", run), url_of("simulations_compare", run, done())):
        assert client.get(url).status_code == 200


@pytest.mark.parametrize(("who", "status"), [("member", 403), ("stranger", 403), ("lead", 200), ("operator", 200)])
def test_leads_and_operators_open_the_form(scene, who, status):
    assert client_of(getattr(scene, who)).get(url_of("simulation_new")).status_code == status


def test_an_empty_list_says_what_to_do_next(scene):
    assert "Replay the last two weeks" in text_of(client_of(scene.lead), url_of("simulations"))
    assert "New simulation" not in text_of(client_of(scene.member), url_of("simulations"))


def test_the_list_shows_state_progress_and_two_figures(scene):
    ended = done(title=TROUBLE)
    run, claim = started(title="Running")
    run_progress(run_id=run.pk, claim=claim, progress_ppm=420_000, seconds_left=65, now=timezone.now())
    page = text_of(client_of(scene.member), url_of("simulations"))
    assert "42 %, 1 min left" in page
    assert "alert(9)&lt;/script&gt;" in page and TROUBLE not in page
    assert f'value="{ended.pk}"' in page and f'value="{run.pk}"' not in page


def test_a_filter_that_does_not_exist_is_refused_by_name(scene):
    assert "it can be queued, running" in text_of(client_of(scene.lead), f"{url_of('simulations')}?state=odd", 400)


def test_one_that_waits_says_how_many_are_before_it(scene):
    run_make()
    run = run_make()
    assert "1 other simulation waits or runs before it" in text_of(client_of(scene.lead), url_of("simulation", run))


def test_one_that_runs_shows_how_far_it_is_and_htmx_gets_the_part_alone(scene):
    run, claim = started()
    run_progress(run_id=run.pk, claim=claim, progress_ppm=500_000, seconds_left=12, now=timezone.now())
    client = client_of(scene.lead)
    whole = text_of(client, url_of("simulation", run))
    part = client.get(url_of("simulation", run), HTTP_HX_REQUEST="true")
    assert 'value="500000"' in whole and "about 12 s left" in whole and 'hx-trigger="every 1s"' in whole
    assert "<html" not in part.content.decode() and "HX-Refresh" not in part.headers


def test_htmx_is_told_to_load_the_page_anew_once_it_has_ended(scene):
    part = client_of(scene.lead).get(url_of("simulation", done()), HTTP_HX_REQUEST="true")
    assert part.headers["HX-Refresh"] == "true"


def test_one_that_failed_says_why_and_that_nothing_was_kept(scene):
    run, claim = started()
    run_fail(run_id=run.pk, claim=claim, error=f"t.csv, line 3: {TROUBLE}", code_version="1", now=timezone.now())
    page = text_of(client_of(scene.lead), url_of("simulation", run))
    assert "t.csv, line 3: &lt;script&gt;" in page
    assert "Nothing of it was kept" in page


def test_a_result_has_its_finding_figures_charts_inputs_and_code(scene):
    page = text_of(client_of(scene.admin), url_of("simulation", done())).replace("\N{NO-BREAK SPACE}", " ")
    for words in ("Projects got 100 % of what they were owed", "0.1.0+abc", "Nine in ten workloads started", "4 hosts"):
        assert words in page
    for chart in ("delivery", "waits", "gpus", "fragments"):
        assert f'id="chart-{chart}"' in page


def test_names_that_a_reader_may_not_see_stand_nowhere(scene):
    run = done(scenario={**TINY, "workload": {"generator": "research-lab"}})
    other = done()
    client = client_of(scene.member)
    pages = [text_of(client, url_of("simulation", run)), text_of(client, url_of("simulations_compare", run, other))]
    pages += [
        client.get(reverse("dashboard:simulation_download", args=[run.pk, what])) for what in ("report", "scenario")
    ]
    pages.append(client.get(reverse("dashboard:simulation_download", args=[run.pk, "days"])))
    for page in pages:
        words = page if isinstance(page, str) else b"".join(page).decode()
        assert "lab/vision" not in words
        assert "lab/nlp" in words
    assert "2 projects that you may not see" in pages[0]


def test_a_comparison_puts_figures_side_by_side(scene):
    first, second = done(title="Today"), done(title="Draft")
    page = text_of(client_of(scene.lead), url_of("simulations_compare", first, second))
    assert page.count('<th scope="col" class="n">Today</th>') == 3  # the figures, and two tables of charts
    assert "Today 100 %, Draft 100 %" in page


@pytest.mark.parametrize("query", ["", "?run=1", "?run=x&run=2", "?run=1&run=2&run=3&run=4&run=5"])
def test_what_can_not_be_compared_is_refused_in_words(scene, query):
    assert client_of(scene.lead).get(f"{reverse('dashboard:simulations_compare')}{query}").status_code == 400


def test_one_without_a_report_is_not_compared(scene):
    page = text_of(client_of(scene.lead), url_of("simulations_compare", done(), run_make()), 400)
    assert "is queued" in page


@pytest.mark.parametrize("key", ["delivery", "waits", "gpus", "fragments"])
def test_every_chart_comes_as_csv(scene, key):
    answer = client_of(scene.lead).get(f"{url_of('simulation', done())}?csv={key}")
    assert answer["Content-Type"].startswith("text/csv")
    assert len(b"".join(answer).decode().splitlines()) > 1


def test_a_report_that_is_not_there_is_not_downloaded(scene):
    url = reverse("dashboard:simulation_download", args=[run_make().pk, "report"])
    assert "has no report" in text_of(client_of(scene.lead), url, 400)


def test_cancelling_needs_the_right_person_and_a_post(scene):
    run = run_make(author=scene.lead)
    url = reverse("dashboard:simulation_cancel", args=[run.pk])
    assert client_of(scene.lead).get(url).status_code == 405
    assert client_of(scene.member).post(url).status_code == 403
    assert client_of(scene.operator).post(url).status_code == 302
    assert Run.objects.get(pk=run.pk).state == RunState.CANCELLED


def test_a_missing_simulation_is_not_found(scene):
    assert client_of(scene.lead).get(reverse("dashboard:simulation", args=[10**12])).status_code == 404


def test_a_history_is_asked_for_with_another_budget(lived):
    answer = ask(client_of(lived.lead), Source.HISTORY, lookback="3d", **rows_of(lived, nlp="20"))
    run = Run.objects.get()
    assert answer["Location"] == url_of("simulation", run)
    nlp = [line["share_percent"] for line in run.scenario["projects"] if line["path"] == "lab/nlp"]
    assert nlp == [20]
    assert run.scenario["clusters"][0]["policy"] == {"lookback_seconds": 3 * 86_400}
    assert run.notes == [
        "Lookback window: 3 d instead of 7 d.",
        "lab/nlp: 20 % of its parent's share instead of 60 %.",
    ]
    assert (run.history_to - run.history_from).days == 3


def test_what_is_left_alone_changes_nothing(lived):
    ask(client_of(lived.lead), Source.HISTORY, **rows_of(lived))
    assert Run.objects.get().notes == []


def test_a_lead_of_a_part_sees_and_edits_that_part_alone(lived):
    lead = user_make(role="lead", project=lived.nlp)
    client = client_of(lead)
    page = text_of(client, f"{url_of('simulation_new')}?source=history")
    assert f"percent_{lived.nlp.pk}" in page and f"percent_{lived.vision.pk}" not in page
    assert "Scenario as JSON" not in page
    refused = ask(client, Source.HISTORY, **{f"percent_{lived.nlp.pk}": "90"})
    assert refused.status_code == 400
    assert "120 %" in refused.content.decode() and "lab/vision" not in refused.content.decode()
    written = ask(client, Source.HISTORY, **{f"percent_{lived.nlp.pk}": "60", "json": json.dumps(TINY)})
    assert written.status_code == 400
    assert not Run.objects.exists()


def test_an_upload_is_asked_for_with_budgets_a_line_each(scene):
    upload = SimpleUploadedFile("tiny.csv", TINY_TRACE, content_type="text/csv")
    ask(client_of(scene.lead), Source.TRACE, upload=upload, budgets="lab/nlp 60\nlab/vision 40 4\n")
    run = Run.objects.get()
    assert (run.trace.name, run.source) == ("tiny.csv", Source.TRACE)
    assert [(line["path"], line["share_percent"], line["burst_gpus"]) for line in run.scenario["projects"]] == [
        ("lab/nlp", 60, None),
        ("lab/vision", 40, 4),
    ]


def test_an_earlier_upload_is_used_again_and_nobody_elses(scene):
    client = client_of(scene.lead)
    ask(client, Source.TRACE, upload=SimpleUploadedFile("tiny.csv", TINY_TRACE), budgets="lab/nlp 60")
    trace = Run.objects.get().trace
    assert ask(client, Source.TRACE, kept=trace.pk, budgets="lab/nlp 50").status_code == 302
    assert ask(client_of(scene.operator), Source.TRACE, kept=trace.pk, budgets="lab/nlp 50").status_code == 400


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"budgets": "lab/nlp"}, "Line 1: write a project, its percent"),
        ({"budgets": "lab/nlp 60\nlab/vision x"}, "Line 2: "),
        ({"budgets": "lab/nlp 60\nlab/vision 50"}, "110 %"),
        ({"days": "0"}, "greater than or equal to 1"),
        ({"lookback": "soon"}, "not a duration"),
        ({"json": "{"}, "This is not JSON"),
        ({"json": "[]"}, "A scenario is an object"),
        ({"json": '{"a": NaN}'}, "NaN is no number"),
        ({"json": '{"\\ud800": 1}'}, "half of a letter"),
        ({"json": '{"clusters": 3}'}, "clusters"),
        ({"title": ""}, "This field is required"),
        ({"hosts": "0"}, "greater than or equal to 1"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_nothing_typed_is_lost(scene, fields, words):
    upload = SimpleUploadedFile("tiny.csv", TINY_TRACE)
    answer = ask(client_of(scene.lead), Source.TRACE, **{"upload": upload, "budgets": "lab/nlp 60", **fields})
    page = answer.content.decode()
    assert answer.status_code == 400
    assert words in page.replace("&#x27;", "'").replace("&quot;", '"')
    assert "things to put right" in page or "One thing to put right" in page
    assert not Run.objects.exists()


def test_a_trace_is_needed(scene):
    assert "Choose a file" in ask(client_of(scene.lead), Source.TRACE, budgets="a 1").content.decode()


def test_an_upload_that_is_too_large_is_refused_before_it_is_read(scene, settings: Settings):
    settings.SIMULATION_TRACE_BYTES = 1024**2
    upload = SimpleUploadedFile("big.csv", b"x" * (6 * 1024**2))
    answer = ask(client_of(scene.lead), Source.TRACE, upload=upload)
    assert answer.status_code == 400
    assert "more than 1 MB" in answer.content.decode()


def test_the_form_needs_its_secret(scene):
    client = client_of(scene.lead)
    client.handler.enforce_csrf_checks = True
    assert ask(client, Source.GENERATOR).status_code == 403
    assert not Run.objects.exists()


def test_the_generator_runs_with_its_own_teams_or_with_our_projects(scene):
    client = client_of(scene.lead)
    ask(client, Source.GENERATOR, **rows_of(scene))
    ask(client, Source.GENERATOR, whose="portal", project_limit="5", **rows_of(scene, vision="10"))
    teams, ours = Run.objects.order_by("pk")
    assert (teams.scenario["projects"], teams.seed) == ([], 4)
    assert {line["path"]: line["share_percent"] for line in ours.scenario["projects"]} == {
        "lab/nlp": 60,
        "lab/vision": 10,
    }
    assert ours.scenario["clusters"][0]["policy"] == {"project_limit_workloads": 5}


def test_static_partitions_instead_of_shares_can_be_asked_for(lived):
    client = client_of(lived.lead)
    assert ask(client, Source.HISTORY, partitions="on", **rows_of(lived)).status_code == 302
    run = Run.objects.get()
    assert [cluster["name"] for cluster in run.scenario["clusters"]] == ["partition-1", "partition-2", "rest"]
    assert run.notes[0].startswith("Static partitions")


def test_the_form_can_be_turned_into_json_and_that_be_run(scene):
    client = client_of(scene.lead)
    shown = ask(client, Source.GENERATOR, as_json="1", hosts="3", **rows_of(scene))
    assert shown.status_code == 200
    text = shown.context["form"]["json"].value()
    assert json.loads(text)["clusters"][0]["hosts"][0]["count"] == 3
    ask(client, Source.GENERATOR, json=text.replace('"days": 2', '"days": 3'), **rows_of(scene))
    assert Run.objects.get().scenario["days"] == 3


def test_a_run_is_asked_for_again_with_changes(scene):
    run = run_make(author=scene.lead, title="First")
    page = text_of(client_of(scene.lead), f"{url_of('simulation_new')}?from={run.pk}")
    assert 'value="First, again"' in page
    assert "research-lab" in page


def test_too_many_of_one_person_are_refused_and_say_the_bound(scene, settings: Settings):
    settings.SIMULATION_QUEUED_MOST = 1
    client = client_of(scene.lead)
    assert ask(client, Source.GENERATOR, **rows_of(scene)).status_code == 302
    answer = ask(client, Source.GENERATOR, **rows_of(scene))
    assert answer.status_code == 400
    assert "at most 1 may" in answer.content.decode()


@pytest.mark.parametrize("name", PINNED)
def test_a_page_asks_the_database_as_often_as_pinned(scene, name):
    runs = [done() for _ in range(3)]
    url = url_of(name, *({"simulation": runs[:1], "simulations_compare": runs}.get(name, [])))
    client = client_of(scene.lead)
    client.get(url)
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url).status_code == 200
    assert len(captured) == PINNED[name]


def test_the_comparison_asks_as_often_for_four_as_for_two(scene):
    runs = [done() for _ in range(4)]
    client = client_of(scene.admin)
    counts = []
    for chosen in (runs[:2], runs):
        client.get(url_of("simulations_compare", *chosen))
        with CaptureQueriesContext(connection) as captured:
            client.get(url_of("simulations_compare", *chosen))
        counts.append(len(captured))
    assert counts[1] - counts[0] == 2  # one a run: the run itself
