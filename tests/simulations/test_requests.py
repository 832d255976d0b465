"""Asking for simulations: who may, what is refused, what is recorded."""

from datetime import timedelta

import pytest
from pytest_django import Settings

from portal.common.errors import Forbidden, Refused
from portal.common.models import AuditEntry
from portal.simulations.models import Run, RunState, Source, UploadedTrace
from portal.simulations.services import comparison_request, run_cancel, trace_store
from tests.factories import START, after, project_make, user_make
from tests.simulations.portal_runs import GENERATED, LAST, TINY, TINY_TRACE, lab_make, run_make

pytestmark = pytest.mark.django_db


def lead():
    return user_make(role="lead", project=project_make("lab/nlp"))


@pytest.mark.parametrize("role", ["viewer", "member"])
def test_who_leads_nothing_may_not_run(role):
    with pytest.raises(Forbidden):
        run_make(author=user_make(role=role, project=project_make("lab/nlp")))


def test_a_lead_of_any_project_and_an_operator_run():
    runs = [run_make(author=lead()), run_make(author=user_make(is_operator=True))]
    assert [run.state for run in runs] == [RunState.QUEUED, RunState.QUEUED]


def test_a_request_is_audited_with_its_author():
    author = lead()
    run = run_make(author=author)
    entry = AuditEntry.objects.get(action="run_request")
    assert (entry.actor, entry.target_id) == (author, run.pk)


def test_the_seed_is_the_scenarios_unless_another_is_given():
    assert run_make().seed == 3
    assert run_make(seed=8).seed == 8


def test_an_unknown_key_is_refused_by_name():
    with pytest.raises(Refused) as refusal:
        run_make(scenario={**GENERATED, "dais": 3})
    assert "dais" in refusal.value.detail
    assert "days" in refusal.value.detail


def test_all_that_is_wrong_is_said_together():
    with pytest.raises(Refused) as refusal:
        run_make(title=" ", seed=-1, scenario={**GENERATED, "days": 0})
    assert {error.attr for error in refusal.value.errors} == {"title", "seed", "scenario"}


def test_budgets_above_a_hundred_percent_are_refused():
    lines = [{**line, "share_percent": 60} for line in TINY["projects"]]
    with pytest.raises(Refused, match="120 %"):
        run_make(scenario={**GENERATED, "clusters": TINY["clusters"], "projects": lines})


def test_too_many_hosts_for_too_many_days_are_refused_with_the_bound(settings: Settings):
    settings.SIMULATION_HOST_DAYS = 3
    with pytest.raises(Refused, match="4 hosts over 1 days are 4 host-days; a simulation has at most 3"):
        run_make()


def test_a_person_may_have_so_many_waiting_and_no_more(settings: Settings):
    settings.SIMULATION_QUEUED_MOST = 2
    author = lead()
    first, _ = run_make(author=author), run_make(author=author)
    with pytest.raises(Refused, match="at most 2"):
        run_make(author=author)
    run_cancel(run=first, actor=author, now=START)
    assert run_make(author=author).state == RunState.QUEUED


def test_the_generator_needs_its_name_in_the_scenario():
    with pytest.raises(Refused, match="research-lab"):
        run_make(scenario=TINY)


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (None, "Give the range"),
        ((START, START + timedelta(seconds=59)), "1 minute to 366 days"),
        ((START, START + timedelta(days=400)), "end by now"),
    ],
)
def test_a_history_needs_a_range_that_makes_sense(history, words):
    cluster, _ = lab_make()
    with pytest.raises(Refused, match=words):
        run_make(cluster=cluster, source=Source.HISTORY, scenario=TINY, history=history, now=LAST)


def test_a_trace_is_kept_once_and_never_as_a_program():
    author = lead()
    traces = [trace_store(name="a.csv", content=TINY_TRACE, author=author, now=after(at)) for at in (0, 9)]
    assert traces[0] == traces[1]
    assert UploadedTrace.objects.count() == 1


def test_a_trace_that_is_too_large_or_empty_is_refused(settings: Settings):
    settings.SIMULATION_TRACE_BYTES = 1024**2
    author = lead()
    for content, words in ((b"x" * (1024**2 + 1), "more than 1 MB"), (b" \n", "empty")):
        with pytest.raises(Refused, match=words):
            trace_store(name="a.csv", content=content, author=author, now=START)


def test_what_is_kept_of_one_person_is_bounded(settings: Settings):
    settings.SIMULATION_STORED_BYTES = len(TINY_TRACE)
    author = lead()
    trace_store(name="a.csv", content=TINY_TRACE, author=author, now=START)
    with pytest.raises(Refused, match="are kept"):
        trace_store(name="b.csv", content=TINY_TRACE + b"5,ada,lab/nlp,1,1,1\n", author=author, now=START)


def test_a_comparison_replays_the_same_days_with_other_budgets():
    cluster, _ = lab_make()
    nlp = project_make("lab/nlp")
    author = user_make(role="lead", project=project_make("lab"))
    comparison = comparison_request(
        cluster=cluster, shares={nlp.pk: (250_000, 4)}, title="Less", author=author, now=LAST, history_days=1
    )
    today, draft = comparison.today, comparison.draft
    assert (today.history_from, today.history_to) == (draft.history_from, draft.history_to)
    lines = [{line["path"]: line for line in run.scenario["projects"]} for run in (today, draft)]
    assert [each["lab/nlp"]["share_percent"] for each in lines] == [60, 25]
    assert lines[1]["lab/nlp"]["burst_gpus"] == 4
    assert lines[0]["lab/vision"] == lines[1]["lab/vision"]


def test_a_comparison_whose_second_run_has_no_room_queues_neither(settings: Settings):
    settings.SIMULATION_QUEUED_MOST = 1
    cluster, _ = lab_make()
    with pytest.raises(Refused):
        comparison_request(
            cluster=cluster, shares={}, title="x", author=user_make(is_operator=True), now=LAST, history_days=1
        )
    assert Run.objects.count() == 0


def test_one_that_waits_is_cancelled_at_once_and_again_changes_nothing():
    author = lead()
    run = run_make(author=author)
    first = run_cancel(run=run, actor=author, now=after(5))
    again = run_cancel(run=run, actor=author, now=after(9))
    assert (first.state, again.ended_at) == (RunState.CANCELLED, after(5))
    assert AuditEntry.objects.filter(action="run_cancel").count() == 1


def test_another_lead_may_not_cancel_it_but_a_lead_of_the_root_may():
    run = run_make(author=lead())
    with pytest.raises(Forbidden):
        run_cancel(run=run, actor=user_make(role="lead", project=project_make("lab/vision")), now=START)
    manager = user_make(role="lead", project=project_make("lab"))
    assert run_cancel(run=run, actor=manager, now=START).state == RunState.CANCELLED
