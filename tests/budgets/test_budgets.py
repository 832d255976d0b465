"""Budgets: one level at a time, never above 100 %, never on top of somebody else's unseen change."""

import threading
from fractions import Fraction
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from pytest_django import DjangoAssertNumQueries

from portal.budgets.models import BudgetChange, BudgetLine
from portal.budgets.selectors import budgets_at, level_at, share_history, shares_of_cluster
from portal.budgets.services import budget_change_create
from portal.clusters.models import Cluster
from portal.common.errors import Conflict, Forbidden, Refused
from portal.common.models import AuditEntry
from portal.projects.models import Project
from tests.factories import START, after, budget_make, cluster_make, project_make, user_make

pytestmark = pytest.mark.django_db


def lab() -> tuple[Project, list[Project]]:
    children = [project_make(f"lab/{slug}") for slug in ("nlp", "vision")]
    return project_make("lab"), children


def change(cluster: Cluster, lines: list[Any], **fields: Any) -> BudgetChange:
    defaults = {
        "base_version": 0,
        "reason": "weekly review",
        "author": None,
        "effective_at": None,
        "now": START,
    }
    return budget_change_create(
        cluster=cluster, parent=Project.objects.get(path="lab"), lines=lines, **{**defaults, **fields}
    )


def refusal_of(lines: list[Any], **fields: Any) -> Refused:
    cluster = cluster_make()
    with pytest.raises(Refused) as refused:
        change(cluster, lines, **fields)
    assert not BudgetChange.objects.exists()
    return refused.value


def test_sixty_and_sixty_percent_are_refused_with_the_total_and_the_names() -> None:
    _, (nlp, vision) = lab()
    refusal = refusal_of([(nlp, 600_000, None), (vision, 600_000, None)])
    assert "120 %" in refusal.detail
    assert "lab/nlp 60 %" in refusal.detail
    assert "lab/vision 60 %" in refusal.detail


def test_a_millionth_above_the_whole_is_refused() -> None:
    _, (nlp, vision) = lab()
    refusal = refusal_of([(nlp, 600_000, None), (vision, 400_001, None)])
    assert "100.0001 %" in refusal.detail


def test_exactly_the_whole_is_allowed() -> None:
    _, (nlp, vision) = lab()
    cluster = cluster_make()
    change(cluster, [(nlp, 999_999, None), (vision, 1, None)])
    assert budgets_at(cluster=cluster, at=START) == {nlp.pk: (999_999, None), vision.pk: (1, None)}


@pytest.mark.parametrize("share", [-1, 1_000_001, 2**40, float("nan"), float("inf"), 0.5, "60", None, True])
def test_a_share_that_is_no_whole_part_of_a_million_is_refused(share: object) -> None:
    _, (nlp, vision) = lab()
    refusal = refusal_of([(nlp, share, None), (vision, 0, None)])
    assert refusal.errors[0].attr == "share_ppm"


@pytest.mark.parametrize("burst", [-1, 2**40, float("nan"), 1.5, "8", False])
def test_a_burst_cap_out_of_bounds_is_refused(burst: object) -> None:
    _, (nlp, vision) = lab()
    assert refusal_of([(nlp, 1, burst), (vision, 0, None)]).errors[0].attr == "burst_gpus"


@pytest.mark.parametrize("reason", ["", "  \n", "a\0b"])
def test_a_blank_reason_is_refused(reason: str) -> None:
    _, (nlp, vision) = lab()
    assert refusal_of([(nlp, 1, None), (vision, 1, None)], reason=reason).errors[0].attr == "reason"


def test_a_change_in_the_past_is_refused() -> None:
    _, (nlp, vision) = lab()
    refusal = refusal_of([(nlp, 1, None), (vision, 1, None)], now=after(10), effective_at=after(9))
    assert refusal.errors[0].attr == "effective_at"


def test_every_child_is_listed_exactly_once() -> None:
    _, (nlp, _) = lab()
    assert "lab/vision" in refusal_of([(nlp, 1, None)]).detail
    assert "more than once: lab/nlp" in refusal_of([(nlp, 1, None), (nlp, 1, None)]).detail


def test_somebody_elses_child_is_refused() -> None:
    _, (nlp, vision) = lab()
    arms = project_make("lab/nlp/arms")
    assert "lab/nlp/arms" in refusal_of([(nlp, 1, None), (vision, 1, None), (arms, 1, None)]).detail


def test_an_archived_project_gives_out_nothing() -> None:
    idle = project_make("lab/idle", archived_at=START)
    with pytest.raises(Refused, match="lab/idle is archived"):
        budget_make(cluster=cluster_make(), parent=idle, percent={})
    assert not BudgetChange.objects.exists()


def test_all_complaints_come_together() -> None:
    _, (nlp, vision) = lab()
    refusal = refusal_of([(nlp, -1, None), (vision, 1, -1)], reason="", now=after(1), effective_at=START)
    assert {error.attr for error in refusal.errors} == {"reason", "effective_at", "share_ppm", "burst_gpus"}


def test_a_stale_edit_is_a_conflict_that_names_the_current_version() -> None:
    _, (nlp, vision) = lab()
    cluster = cluster_make()
    change(cluster, [(nlp, 100, None), (vision, 0, None)])
    with pytest.raises(Conflict) as conflict:
        change(cluster, [(nlp, 200, None), (vision, 0, None)])
    assert conflict.value.current_version == 1
    assert BudgetChange.objects.count() == 1


def test_a_member_and_an_operator_may_not_edit_and_a_lead_of_the_parent_may() -> None:
    parent, (nlp, vision) = lab()
    cluster = cluster_make()
    lines = [(nlp, 100, None), (vision, 0, None)]
    for author in (user_make(project=parent, role="member"), user_make(is_operator=True)):
        with pytest.raises(Forbidden):
            change(cluster, lines, author=author)
    lead = user_make(project=parent, role="lead")
    assert change(cluster, lines, author=lead).author == lead


def test_a_lead_of_the_child_may_not_set_its_own_budget() -> None:
    parent, (nlp, vision) = lab()
    lead = user_make(project=nlp, role="lead")
    with pytest.raises(Exception, match="no project"):
        change(cluster_make(), [(nlp, 1, None), (vision, 0, None)], author=lead)


def test_the_log_says_from_and_to() -> None:
    _, (nlp, vision) = lab()
    cluster = cluster_make()
    change(cluster, [(nlp, 100, None), (vision, 0, None)])
    change(cluster, [(nlp, 300, 16), (vision, 0, None)], base_version=1, now=after(60))
    entry = AuditEntry.objects.filter(action="budget_change_create").latest("pk")
    assert entry.before["lab/nlp"] == {"share_ppm": 100, "burst_gpus": None}
    assert entry.after["lab/nlp"] == {"share_ppm": 300, "burst_gpus": 16}


def test_a_change_takes_effect_at_its_moment_and_not_before() -> None:
    parent, (nlp, _) = lab()
    cluster = cluster_make()
    budget_make(cluster=cluster, parent=parent, percent={"nlp": 50})
    lines = [(project, 250_000, None) for project in Project.objects.filter(parent=parent)]
    change(cluster, lines, base_version=1, now=after(1), effective_at=after(100))
    assert budgets_at(cluster=cluster, at=after(99))[nlp.pk].share_ppm == 500_000
    assert budgets_at(cluster=cluster, at=after(100))[nlp.pk].share_ppm == 250_000


def test_the_level_says_what_an_edit_must_be_based_on_even_when_a_later_change_is_planned() -> None:
    parent, (nlp, vision) = lab()
    cluster = cluster_make()
    budget_make(cluster=cluster, parent=parent, percent={"nlp": 50})
    change(cluster, [(nlp, 1, None), (vision, 1, None)], base_version=1, effective_at=after(100))
    level = level_at(cluster=cluster, parent=parent, at=START)
    assert level.change is not None
    assert (level.change.version, level.current_version) == (1, 2)
    assert level.lines[nlp.pk].share_ppm == 500_000


def test_the_history_has_the_very_first_step_and_the_one_in_force() -> None:
    parent, (nlp, _) = lab()
    cluster = cluster_make()
    for position, percent in enumerate((10, 20, 30, 40)):
        budget_make(cluster=cluster, parent=parent, percent={"nlp": percent}, at=after(100 * position))
    steps = [step for step in share_history(cluster=cluster, since=after(250)) if step.project_id == nlp.pk]
    assert [(step.at, step.share_ppm) for step in steps] == [
        (after(0), 100_000),
        (after(200), 300_000),
        (after(300), 400_000),
    ]


def test_of_two_changes_at_one_moment_the_later_version_counts() -> None:
    parent, (nlp, _) = lab()
    cluster = cluster_make()
    for percent in (10, 20):
        budget_make(cluster=cluster, parent=parent, percent={"nlp": percent})
    steps = [step for step in share_history(cluster=cluster, since=START) if step.project_id == nlp.pk]
    assert [(step.at, step.share_ppm) for step in steps] == [(START, 200_000)]
    assert budgets_at(cluster=cluster, at=START)[nlp.pk].share_ppm == 200_000


def test_the_share_of_the_cluster_is_the_product_along_the_path() -> None:
    parent, (nlp, vision) = lab()
    project_make("lab/nlp/chat")
    cluster = cluster_make()
    budget_make(cluster=cluster, parent=parent, percent={"nlp": 30})
    budget_make(cluster=cluster, parent=nlp, percent={"chat": 50})
    shares = shares_of_cluster(cluster=cluster, at=START)
    assert shares[parent.pk] == 1
    assert shares[vision.pk] == 0
    assert shares[project_make("lab/nlp/chat").pk] == Fraction(15, 100)


def test_reading_budgets_takes_a_fixed_number_of_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    parent, (nlp, _) = lab()
    project_make("lab/nlp/chat")
    cluster = cluster_make()
    for at in range(5):
        budget_make(cluster=cluster, parent=parent, percent={"nlp": 30}, at=after(at))
    budget_make(cluster=cluster, parent=nlp, percent={"chat": 50})
    with django_assert_num_queries(5):
        budgets_at(cluster=cluster, at=after(3))
        share_history(cluster=cluster, since=after(3))
        shares_of_cluster(cluster=cluster, at=after(3))


def test_the_database_itself_refuses_more_than_the_whole() -> None:
    parent, (nlp, vision) = lab()
    made = budget_make(cluster=cluster_make(), parent=parent, percent={})
    raw = BudgetChange.objects.create(
        cluster=made.cluster,
        parent=parent,
        version=2,
        base_version=1,
        reason="past the services",
        created_at=START,
        effective_at=START,
    )
    with pytest.raises(IntegrityError, match="more than 1000000"), transaction.atomic():
        for project in (nlp, vision):
            BudgetLine.objects.create(change=raw, project=project, share_ppm=600_000)
        connection.check_constraints()


@pytest.mark.parametrize("action", ["update", "delete"])
def test_the_database_itself_keeps_the_history_append_only(action: str) -> None:
    parent, _ = lab()
    made = budget_make(cluster=cluster_make(), parent=parent, percent={"nlp": 10})
    rows = BudgetLine.objects.filter(change=made)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        rows.update(share_ppm=1) if action == "update" else rows._raw_delete(rows.db)


@pytest.mark.django_db(transaction=True)
def test_of_two_managers_at_once_one_saves_and_the_other_gets_a_conflict() -> None:
    _, (nlp, vision) = lab()
    cluster = cluster_make()
    start = threading.Barrier(2)
    outcomes: list[str] = []

    def edit(share_ppm: int) -> None:
        start.wait(timeout=10)
        try:
            change(cluster, [(nlp, share_ppm, None), (vision, 0, None)])
            outcomes.append("saved")
        except Conflict:
            outcomes.append("conflict")
        finally:
            connection.close()

    threads = [threading.Thread(target=edit, args=(share,)) for share in (100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(outcomes) == ["conflict", "saved"]
    assert BudgetChange.objects.count() == 1
