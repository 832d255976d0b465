"""Simulations in REST: asking, reading, cancelling, the report as CSV, traces."""

import json

import pytest
from pytest_django import Settings

from portal.simulations.life import run_finish, run_start
from portal.simulations.models import Run, RunState
from tests.api.support import attrs_of, client_of, problem_require
from tests.factories import after, project_make, user_make
from tests.simulations.portal_runs import GENERATED, LAST, TINY, TINY_TRACE, lab_make, report_make, run_make

pytestmark = pytest.mark.django_db

BODY = {"title": "Less for nlp", "source": "generator", "scenario": GENERATED}
HISTORY = {"title": "As it was", "history_from": "2026-11-02T00:00:00Z", "history_to": LAST.isoformat()}


@pytest.fixture
def lead():
    """Leads the root of a small laboratory with two days of history."""
    lab_make()
    return user_make(role="lead", project=project_make("lab"))


def done_make(**fields):
    """A run that is done."""
    from uuid import uuid4

    run, claim = run_make(**fields), uuid4()
    run_start(claim=claim, now=after(1))
    run_finish(
        run_id=run.pk, claim=claim, report=report_make(), notes=["Of lab/vision."], code_version="1+x",
        wall_seconds=1.0, now=after(2),
    )  # fmt: skip
    return run


def test_a_simulation_is_asked_for_and_read(lead):
    client = client_of(lead)
    made = client.post("/api/v1/simulations/", BODY, format="json")
    assert made.status_code == 201, made.content
    answer = client.get(made.headers["Location"]).json()
    assert (answer["state"], answer["source"], answer["author"]) == ("queued", "generator", lead.username)
    assert answer["scenario"] == GENERATED
    assert answer["report"] is None


def test_a_history_is_replayed_with_edits(lead):
    body = {
        **HISTORY,
        "shares": [{"project": "lab/nlp", "percent": 12.5, "burst_gpus": 4}],
        "policy": {"lookback_days": 3},
        "hosts": 5,
    }
    made = client_of(lead).post("/api/v1/simulations/", body, format="json")
    assert made.status_code == 201, made.content
    scenario = made.json()["scenario"]
    lines = {line["path"]: line for line in scenario["projects"]}
    assert (lines["lab/nlp"]["share_percent"], lines["lab/nlp"]["burst_gpus"]) == (12.5, 4)
    assert scenario["clusters"][0]["policy"] == {"lookback_days": 3}
    assert sum(group["count"] for group in scenario["clusters"][0]["hosts"]) == 5


@pytest.mark.parametrize(
    ("change", "attr"),
    [
        ({"title": ""}, "title"),
        ({"source": "dreams"}, "source"),
        ({"scenario": {**GENERATED, "dais": 1}}, "scenario"),
        ({"scenario": []}, "scenario"),
        ({"scenario": {**GENERATED, "\0": 1}}, "scenario"),
        ({"scenario": {**GENERATED, "\ud800": 1}}, "scenario"),
        ({"scenario": {**GENERATED, "days": 1e300}}, "scenario"),
        ({"cluster": "nowhere"}, "cluster"),
        ({"trace": 77, "source": "trace"}, "trace"),
        ({"seed": -1}, "seed"),
        ({"scenario": {**GENERATED, "days": 10**400}}, "scenario"),
        ({"hosts": 5}, "hosts"),
        ({"hosts": 0}, "hosts"),
        ({"wishes": 3}, "wishes"),
    ],
)
def test_what_is_wrong_is_named(lead, change, attr):
    body = json.dumps({**BODY, **change})
    answer = client_of(lead).generic("POST", "/api/v1/simulations/", body, content_type="application/json")
    problem_require(answer, 400)
    assert attr in attrs_of(answer)


def test_a_number_without_end_is_refused_at_once(lead):
    body = json.dumps({**BODY, "scenario": {**GENERATED, "days": "@"}}).replace('"@"', "1e999999999")
    answer = client_of(lead).generic("POST", "/api/v1/simulations/", body, content_type="application/json")
    problem_require(answer, 400)
    assert attrs_of(answer) == {"scenario"}


def test_a_project_has_one_line_among_the_edits(lead):
    shares = [{"project": "lab/nlp", "percent": percent} for percent in (5, 6)]
    answer = client_of(lead).post("/api/v1/simulations/", {**HISTORY, "shares": shares}, format="json")
    problem_require(answer, 400)
    assert attrs_of(answer) == {"shares"}


def test_a_history_must_begin_somewhere(lead):
    answer = client_of(lead).post("/api/v1/simulations/", {"title": "x"}, format="json")
    assert attrs_of(answer) == {"history_from"}


def test_a_member_reads_and_may_not_run(lead):
    member = user_make(role="member", project=project_make("lab/nlp"))
    client = client_of(member)
    problem_require(client.post("/api/v1/simulations/", BODY, format="json"), 403)
    run = run_make(author=lead)
    assert client.get("/api/v1/simulations/").json()["results"][0]["id"] == run.pk
    problem_require(client.post(f"/api/v1/simulations/{run.pk}/cancel/"), 403)


def test_the_report_leaves_out_what_its_reader_may_not_see(lead):
    run = done_make(author=lead, scenario={**TINY, "workload": {"generator": "research-lab"}})
    member = user_make(role="member", project=project_make("lab/nlp"))
    seen, whole = (client_of(user).get(f"/api/v1/simulations/{run.pk}/").json() for user in (member, lead))
    assert set(whole["report"]["by_project"]) == {"lab", "lab/nlp", "lab/vision"}
    assert set(seen["report"]["by_project"]) == {"lab/nlp"}
    assert seen["report"]["hidden_projects"] == 2
    assert [line["path"] for line in seen["scenario"]["projects"]] == ["lab/nlp"]
    assert seen["notes"] == ["Of a project."]
    assert seen["report"]["delivery_mean"] == whole["report"]["delivery_mean"]


def test_who_leads_a_part_gives_edits_and_no_scenario_of_the_history(lead):
    lab_lead = user_make(role="lead", project=project_make("lab/nlp"))
    client = client_of(lab_lead)
    problem_require(client.post("/api/v1/simulations/", {**HISTORY, "scenario": TINY}, format="json"), 403)
    hidden = {**HISTORY, "shares": [{"project": "lab/vision", "percent": 1}]}
    assert attrs_of(client.post("/api/v1/simulations/", hidden, format="json")) == {"shares"}
    too_much = {**HISTORY, "shares": [{"project": "lab/nlp", "percent": 90}]}
    answer = client.post("/api/v1/simulations/", too_much, format="json")
    assert "lab/vision" not in answer.content.decode()
    assert "120 %" in answer.content.decode()


def test_cancelling_twice_gives_the_same(lead):
    run = run_make(author=lead)
    client = client_of(lead)
    answers = [client.post(f"/api/v1/simulations/{run.pk}/cancel/").json() for _ in range(2)]
    assert [answer["state"] for answer in answers] == [RunState.CANCELLED] * 2
    assert answers[0]["ended_at"] == answers[1]["ended_at"]


def test_projects_and_days_come_as_csv_once_it_is_done(lead):
    client = client_of(lead)
    done, waiting = done_make(author=lead), run_make(author=lead)
    problem_require(client.get(f"/api/v1/simulations/{waiting.pk}/days/"), 409)
    lines = client.get(f"/api/v1/simulations/{done.pk}/days/").getvalue().decode("utf-8-sig").splitlines()
    assert lines[0].startswith("cluster,project,day,owed,delivered")
    assert lines[1].startswith("gen,lab,0,")


def test_lists_are_narrowed_and_unknown_filters_refused(lead):
    client = client_of(lead)
    done = done_make(author=user_make(is_operator=True))
    run_make(author=lead)
    found = client.get("/api/v1/simulations/?state=done").json()["results"]
    assert [row["id"] for row in found] == [done.pk]
    assert client.get(f"/api/v1/simulations/?author={lead.username}").json()["count"] == 1
    problem_require(client.get("/api/v1/simulations/?colour=red"), 400)


def test_a_trace_is_uploaded_and_used(lead):
    client = client_of(lead)
    sent = client.generic("POST", "/api/v1/simulation-traces/?name=tiny.csv", TINY_TRACE, content_type="text/csv")
    assert sent.status_code == 201, sent.content
    trace = sent.json()
    assert (trace["name"], trace["size_bytes"]) == ("tiny.csv", len(TINY_TRACE))
    body = {"title": "Theirs", "source": "trace", "trace": trace["id"], "scenario": TINY}
    assert client.post("/api/v1/simulations/", body, format="json").status_code == 201


def test_a_trace_that_is_too_large_is_refused_while_it_is_read(lead, settings: Settings):
    settings.SIMULATION_TRACE_BYTES = 10
    answer = client_of(lead).generic("POST", "/api/v1/simulation-traces/", TINY_TRACE, content_type="text/csv")
    problem_require(answer, 413)


def test_somebody_elses_trace_is_not_theirs_to_use(lead):
    other = user_make(is_operator=True)
    sent = client_of(other).generic("POST", "/api/v1/simulation-traces/", TINY_TRACE, content_type="text/csv")
    body = {"title": "x", "source": "trace", "trace": sent.json()["id"], "scenario": TINY}
    assert attrs_of(client_of(lead).post("/api/v1/simulations/", body, format="json")) == {"trace"}


def test_a_trace_can_have_its_scenario_from_the_cluster(lead):
    client = client_of(lead)
    sent = client.generic("POST", "/api/v1/simulation-traces/", TINY_TRACE, content_type="text/csv")
    body = {"title": "Theirs here", "source": "trace", "trace": sent.json()["id"]}
    made = client.post("/api/v1/simulations/", body, format="json")
    assert made.status_code == 201, made.content
    assert Run.objects.get().cluster.name == "local"
    assert made.json()["scenario"]["days"] is None


def test_a_missing_simulation_is_not_found(lead):
    client = client_of(lead)
    for address in ("simulations/9/", "simulations/9/days/", f"simulations/{10**30}/"):
        problem_require(client.get(f"/api/v1/{address}"), 404)
