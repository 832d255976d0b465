"""Roles are held on a project and inherited downwards (SPEC.md section 4)."""

import pytest
from pytest_django import DjangoAssertNumQueries

from portal.common.errors import Forbidden, NotFound
from portal.projects.models import User
from portal.projects.selectors import (
    ancestor_ids,
    project_by_path,
    projects_visible,
    role_of,
    user_may,
    user_require,
)
from tests.factories import membership_make, project_make, user_make

pytestmark = pytest.mark.django_db


def seen(user: User) -> list[str]:
    return list(projects_visible(user=user).values_list("path", flat=True))


def test_a_member_sees_the_project_and_all_below_it_but_nothing_above_or_beside() -> None:
    robotics = project_make("lab/robotics")
    project_make("lab/robotics/arms")
    project_make("lab/robotics-two")
    project_make("lab/nlp")
    assert seen(user_make(project=robotics)) == ["lab/robotics", "lab/robotics/arms"]


def test_a_path_with_characters_of_a_pattern_matches_only_itself() -> None:
    odd = project_make("lab/a_b")
    project_make("lab/axb")
    project_make("lab/axb/c")
    assert seen(user_make(project=odd)) == ["lab/a_b"]


@pytest.mark.parametrize("right", ["is_superuser", "is_operator"])
def test_site_wide_people_see_everything(right: str) -> None:
    project_make("lab/nlp")
    assert seen(user_make(is_superuser=right == "is_superuser", is_operator=right == "is_operator")) == [
        "lab",
        "lab/nlp",
    ]


def test_who_belongs_nowhere_sees_nothing() -> None:
    project_make("lab/nlp")
    assert seen(user_make()) == []


def test_the_highest_role_on_the_way_up_counts() -> None:
    user = user_make(project=project_make("lab"), role="lead")
    arms = project_make("lab/robotics/arms")
    membership_make(user=user, project=arms, role="viewer")
    assert role_of(user=user, project=arms) == "lead"


def test_a_role_reaches_down_and_not_up() -> None:
    user = user_make(project=project_make("lab/robotics"), role="lead")
    assert user_may(user=user, action="budgets_edit", project=project_make("lab/robotics/arms"))
    assert not user_may(user=user, action="view", project=project_make("lab"))


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("viewer", {"view"}),
        ("member", {"view", "submit"}),
        ("lead", {"view", "submit", "cancel_any", "budgets_edit", "project_edit"}),
    ],
)
def test_each_role_covers_its_actions(role: str, allowed: set[str]) -> None:
    project = project_make("lab/nlp")
    user = user_make(project=project, role=role)
    actions = ("view", "submit", "cancel_any", "budgets_edit", "project_edit")
    assert {action for action in actions if user_may(user=user, action=action, project=project)} == allowed


def test_an_operator_sees_all_and_edits_no_budget() -> None:
    project = project_make("lab/nlp")
    operator = user_make(is_operator=True)
    assert user_may(user=operator, action="view", project=project)
    assert not user_may(user=operator, action="budgets_edit", project=project)


def test_what_one_may_not_see_is_not_found_and_what_one_may_not_do_is_forbidden() -> None:
    project = project_make("lab/nlp")
    with pytest.raises(NotFound):
        user_require(user=user_make(), action="view", project=project)
    with pytest.raises(Forbidden):
        user_require(user=user_make(project=project, role="viewer"), action="submit", project=project)


def test_an_unknown_project_is_refused_with_the_names_one_may_see() -> None:
    project_make("lab/vision")
    user = user_make(project=project_make("lab/nlp"))
    with pytest.raises(NotFound) as unknown:
        project_by_path(user=user, path="lab/nlq")
    assert "lab/nlp" in unknown.value.detail
    assert "vision" not in unknown.value.detail


def test_a_hidden_project_answers_just_like_one_that_does_not_exist() -> None:
    project_make("lab/vision")
    user = user_make(project=project_make("lab/nlp"))
    answers = []
    for path in ("lab/vision", "lab/nowhere"):
        with pytest.raises(NotFound) as unknown:
            project_by_path(user=user, path=path)
        answers.append(unknown.value.detail.replace(path, "PATH"))
    assert answers[0] == answers[1]


def test_a_nul_byte_in_a_path_is_not_found() -> None:
    with pytest.raises(NotFound):
        project_by_path(user=user_make(is_superuser=True), path="lab\0")


def test_ancestors_are_listed_from_the_root_down() -> None:
    arms = project_make("lab/robotics/arms")
    paths = ["lab", "lab/robotics", "lab/robotics/arms"]
    assert ancestor_ids(project=arms) == [project_make(path).pk for path in paths]


def test_a_role_is_one_query_at_any_depth(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    deep = project_make("lab/a/b/c/d/e")
    user = user_make(project=project_make("lab/a"))
    with django_assert_num_queries(1):
        role_of(user=user, project=deep)
