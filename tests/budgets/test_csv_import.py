"""Budgets from a CSV: every level or none, and what is wrong by line."""

import csv
from io import StringIO
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from portal.budgets.csv_import import ImportPlan, budgets_import, budgets_plan
from portal.budgets.csv_rows import rows_read, text_decode
from portal.budgets.models import BudgetChange
from portal.budgets.selectors import budgets_at
from portal.clusters.models import Cluster
from portal.common.errors import Conflict, Refused
from portal.projects.models import Project, User
from portal.scheduling.budget_rows import budgets_csv, clusters_sized
from tests.factories import START, after, budget_make, cluster_make, host_make, project_make, user_make

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def manager() -> User:
    """A lead of lab: nlp (with chat, of which small) and vision on the cluster `local` of 64 GPUs, and on `spare`."""
    names = {"lab": "Lab", "lab/nlp": "=SUM(A1)", "lab/nlp/chat": SCRIPT, "lab/nlp/chat/small": "语言 🙂" + "x" * 190}
    for path, name in names.items():
        project_make(path, name=name)
    project_make("lab/vision")
    for cluster_name in ("local", "spare"):
        cluster = cluster_make(cluster_name)
        for _ in range(8):
            host_make(cluster=cluster)
        budget_make(cluster=cluster, parent=project("lab"), percent={"nlp": 50, "vision": 25}, burst_gpus={"nlp": 40})
    budget_make(cluster=Cluster.objects.get(name="local"), parent=project("lab/nlp"), percent={"chat": 33.3333})
    budget_make(cluster=Cluster.objects.get(name="local"), parent=project("lab/nlp/chat"), percent={"small": 100})
    return user_make(username="manager", role="lead", project=project("lab"))


def project(path: str) -> Project:
    return Project.objects.get(path=path)


def exported(user: User) -> str:
    return "".join(budgets_csv(user=user, clusters=clusters_sized(), at=after(10), now=after(10)))


def edited(user: User, *edits: tuple[str, str, str, str]) -> str:
    """The export with cells replaced: (cluster, path, column, text)."""
    rows = list(csv.DictReader(StringIO(exported(user).removeprefix("\ufeff"))))
    for cluster, path, column, text in edits:
        for row in rows:
            if (row["cluster"], row["project"]) == (cluster, path):
                row[column] = text
    return written(rows)


def written(rows: list[dict[str, str]]) -> str:
    out = StringIO()
    writer = csv.DictWriter(out, rows[0].keys())
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def plan_of(text: str, user: User) -> ImportPlan:
    return budgets_plan(text=text, user=user, effective_at=None, now=after(10))


def applied(text: str, user: User, **fields: Any) -> list[BudgetChange]:
    given = {"reason": "the new year", "effective_at": None, "now": after(10), **fields}
    return budgets_import(text=text, author=user, **given)


def errors_of(text: str, user: User) -> list[tuple[int, str, str]]:
    return [(error.line, error.column, error.code) for error in plan_of(text, user).errors]


def share_ppm(path: str, cluster: str = "local") -> int:
    return budgets_at(cluster=Cluster.objects.get(name=cluster), at=after(10))[project(path).pk].share_ppm


def test_what_was_exported_is_read_back_and_changes_nothing(manager: User) -> None:
    plan = plan_of(exported(manager), manager)
    assert (plan.rows, plan.edits, plan.errors) == (10, (), ())
    assert applied(exported(manager), manager) == []


def test_levels_of_several_depths_and_clusters_change_together(manager: User) -> None:
    text = edited(
        manager,
        ("local", "lab/nlp", "percent", "40"),
        ("local", "lab/nlp/chat", "percent", "66.6667"),
        ("spare", "lab/vision", "percent", "50"),
        ("spare", "lab/nlp", "burst_gpus", ""),
    )
    changes = applied(text, manager)
    assert sorted((change.cluster.name, change.parent.path) for change in changes) == [
        ("local", "lab"),
        ("local", "lab/nlp"),
        ("spare", "lab"),
    ]
    assert {(change.reason, change.author, change.effective_at) for change in changes} == {
        ("the new year", manager, after(10))
    }
    assert (share_ppm("lab/nlp"), share_ppm("lab/nlp/chat"), share_ppm("lab/vision", "spare")) == (
        400_000,
        666_667,
        500_000,
    )
    assert budgets_at(cluster=Cluster.objects.get(name="spare"), at=after(10))[project("lab/nlp").pk].burst_gpus is None


def test_the_same_file_again_changes_nothing_more(manager: User) -> None:
    text = edited(manager, ("local", "lab/nlp", "percent", "40"))
    applied(text, manager)
    count = BudgetChange.objects.count()
    assert applied(text, manager, now=after(20)) == []
    assert BudgetChange.objects.count() == count


def test_one_wrong_line_keeps_all_levels_as_they_are(manager: User) -> None:
    count = BudgetChange.objects.count()
    text = edited(manager, ("local", "lab/nlp/chat", "percent", "10"), ("spare", "lab/nlp", "percent", "80"))
    with pytest.raises(Refused, match=r"Line 8: .*105 %.*lab/nlp 80 %.*lab/vision 25 %"):
        applied(text, manager)
    assert BudgetChange.objects.count() == count
    assert share_ppm("lab/nlp/chat") == 333_333


def test_a_byte_order_mark_either_end_of_line_and_semicolons_are_read(manager: User) -> None:
    text = edited(manager, ("local", "lab/nlp", "percent", "40"))
    for variant in ("\ufeff" + text, text.replace("\r\n", "\n"), text.replace(",", ";"), text + "\r\n\r\n"):
        plan = plan_of(variant, manager)
        assert (len(plan.edits), plan.errors) == (1, ())
    assert text_decode(b"\xef\xbb\xbf" + "语言".encode()) == "语言"


@pytest.mark.parametrize("raw", ["budgets".encode("utf-16"), b"a,b\nc,\xff\n"])
def test_a_file_in_another_encoding_is_refused_in_words(raw: bytes) -> None:
    with pytest.raises(ValueError, match="save it as CSV UTF-8"):
        text_decode(raw)


@pytest.mark.parametrize(
    ("column", "text", "words"),
    [
        ("percent", "NaN", "no percent"),
        ("percent", "1e309", "no percent"),
        ("percent", "inf", "no percent"),
        ("percent", "-5", "below 0"),
        ("percent", "100.0001", "above 100"),
        ("percent", "33.333333333333333333333333333333", "at most 4 decimals"),
        ("percent", "12,5", "digits with a point"),
        ("percent", "=1+1", "no percent"),
        ("percent", "", "write 0 to take its budget away"),
        ("burst_gpus", "-1", "no burst cap"),
        ("burst_gpus", "1.5", "no burst cap"),
        ("burst_gpus", "99999999", "no burst cap"),
        ("version", "two", "no version"),
    ],
)
def test_what_is_no_amount_is_said_with_its_line_and_column(manager: User, column: str, text: str, words: str) -> None:
    [error] = plan_of(edited(manager, ("local", "lab/nlp", column, text)), manager).errors
    assert (error.line, error.column) == (3, column)
    assert words in error.detail
    with pytest.raises(Refused, match=r"Line 3: "):
        applied(edited(manager, ("local", "lab/nlp", column, text)), manager)


def test_all_wrong_lines_are_said_together(manager: User) -> None:
    text = edited(
        manager,
        ("local", "lab/nlp", "percent", "NaN"),
        ("local", "lab/nlp/chat", "burst_gpus", "x"),
        ("spare", "lab/vision", "percent", "-1"),
    )
    assert errors_of(text, manager) == [
        (3, "percent", "invalid"),
        (4, "burst_gpus", "invalid"),
        (11, "percent", "invalid"),
    ]


def test_a_tree_that_is_not_ours_is_said_line_by_line(manager: User) -> None:
    text = exported(manager).replace("lab/nlp/chat/small", "other/nlp").replace("spare", "mars")
    codes = {code for _, _, code in errors_of(text, manager)}
    assert {"unknown_project", "unknown_cluster"} <= codes


def test_a_child_that_is_missing_or_stands_there_twice_is_named(manager: User) -> None:
    lines = edited(manager, ("local", "lab/nlp", "percent", "40")).splitlines(keepends=True)
    without = "".join(line for line in lines if not line.startswith("local,lab/vision"))
    [error] = plan_of(without, manager).errors
    assert (error.code, "missing: lab/vision" in error.detail) == ("missing", True)
    twice = "".join(lines) + next(line for line in lines if line.startswith("local,lab/vision"))
    [error] = plan_of(twice, manager).errors
    assert (error.line, error.code) == (len(lines) + 1, "twice")


def test_the_versions_that_the_file_was_made_from_must_be_the_newest(manager: User) -> None:
    text = edited(manager, ("local", "lab/nlp", "percent", "40"))
    budget_make(cluster=Cluster.objects.get(name="local"), parent=project("lab"), percent={"nlp": 30, "vision": 30})
    with pytest.raises(Conflict, match="version 2 by now, not 1"):
        applied(text, manager)
    assert share_ppm("lab/nlp") == 300_000


def test_a_missing_version_is_asked_for(manager: User) -> None:
    text = edited(manager, ("local", "lab/nlp", "percent", "40"), ("local", "lab/nlp", "version", ""))
    assert errors_of(text, manager) == [(3, "version", "required")]


def test_more_than_a_hundred_percent_is_refused_with_the_total_and_the_names(manager: User) -> None:
    text = edited(manager, ("local", "lab/nlp", "percent", "60"), ("local", "lab/vision", "percent", "60"))
    [error] = plan_of(text, manager).errors
    for words in ("120 %", "lab/nlp 60 %", "lab/vision 60 %"):
        assert words in error.detail


def test_a_lead_further_down_changes_what_is_below_and_only_repeats_what_is_above(manager: User) -> None:
    lead = user_make(role="lead", project=project("lab/nlp"))
    assert plan_of(exported(lead), lead).errors == ()
    [change] = applied(edited(lead, ("local", "lab/nlp/chat", "percent", "90")), lead)
    assert change.parent.path == "lab/nlp"
    assert errors_of(edited(lead, ("local", "lab/nlp", "percent", "90")), lead) == [(2, "percent", "not_yours")]


def test_a_member_changes_nothing(manager: User) -> None:
    member = user_make(role="member", project=project("lab"))
    text = edited(member, ("local", "lab/nlp", "percent", "40"))
    assert errors_of(text, member) == [(3, "percent", "not_yours")]


def test_the_root_holds_the_whole(manager: User) -> None:
    assert errors_of(edited(manager, ("local", "lab", "percent", "90")), manager) == [(2, "percent", "not_yours")]


def test_a_reason_and_a_moment_that_is_not_past_are_needed(manager: User) -> None:
    text = edited(manager, ("local", "lab/nlp", "percent", "40"))
    with pytest.raises(Refused) as refusal:
        applied(text, manager, reason=" ", effective_at=START)
    assert {error.attr for error in refusal.value.errors} == {"reason", "effective_at"}


def test_a_later_moment_is_kept(manager: User) -> None:
    text = edited(manager, ("local", "lab/nlp", "percent", "40"))
    applied(text, manager, effective_at=after(9999))
    assert share_ppm("lab/nlp") == 500_000
    [change] = BudgetChange.objects.filter(effective_at=after(9999))
    assert change.version == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty"),
        ("cluster,project,version,percent,burst_gpus\n", "empty"),
        ("cluster,project,version,percent\n", "missing_column"),
        ("cluster,project,version,percent,burst_gpus,colour\n", "unknown_column"),
        ("cluster,project,version,percent,percent,burst_gpus\n", "twice"),
        ("cluster,project,version,percent,burst_gpus\nlocal,lab\n", "cells"),
        ("cluster,project,version,percent,burst_gpus\nlocal,\0,1,1,\n", "invalid"),
        ('cluster,project,version,percent,burst_gpus\n"' + "x" * 200_000 + '",lab,1,1,\n', "invalid"),
        ("x" * 2_000_001, "too_large"),
    ],
)
def test_a_file_that_holds_no_budgets_is_refused_by_line(manager: User, text: str, code: str) -> None:
    assert code in {error for _, _, error in errors_of(text, manager)}


def test_a_cell_with_line_ends_counts_lines_as_an_editor_does() -> None:
    text = 'cluster,project,version,percent,burst_gpus\n"lo\ncal",lab,1,1,\nlocal,lab/nlp,1,NaN,\n'
    assert [error.line for error in rows_read(text).errors] == [4]


def test_names_that_trouble_spreadsheets_and_pages_are_only_text(manager: User) -> None:
    rows = {row["project"]: row for row in csv.DictReader(StringIO(exported(manager).removeprefix("\ufeff")))}
    assert rows["lab/nlp"]["name"] == "'=SUM(A1)"
    assert rows["lab/nlp/chat"]["name"] == SCRIPT
    assert rows["lab/nlp/chat/small"]["name"].startswith("语言 🙂")


def test_an_export_has_every_descendant_with_its_own_and_rolled_up_parts(manager: User) -> None:
    rows = {
        row["project"]: row
        for row in csv.DictReader(StringIO(exported(manager).removeprefix("\ufeff")))
        if row["cluster"] == "local"
    }
    assert list(rows) == ["lab", "lab/nlp", "lab/nlp/chat", "lab/nlp/chat/small", "lab/vision"]
    shown = [(row["percent"], row["percent_of_cluster"], row["gpus"], row["own_gpus"]) for row in rows.values()]
    assert shown == [
        ("100", "100.0", "64.0", "16.0"),
        ("50", "50.0", "32.0", "21.33"),
        ("33.3333", "16.6666", "10.66", "0.0"),
        ("100", "16.6666", "10.66", "10.66"),
        ("25", "25.0", "16.0", "16.0"),
    ]
    assert [rows[path]["version"] for path in rows] == ["", "1", "1", "1", "1"]


def test_a_project_without_a_budget_says_so_and_never_nan(manager: User) -> None:
    project_make("lab/new")
    line = next(line for line in exported(manager).splitlines() if line.startswith("spare,lab/new"))
    assert line.endswith("no budget")
    assert ",,," in line and "nan" not in line.lower() and "inf" not in line.lower()


def test_planning_takes_a_fixed_number_of_queries_where_nothing_differs(
    manager: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(20):
        project_make(f"lab/vision/team-{number}")
    text = exported(manager)
    with django_assert_num_queries(9):
        assert plan_of(text, manager).errors == ()


def test_now_is_a_whole_second_like_all_moments_of_budgets(manager: User) -> None:
    text = edited(manager, ("local", "lab/nlp", "percent", "40"))
    [change] = applied(text, manager, now=timezone.now())
    assert change.created_at.microsecond == change.effective_at.microsecond == 0
