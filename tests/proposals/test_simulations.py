"""Simulating a draft: the history under today's budgets and under exactly these lines; once while it runs."""

import pytest

from portal.common.errors import Conflict, Forbidden
from portal.common.models import AuditEntry
from portal.proposals.models import Proposal
from portal.proposals.rows import proposal_row
from portal.proposals.services.decisions import proposal_reject
from portal.proposals.services.proposals import proposal_edit, proposal_rebase, proposal_revise
from portal.proposals.services.simulations import proposal_simulate
from portal.simulations.models import Comparison, Run
from tests.factories import budget_make
from tests.proposals.scene import NOW, lines_of, proposal_make


def simulate(proposal, actor):
    return proposal_simulate(proposal=proposal, actor=actor, now=NOW)


def budget_in(run, path):
    return [line["share_percent"] for line in run.scenario["projects"] if line["path"] == path]


def test_the_draft_is_replayed_with_its_lines_and_today_with_todays(scene):
    proposal = simulate(proposal_make(scene), scene.mona)
    today, draft = proposal.comparison.today, proposal.comparison.draft
    assert proposal.comparison.shares == {str(scene.vision.pk): [300_000, None], str(scene.nlp.pk): [300_000, None]}
    assert (budget_in(today, "lab/vision"), budget_in(draft, "lab/vision")) == ([20], [30])
    assert budget_in(draft, "lab/nlp") == [30]
    assert (today.state, draft.state) == ("queued", "queued")
    assert AuditEntry.objects.filter(action="proposal_simulate", actor=scene.mona).count() == 1


def test_asking_again_while_it_waits_asks_for_nothing_more(scene):
    proposal = proposal_make(scene)
    first, second = (simulate(proposal, actor).comparison for actor in (scene.mona, scene.max))
    assert first == second
    assert Run.objects.count() == 2


def test_what_has_ended_is_asked_for_anew(scene):
    proposal = proposal_make(scene)
    first = simulate(proposal, scene.mona).comparison
    Run.objects.update(state="failed", ended_at=NOW, error="Nothing ran.")
    assert simulate(proposal, scene.mona).comparison != first


def test_other_lines_are_not_simulated_yet(scene):
    proposal = simulate(proposal_make(scene), scene.mona)
    proposal_revise(proposal=proposal, actor=scene.mona, now=NOW)
    same = {"title": "Same", "reason": "same", "effective_at": None, "actor": scene.mona, "now": NOW}
    assert proposal_edit(proposal=proposal, lines=lines_of(scene), **same).comparison is not None
    assert proposal_edit(proposal=proposal, lines=lines_of(scene, 25, 30), **same).comparison is None
    assert Comparison.objects.count() == 1


def test_a_rebase_is_not_simulated_yet(scene):
    proposal = simulate(proposal_make(scene), scene.mona)
    budget_make(cluster=scene.cluster, parent=scene.lab, percent={"vision": 20, "nlp": 40}, at=NOW)
    rebased = proposal_rebase(
        proposal=proposal, base_version=2, lines=lines_of(scene), actor=scene.mona, now=NOW, effective_at=None
    )
    assert rebased.comparison is None


def test_who_does_not_lead_the_level_does_not_simulate_it(scene):
    proposal = proposal_make(scene)
    with pytest.raises(Forbidden):
        simulate(proposal, scene.member)
    assert not Run.objects.exists()


def test_what_is_decided_is_not_simulated(scene):
    proposal = proposal_make(scene)
    proposal_reject(proposal=proposal, actor=scene.max, reason="No.", now=NOW)
    with pytest.raises(Conflict, match="This proposal is rejected"):
        simulate(proposal, scene.max)
    assert Proposal.objects.get().comparison is None


def test_why_a_run_failed_names_no_project_that_the_reader_may_not_see(scene):
    proposal = simulate(proposal_make(scene), scene.mona)
    Run.objects.update(state="failed", ended_at=NOW, error="lab/nlp has more than 100 %.")
    told = {
        user.username: proposal_row(proposal=proposal, user=user, now=NOW)["simulation"]["today"]["error"]
        for user in (scene.mona, scene.vera)
    }
    assert told == {"mona": "lab/nlp has more than 100 %.", "vera": "a project has more than 100 %."}
