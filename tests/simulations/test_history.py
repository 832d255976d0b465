"""This portal's history as a trace and a scenario: what ran, how long, what is left out and said."""

from datetime import timedelta

import numpy as np
import pytest

from portal.clusters.models import HostSpan
from portal.common.errors import Refused
from portal.common.units import HOUR_SECONDS
from portal.simulations.history import history_read
from portal.simulations.portal_scenario import history_begin, history_known, scenario_of_history, scenario_of_now
from portal.simulations.scenario import build, read_scenario
from portal.workloads.models import Workload
from tests.factories import START, attempt_make, budget_make, cluster_make, host_make, project_make, workload_make
from tests.simulations.portal_runs import LAST, lab_make

pytestmark = pytest.mark.django_db

ROWS_MOST = 1000


def read(cluster, start=START, end=LAST):
    return history_read(cluster=cluster, start=start, end=end, rows_most=ROWS_MOST)


def test_each_workload_counts_from_its_submission_with_the_time_that_it_really_ran():
    cluster, _ = lab_make()
    rows = read(cluster).rows
    assert rows.submit_at.tolist() == [hour * HOUR_SECONDS for hour in (1, 5, 30)]
    assert rows.duration_seconds.tolist() == [hours * HOUR_SECONDS for hours in (2, 1, 3)]
    assert [rows.projects[index] for index in rows.project] == ["lab/nlp", "lab/nlp", "lab/vision"]
    assert rows.gpus.tolist() == [2, 2, 2]


def test_nobodys_name_is_in_it():
    cluster, _ = lab_make()
    authors = set(Workload.objects.values_list("author__username", flat=True))
    assert not authors & set(read(cluster).rows.users)


def test_attempts_add_up_and_an_interrupted_one_counts_to_its_last_checkpoint():
    cluster, host = lab_make()
    workload = workload_make(project=project_make("lab/nlp"), cluster=cluster, submitted_at=START)
    for hour, hours, outcome, saved in ((10, 3, "preempted", 2), (14, 1, "succeeded", None)):
        began = START + timedelta(hours=hour)
        attempt_make(
            workload=workload, hosts=[host], state="ended", outcome=outcome, queued_at=began, decided_at=began,
            ended_at=began + timedelta(hours=hours),
            checkpointed_at=saved and began + timedelta(hours=saved),
        )  # fmt: skip
    Workload.objects.filter(pk=workload.pk).update(state="succeeded", ended_at=START + timedelta(hours=15))
    rows = read(cluster).rows
    assert rows.duration_seconds[rows.ids.index(str(workload.pk))] == 3 * HOUR_SECONDS


def test_what_had_not_ended_counts_with_what_it_ran_and_is_said():
    cluster, host = lab_make()
    at = LAST - timedelta(hours=4)
    running = workload_make(project=project_make("lab/nlp"), cluster=cluster, submitted_at=at)
    attempt_make(workload=running, hosts=[host])
    history = read(cluster)
    assert history.rows.duration_seconds[-1] == 4 * HOUR_SECONDS
    assert "1 of them had not ended by its end" in " ".join(history.notes)


def test_what_never_ran_is_left_out_and_counted():
    cluster, _ = lab_make()
    workload_make(project=project_make("lab/nlp"), cluster=cluster)
    history = read(cluster)
    assert len(history.rows) == 3
    assert "1 more had asked and not run" in " ".join(history.notes)


def test_what_ran_before_the_range_counts_for_its_rest_only():
    cluster, _ = lab_make()
    rows = read(cluster, start=START + timedelta(hours=2)).rows
    assert (rows.submit_at[0], rows.duration_seconds[0]) == (0, HOUR_SECONDS)


def test_another_clusters_work_is_not_in_it():
    cluster, _ = lab_make()
    other = cluster_make("other")
    workload = workload_make(project=project_make("lab/nlp"), clusters=[cluster, other])
    attempt_make(workload=workload, hosts=[host_make(cluster=other)])
    assert str(workload.pk) not in read(cluster).rows.ids


def test_whether_it_may_run_unallocated_goes_along():
    cluster, _ = lab_make()
    last = Workload.objects.order_by("pk").last()
    Workload.objects.filter(pk=last.pk).update(allow_unallocated=False)
    assert read(cluster).allow_unallocated.tolist() == [True, True, False]


def test_too_many_rows_and_none_at_all_are_refused():
    cluster, _ = lab_make()
    with pytest.raises(Refused, match="3 workloads ran in this range; a simulation takes at most 2"):
        history_read(cluster=cluster, start=START, end=LAST, rows_most=2)
    with pytest.raises(Refused, match="Nothing ran"):
        history_read(cluster=cluster_make("other"), start=START, end=LAST, rows_most=2)


def test_budgets_are_steps_and_the_one_in_force_at_the_beginning_stands_at_zero():
    cluster, _ = lab_make()
    lab = project_make("lab")
    budget_make(cluster=cluster, parent=lab, percent={"nlp": 40, "vision": 30}, at=START + timedelta(hours=36))
    scenario = scenario_of_history(cluster=cluster, start=START + timedelta(days=1), end=LAST)
    nlp = [(line["from_s"], line["share_percent"]) for line in scenario["projects"] if line["path"] == "lab/nlp"]
    assert scenario["warmup_days"] == 1
    assert nlp == [(0, 60), (36 * HOUR_SECONDS, 40)]


def test_a_project_between_without_a_budget_has_none_in_the_scenario():
    cluster, _ = lab_make()
    budget_make(cluster=cluster, parent=project_make("lab/deep"), percent={})
    project_make("lab/deep/down")
    budget_make(cluster=cluster, parent=project_make("lab/deep"), percent={"down": 50})
    scenario = scenario_of_history(cluster=cluster, start=START, end=LAST)
    shares = {line["path"]: line["share_percent"] for line in scenario["projects"]}
    assert (shares["lab/deep"], shares["lab/deep/down"]) == (0, 50)


def test_the_warm_up_is_a_week_where_history_has_one():
    cluster, _ = lab_make()
    end = START + timedelta(days=12)
    scenario = scenario_of_history(cluster=cluster, start=START + timedelta(days=10), end=end)
    assert (scenario["warmup_days"], scenario["days"]) == (7, 2)
    assert history_begin(START + timedelta(days=10), scenario) == START + timedelta(days=3)


def test_a_host_that_was_away_for_a_while_is_so_in_the_scenario():
    cluster, host = lab_make()
    first, second = (START + timedelta(hours=hour) for hour in (3, 6))
    HostSpan.objects.filter(host=host).update(end_at=first)
    for state, start, end in (("unreachable", first, second), ("schedulable", second, None)):
        HostSpan.objects.create(host=host, cluster=cluster, gpus=8, state=state, start_at=start, end_at=end)
    late = host_make(cluster=cluster, registered_at=second)
    events = scenario_of_history(cluster=cluster, start=START, end=LAST)["host_events"]
    assert [(event["host"], event["event"], event["at_s"] // HOUR_SECONDS) for event in events] == [
        ("local-000", "fail", 3),
        ("local-000", "repair", 6),
        ("local-001", "drain", 0),
        ("local-001", "repair", 6),
    ]
    assert late.gpus == 8


def test_the_scenario_can_be_built_with_the_history():
    cluster, _ = lab_make()
    scenario = scenario_of_history(cluster=cluster, start=START, end=LAST)
    (built,) = build(read_scenario(scenario), read(cluster).rows)
    setup = built.setup
    assert [setup.projects[index].path for index in setup.jobs.project] == ["lab/nlp", "lab/nlp", "lab/vision"]
    assert np.array_equal(setup.jobs.id, [0, 1, 2])
    assert setup.gpus == 8


def test_policy_settings_that_differ_from_the_defaults_are_taken_over():
    from portal.clusters.models import PolicyChange

    cluster, _ = lab_make()
    PolicyChange.objects.create(
        cluster=cluster, version=1, overrides={"lookback_seconds": 86_400}, reason="x", created_at=START
    )
    scenario = scenario_of_now(cluster=cluster, at=LAST)
    assert scenario["clusters"][0]["policy"] == {"lookback_seconds": 86_400}


def test_a_range_begins_with_the_clusters_first_host_and_has_whole_days_where_it_has_any():
    cluster, _ = lab_make()
    assert history_known(cluster=cluster, start=START - timedelta(days=9), end=LAST) == (START, LAST)
    late, short = LAST + timedelta(hours=5), START + timedelta(hours=5)
    assert history_known(cluster=cluster, start=START, end=late) == (START + timedelta(hours=5), late)
    assert history_known(cluster=cluster, start=START, end=short) == (START, short)
    with pytest.raises(Refused, match="no hosts"):
        history_known(cluster=cluster_make("empty"), start=START, end=LAST)
