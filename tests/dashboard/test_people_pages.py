"""Pages about people and the project tree: what they say, what they refuse in words, and how often they ask."""

import csv
from io import StringIO

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from portal.common.models import AuditEntry
from portal.common.services import audit_record
from portal.projects.models import Invitation, Membership, Project
from portal.projects.selectors_people import names_in_words
from portal.projects.services import project_change
from portal.scheduling.project_tree import project_archive
from portal.workloads.models import Workload
from tests.dashboard.scene import TROUBLE, Scene, client_of
from tests.factories import START, after, budget_make, membership_make, project_make, user_make, workload_make

PINNED = {"/people/": 6, "/people/lab/nlp/": 9, "/tree/new/lab/nlp/": 6, "/tree/rename/lab/nlp/": 5}
PINNED |= {"/tree/move/lab/nlp/": 7, "/tree/archive/lab/vision/": 10, "/audit/?kind=project": 7}


def words(answer: object) -> str:
    """The page's text with its tags, as one line."""
    return " ".join(answer.content.decode().split())


@pytest.fixture
def lead(scene: Scene) -> Client:
    return client_of(scene.lead)


class TestPeople:
    def test_a_person_sees_their_part_of_the_tree_with_its_leads(self, scene: Scene) -> None:
        membership_make(user=user_make(username="zoe"), project=scene.nlp, role="lead")
        page = words(client_of(scene.member).get("/people/"))
        assert "1 project, of which you lead 0" in page
        assert "zoe" in page
        assert "lab/vision" not in page

    def test_a_root_without_a_lead_is_told(self, scene: Scene) -> None:
        Membership.objects.filter(user=scene.lead).delete()
        assert "lab has no lead" in words(client_of(scene.admin).get("/people/"))

    def test_archived_projects_are_shown_when_asked_for(self, scene: Scene, lead: Client) -> None:
        project_make("lab/old", archived_at=START)
        assert "lab/old" not in words(lead.get("/people/"))
        assert "Show 1 archived" in words(lead.get("/people/"))
        assert "lab/old" in words(lead.get("/people/?archived=1"))

    def test_roles_of_the_project_and_from_above_stand_apart(self, scene: Scene) -> None:
        page = words(client_of(scene.admin).get("/people/lab/nlp/"))
        assert "1 person has a role right here, 1 from above" in page
        assert page.index(">ada<") < page.index("From above") < page.index(">lee<")

    @pytest.mark.parametrize("name", [TROUBLE, "=1+1", "🤖 项目", "W" * 200])
    def test_a_name_is_shown_as_text(self, scene: Scene, lead: Client, name: str) -> None:
        Project.objects.filter(pk=scene.nlp.pk).update(name=name)
        for address in ("/people/", "/people/lab/nlp/", "/tree/rename/lab/nlp/", "/tree/move/lab/nlp/"):
            page = lead.get(address).content.decode()
            assert TROUBLE not in page
        assert Project.objects.get(pk=scene.nlp.pk).name == name

    def test_a_member_sees_people_and_no_form(self, scene: Scene) -> None:
        page = words(client_of(scene.member).get("/people/lab/nlp/"))
        assert "ada" in page
        assert "<dialog" not in page
        assert "Make the link" not in page

    def test_the_last_lead_of_the_root_stays_and_the_page_says_why(self, scene: Scene, lead: Client) -> None:
        answer = lead.post("/people-change/lab/", {"user": "lee", "role": "", "base_version": 1})
        assert answer.status_code == 400
        assert "lee is the last lead of lab: make somebody else one first" in words(answer)

    def test_a_stale_change_of_a_role_is_a_conflict_that_says_what_is_now(self, scene: Scene, lead: Client) -> None:
        Membership.objects.filter(user=scene.member).update(role="viewer", version=2)
        answer = lead.post("/people-change/lab/nlp/", {"user": "ada", "role": "lead", "base_version": 1})
        assert answer.status_code == 409
        assert "ada is viewer of lab/nlp by now" in words(answer)

    def test_somebody_unknown_is_refused_beside_the_field(self, scene: Scene, lead: Client) -> None:
        answer = lead.post("/people-give/lab/nlp/", {"user": "nobody", "role": "member"})
        assert answer.status_code == 400
        assert 'id="id_user_error"' in answer.content.decode()

    @pytest.mark.parametrize("body", [{}, {"user": "ada", "role": "boss", "base_version": 1}, {"user": "a\0"}])
    def test_a_form_that_the_page_never_made_is_refused(self, scene: Scene, lead: Client, body: dict) -> None:
        assert lead.post("/people-change/lab/nlp/", body).status_code == 400

    def test_history_has_from_and_to_and_invitations_only_for_leads(self, scene: Scene, lead: Client) -> None:
        project_change(project=scene.nlp, name="Language", actor=scene.lead, now=after(5))
        lead.post("/people-invite/lab/nlp/", {"label": "Bo of Turin", "invite_role": "member"})
        page = words(lead.get("/people/lab/nlp/"))
        assert "Project changed" in page
        assert "Bo of Turin" in page
        assert "Bo of Turin" not in words(client_of(scene.member).get("/people/lab/nlp/"))


class TestInvitations:
    def test_the_link_is_shown_once_and_makes_an_account(self, scene: Scene, lead: Client) -> None:
        answer = lead.post("/people-invite/lab/nlp/", {"label": "Zoe", "invite_role": "viewer"})
        assert answer["Cache-Control"] == "no-store"
        link = answer.context["link"].removeprefix("http://testserver")
        assert link not in words(lead.get("/people/lab/nlp/"))
        body = {"username": "zoe", "password": "correct-horse-7", "again": "correct-horse-7"}
        assert Client().post(link, body).headers["Location"] == "/accounts/login/"
        assert Membership.objects.get(user__username="zoe").role == "viewer"
        assert Client().post(link, body).status_code == 404

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            ({"again": "another"}, "again"),
            ({"password": "short", "again": "short"}, "password"),
            ({"username": "ada"}, "username"),
            ({"username": "a b"}, "username"),
            ({"username": ""}, "username"),
        ],
    )
    def test_what_is_wrong_stands_beside_its_field(self, scene: Scene, lead: Client, wrong: dict, field: str) -> None:
        answer = lead.post("/people-invite/lab/nlp/", {"label": "Zoe", "invite_role": "viewer"})
        link = answer.context["link"].removeprefix("http://testserver")
        body = {"username": "zoe", "password": "correct-horse-7", "again": "correct-horse-7", **wrong}
        refused = Client().post(link, body)
        assert refused.status_code == 400
        assert f'id="id_{field}_error"' in refused.content.decode()
        assert Invitation.objects.get().accepted_at is None

    def test_who_has_signed_in_takes_the_role_with_their_account(self, scene: Scene, lead: Client) -> None:
        answer = lead.post("/people-invite/lab/nlp/", {"label": "Ben", "invite_role": "member"})
        link = answer.context["link"].removeprefix("http://testserver")
        stranger = client_of(scene.stranger)
        assert "Take the role as ben" in words(stranger.get(link))
        assert not Membership.objects.filter(user=scene.stranger, project=scene.nlp).exists()
        assert stranger.post(link).headers["Location"] == "/projects/lab/nlp/"
        assert Membership.objects.get(user=scene.stranger, project=scene.nlp).role == "member"

    @pytest.mark.parametrize("secret", ["nothing", "%00", "x" * 4000])
    def test_another_link_is_not_found(self, db: None, secret: str) -> None:
        assert Client(raise_request_exception=False).get(f"/invitation/{secret}/").status_code == 404


class TestTree:
    def test_a_rename_says_what_it_does_before_it_is_saved(self, scene: Scene, lead: Client) -> None:
        project_make("lab/nlp/mt")
        body = {"name": "Language", "slug": "language", "description": "", "base_version": 1, "look": "1"}
        page = words(lead.post("/tree/rename/lab/nlp/", body))
        assert "It is called Language instead of" in page
        assert "from lab/nlp to lab/language, and that of 1 project below it" in page
        assert Project.objects.filter(path="lab/nlp/mt").exists()

    def test_the_effect_comes_alone_for_who_types(self, scene: Scene, lead: Client) -> None:
        answer = lead.get("/tree/move/lab/nlp/?parent=lab/vision", headers={"HX-Request": "true"})
        page = words(answer)
        assert "<html" not in page
        assert "Its budget, 60 % on local, goes back to lab" in page
        assert "1 running and 1 waiting workloads stay" in page
        assert "ben see it" in page

    def test_a_move_leads_from_the_old_address_to_the_new_one(self, scene: Scene, lead: Client) -> None:
        lead.post("/tree/move/lab/nlp/", {"parent": "lab/vision", "base_version": 1})
        answer = lead.get("/people/lab/nlp/?cluster=local")
        assert (answer.status_code, answer["Location"]) == (302, "/people/lab/vision/nlp/?cluster=local")
        assert lead.get("/projects/lab/nlp/")["Location"] == "/projects/lab/vision/nlp/"
        assert lead.get("/budgets/lab/nlp/")["Location"] == "/budgets/lab/vision/nlp/"
        assert lead.post("/tree/archive/lab/nlp/", {"base_version": 1}).status_code == 404
        assert client_of(scene.stranger).get("/people/lab/nlp/").status_code == 302
        assert client_of(user_make()).get("/people/lab/nlp/").status_code == 404

    @pytest.mark.parametrize("parent", ["lab/nlp/mt", "lab/nlp", "lab/nowhere", "", "lab/old"])
    def test_a_parent_that_was_not_offered_is_refused_beside_the_field(
        self, scene: Scene, lead: Client, parent: str
    ) -> None:
        project_make("lab/nlp/mt")
        project_make("lab/old", archived_at=START)
        answer = lead.post("/tree/move/lab/nlp/", {"parent": parent, "base_version": 1})
        assert answer.status_code == 400
        assert 'id="id_parent_error"' in answer.content.decode()
        assert Project.objects.filter(path="lab/nlp/mt").exists()

    def test_only_places_that_can_be_chosen_are_offered(self, scene: Scene, lead: Client) -> None:
        project_make("lab/nlp/mt")
        project_make("lab/old", archived_at=START)
        options = [
            value for value, _ in lead.get("/tree/move/lab/nlp/").context["form"].fields["parent"].widget.choices
        ]
        assert options == ["", "lab/vision"]

    def test_a_conflict_shows_what_the_other_did_and_keeps_what_was_typed(self, scene: Scene, lead: Client) -> None:
        project_change(project=scene.vision, name="Sight", actor=scene.admin, now=after(5))
        body = {"name": "Images", "slug": "vision", "description": "", "base_version": 1}
        answer = lead.post("/tree/rename/lab/vision/", body)
        page = words(answer)
        assert answer.status_code == 409
        assert "from vision to Sight" in page
        assert 'value="Images"' in page
        assert 'name="base_version" value="2"' in page
        assert Project.objects.get(pk=scene.vision.pk).name == "Sight"

    def test_a_form_sent_twice_makes_one_project(self, scene: Scene, lead: Client) -> None:
        body = {"name": "Robots", "slug": "robots", "description": ""}
        answers = [lead.post("/tree/new/lab/", body)["Location"] for _ in range(2)]
        assert answers == ["/people/lab/robots/"] * 2
        assert AuditEntry.objects.filter(action="project_create").count() == 1

    def test_an_archive_says_what_stands_in_its_way(self, scene: Scene, lead: Client) -> None:
        page = words(lead.get("/tree/archive/lab/nlp/"))
        assert "Would be refused" in page
        assert "1 running and 1 waiting workloads are left" in page
        assert lead.post("/tree/archive/lab/nlp/", {"base_version": 1}).status_code == 409

    def test_an_archive_is_done_and_undone(self, scene: Scene, lead: Client) -> None:
        assert "30 % on local, goes back to lab" in words(lead.get("/tree/archive/lab/vision/"))
        lead.post("/tree/archive/lab/vision/", {"base_version": 1})
        page = words(lead.get("/people/lab/vision/"))
        assert "vision is archived" in page
        assert "Give the role" not in page
        assert "Add somebody below" not in page
        lead.post("/tree/unarchive/lab/vision/", {"base_version": 2})
        assert Project.objects.get(pk=scene.vision.pk).archived_at is None

    def test_the_root_is_neither_moved_nor_archived(self, scene: Scene, lead: Client) -> None:
        for address in ("/tree/move/lab/", "/tree/archive/lab/"):
            assert "root of the tree" in words(lead.get(address))

    @pytest.mark.parametrize("slug", ["a b", "🤖", "=x", "x/y", "move", "x" * 61, "", "nlp"])
    def test_a_slug_that_can_not_be_is_refused_beside_its_field(self, scene: Scene, lead: Client, slug: str) -> None:
        answer = lead.post("/tree/new/lab/", {"name": "x", "slug": slug})
        assert answer.status_code == 400
        assert 'id="id_slug_error"' in answer.content.decode()


class TestAudit:
    def rows(self, answer: object) -> list[dict[str, str]]:
        text = b"".join(answer.streaming_content).decode()
        assert text.startswith("\ufeff")
        return list(csv.DictReader(StringIO(text[1:])))

    def test_it_is_filtered_by_kind_name_person_and_action(self, scene: Scene) -> None:
        project_change(project=scene.nlp, name="Language", actor=scene.lead, now=after(5))
        project_archive(project=scene.vision, actor=None, now=after(6))
        client = client_of(scene.operator)
        totals = {
            query: client.get(f"/audit/?{query}").context["listing"].total
            for query in (
                "kind=project",
                "kind=project&thing=NLP",
                "actor=lee",
                "action=project_archive",
                "actor=(system)&kind=project",
                "kind=nothing",
            )
        }
        assert list(totals.values()) == [2, 1, 1, 1, 1, 0]

    def test_its_csv_has_what_the_filters_leave_and_runs_nothing(self, scene: Scene) -> None:
        project_change(project=scene.nlp, name="=cmd|'/C calc'!A0", actor=scene.lead, now=after(5))
        answer = client_of(scene.operator).get("/audit/?csv=audit&kind=project")
        assert [(row["field"], row["to"]) for row in self.rows(answer)] == [("name", "'=cmd|'/C calc'!A0")]

    def test_every_change_shows_from_and_to_also_of_an_archive(self, scene: Scene) -> None:
        project_archive(project=scene.vision, actor=scene.lead, now=after(60))
        page = words(client_of(scene.operator).get("/audit/?action=project_archive"))
        assert "archived</span> –" in page
        assert "2 Nov 2026 00:01:00" in page or "2 Nov 2026" in page

    def test_odd_filters_break_nothing(self, scene: Scene) -> None:
        client = client_of(scene.operator)
        for query in ("thing=%00", f"thing={'x' * 5000}", "actor=%00a", "kind=%F0%9F%A4%96", "page=999999"):
            assert client.get(f"/audit/?{query}").status_code == 200


@pytest.mark.parametrize("address", PINNED)
def test_a_page_asks_as_often_as_pinned_however_many_there_are(scene: Scene, address: str) -> None:
    client = client_of(scene.admin)
    for number in range(12):
        project = project_make(f"lab/nlp/p{number}")
        membership_make(user=user_make(), project=project, role="lead")
        membership_make(user=user_make(), project=scene.nlp)
        workload_make(project=project, cluster=scene.cluster, author=scene.member)
        audit_record(actor=scene.lead, action="x", target=scene.nlp, before={}, after={"n": 1}, now=after(number))
    client.get(address)
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    assert len(captured) == PINNED[address]


def test_names_are_cut_where_there_are_many() -> None:
    assert names_in_words(["a"]) == "a"
    assert names_in_words(["a", "b", "c"]) == "a, b and c"
    assert names_in_words(list("abcdefgh")) == "a, b, c, d, e and 3 more"


def test_the_page_of_a_project_and_the_list_lead_to_its_people(scene: Scene) -> None:
    client = client_of(scene.member)
    assert reverse("dashboard:project_people", args=["lab/nlp"]) in client.get("/projects/lab/nlp/").content.decode()
    assert reverse("dashboard:people") in client.get("/projects/").content.decode()


def test_a_workload_of_a_moved_project_is_still_found_on_its_page(scene: Scene) -> None:
    client_of(scene.lead).post("/tree/move/lab/nlp/", {"parent": "lab/vision", "base_version": 1})
    page = words(client_of(scene.member).get(f"/workloads/{scene.running.pk}/"))
    assert "lab/vision/nlp" in page
    assert Workload.objects.get(pk=scene.running.pk).project_id == scene.nlp.pk


def test_a_second_budget_after_a_move_is_one_of_the_new_level(scene: Scene) -> None:
    client_of(scene.lead).post("/tree/move/lab/nlp/", {"parent": "lab/vision", "base_version": 1})
    scene.vision.refresh_from_db()
    change = budget_make(cluster=scene.cluster, parent=scene.vision, percent={"nlp": 50}, at=after(900))
    assert change.version == 1


def test_an_archived_project_still_has_its_page(scene: Scene) -> None:
    project_make("lab/vision/old")
    project_archive(project=scene.vision, actor=None, now=after(60))
    for path in ("lab/vision", "lab/vision/old"):
        assert client_of(scene.stranger).get(f"/projects/{path}/").status_code == 200
        assert client_of(scene.stranger).get(f"/budgets/{path}/").status_code == 200


@pytest.mark.parametrize("address", ["/tree/new/lab/", "/tree/rename/lab/nlp/"])
def test_a_slug_that_no_database_can_hold_is_refused_by_the_form_and_by_its_preview(scene: Scene, address: str) -> None:
    lead, typed = client_of(scene.lead), {"slug": "a\0b", "name": "N", "base_version": 1}
    assert lead.post(address, typed).status_code == 400
    assert lead.get(address, typed, headers={"HX-Request": "true"}).status_code == 200
