"""What the simulator says of a draft, on the page of its proposal."""

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.common.units import whole_second
from portal.proposals.models import Proposal
from portal.simulations.models import Comparison, Run
from tests.dashboard.scene import client_of
from tests.proposals.scene import proposal_make, scene_make


@pytest.fixture
def scene(db):
    return scene_make()


def page(name, *arguments):
    return reverse(f"dashboard:{name}", args=arguments)


def simulation_make(proposal, *, state="done", today=None, draft=None, **fields):
    now = whole_second(timezone.now())
    ended = {} if state in ("queued", "running") else {"ended_at": now}
    claim = {"claim": "00000000-0000-0000-0000-000000000001", "started_at": now, "heard_at": now}
    runs = [
        Run.objects.create(
            cluster=proposal.cluster,
            title="t",
            source="generator",
            scenario={},
            state=state,
            created_at=now,
            report=report if state == "done" else None,
            **ended,
            **(claim if state == "running" else {}),
            **fields,
        )
        for report in (today or {}, draft or {})
    ]
    comparison = Comparison.objects.create(
        cluster=proposal.cluster, title="t", created_at=now, shares={}, today=runs[0], draft=runs[1]
    )
    Proposal.objects.filter(pk=proposal.pk).update(comparison=comparison)


def report_of(**delivery):
    by_project = {
        path.replace("__", "/"): {
            "delivery": ratio,
            "waits": {"all": {"p50_s": 60, "p90_s": int(7200 * (2 - ratio))}},
            "preemptions": 3,
            "lost_gpu_hours": 1.5,
        }
        for path, ratio in delivery.items()
    }
    return {"delivery_mean": 0.9, "delivery_min": 0.8, "preemptions": 5, "by_project": by_project}


def test_a_finished_simulation_stands_on_the_page_with_charts_and_tables(scene):
    proposal = proposal_make(scene)
    today, draft = report_of(lab__vision=0.8, lab__nlp=1.0), report_of(lab__vision=1.0, lab__nlp=0.9)
    simulation_make(proposal, today=today, draft=draft)
    client = client_of(scene.viewer)
    text = client.get(page("proposal", proposal.pk)).text
    for words in (
        "lab/nlp would get 90 % of what it is owed, where it gets 100 % today",
        "lab/nlp would wait up to 2 h 12 min, where it waits up to 2 h today",
        "80 % → <b>100 %</b>",
        "The same numbers as a table",
    ):
        assert words in text
    table = client.get(page("proposal", proposal.pk), {"csv": "delivery"})
    assert b"lab/nlp,1.0,0.9" in b"".join(table.streaming_content)


@pytest.mark.parametrize(
    ("state", "fields", "words"),
    [
        ("queued", {}, "wait for a worker"),
        ("running", {"progress_ppm": 400_000, "seconds_left": 90}, "40 % done, about"),
        ("failed", {"error": "Nothing ran on local in this range."}, "Nothing ran on local in this range."),
        ("cancelled", {}, "cancelled before its end"),
    ],
)
def test_a_simulation_that_is_not_done_says_how_far_it_is_or_what_failed(scene, state, fields, words):
    proposal = proposal_make(scene)
    simulation_make(proposal, state=state, **fields)
    assert words in client_of(scene.mona).get(page("proposal", proposal.pk)).text


def test_the_progress_refreshes_the_whole_page_when_it_is_done(scene):
    proposal = proposal_make(scene)
    simulation_make(proposal, state="running")
    client = client_of(scene.mona)
    assert "HX-Refresh" not in client.get(page("proposal", proposal.pk), headers={"HX-Request": "true"})
    simulation_make(proposal, today=report_of(lab__nlp=1.0), draft=report_of(lab__nlp=1.0))
    assert client.get(page("proposal", proposal.pk), headers={"HX-Request": "true"})["HX-Refresh"] == "true"
