"""Taking changes back, withdrawing what is still ahead, and what the record says of each change."""

from datetime import datetime
from fractions import Fraction
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from pytest_django import DjangoAssertNumQueries

from portal.budgets.history import Recorded, changes_of_project, changes_recorded
from portal.budgets.models import BudgetChange
from portal.budgets.selectors import budgets_at, share_history, shares_at, shares_of_cluster, version_of_level
from portal.budgets.services import budget_change_create
from portal.budgets.undo import budget_change_undo
from portal.clusters.models import Cluster
from portal.common.errors import Conflict, Forbidden, Refused
from portal.common.models import AuditEntry
from portal.projects.models import Project
from portal.scheduling.project_tree import project_move
from tests.factories import START, after, budget_make, cluster_make, project_make, user_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> Project:
    """lab with nlp and vision; on the cluster `local` nlp has 30 % and vision 20 % from START on."""
    for slug in ("nlp", "vision"):
        project_make(f"lab/{slug}")
    root = project_make("lab")
    budget_make(cluster=cluster_make("local"), parent=root, percent={"nlp": 30, "vision": 20})
    return root


def cluster() -> Cluster:
    return Cluster.objects.get(name="local")


def level_set(lab: Project, at: datetime, **percent: float) -> BudgetChange:
    return budget_make(cluster=cluster(), parent=lab, percent=percent, at=at)


def planned(lab: Project, at: datetime, **percent: int) -> BudgetChange:
    """A change made at START that takes effect later."""
    lines = [(child, percent.get(child.slug, 0) * 10_000, None) for child in Project.objects.filter(parent=lab)]
    return budget_change_create(
        cluster=cluster(),
        parent=lab,
        base_version=version_of_level(cluster=cluster(), parent=lab),
        lines=lines,
        reason="later",
        author=None,
        effective_at=at,
        now=START,
    )


def undo(change: BudgetChange, **fields: Any) -> BudgetChange:
    newest = BudgetChange.objects.filter(cluster=change.cluster, parent=change.parent).latest("version").version
    given = {"base_version": newest, "reason": "a mistake", "author": None, "effective_at": None, "now": after(1000)}
    return budget_change_undo(change=change, **{**given, **fields})


def percents(at: datetime) -> dict[str, float]:
    lines = budgets_at(cluster=cluster(), at=at)
    return {project.slug: lines[project.pk].share_ppm / 10_000 for project in Project.objects.filter(pk__in=lines)}


def record_of(change: BudgetChange, at: datetime) -> Recorded:
    return changes_recorded(changes=[BudgetChange.objects.get(pk=change.pk)], at=at)[0]


def moves_of(change: BudgetChange, at: datetime = START) -> dict[str, tuple[int | None, int | None]]:
    return {
        move.project.slug: (move.before and move.before.share_ppm, move.after and move.after.share_ppm)
        for move in record_of(change, at).moves
    }


def test_an_undo_is_a_new_change_that_names_what_it_undoes(lab: Project) -> None:
    change = level_set(lab, after(10), nlp=50, vision=20)
    undone = undo(change)
    assert (undone.version, undone.undoes) == (3, change)
    assert percents(after(999)) == {"nlp": 50, "vision": 20}
    assert percents(after(1000)) == {"nlp": 30, "vision": 20}


def test_an_undo_leaves_what_others_moved_since(lab: Project) -> None:
    change = level_set(lab, after(10), nlp=50, vision=20)
    level_set(lab, after(20), nlp=50, vision=40)
    undo(change)
    assert percents(after(1000)) == {"nlp": 30, "vision": 40}


def test_an_undo_that_no_longer_fits_is_refused_with_the_total(lab: Project) -> None:
    change = level_set(lab, after(10), nlp=10, vision=20)
    level_set(lab, after(20), nlp=10, vision=90)
    with pytest.raises(Refused, match="120 %"):
        undo(change)


def test_an_undo_on_top_of_an_unseen_change_is_a_conflict(lab: Project) -> None:
    change = level_set(lab, after(10), nlp=50, vision=20)
    level_set(lab, after(20), nlp=50, vision=40)
    with pytest.raises(Conflict) as conflict:
        undo(change, base_version=2)
    assert conflict.value.current_version == 3


def test_an_undo_may_be_set_for_later(lab: Project) -> None:
    undo(level_set(lab, after(10), nlp=50, vision=20), effective_at=after(5000))
    assert percents(after(4999))["nlp"] == 50
    assert percents(after(5000))["nlp"] == 30


def test_an_undo_of_an_undo_brings_the_change_back(lab: Project) -> None:
    undone = undo(level_set(lab, after(10), nlp=50, vision=20))
    undo(undone, now=after(2000))
    assert percents(after(2000))["nlp"] == 50


def test_undoing_twice_is_refused_because_nothing_is_left_to_undo(lab: Project) -> None:
    change = level_set(lab, after(10), nlp=50, vision=20)
    undo(change)
    with pytest.raises(Refused, match="nothing to undo"):
        undo(change, now=after(2000))


def test_an_undo_needs_a_reason_and_a_lead(lab: Project) -> None:
    change = level_set(lab, after(10), nlp=50, vision=20)
    with pytest.raises(Refused, match="reason"):
        undo(change, reason=" ")
    with pytest.raises(Forbidden):
        undo(change, author=user_make(role="member", project=lab))
    assert BudgetChange.objects.count() == 2


def test_a_planned_change_is_withdrawn_and_never_counts(lab: Project) -> None:
    change = planned(lab, after(5000), nlp=60, vision=20)
    withdrawal = undo(change)
    assert withdrawal.withdraws == change
    assert percents(after(6000)) == {"nlp": 30, "vision": 20}
    assert record_of(change, after(1000)).state == "withdrawn"
    assert record_of(withdrawal, after(1000)).state == "withdrawal"


def test_after_a_withdrawal_what_is_decided_meanwhile_stays(lab: Project) -> None:
    change = planned(lab, after(5000), nlp=60, vision=20)
    undo(change)
    level_set(lab, after(2000), nlp=70, vision=20)
    assert percents(after(6000)) == {"nlp": 70, "vision": 20}
    assert {step.at for step in share_history(cluster=cluster(), since=START)} == {START, after(2000)}


def test_a_withdrawal_needs_the_newest_version_a_reason_and_can_be_done_once(lab: Project) -> None:
    change = planned(lab, after(5000), nlp=60, vision=20)
    with pytest.raises(Conflict):
        undo(change, base_version=1)
    with pytest.raises(Refused, match="reason"):
        undo(change, reason="")
    withdrawal = undo(change)
    with pytest.raises(Refused, match="withdrawn already"):
        undo(change)
    with pytest.raises(Refused, match="can't be undone"):
        undo(withdrawal)


def test_a_withdrawal_is_in_the_log_with_from_and_to(lab: Project) -> None:
    undo(planned(lab, after(5000), nlp=60, vision=20))
    entry = AuditEntry.objects.get(action="budget_change_withdraw")
    assert entry.reason == "a mistake"
    assert entry.after["lab/nlp"] == {"share_ppm": 300_000, "burst_gpus": None}


@pytest.mark.parametrize("moment", [0, 10])
def test_the_database_itself_withdraws_only_what_is_still_ahead(lab: Project, moment: int) -> None:
    change = level_set(lab, after(10), nlp=50)
    with pytest.raises(IntegrityError, match="still ahead"), transaction.atomic():
        BudgetChange.objects.create(
            cluster=change.cluster,
            parent=lab,
            version=3,
            base_version=2,
            reason="past the services",
            created_at=after(10 + moment),
            effective_at=after(10),
            withdraws=change,
        )


def test_the_record_says_from_and_to_in_the_order_in_which_changes_count(lab: Project) -> None:
    later = planned(lab, after(5000), nlp=60, vision=20)
    now_made = level_set(lab, after(100), nlp=40, vision=20)
    assert moves_of(now_made) == {"nlp": (300_000, 400_000)}
    assert moves_of(later) == {"nlp": (400_000, 600_000)}


def test_the_record_says_what_has_become_of_each_change(lab: Project) -> None:
    first = BudgetChange.objects.get()
    overtaken = level_set(lab, after(100), nlp=40)
    second = level_set(lab, after(100), nlp=45)
    ahead = planned(lab, after(5000), nlp=45)
    states = [record_of(change, after(200)).state for change in (first, overtaken, second, ahead)]
    assert states == ["past", "superseded", "in_force", "planned"]
    assert record_of(second, after(5000)).state == "past"


def test_the_change_in_force_says_so(lab: Project) -> None:
    change = level_set(lab, after(100), nlp=40)
    assert record_of(change, after(99)).state == "planned"
    assert record_of(change, after(100)).state == "in_force"


def test_the_history_of_a_project_has_the_changes_of_its_level_only(lab: Project) -> None:
    project_make("lab/nlp/chat")
    budget_make(cluster=cluster(), parent=project_make("lab/nlp"), percent={"chat": 50})
    found = changes_of_project(cluster=cluster(), project=project_make("lab/nlp"))
    assert [change.parent.path for change in found] == ["lab"]


def test_the_record_takes_three_queries_however_many_changes(
    lab: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for step in range(1, 12):
        level_set(lab, after(step), nlp=step)
    changes = list(BudgetChange.objects.select_related("withdraws"))
    with django_assert_num_queries(3):
        assert len(changes_recorded(changes=changes, at=after(100))) == 12


def test_a_project_that_is_moved_has_its_old_share_before_and_none_after(lab: Project) -> None:
    nlp, vision = project_make("lab/nlp"), project_make("lab/vision")
    project_move(project=nlp, parent=vision, actor=None, now=after(100))
    assert shares_of_cluster(cluster=cluster(), at=after(99))[nlp.pk] == Fraction(3, 10)
    assert shares_of_cluster(cluster=cluster(), at=after(100))[nlp.pk] == 0
    budget_make(cluster=cluster(), parent=vision, percent={"nlp": 50}, at=after(200))
    assert shares_of_cluster(cluster=cluster(), at=after(200))[nlp.pk] == Fraction(1, 10)
    steps = [step for step in share_history(cluster=cluster(), since=START) if step.project_id == nlp.pk]
    assert [(step.at, step.share_ppm) for step in steps] == [
        (START, 300_000),
        (after(100), 0),
        (after(200), 500_000),
    ]


def test_what_is_given_and_what_is_kept_add_up_to_the_whole(lab: Project) -> None:
    project_make("lab/nlp/chat")
    budget_make(cluster=cluster(), parent=project_make("lab/nlp"), percent={"chat": 33.3333})
    found = shares_at(cluster=cluster(), at=START)
    assert sum(found.own.values()) == 1
    assert found.own[lab.pk] == Fraction(1, 2)
