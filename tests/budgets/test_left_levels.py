"""A project that has left a level is named there as it was called: who reads of the old place learns no new one."""

from typing import Any

import pytest

from portal.budgets.history import Recorded, changes_recorded
from portal.budgets.models import BudgetChange
from portal.budgets.rows import change_row
from portal.projects.former import projects_as_below
from portal.projects.models import Project
from portal.projects.services import project_change
from portal.scheduling.project_tree import project_move
from tests.factories import after, budget_make, cluster_make, project_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def left() -> tuple[Project, Project]:
    """lab/nlp/chat held 40 %, moved to lab/secret and is called lab/secret/hidden there: (it, lab/nlp)."""
    nlp, chat, secret = project_make("lab/nlp"), project_make("lab/nlp/chat"), project_make("lab/secret")
    budget_make(cluster=cluster_make(), parent=nlp, percent={"chat": 40})
    project_move(project=chat, parent=secret, actor=None, now=after(60))
    project_change(project=chat, slug="hidden", name="Hidden", actor=None, now=after(120))
    chat.refresh_from_db()
    assert chat.path == "lab/secret/hidden"
    return chat, nlp


def recorded(parent: Project) -> list[Recorded]:
    changes = BudgetChange.objects.filter(parent=parent).select_related("parent", "withdraws").order_by("version")
    return changes_recorded(changes=changes, at=after(200))


def test_the_history_of_the_old_level_has_its_old_name_only(left: tuple[Project, Project]) -> None:
    given, taken = recorded(left[1])
    for each in (given, taken):
        assert [(move.project.path, move.project.name) for move in each.moves] == [("lab/nlp/chat", "chat")]
        assert "secret" not in each.change.reason
    assert [move.project.pk for move in given.moves] == [left[0].pk]


def test_a_change_of_the_old_level_lists_its_old_path(left: tuple[Project, Project]) -> None:
    row: dict[str, Any] = change_row(change=BudgetChange.objects.get(parent=left[1], version=1), at=after(200))
    assert [child["project"] for child in row["children"]] == ["lab/nlp/chat"]
    assert "secret" not in str(row)
    assert "hidden" not in str(row).lower()


def test_where_it_stands_now_it_has_the_name_that_it_has(left: tuple[Project, Project]) -> None:
    chat = left[0]
    assert chat.parent is not None
    [[_, found]] = projects_as_below(places=[(chat, chat.parent)]).items()
    assert found is chat


def test_an_old_level_that_was_renamed_since_still_knows_it(left: tuple[Project, Project]) -> None:
    project_change(project=left[1], slug="language", actor=None, now=after(180))
    assert [move.project.path for move in recorded(left[1])[0].moves] == ["lab/language/chat"]


def test_one_of_whom_no_path_is_kept_is_named_as_nobody(left: tuple[Project, Project]) -> None:
    left[0].former_paths.all().delete()
    assert [move.project.path for move in recorded(left[1])[0].moves] == ["lab/nlp/left"]
