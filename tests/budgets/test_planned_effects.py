"""What a change that is still ahead makes of a level that is decided now."""

from datetime import datetime, timedelta

import pytest

from portal.budgets.models import BudgetChange
from portal.budgets.selectors import Line, planned_effects, set_back_by, version_of_level
from portal.budgets.services import budget_change_create
from portal.budgets.undo import budget_change_undo
from portal.clusters.models import Cluster
from portal.dashboard.budget_history import planned_words
from portal.projects.models import Project
from tests.factories import START, budget_make, cluster_make, project_make

SOON, LATER = START + timedelta(days=5), START + timedelta(days=9)
NLP, VISION = 1, 2


def level(nlp: int, vision: int, burst_gpus: int | None = None) -> dict[int, Line]:
    return {NLP: Line(nlp * 10_000, burst_gpus), VISION: Line(vision * 10_000, None)}


def test_a_decision_that_a_planned_level_does_not_list_is_set_back() -> None:
    [undone] = set_back_by(before=level(22, 30), after=level(37, 30), ahead=[level(22, 40)])
    assert undone == {NLP: (Line(370_000, None), Line(220_000, None))}


def test_what_the_decision_left_alone_is_the_planned_changes_own_purpose() -> None:
    assert set_back_by(before=level(22, 30), after=level(37, 30), ahead=[level(37, 50)]) == [{}]


def test_a_burst_cap_is_a_decision_too() -> None:
    [undone] = set_back_by(before=level(22, 30), after=level(22, 30, burst_gpus=8), ahead=[level(22, 30)])
    assert undone == {NLP: (Line(220_000, 8), Line(220_000, None))}


def test_a_decision_is_set_back_once_by_the_first_that_differs() -> None:
    ahead = [level(37, 40), level(25, 40), level(20, 40)]
    found = set_back_by(before=level(22, 30), after=level(37, 30), ahead=ahead)
    assert found == [{}, {NLP: (Line(370_000, None), Line(250_000, None))}, {}]


def test_a_planned_level_without_the_project_takes_its_budget_away() -> None:
    [undone] = set_back_by(before={}, after=level(10, 0), ahead=[{VISION: Line(300_000, None)}])
    assert undone == {NLP: (Line(100_000, None), None)}


@pytest.fixture
def lab() -> Project:
    """nlp has 22 % and vision 30 %; vision is planned to have 40 % SOON."""
    root = project_make("lab")
    for slug, name in (("nlp", "NLP"), ("vision", "Vision")):
        project_make(f"lab/{slug}", name=name)
    budget_make(cluster=cluster_make("local"), parent=root, percent={"nlp": 22, "vision": 30})
    plan(root, SOON, nlp=22, vision=40)
    return root


def plan(lab: Project, at: datetime, **percent: int) -> BudgetChange:
    cluster = Cluster.objects.get()
    return budget_change_create(
        cluster=cluster,
        parent=lab,
        base_version=version_of_level(cluster=cluster, parent=lab),
        lines=[(child, percent[child.slug] * 10_000, None) for child in lab.children.all()],
        reason="later",
        author=None,
        effective_at=at,
        now=START,
    )


def effects_words(lab: Project, at: datetime | None = None, **percent: int) -> list[str]:
    lines = {child.pk: Line(percent[child.slug] * 10_000, None) for child in lab.children.all()}
    found = planned_effects(cluster=Cluster.objects.get(), parent=lab, lines=lines, effective_at=at, now=START)
    return [sentence.partition(" by ")[2] for sentence in planned_words(found)]


@pytest.mark.django_db
def test_a_level_decided_now_is_compared_with_what_is_planned(lab: Project) -> None:
    assert effects_words(lab, nlp=37, vision=30) == ["the system sets NLP from 37 % to 22 %."]


@pytest.mark.django_db
def test_a_level_that_takes_effect_after_the_planned_one_is_not_set_back(lab: Project) -> None:
    assert effects_words(lab, LATER, nlp=37, vision=30) == []


@pytest.mark.django_db
def test_what_was_withdrawn_sets_nothing_back(lab: Project) -> None:
    planned = BudgetChange.objects.get(effective_at=SOON)
    budget_change_undo(change=planned, base_version=2, reason="no", author=None, effective_at=None, now=START)
    assert effects_words(lab, nlp=37, vision=30) == []


@pytest.mark.django_db
def test_of_two_planned_for_one_moment_the_last_version_counts(lab: Project) -> None:
    plan(lab, SOON, nlp=25, vision=40)
    assert effects_words(lab, nlp=37, vision=30) == ["the system sets NLP from 37 % to 25 %."]
