"""Projects through REST: made, renamed, moved, archived; a conflict carries the version, twice is once."""

import pytest
from rest_framework.test import APIClient

from portal.common.models import AuditEntry
from portal.projects.models import Project
from tests.api.support import Lab, attrs_of, client_of, problem_require
from tests.factories import workload_make

PROJECTS = "/api/v1/projects/"


@pytest.fixture
def lead(lab: Lab) -> APIClient:
    return client_of(lab.lead)


def make(client: APIClient, **fields: object) -> object:
    body = {"parent": "lab", "slug": "robots", "name": "Robots", **fields}
    return client.post(PROJECTS, body, format="json")


def test_a_project_is_made_below_another(lab: Lab, lead: APIClient) -> None:
    answer = make(lead, description="Arms and legs")
    assert answer.status_code == 201
    assert answer.headers["Location"].endswith("/api/v1/projects/lab/robots/")
    body = answer.json()
    assert (body["path"], body["parent"], body["version"], body["description"]) == (
        "lab/robots",
        "lab",
        1,
        "Arms and legs",
    )


def test_the_same_again_answers_with_the_first(lab: Lab, lead: APIClient) -> None:
    first, second = make(lead), make(lead)
    assert (second.status_code, second.headers["Idempotent-Replayed"]) == (200, "true")
    assert second.json() == first.json()
    problem_require(make(lead, name="Another"), 400)


@pytest.mark.parametrize(
    ("wrong", "attr"),
    [
        ({"slug": "a/b"}, "slug"),
        ({"slug": "🤖"}, "slug"),
        ({"slug": "move"}, "slug"),
        ({"slug": 7}, "slug"),
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": None}, "name"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_field_is_named(lab: Lab, lead: APIClient, wrong: dict[str, object], attr: str) -> None:
    answer = make(lead, **wrong)
    problem_require(answer, 400)
    assert attrs_of(answer) == {attr}


@pytest.mark.parametrize("name", ["🤖", "<script>alert(1)</script>", "=1+1", "x" * 200])
def test_a_name_comes_back_as_it_was_sent(lab: Lab, lead: APIClient, name: str) -> None:
    assert make(lead, name=name).json()["name"] == name


def test_a_rename_keeps_what_is_left_out(lab: Lab, lead: APIClient) -> None:
    answer = lead.patch(f"{PROJECTS}lab/nlp/", {"description": "Words", "base_version": 1}, format="json")
    assert (answer.json()["name"], answer.json()["description"], answer.json()["version"]) == ("nlp", "Words", 2)


def test_a_stale_edit_answers_409_with_the_current_version(lab: Lab, lead: APIClient) -> None:
    lead.patch(f"{PROJECTS}lab/nlp/", {"name": "One", "base_version": 1}, format="json")
    problem = problem_require(lead.patch(f"{PROJECTS}lab/nlp/", {"name": "Two", "base_version": 1}, format="json"), 409)
    assert problem["current_version"] == 2
    again = lead.patch(f"{PROJECTS}lab/nlp/", {"name": "One", "base_version": 1}, format="json")
    assert again.status_code == 200


def test_the_old_path_answers_404_and_says_the_new_one(lab: Lab, lead: APIClient) -> None:
    lead.patch(f"{PROJECTS}lab/nlp/", {"slug": "language"}, format="json")
    problem = problem_require(lead.get(f"{PROJECTS}lab/nlp/"), 404)
    assert problem["errors"][0]["code"] == "moved"
    assert "lab/language now" in problem["detail"]
    assert lead.get(f"{PROJECTS}{lab.nlp.pk}/").json()["path"] == "lab/language"


def test_a_move_is_asked_for_by_path_or_id(lab: Lab, lead: APIClient) -> None:
    answer = lead.post(f"{PROJECTS}lab/nlp/move/", {"parent": str(lab.vision.pk)}, format="json")
    assert answer.json()["path"] == "lab/vision/nlp"
    cycle = lead.post(f"{PROJECTS}lab/vision/move/", {"parent": "lab/vision/nlp"}, format="json")
    assert problem_require(cycle, 400)["errors"][0]["attr"] == "parent"


def test_a_parent_that_is_not_there_is_named_as_such(lab: Lab, lead: APIClient) -> None:
    answer = lead.post(f"{PROJECTS}lab/nlp/move/", {"parent": "lab/nowhere"}, format="json")
    assert problem_require(answer, 404)["errors"][0]["attr"] == "parent"


def test_an_archived_project_is_found_by_the_filter_and_comes_back(lab: Lab, lead: APIClient) -> None:
    assert lead.post(f"{PROJECTS}lab/nlp/archive/", {}, format="json").json()["archived_at"] is not None
    lists = {
        asked: [row["path"] for row in lead.get(f"{PROJECTS}?archived={asked}").json()["results"]]
        for asked in ("true", "false")
    }
    assert lists == {"true": ["lab/nlp"], "false": ["lab", "lab/vision"]}
    assert lead.post(f"{PROJECTS}lab/nlp/unarchive/", {}, format="json").json()["archived_at"] is None


def test_an_archive_waits_for_the_work(lab: Lab, lead: APIClient) -> None:
    workload_make(project=lab.nlp, cluster=lab.cluster, author=lab.member)
    problem = problem_require(lead.post(f"{PROJECTS}lab/nlp/archive/", {}, format="json"), 409)
    assert "0 running and 1 waiting" in problem["detail"]


@pytest.mark.parametrize("action", ["move", "archive", "unarchive"])
def test_an_action_is_a_post(lab: Lab, lead: APIClient, action: str) -> None:
    problem_require(lead.get(f"{PROJECTS}lab/nlp/{action}/"), 405)


def test_a_token_that_may_only_read_changes_nothing(lab: Lab) -> None:
    reader = client_of(lab.lead, scope="read")
    problem_require(make(reader), 403)
    problem_require(reader.post(f"{PROJECTS}lab/nlp/archive/", {}, format="json"), 403)
    assert Project.objects.count() == 3
    assert not AuditEntry.objects.filter(target_type="project").exists()


class TestClusters:
    URL = "/api/v1/clusters/"

    @pytest.fixture
    def operator(self, lab: Lab) -> APIClient:
        lab.neighbour.is_operator = True
        lab.neighbour.save()
        return client_of(lab.neighbour)

    def test_an_operator_makes_one_once(self, operator: APIClient) -> None:
        first = operator.post(self.URL, {"name": "h100", "description": "Hall 2"}, format="json")
        again = operator.post(self.URL, {"name": "h100", "description": "Hall 2"}, format="json")
        assert (first.status_code, again.status_code, first.json()["id"]) == (201, 200, again.json()["id"])
        problem_require(operator.post(self.URL, {"name": "h100"}, format="json"), 400)

    @pytest.mark.parametrize("name", ["", "a b", "🤖", "x" * 61, "a/b", "=x"])
    def test_a_name_that_fits_no_address_is_refused(self, operator: APIClient, name: str) -> None:
        assert "name" in attrs_of(operator.post(self.URL, {"name": name}, format="json"))

    def test_its_description_is_changed_on_the_version_that_was_seen(self, operator: APIClient) -> None:
        body = {"description": "Hall 3", "base_version": 1}
        assert operator.patch(f"{self.URL}local/", body, format="json").json()["version"] == 2
        assert operator.patch(f"{self.URL}local/", body, format="json").status_code == 200
        stale = operator.patch(f"{self.URL}local/", {**body, "description": "Hall 4"}, format="json")
        assert problem_require(stale, 409)["current_version"] == 2

    def test_it_is_paused_and_resumed_and_twice_is_once(self, operator: APIClient) -> None:
        for _ in range(2):
            assert operator.post(f"{self.URL}local/pause/").json()["paused_at"] is not None
        assert operator.post(f"{self.URL}local/resume/").json()["paused_at"] is None
        assert AuditEntry.objects.filter(action="cluster_pause").count() == 2

    def test_its_policy_changes_on_the_version_that_was_seen(self, operator: APIClient) -> None:
        body = {"overrides": {"lookback_days": 3}, "reason": "Shorter memory", "base_version": 0}
        names = set(operator.get(f"{self.URL}local/").json()["policy"])
        body["overrides"] = {next(name for name in sorted(names) if name.startswith("lookback")): 3 * 86_400}
        answer = operator.post(f"{self.URL}local/policy/", body, format="json")
        assert (answer.status_code, answer.json()["policy_version"]) == (200, 1)
        assert (
            problem_require(operator.post(f"{self.URL}local/policy/", body, format="json"), 409)["current_version"] == 1
        )

    def test_an_unknown_setting_is_refused_by_name(self, operator: APIClient) -> None:
        body = {"overrides": {"magic": 3}, "reason": "x", "base_version": 0}
        assert attrs_of(operator.post(f"{self.URL}local/policy/", body, format="json")) == {"magic"}

    @pytest.mark.parametrize("who", ["member", "lead"])
    @pytest.mark.parametrize("address", ["", "local/pause/", "local/resume/", "local/policy/"])
    def test_nobody_else_changes_clusters(self, lab: Lab, who: str, address: str) -> None:
        body = {"name": "x"} if not address else {"overrides": {}, "reason": "x", "base_version": 0}
        answer = client_of(getattr(lab, who)).post(f"{self.URL}{address}", body, format="json")
        problem_require(answer, 403)
