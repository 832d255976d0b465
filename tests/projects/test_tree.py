"""Making, renaming, moving and archiving projects: paths, cycles, budgets, the ledger, and what is refused in words."""

import pytest

from portal.budgets.selectors import budgets_at, version_of_level
from portal.budgets.services import budget_change_create
from portal.common.errors import Conflict, Forbidden, Moved, NotFound, Refused
from portal.common.models import AuditEntry
from portal.projects.models import Project
from portal.projects.selectors import project_by_path
from portal.projects.services import project_change, project_create, project_create_once
from portal.projects.tree import DEPTH_MAX, NAME_LENGTH_MAX
from portal.scheduling.project_tree import project_archive, project_move, project_unarchive
from portal.usage.models import Segment
from portal.usage.selectors import charged_gpu_seconds
from portal.usage.services import segments_close, segments_open
from portal.workloads.services import workload_cancel, workload_submit
from tests.factories import (
    START,
    after,
    attempt_make,
    budget_make,
    cluster_make,
    host_make,
    membership_make,
    project_make,
    user_make,
    workload_make,
)

pytestmark = pytest.mark.django_db


def paths() -> set[str]:
    return set(Project.objects.values_list("path", flat=True))


def last_entry() -> AuditEntry:
    return AuditEntry.objects.latest("pk")


def codes(error: Refused | Conflict) -> set[tuple[str, str]]:
    return {(each.attr, each.code) for each in error.errors}


class TestMaking:
    @pytest.mark.parametrize("name", ["x" * 200, "🤖", "<script>alert(1)</script>", "=1+1", "项目", "-"])
    def test_a_name_may_be_any_text_of_200_characters(self, name: str) -> None:
        assert project_create(parent=project_make("lab"), slug="x", name=name, actor=None, now=START).name == name

    @pytest.mark.parametrize("name", ["", "  ", "x" * (NAME_LENGTH_MAX + 1), "a\0"])
    def test_another_name_is_refused_with_its_bound(self, name: str) -> None:
        with pytest.raises(Refused) as refused:
            project_create(parent=project_make("lab"), slug="x", name=name, actor=None, now=START)
        assert codes(refused.value) == {("name", "invalid")}
        assert "1 to 200" in refused.value.detail

    @pytest.mark.parametrize("slug", ["move", "archive", "unarchive", "🤖", "=x", "a b", "lab/x", "x" * 61])
    def test_a_slug_that_would_be_no_part_of_an_address_is_refused(self, slug: str) -> None:
        with pytest.raises(Refused) as refused:
            project_create(parent=project_make("lab"), slug=slug, name="x", actor=None, now=START)
        assert codes(refused.value) == {("slug", "invalid")}

    def test_letters_written_in_two_ways_are_one_slug(self) -> None:
        lab = project_make("lab")
        project_create(parent=lab, slug="caf\u00e9", name="one", actor=None, now=START)
        with pytest.raises(Refused, match="already"):
            project_create(parent=lab, slug="cafe\u0301", name="two", actor=None, now=START)

    def test_nothing_is_made_below_an_archived_project(self) -> None:
        with pytest.raises(Refused) as refused:
            project_create(parent=project_make("lab/old", archived_at=START), slug="x", name="x", actor=None, now=START)
        assert codes(refused.value) == {("parent", "archived")}

    def test_sixteen_levels_are_the_most(self) -> None:
        deepest = project_make("/".join(f"p{number}" for number in range(DEPTH_MAX + 1)))
        with pytest.raises(Refused, match="15 deep"):
            project_create(parent=deepest, slug="x", name="x", actor=None, now=START)

    def test_asked_twice_the_same_project_is_made_once(self) -> None:
        lab = project_make("lab")
        one, first = project_create_once(parent=lab, slug="x", name="X", actor=None, now=START)
        two, second = project_create_once(parent=lab, slug="x", name=" X", actor=None, now=after(5))
        assert (one, first, second) == (two, True, False)
        with pytest.raises(Refused, match="already"):
            project_create_once(parent=lab, slug="x", name="another", actor=None, now=after(9))


class TestRenaming:
    def test_a_new_name_is_written_down_with_from_and_to(self) -> None:
        nlp = project_make("lab/nlp", name="NLP")
        project_change(project=nlp, name="Language", actor=None, now=START)
        entry = last_entry()
        assert (entry.before, entry.after) == ({"name": "NLP"}, {"name": "Language"})

    def test_a_new_slug_takes_everything_below_along(self) -> None:
        nlp = project_make("lab/nlp")
        project_make("lab/nlp/mt/low")
        project_make("lab/nlp-two")
        project_change(project=nlp, slug="language", actor=None, now=START)
        assert paths() == {"lab", "lab/language", "lab/language/mt", "lab/language/mt/low", "lab/nlp-two"}
        assert last_entry().before == {"slug": "nlp", "path": "lab/nlp"}

    def test_a_path_with_characters_of_a_pattern_takes_nobody_else_along(self) -> None:
        odd = project_make("lab/a_b")
        project_make("lab/axb/c")
        project_change(project=odd, slug="d", actor=None, now=START)
        assert paths() == {"lab", "lab/d", "lab/axb", "lab/axb/c"}

    def test_the_old_path_says_where_the_project_is_now(self) -> None:
        member = user_make(project=project_make("lab/nlp/mt"))
        project_change(project=project_make("lab/nlp"), slug="language", actor=None, now=START)
        with pytest.raises(Moved) as moved:
            project_by_path(user=member, path="lab/nlp/mt")
        assert (moved.value.status, moved.value.new) == (404, "lab/language/mt")
        assert "lab/language/mt now" in moved.value.detail

    def test_the_old_path_tells_a_stranger_nothing(self) -> None:
        stranger = user_make(project=project_make("lab/vision"))
        project_change(project=project_make("lab/nlp"), slug="language", actor=None, now=START)
        with pytest.raises(NotFound) as missing:
            project_by_path(user=stranger, path="lab/nlp")
        assert "language" not in missing.value.detail

    def test_what_stands_at_the_old_path_now_goes_first(self) -> None:
        admin = user_make(is_superuser=True)
        project_change(project=project_make("lab/nlp"), slug="language", actor=None, now=START)
        newer = project_make("lab/nlp")
        assert project_by_path(user=admin, path="lab/nlp") == newer

    def test_a_submission_to_the_old_path_is_refused_with_the_new_one(self) -> None:
        nlp = project_make("lab/nlp")
        host_make(cluster=cluster_make())
        member = user_make(project=nlp)
        project_change(project=nlp, slug="language", actor=None, now=START)
        with pytest.raises(Refused, match="lab/language now") as refused:
            workload_submit(author=member, now=START, project="lab/nlp", command=["true"])
        assert codes(refused.value) == {("project", "unknown")}

    def test_a_taken_slug_is_refused(self) -> None:
        project_make("lab/vision")
        with pytest.raises(Refused, match="lab/vision already"):
            project_change(project=project_make("lab/nlp"), slug="vision", actor=None, now=START)

    def test_on_top_of_what_somebody_else_changed_is_a_conflict_with_their_version(self) -> None:
        nlp = project_make("lab/nlp")
        project_change(project=nlp, name="Mine", base_version=1, actor=None, now=START)
        with pytest.raises(Conflict) as conflict:
            project_change(project=nlp, name="Yours", base_version=1, actor=None, now=START)
        assert conflict.value.current_version == 2

    def test_what_is_so_already_is_no_change_and_no_conflict(self) -> None:
        nlp = project_make("lab/nlp")
        for _ in range(2):
            project_change(project=nlp, name="Language", slug="language", base_version=1, actor=None, now=START)
        assert AuditEntry.objects.filter(action="project_change").count() == 1

    def test_a_lead_gives_it_a_name_and_only_a_lead_above_another_path(self) -> None:
        nlp = project_make("lab/nlp")
        lead, manager = user_make(project=nlp, role="lead"), user_make(project=project_make("lab"), role="lead")
        project_change(project=nlp, name="Language", actor=lead, now=START)
        with pytest.raises(Forbidden, match="lab are decided by its leads"):
            project_change(project=nlp, slug="language", actor=lead, now=START)
        assert project_change(project=nlp, slug="language", actor=manager, now=START).path == "lab/language"

    def test_an_archived_project_keeps_its_name(self) -> None:
        with pytest.raises(Refused, match="bring it back first"):
            project_change(project=project_make("lab/old", archived_at=START), name="new", actor=None, now=START)


class TestMoving:
    def test_everything_below_comes_along(self) -> None:
        mt, vision = project_make("lab/nlp/mt"), project_make("lab/vision/robots")
        project_make("lab/nlp/mt/low")
        moved = project_move(project=mt, parent=vision, actor=None, now=START)
        assert (moved.path, moved.depth) == ("lab/vision/robots/mt", 3)
        low = Project.objects.get(path="lab/vision/robots/mt/low")
        assert low.depth == 4
        assert (last_entry().before, last_entry().after) == ({"path": "lab/nlp/mt"}, {"path": "lab/vision/robots/mt"})

    @pytest.mark.parametrize("target", ["lab/nlp", "lab/nlp/mt", "lab/nlp/mt/low"])
    def test_never_below_itself_or_its_own_child(self, target: str) -> None:
        project_make("lab/nlp/mt/low")
        with pytest.raises(Refused, match="can't be moved below") as refused:
            project_move(project=project_make("lab/nlp"), parent=project_make(target), actor=None, now=START)
        assert codes(refused.value) == {("parent", "cycle")}
        assert paths() == {"lab", "lab/nlp", "lab/nlp/mt", "lab/nlp/mt/low"}

    def test_the_root_stays_where_it_is(self) -> None:
        child = project_make("lab/nlp")
        with pytest.raises(Refused, match="root of the tree"):
            project_move(project=project_make("lab"), parent=child, actor=None, now=START)

    def test_not_below_an_archived_project_nor_an_archived_one(self) -> None:
        old, nlp = project_make("lab/old", archived_at=START), project_make("lab/nlp")
        with pytest.raises(Refused) as refused:
            project_move(project=nlp, parent=old, actor=None, now=START)
        assert codes(refused.value) == {("parent", "archived")}
        with pytest.raises(Refused, match="lab/old is archived"):
            project_move(project=old, parent=nlp, actor=None, now=START)

    def test_not_where_its_slug_is_taken(self) -> None:
        project_make("lab/vision/nlp")
        with pytest.raises(Refused, match="lab/vision/nlp already"):
            project_move(project=project_make("lab/nlp"), parent=project_make("lab/vision"), actor=None, now=START)

    def test_not_deeper_than_fifteen(self) -> None:
        deep = project_make("/".join(["lab", *(f"p{number}" for number in range(1, DEPTH_MAX))]))
        project_make("lab/nlp/mt")
        with pytest.raises(Refused, match="15 deep"):
            project_move(project=project_make("lab/nlp"), parent=deep, actor=None, now=START)

    def test_asked_twice_it_moves_once(self) -> None:
        nlp, vision = project_make("lab/nlp"), project_make("lab/vision")
        for _ in range(2):
            project_move(project=nlp, parent=vision, base_version=1, actor=None, now=START)
        assert AuditEntry.objects.filter(action="project_move").count() == 1

    def test_its_leads_both_places_and_nobody_less(self) -> None:
        nlp, vision = project_make("lab/nlp"), project_make("lab/vision")
        mt = project_make("lab/nlp/mt")
        own, one = user_make(project=mt, role="lead"), user_make(project=nlp, role="lead")
        with pytest.raises(Forbidden, match="lab/nlp are decided"):
            project_move(project=mt, parent=mt, actor=own, now=START)
        with pytest.raises(NotFound):
            project_move(project=mt, parent=vision, actor=one, now=START)
        membership_make(user=one, project=vision, role="member")
        with pytest.raises(Forbidden, match="member of lab/vision"):
            project_move(project=mt, parent=vision, actor=one, now=START)
        one.memberships.filter(project=vision).update(role="lead")
        assert project_move(project=mt, parent=vision, actor=one, now=START).path == "lab/vision/mt"

    def test_its_budget_goes_back_to_the_old_parent_and_the_level_says_why(self) -> None:
        cluster, nlp, vision = cluster_make(), project_make("lab/nlp"), project_make("lab/vision")
        lab = project_make("lab")
        budget_make(cluster=cluster, parent=lab, percent={"nlp": 40, "vision": 30}, burst_gpus={"vision": 8})
        project_move(project=nlp, parent=vision, actor=None, now=after(60))
        shares = budgets_at(cluster=cluster, at=after(60))
        assert shares == {vision.pk: (300_000, 8)}
        assert version_of_level(cluster=cluster, parent=lab) == 2
        assert lab.budget_changes.latest("version").reason == "lab/nlp was moved to another parent."

    def test_not_while_a_planned_change_of_budgets_names_it(self) -> None:
        cluster, nlp, vision = cluster_make(), project_make("lab/nlp"), project_make("lab/vision")
        budget_change_create(
            cluster=cluster,
            parent=project_make("lab"),
            base_version=0,
            lines=[(nlp, 10, None), (vision, 10, None)],
            reason="later",
            author=None,
            effective_at=after(3600),
            now=START,
        )
        with pytest.raises(Conflict, match="2026-11-02 01:00 UTC names lab/nlp: withdraw it first"):
            project_move(project=nlp, parent=vision, actor=None, now=START)
        assert project_move(project=nlp, parent=vision, actor=None, now=after(3600)).path == "lab/vision/nlp"

    def test_what_was_charged_stays_with_the_ancestors_of_its_time(self) -> None:
        nlp, vision, lab = project_make("lab/nlp"), project_make("lab/vision"), project_make("lab")
        mt = project_make("lab/nlp/mt")
        host = host_make(cluster=cluster_make())
        workload = workload_make(project=mt, cluster=host.cluster, gpus_per_replica=2, min_runtime_seconds=100)
        attempt = attempt_make(workload=workload, hosts=[host], standing="protected")
        segments_open(attempt=attempt, at=START, standing="protected")
        project_move(project=mt, parent=vision, actor=None, now=after(300))
        segments_close(attempt=attempt, at=after(500))
        rows = list(Segment.objects.order_by("start_at").values_list("path", "standing", "start_at", "end_at"))
        before, now = [lab.pk, nlp.pk, mt.pk], [lab.pk, vision.pk, mt.pk]
        assert rows == [
            (before, "protected", START, after(100)),
            (before, "funded", after(100), after(300)),
            (now, "funded", after(300), after(500)),
        ]
        assert charged_gpu_seconds(workload=workload) == 1000

    def test_a_move_at_the_second_of_the_start_charges_only_the_new_ancestors(self) -> None:
        nlp, vision = project_make("lab/nlp"), project_make("lab/vision")
        host = host_make(cluster=cluster_make())
        attempt = attempt_make(workload=workload_make(project=nlp, cluster=host.cluster), hosts=[host])
        segments_open(attempt=attempt, at=START, standing="funded")
        project_move(project=nlp, parent=vision, actor=None, now=START)
        assert list(Segment.objects.values_list("path", flat=True)) == [[project_make("lab").pk, vision.pk, nlp.pk]]


class TestArchiving:
    def test_all_below_is_archived_with_it_and_comes_back_with_it(self) -> None:
        nlp, mt = project_make("lab/nlp"), project_make("lab/nlp/mt")
        older = project_make("lab/nlp/old", archived_at=START)
        project_archive(project=nlp, actor=None, now=after(60))
        assert last_entry().after["with"] == ["lab/nlp/mt"]
        project_unarchive(project=nlp, actor=None, now=after(90))
        assert not Project.objects.filter(pk__in=[nlp.pk, mt.pk]).exclude(archived_at=None).exists()
        older.refresh_from_db()
        assert older.archived_at == START
        assert (last_entry().before["archived_at"], last_entry().after["archived_at"]) == (
            after(60).isoformat(),
            None,
        )

    def test_it_takes_no_submissions_then(self) -> None:
        nlp = project_make("lab/nlp")
        host_make(cluster=cluster_make())
        member = user_make(project=nlp)
        project_archive(project=nlp, actor=None, now=START)
        with pytest.raises(Refused, match="archived"):
            workload_submit(author=member, now=START, project="lab/nlp", command=["true"])

    def test_not_while_work_waits_or_runs_below(self) -> None:
        nlp, mt = project_make("lab/nlp"), project_make("lab/nlp/mt")
        host = host_make(cluster=cluster_make())
        waiting = workload_make(project=mt, cluster=host.cluster)
        attempt_make(workload=workload_make(project=nlp, cluster=host.cluster), hosts=[host])
        with pytest.raises(Conflict, match="1 running and 1 waiting workloads"):
            project_archive(project=nlp, actor=None, now=START)
        nlp.refresh_from_db()
        assert nlp.archived_at is None
        workload_cancel(workload=waiting, actor=None, now=START)
        assert project_archive(project=mt, actor=None, now=START).archived_at == START

    def test_its_budget_goes_back_and_it_returns_without_one(self) -> None:
        cluster, nlp, vision = cluster_make(), project_make("lab/nlp"), project_make("lab/vision")
        budget_make(cluster=cluster, parent=project_make("lab"), percent={"nlp": 40, "vision": 30})
        project_archive(project=nlp, actor=None, now=after(60))
        project_unarchive(project=nlp, actor=None, now=after(90))
        assert budgets_at(cluster=cluster, at=after(99)) == {vision.pk: (300_000, None)}

    def test_the_root_is_never_archived(self) -> None:
        with pytest.raises(Refused, match="root"):
            project_archive(project=project_make("lab"), actor=None, now=START)

    def test_a_child_does_not_come_back_before_its_parent(self) -> None:
        project_make("lab/nlp", archived_at=START)
        mt = project_make("lab/nlp/mt", archived_at=START)
        with pytest.raises(Refused, match="lab/nlp is archived"):
            project_unarchive(project=mt, actor=None, now=START)

    def test_twice_changes_nothing_and_a_stale_version_is_a_conflict(self) -> None:
        nlp = project_make("lab/nlp")
        for _ in range(2):
            project_archive(project=nlp, base_version=1, actor=None, now=START)
        assert AuditEntry.objects.filter(action="project_archive").count() == 1
        with pytest.raises(Conflict) as conflict:
            project_unarchive(project=nlp, base_version=1, actor=None, now=START)
        assert conflict.value.current_version == 2
