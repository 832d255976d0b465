"""What pages say in a sentence: how many wait and whose, which hosts are closed, what a cordon does to whom."""

import pytest

from portal.clusters.services import host_cordon
from portal.dashboard.reasons import band_words, local_moments, place_free
from portal.dashboard.views_workloads import command_words
from tests.dashboard.scene import client_of
from tests.factories import after, attempt_make, project_make, workload_make


def shown(user, path):
    return client_of(user).get(path).content.decode()


def closed(scene):
    host_cordon(host=scene.host, reason="a fan", actor=scene.operator, now=after(60))


def test_the_overview_counts_workloads_that_wait(scene):
    assert "1 workload waits" in client_of(scene.admin).get("/").context["answer"]


def test_the_overview_says_when_the_queue_is_only_the_persons_own_projects(scene):
    assert "1 workload of your projects waits" in client_of(scene.member).get("/").context["answer"]
    assert "nothing of your projects waits" in client_of(scene.stranger).get("/").context["answer"]


def test_the_overview_names_a_cordoned_host(scene):
    closed(scene)
    assert client_of(scene.admin).get("/").context["answer"].endswith("; gpu-01 is cordoned")


def test_the_overview_names_the_project_that_waited_longest(scene):
    for path, waited in (("lab/nlp", 30), ("lab/vision", 900)):
        work = workload_make(project=project_make(path), cluster=scene.cluster, submitted_at=after(0))
        attempt_make(workload=work, hosts=[scene.host], decided_at=after(waited), claim=False)
    answer = client_of(scene.admin).get("/", {"range": "30d"}).context["answer"]
    assert "lab/vision waited longest" in answer


def test_the_queue_names_closed_hosts(scene):
    closed(scene)
    page = shown(scene.member, "/queue/")
    assert "1 host takes no new work" in page
    assert '<a href="/hosts/gpu-01/">gpu-01</a> (cordoned)' in page


def test_the_queue_has_a_heading_for_each_of_its_two_numberings(scene):
    workload_make(
        project=scene.nlp,
        cluster=scene.cluster,
        reason_code="unallocated_queue",
        reason_text="Waits for idle GPUs: position 1, 3 GPUs ahead in the unallocated queue.",
        reason={"position": 1, "gpus_ahead": 3},
    )
    page = shown(scene.member, "/queue/")
    assert page.index("Funded queue:") < page.index("Unallocated queue:")
    assert "position 1" not in page


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Waits its turn: position 4, 1 GPU ahead.", "Waits its turn."),
        (
            "Waits for idle GPUs: position 1,204, 9,000 GPUs ahead in the unallocated queue. It is there because a.",
            "Waits for idle GPUs. It is there because a.",
        ),
        ("Waits: lab has no budget.", "Waits: lab has no budget."),
    ],
)
def test_a_reason_beside_its_columns_does_not_repeat_them(text, left):
    assert place_free(text) == left


def test_moments_in_reasons_are_written_as_on_the_rest_of_the_page():
    assert local_moments("The next contract ends 2026-11-29 23:40 UTC.") == "The next contract ends 29 Nov 23:40."


def test_what_has_no_position_yet_is_no_part_of_the_funded_queue():
    assert band_words("burst_cap", None) != band_words("waiting_turn", 1)


def test_the_cordon_dialog_names_what_runs_there_and_what_happens_to_it(scene):
    page = shown(scene.operator, f"/hosts/{scene.host.name}/")
    assert f"<b>{scene.running.pk} train &lt;script&gt;" in page
    assert "2 GPUs: keeps its GPUs until its minimum runtime is over" in page


def test_the_cancel_dialog_speaks_of_the_state_that_the_workload_is_in(scene):
    assert "It waits: it leaves the queue." in shown(scene.member, f"/workloads/{scene.waiting.pk}/")
    running = shown(scene.member, f"/workloads/{scene.running.pk}/")
    assert "It waits" not in running
    assert "get a warning signal, then a kill" in running


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (["python", "train.py", "--lr=1e-3"], "python train.py --lr=1e-3"),
        (["echo", "two words"], "echo 'two words'"),
        (["sh", "-c", "echo $HOME"], "sh -c 'echo $HOME'"),
    ],
)
def test_a_command_is_shown_as_it_would_be_typed(words, typed):
    assert command_words(words) == typed


def test_a_host_on_which_every_replica_ran_is_named_once(scene):
    ended = {"state": "succeeded", "ended_at": after(700)}
    work = workload_make(project=scene.nlp, cluster=scene.cluster, replicas=2, **ended)
    attempt = attempt_make(workload=work, hosts=[scene.host], state="ended", outcome="succeeded", ended_at=after(700))
    assert attempt.claims.count() == 2
    assert "Last on gpu-01." in shown(scene.member, f"/workloads/{work.pk}/")
