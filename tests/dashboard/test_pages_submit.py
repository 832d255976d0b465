"""The submit form: errors beside fields, nothing typed lost, one workload however often it is sent."""

import pytest
from django.urls import reverse

from portal.projects.models import Project
from portal.workloads.models import Workload
from tests.dashboard.scene import client_of
from tests.factories import after, budget_make

URL = "/submit/"
TYPED = {
    "project": "lab/nlp",
    "cluster": "local",
    "name": "typed-by-hand",
    "how": "command",
    "command": "python train.py --name 'two words'",
    "script": "",
    "replicas": "2",
    "gpus_per_replica": "4",
    "min_runtime": "1h30m",
    "timeout": "12h",
    "resumable": "on",
    "allow_unallocated": "on",
    "priority": "3",
    "environment": "SEED=1\nNAME=a=b",
    "key": "0123456789abcdef",
}


def send(scene, **changes):
    return client_of(scene.member).post(URL, {**TYPED, **changes})


def submitted():
    return Workload.objects.filter(name="typed-by-hand")


def test_what_is_typed_becomes_a_workload(scene):
    answer = send(scene)
    workload = submitted().get()
    assert answer["Location"] == reverse("dashboard:workload", args=[workload.pk])
    assert workload.command == ["python", "train.py", "--name", "two words"]
    assert (workload.min_runtime_seconds, workload.timeout_seconds, workload.priority) == (5400, 43_200, 3)
    assert workload.environment == {"SEED": "1", "NAME": "a=b"}


def test_a_form_sent_twice_is_one_workload(scene):
    first, second = send(scene), send(scene)
    assert first["Location"] == second["Location"]
    assert submitted().count() == 1


def test_the_same_form_with_other_content_is_a_conflict_and_nothing_is_saved(scene):
    send(scene)
    answer = send(scene, replicas="1")
    assert answer.status_code == 400
    assert submitted().count() == 1


def test_a_script_keeps_its_lines(scene):
    send(scene, how="script", script="#!/bin/sh\r\necho one\r\n\techo two\r\n")
    assert submitted().get().script == "#!/bin/sh\necho one\n\techo two\n"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("project", "lab/moon", "You may see: lab/nlp."),
        ("cluster", "moon", "moon"),
        ("replicas", "0", "greater than or equal to 1"),
        ("gpus_per_replica", "9", "the largest has 8"),
        ("min_runtime", "9h", "between 0 s and 8 h"),
        ("min_runtime", "soon", "is not a duration"),
        ("timeout", "10m", "may not be below the minimum runtime"),
        ("command", "", "Write the command"),
        ("command", "echo 'open", "split into words"),
        ("environment", "no sign", "Line 1 is not NAME=value"),
        ("environment", "CUDA_VISIBLE_DEVICES=3", "set by the portal itself"),
        ("priority", "1001", "less than or equal to 1000"),
    ],
)
def test_a_wrong_field_is_named_beside_it_and_nothing_is_saved(scene, field, value, words):
    answer = send(scene, **{field: value})
    page = answer.content.decode()
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in page
    assert words in page.replace("&#x27;", "'")
    assert not submitted().exists()


def test_errors_are_counted_at_the_top_and_nothing_typed_is_lost(scene):
    answer = send(scene, replicas="0", min_runtime="soon", environment="bad")
    page = answer.content.decode()
    assert "3 things to put right" in page
    for kept in ('value="typed-by-hand"', 'value="soon"', ">\nbad</textarea>", 'value="0123456789abcdef"'):
        assert kept in page


def test_a_nul_byte_in_the_command_is_refused(scene):
    answer = send(scene, command="echo \0")
    assert answer.status_code == 400
    assert not submitted().exists()


def test_a_viewer_is_offered_no_project(scene):
    from tests.factories import user_make

    viewer = user_make(project=scene.nlp, role="viewer")
    assert "You may not submit anywhere yet" in client_of(viewer).get(URL).content.decode()


def test_a_viewer_who_posts_is_refused(scene):
    from tests.factories import user_make

    viewer = user_make(project=scene.nlp, role="viewer")
    assert client_of(viewer).post(URL, TYPED).status_code == 403
    assert not submitted().exists()


def test_only_projects_that_one_may_submit_to_are_offered(scene):
    page = client_of(scene.member).get(URL).content.decode()
    assert ">lab/nlp</option>" in page
    assert ">lab/vision</option>" not in page


def test_submitting_again_fills_the_form_with_the_earlier_workload(scene):
    send(scene)
    page = client_of(scene.member).get(URL, {"from": submitted().get().pk}).content.decode()
    for kept in ('value="typed-by-hand"', 'value="90m"', 'value="12h"', "NAME=a=b", "two words"):
        assert kept in page


def effect(scene, **query):
    values = {"project": "lab/nlp", "replicas": "1", "gpus_per_replica": "8", "min_runtime": "2h"}
    return client_of(scene.member).get("/submit/effect/", {**values, **query}).content.decode()


def balance(scene, quota_hours, usage_hours):
    from portal.scheduling.models import Balance
    from tests.factories import START

    Balance.objects.create(
        cluster=scene.cluster,
        project=scene.nlp,
        at=START,
        quota_gpu_seconds=quota_hours * 3600,
        usage_gpu_seconds=usage_hours * 3600,
        share_ppb=1,
    )


def test_the_effect_names_gpus_contract_and_both_balances(scene):
    balance(scene, 100, 50)
    page = effect(scene)
    assert "8 × 2 h" in page
    assert "50 %" in page
    assert "34 %" in page
    assert "would fund it now" in page


def test_the_effect_says_when_the_budget_is_used(scene):
    balance(scene, 100, 100)
    assert "lab/nlp has used its budget" in effect(scene)


def test_the_effect_of_no_contract_is_unallocated(scene):
    assert "preemptible at any moment" in effect(scene, min_runtime="0")


def test_the_effect_of_half_a_form_asks_for_the_rest(scene):
    assert "Fill in project" in effect(scene, replicas="")


def test_the_effect_of_an_unseen_project_tells_nothing(scene):
    assert "Fill in project" in effect(scene, project="lab/vision")


def test_shape_errors_and_the_rules_refusals_come_together(scene):
    page = send(scene, command="", gpus_per_replica="99", min_runtime="9h").content.decode()
    assert "3 things to put right" in page
    for words in ("Write the command", "the largest has 8", "between 0 s and 8 h"):
        assert words in page


def test_the_effect_of_what_would_be_refused_says_so_first_and_no_balance(scene):
    balance(scene, 100, 50)
    page = effect(scene, gpus_per_replica="99", min_runtime="9h")
    assert "Would be refused" in page
    assert "the largest has 8" in page
    assert "between 0 s and 8 h" in page
    assert "balance" not in page
    assert "would run unallocated" not in page


def parent_effect(scene):
    values = {"project": "lab", "replicas": "1", "gpus_per_replica": "8", "min_runtime": "2h"}
    return client_of(scene.lead).get("/submit/effect/", values).content.decode()


def test_the_effect_on_a_parent_names_the_part_that_it_did_not_give_out(scene):
    balance(scene, 100, 50)
    page = parent_effect(scene)
    assert "10 %</b> of its share, not given out below" in page
    assert "No pass has measured" not in page


def shares(scene, **burst_gpus):
    lab = Project.objects.get(path="lab")
    percent = {"nlp": 60, "vision": 40}
    budget_make(cluster=scene.cluster, parent=lab, percent=percent, burst_gpus=burst_gpus, at=after(10))


def test_a_parent_that_gave_everything_out_has_no_budget_for_its_own_work(scene):
    shares(scene)
    assert "has given its whole share to the projects below" in parent_effect(scene)


def test_an_express_start_is_under_burst_caps_all_the_same(scene):
    shares(scene, nlp=2)
    balance(scene, 100, 200)
    assert "may hold 2 allocated GPUs at most" in effect(scene, gpus_per_replica="4", min_runtime="5m")
