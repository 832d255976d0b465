"""Two people at once, each on a connection of their own: the second waits, and then decides on what there is."""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.db import connection, transaction

from portal.budgets.selectors import budgets_at
from portal.budgets.services import budget_change_create
from portal.clusters.models import Cluster
from portal.common.errors import CommonsError, Conflict, Refused
from portal.projects.models import Membership, Project
from portal.projects.services import membership_set, project_change, project_create
from portal.projects.tree import tree_lock
from portal.scheduling.project_tree import project_archive, project_move, project_unarchive
from portal.scheduling.round import state_lock
from portal.workloads.services import workload_submit
from tests.factories import START, after, cluster_make, host_make, project_make, user_make

pytestmark = pytest.mark.django_db(transaction=True)

DEADLINE_SECONDS = 20
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


class Other(threading.Thread):
    """Somebody else, who does one thing."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.act = act
        self.error: CommonsError | None = None

    def run(self) -> None:
        try:
            self.act()
        except CommonsError as error:
            self.error = error
        finally:
            connection.close()

    def wait_until_stopped(self) -> bool:
        """Until they wait for a lock (True), or have gone through without."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline and self.is_alive():
            with connection.cursor() as cursor:
                cursor.execute(WAITING)
                if cursor.fetchone()[0]:
                    return True
        assert not self.is_alive(), "the other neither waits nor ends"
        return False


def both(first: Callable[[], Any], second: Callable[[], Any]) -> CommonsError | None:
    """`second` begins while `first` has not committed yet; what `second` was told."""
    other = Other(second)
    with transaction.atomic():
        first()
        other.start()
        other.wait_until_stopped()
    other.join(DEADLINE_SECONDS)
    assert not other.is_alive()
    return other.error


def tree_whole() -> bool:
    """Every project hangs from the root, and each path says where."""
    below = {project.pk: project for project in Project.objects.all()}
    for project in below.values():
        steps, each = [project.slug], project
        while each.parent_id is not None:
            each = below[each.parent_id]
            steps.append(each.slug)
            if len(steps) > len(below):
                return False
        if project.path != "/".join(reversed(steps)):
            return False
    return True


def test_two_projects_moved_below_each_other_at_once_make_no_cycle() -> None:
    nlp, vision = project_make("lab/nlp"), project_make("lab/vision")
    error = both(
        lambda: project_move(project=nlp, parent=vision, actor=None, now=START),
        lambda: project_move(project=vision, parent=nlp, actor=None, now=START),
    )
    assert isinstance(error, Refused)
    assert error.errors[0].code == "cycle"
    assert tree_whole()


def test_a_child_made_while_its_parent_gets_another_path_has_that_path() -> None:
    nlp = project_make("lab/nlp")
    error = both(
        lambda: project_change(project=nlp, slug="language", actor=None, now=START),
        lambda: project_create(parent=nlp, slug="mt", name="MT", actor=None, now=START),
    )
    assert error is None
    assert Project.objects.filter(path="lab/language/mt").exists()
    assert tree_whole()


def test_of_two_edits_on_the_same_version_the_second_is_a_conflict() -> None:
    nlp = project_make("lab/nlp")
    error = both(
        lambda: project_change(project=nlp, name="one", base_version=1, actor=None, now=START),
        lambda: project_change(project=nlp, name="two", base_version=1, actor=None, now=START),
    )
    assert isinstance(error, Conflict)
    assert error.current_version == 2


def test_a_submission_that_meets_an_archive_finds_the_project_archived() -> None:
    nlp = project_make("lab/nlp")
    host_make(cluster=cluster_make())
    member = user_make(project=nlp)
    error = both(
        lambda: project_archive(project=nlp, actor=None, now=START),
        lambda: workload_submit(author=member, now=START, project="lab/nlp", command=["true"]),
    )
    assert isinstance(error, Refused)
    assert "archived" in error.detail


def test_an_archive_that_meets_a_submission_finds_the_workload() -> None:
    nlp = project_make("lab/nlp")
    host_make(cluster=cluster_make())
    member = user_make(project=nlp)
    error = both(
        lambda: workload_submit(author=member, now=START, project="lab/nlp", command=["true"]),
        lambda: project_archive(project=nlp, actor=None, now=START),
    )
    assert isinstance(error, Conflict)
    assert Project.objects.get(path="lab/nlp").archived_at is None


def test_two_leads_who_remove_each_other_at_once_leave_one() -> None:
    lab = project_make("lab")
    one, two = user_make(project=lab, role="lead"), user_make(project=lab, role="lead")
    error = both(
        lambda: membership_set(user=two, project=lab, role=None, actor=one, now=START),
        lambda: membership_set(user=one, project=lab, role=None, actor=None, now=START),
    )
    assert isinstance(error, Refused)
    assert list(Membership.objects.values_list("user", flat=True)) == [one.pk]


@pytest.mark.parametrize("change", [project_move, project_archive])
def test_the_tree_does_not_change_under_a_pass(change: Callable[..., Any]) -> None:
    nlp, vision, cluster = project_make("lab/nlp"), project_make("lab/vision"), cluster_make()
    wanted = {"parent": vision} if change is project_move else {}
    other = Other(lambda: change(project=nlp, actor=None, now=START, **wanted))
    with transaction.atomic():
        state_lock(cluster)
        other.start()
        assert other.wait_until_stopped()
    other.join(DEADLINE_SECONDS)
    assert other.error is None


CHANGES: dict[str, Callable[[Project, Project], Any]] = {
    "make": lambda nlp, _: project_create(parent=nlp, slug="mt", name="MT", actor=None, now=START),
    "rename": lambda nlp, _: project_change(project=nlp, slug="language", actor=None, now=START),
    "move": lambda nlp, vision: project_move(project=nlp, parent=vision, actor=None, now=START),
    "archive": lambda nlp, _: project_archive(project=nlp, actor=None, now=START),
    "bring back": lambda _, vision: project_unarchive(project=vision, actor=None, now=START),
}


@pytest.mark.parametrize("name", CHANGES)
def test_whoever_changes_the_tree_waits_for_who_is_changing_it(name: str) -> None:
    nlp, vision = project_make("lab/nlp"), project_make("lab/vision")
    other = Other(lambda: CHANGES[name](nlp, vision))
    with transaction.atomic():
        tree_lock()
        other.start()
        assert other.wait_until_stopped()
    other.join(DEADLINE_SECONDS)
    assert other.error is None


def test_two_projects_moved_below_each_others_children_at_once_make_no_cycle() -> None:
    nlp, vision = project_make("lab/nlp"), project_make("lab/vision")
    mt, video = project_make("lab/nlp/mt"), project_make("lab/vision/video")
    error = both(
        lambda: project_move(project=nlp, parent=video, actor=None, now=START),
        lambda: project_move(project=vision, parent=mt, actor=None, now=START),
    )
    assert isinstance(error, Refused)
    assert tree_whole()


LEAVES: dict[str, Callable[[Project, Project], Any]] = {name: CHANGES[name] for name in ("move", "archive")}


def budget_give(project: Project, cluster: Cluster, effective_at: datetime | None = None) -> None:
    """40 % to the project, nothing to its siblings."""
    assert project.parent is not None
    siblings = Project.objects.filter(parent=project.parent)
    budget_change_create(
        cluster=cluster,
        parent=project.parent,
        base_version=0,
        lines=[(each, 400_000 if each == project else 0, None) for each in siblings],
        reason="for a test",
        author=None,
        effective_at=effective_at,
        now=START,
    )


@pytest.mark.parametrize("name", LEAVES)
def test_who_leaves_a_level_takes_no_budget_along_that_was_being_given_meanwhile(name: str) -> None:
    nlp, vision, cluster = project_make("lab/nlp"), project_make("lab/vision"), cluster_make()
    assert both(lambda: budget_give(nlp, cluster), lambda: LEAVES[name](nlp, vision)) is None
    assert budgets_at(cluster=cluster, at=START).get(nlp.pk) is None


@pytest.mark.parametrize("name", LEAVES)
def test_who_leaves_a_level_sees_the_budget_that_was_being_planned_meanwhile(name: str) -> None:
    nlp, vision, cluster = project_make("lab/nlp"), project_make("lab/vision"), cluster_make()
    error = both(lambda: budget_give(nlp, cluster, after(3600)), lambda: LEAVES[name](nlp, vision))
    assert isinstance(error, Conflict)
    assert error.errors[0].code == "budget_planned"


@pytest.mark.parametrize("name", LEAVES)
def test_a_budget_for_a_project_that_is_leaving_the_level_is_refused_in_words(name: str) -> None:
    nlp, vision, cluster = project_make("lab/nlp"), project_make("lab/vision"), cluster_make()
    error = both(lambda: LEAVES[name](nlp, vision), lambda: budget_give(nlp, cluster))
    assert isinstance(error, Refused)
    assert "is no child of lab" in error.detail
